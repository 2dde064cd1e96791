"""Values that cross a boundary: `python_to_rpc` on the way out, `python_from_rpc` on the way in (spec 4).

What is in between is what JavaScript would hold: `JsDict`, `JsList`, `JsBytes`, `js.Set`, `js.Date`, errors, platform
views and stubs. Both directions make copies; a value that may not cross is refused on the way out.
"""

from __future__ import annotations

import datetime
import inspect
from collections.abc import Callable
from typing import Any

from moorage.durable_objects.runtime.base import RpcTarget
from moorage.durable_objects.runtime.rpc import RpcFunction
from moorage.durable_objects.runtime.web import (
    Blob,
    FormData,
    Headers,
    JsBytes,
    JsDict,
    JsList,
    PlatformRequest,
    PlatformResponse,
    ReadableStream,
    Request,
    Response,
    js_string,
)

from .bindings import Binding, FetcherBinding
from .environment import Env, ModuleEnv
from .js.binary import JsBuffer, buffer_bytes
from .js.dates import Date
from .js.errors import DataCloneError, JsException
from .js.objects import Map, Number, RegExp, Set

_SCALARS = (str, bool, int, float)
_MESSAGES = (Request, Response)
_PASSED = (Blob, FormData, Headers, ReadableStream)


class RpcStub:
    """A function or an `RpcTarget` of the other side: calling it, or a method of it, is awaited.

    It is always true, has no length and cannot be iterated, whatever the target is.
    """

    __slots__ = ("_target",)

    def __init__(self, target: Any) -> None:
        self._target = target

    def __call__(self, *args: Any, **options: Any) -> Any:
        return call_target(self._target, args, options)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if not isinstance(self._target, RpcTarget):
            raise AttributeError(f"this stub is a function and has no attribute {name!r}")
        found = inspect.getattr_static(type(self._target), name, None)
        if found is None:
            raise TypeError(f'The RPC receiver does not implement the method "{name}".')
        if isinstance(found, property):
            return received(getattr(self._target, name))
        return RpcStub(getattr(self._target, name))

    def dup(self) -> RpcStub:
        return RpcStub(self._target)

    def dispose(self) -> None:
        """Stubs are freed by Python; kept for programs that say so."""

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        raise TypeError("an RPC stub has no len()")

    def __iter__(self) -> Any:
        raise TypeError("an RPC stub is not iterable")

    def __repr__(self) -> str:
        return f"RpcStub({self._target!r})"


async def call_target(target: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Calls across the boundary: copies of the arguments go in, a copy of the result comes back."""
    sent = [received(arg) for arg in args]
    named = {name: received(option) for name, option in options.items()}
    result = target(*sent, **named)
    if inspect.isawaitable(result):
        result = await result
    return received(result)


def received(value: Any) -> Any:
    """What the other side gets for `value`: there and back through the boundary."""
    return python_from_rpc(python_to_rpc(value))


references: list[type] = [RpcStub, Binding]
"""Classes whose instances cross as they are: stubs, and the bindings that the host adds."""


def python_to_rpc(value: Any) -> Any:
    """The form in which `value` crosses.

    Raises TypeError for tuples, bytearrays, awaitables and regular expressions, and an error whose text begins with
    `DataCloneError` for other objects; the same inside dictionaries, lists and sets.
    """
    return _out(value, {})


def _out(value: Any, seen: dict[int, Any]) -> Any:
    if value is None or type(value) in _SCALARS:
        return value
    if isinstance(value, tuple(references)):
        return value
    if isinstance(value, Number):
        return value.valueOf()
    if isinstance(value, _SCALARS):
        return next(kind(value) for kind in _SCALARS if isinstance(value, kind))
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, dict):
        mapping = seen[id(value)] = JsDict()
        for key, item in value.items():
            mapping[js_string(key)] = _out(item, seen)
        return mapping
    if isinstance(value, list):
        items = seen[id(value)] = JsList()
        items.extend(_out(item, seen) for item in value)
        return items
    if isinstance(value, set | frozenset):
        return Set(_out(item, seen) for item in value)
    return _out_object(value)


def _out_object(value: Any) -> Any:
    if isinstance(value, bytes | memoryview | JsBuffer):
        return JsBytes(buffer_bytes(value))
    if isinstance(value, datetime.datetime):
        return Date(value)
    if isinstance(value, Date):
        return Date(value.value)
    if isinstance(value, JsException):
        return value
    if isinstance(value, Exception):
        return JsException(str(value))
    if isinstance(value, _MESSAGES):
        return value.js_object
    if isinstance(value, (PlatformRequest, PlatformResponse, *_PASSED)):
        return value
    if isinstance(value, tuple | bytearray):
        raise TypeError(f"{type(value)} cannot be sent over RPC.")
    if isinstance(value, RegExp):
        raise TypeError("RegExp cannot be sent over RPC.")
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError(f"Awaitable {type(value)} cannot be sent over RPC.")
    if isinstance(value, RpcTarget) or (callable(value) and not isinstance(value, type)):
        return RpcStub(value)
    crossing = getattr(value, "js_object", None)
    if crossing is not None:
        return crossing
    raise DataCloneError(f"{type(value).__qualname__} could not be cloned.")


def python_from_rpc(value: Any) -> Any:
    """Python's value for what crossed: `JsDict` and lists, `memoryview` for bytes, naive local `datetime`, …"""
    return _in(value, {})


def _in(value: Any, seen: dict[int, Any]) -> Any:
    if value is None or type(value) in _SCALARS:
        return value
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, dict):
        mapping = seen[id(value)] = JsDict()
        for key, item in value.items():
            mapping[js_string(key) if isinstance(value, Map) else key] = _in(item, seen)
        return mapping
    if isinstance(value, list):
        items = seen[id(value)] = JsList()
        items.extend(_in(item, seen) for item in value)
        return items
    if isinstance(value, set):
        return {_in(item, seen) for item in value}
    if isinstance(value, PlatformRequest | PlatformResponse):
        return value.message
    if isinstance(value, JsBytes | JsBuffer):
        return memoryview(buffer_bytes(value))
    if isinstance(value, Date):
        return value.to_py()
    if isinstance(value, JsException):
        return Exception(str(value))
    if isinstance(value, Number):
        return value.valueOf()
    return value


# Names of the SDK that programs compare types with (`isinstance(x, _RpcStubWrapper)`).
_RpcStubWrapper = (RpcStub, RpcFunction)
_EnvWrapper = (Env, ModuleEnv)
_BindingWrapper = Binding
_FetcherWrapper = FetcherBinding

__all__ = ["JsDict", "RpcStub", "call_target", "python_from_rpc", "python_to_rpc", "received", "references"]
