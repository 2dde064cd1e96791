"""`pyodide.ffi`: conversions, proxies, `run_sync`.

`to_js` gives subclasses of Python's own containers, so its result can be given to any API that takes plain values;
proxies are the functions themselves with a `destroy()` that does nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from typing import Any

from moorage.durable_objects.runtime import WebSocket, WebSocketPair
from moorage.durable_objects.runtime.web import (
    URL,
    Blob,
    FormData,
    Headers,
    JsBytes,
    JsDict,
    JsList,
    PlatformRequest,
    PlatformResponse,
    ReadableStream,
    URLSearchParams,
)

from .. import switching
from ..js.binary import JsBuffer, Uint8Array
from ..js.dates import Date
from ..js.errors import JsException
from ..js.objects import Map, Number, RegExp, Set
from ..js.promises import Promise as JsPromise

jsnull = None
"""JavaScript's null; it is None here, and so is undefined."""


class _ProxyMeta(type):
    _classes = (
        URL, URLSearchParams, Blob, FormData, Headers, PlatformRequest, PlatformResponse, ReadableStream, JsBuffer,
        Date, JsPromise, Map, Set, RegExp, Number, WebSocket, WebSocketPair,
    )  # fmt: skip

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls._classes)


class JsProxy(metaclass=_ProxyMeta):
    """`isinstance` is true for the platform's objects (`js.Request`, `js.Map` …), not for dictionaries and lists.

    Programs ask it to know whether to call `.to_py()`; those answer it as well, but need no conversion.
    """


class JsArray(JsList):
    """The name of arrays for type checks; `to_js` of a list gives one of its base class."""


JsMap = Map
JsDomElement = JsProxy


class PyProxy:
    """A function (or object) that was given to JavaScript."""

    def __init__(self, value: Any) -> None:
        self._value = value
        if callable(value):
            functools.update_wrapper(self, value, updated=())

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self._value(*args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._value, name)

    def to_py(self) -> Any:
        return self._value

    def unwrap(self) -> Any:
        return self._value

    def destroy(self) -> None:
        """Python frees it by itself."""

    def getBuffer(self, _type: Any = None) -> PyBuffer:
        """The bytes of an object that has them. TypeError for another."""
        return PyBuffer(memoryview(self._value))


class AwaitableProxy(PyProxy):
    """A coroutine, a future or the like that was given to JavaScript, which awaits it as a promise."""

    def __await__(self) -> Generator[Any, None, Any]:
        awaiting: Generator[Any, None, Any] = self._value.__await__()
        return awaiting


class PyBuffer:
    """What `getBuffer()` gives: `data`, until `release()`."""

    def __init__(self, view: memoryview) -> None:
        self.data = JsBytes(view)
        self.byteLength = len(self.data)

    def release(self) -> None:
        """Python frees it by itself."""


JsDoubleProxy = PyProxy
JsCallable = PyProxy


def create_proxy(value: Any, *, capture_this: bool = False, roundtrip: bool = True) -> PyProxy:
    """`value` as JavaScript holds it; that of an awaitable can be awaited: `ctx.waitUntil(create_proxy(work()))`."""
    return AwaitableProxy(value) if hasattr(type(value), "__await__") else PyProxy(value)


def create_once_callable(function: Callable[..., Any], **_options: Any) -> PyProxy:
    """A proxy that may be called once; RuntimeError at the second call."""
    called = False

    @functools.wraps(function)
    def once(*args: Any, **options: Any) -> Any:
        nonlocal called
        if called:
            raise RuntimeError("OnceProxy can only be called once")
        called = True
        return function(*args, **options)

    return PyProxy(once)


def destroy_proxies(proxies: Any) -> None:
    """Python frees them by itself."""


def to_js(
    obj: Any,
    /,
    *,
    depth: int = -1,
    pyproxies: Any = None,
    create_pyproxies: bool = True,
    dict_converter: Callable[[Any], Any] | None = None,
    default_converter: Callable[..., Any] | None = None,
    eager_converter: Callable[..., Any] | None = None,
) -> Any:
    """`obj` as the platform's value: arrays for lists and tuples, a `js.Map` (or what `dict_converter` makes of the
    pairs) for dictionaries, a `Uint8Array` for bytes. Other objects stay, or become what `default_converter` makes.
    """
    cache: dict[int, Any] = {}

    def convert(value: Any, level: int) -> Any:
        if value is None or isinstance(value, str | bool | int | float):
            return value
        if level == 0:
            return value
        if id(value) in cache:
            return cache[id(value)]
        if isinstance(value, JsDict | JsBytes | Uint8Array | Map | Set):
            return value
        if isinstance(value, list | tuple):
            items = cache[id(value)] = JsList()
            items.extend(convert(item, level - 1) for item in value)
            return items
        if isinstance(value, dict):
            pairs = JsList(JsList((key, convert(item, level - 1))) for key, item in value.items())
            made = Map.new(pairs) if dict_converter is None else dict_converter(pairs)
            cache[id(value)] = made
            return made
        if isinstance(value, set | frozenset):
            return Set(convert(item, level - 1) for item in value)
        if isinstance(value, bytes | bytearray | memoryview):
            return Uint8Array(bytes(value))
        if isinstance(value, PyProxy) or default_converter is None:
            return value
        return default_converter(value, lambda inner: convert(inner, level - 1), lambda _key, _value: None)

    return convert(obj, depth)


can_run_sync = switching.can_run_sync


def __getattr__(name: str) -> Any:
    if name == "run_sync":
        switching.enable()
        return switching.run_sync
    raise AttributeError(f"module 'pyodide.ffi' has no attribute {name!r}")


__all__ = [
    "JsArray",
    "JsBuffer",
    "JsCallable",
    "JsDomElement",
    "JsDoubleProxy",
    "JsException",
    "JsMap",
    "JsPromise",
    "JsProxy",
    "PyProxy",
    "can_run_sync",
    "create_once_callable",
    "create_proxy",
    "destroy_proxies",
    "jsnull",
    "to_js",
]
