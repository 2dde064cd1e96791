"""What crosses between an object and its callers: copies, and stubs for functions and targets (semantics 12)."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Generator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from . import gate as gates
from .base import DurableObject, RpcTarget
from .bodies import outgoing_response, outgoing_stream
from .clone import DataCloneError, copy_sized
from .errors import DurableObjectAbort, DurableObjectError
from .web import Blob, FormData, Headers, PlatformRequest, PlatformResponse, ReadableStream, Request, Response

if TYPE_CHECKING:
    from .instance import Instance

MAX_MESSAGE_BYTES: Final = 32 * 1024 * 1024

RESERVED: Final = frozenset({"alarm", "webSocketMessage", "webSocketClose", "webSocketError", "dup", "constructor"})
NOT_RPC: Final = (
    "The receiving Durable Object does not support RPC, because its class was not declared with `extends "
    "DurableObject`. In order to enable RPC, make sure your class extends the special class `DurableObject`, which "
    'can be imported from the module "cloudflare:workers".'
)

_SMALL: Final = frozenset({bool, int, float})

# Values that pass as they are: they are streams, or handed over with what they carry.
PASSED: Final = (Blob, FormData, Headers, ReadableStream, Request, Response)


def copy_across(value: Any, home: Instance | None) -> Any:
    """Returns the copy of an argument or result that the other side gets.

    Functions and RpcTargets become stubs that call back into `home` (None: the Worker). Raises DataCloneError for
    instances of other classes, and an error beyond 32 MiB.
    """
    if value is None or type(value) in _SMALL:
        return value

    def foreign(item: Any) -> Any:
        if isinstance(item, PlatformRequest | PlatformResponse):
            item = item.message
        if isinstance(item, PASSED):
            if home is None:
                return item
            if isinstance(item, ReadableStream):
                return outgoing_stream(home, item)
            return outgoing_response(home, item) if isinstance(item, Response) else item
        if isinstance(item, RpcFunction | RpcTargetStub | Stub):
            return item
        if isinstance(item, RpcTarget):
            return RpcTargetStub(item, home)
        if inspect.isasyncgen(item) or inspect.isgenerator(item):
            raise DataCloneError(
                f"[object {'AsyncGenerator' if inspect.isasyncgen(item) else 'Generator'}] could not be cloned."
            )
        if callable(item) and not isinstance(item, type):
            return RpcFunction(item, home)
        raise DataCloneError(
            f'Could not serialize object of type "{type(item).__name__}". This type does not support serialization.'
        )

    copied, size = copy_sized(value, foreign, MAX_MESSAGE_BYTES)
    if size > MAX_MESSAGE_BYTES:
        raise DurableObjectError(
            "Serialized RPC arguments or return values are limited to 32MiB, but the size of this value was: "
            f"{size + 2} bytes."
        )
    return copied


def call_home(home: Instance | None, function: Callable[[], Any]) -> RpcPromise:
    """Runs `function` where it came from: as an event of its object, or as a plain task of the Worker."""
    if home is not None:
        return RpcPromise.of(lambda: home.event(function, lambda value: copy_across(value, home)), read=True)

    async def run() -> Any:
        value = function()
        if inspect.isawaitable(value):
            value = await value
        return copy_across(value, None)

    return RpcPromise.of(lambda: gates.run_outside(run()))


class RpcFunction:
    """A function of the other side: calling it gives an awaitable of a copy of its result."""

    def __init__(self, function: Callable[..., Any], home: Instance | None) -> None:
        self._function = function
        self._home = home

    def __call__(self, *args: Any, **kwargs: Any) -> RpcPromise:
        sender = _sender()
        values = copy_across(list(args), sender)
        named = copy_across(kwargs, sender)
        return call_home(self._home, lambda: self._function(*values, **named))


class Stub:
    """Base of everything whose attributes are reached on the other side."""


class RpcTargetStub(Stub):
    """A stub of an RpcTarget: its public methods and properties, called where it lives."""

    def __init__(self, target: RpcTarget, home: Instance | None) -> None:
        self._target = target
        self._home = home

    def __getattr__(self, name: str) -> RpcMember:
        if name.startswith("__") or name in {"to_py", "js_object"}:
            raise AttributeError(name)
        return RpcMember(
            lambda invoke: call_home(self._home, lambda: reach(self._target, name, RpcTarget, invoke)), name
        )


def _sender() -> Instance | None:
    turn = gates.current
    return turn.owner if turn is not None else None


def reach(target: Any, name: str, base: type, invoke: tuple[tuple[Any, ...], dict[str, Any]] | None) -> Any:
    """Calls the public method `name` of `target`, or with `invoke` None reads the property.

    Raises TypeError for instance attributes, private, unknown and reserved names (semantics 12.1, 12.2).
    """
    kind, text = _member(target.__class__, name, base)
    if kind == "method":
        bound = getattr(target, name)
        return bound if invoke is None else bound(*invoke[0], **invoke[1])
    if kind == "property":
        value = getattr(target, name)
        if invoke is None:
            return value
        if not callable(value):
            raise TypeError(f'"{name}" is not a function.')
        return value(*invoke[0], **invoke[1])
    raise TypeError(text)


@lru_cache(maxsize=4096)
def _member(cls: type, name: str, base: type) -> tuple[str, str]:
    """What `name` is to callers of a `cls`: ("method", ""), ("property", ""), or ("refused", why)."""
    missing = ("refused", f'The RPC receiver does not implement the method "{name}".')
    if base is DurableObject and name in RESERVED:
        return "refused", f"'{name}' is a reserved method and cannot be called over RPC."
    if name.startswith("_") or name in {"ctx", "env"}:
        return missing
    member = inspect.getattr_static(cls, name, None)
    if member is None or hasattr(base, name):
        return missing
    if isinstance(member, property) or (hasattr(member, "__get__") and not callable(member)):
        return "property", ""
    if isinstance(member, staticmethod | classmethod | type) or not callable(member):
        return missing
    return "method", ""


class RpcMember:
    """`stub.name`: call it for a method call, await it for the property's value."""

    __slots__ = ("__name__", "_deliver")

    def __init__(self, deliver: Callable[[Any], RpcPromise], name: str) -> None:
        self._deliver = deliver
        self.__name__ = name

    def __call__(self, *args: Any, **kwargs: Any) -> RpcPromise:
        return self._deliver((args, kwargs))

    def __await__(self) -> Generator[Any, None, Any]:
        return self._deliver(None).__await__()


class RpcPromise:
    """The result of a call: awaitable, and its members can be called before it is there (pipelining)."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[Any], *, read: bool = False) -> None:
        self._future = future
        if not read:
            # The caller may never await it; its error then is nobody's.
            future.add_done_callback(_read_error)

    @classmethod
    def of(cls, deliver: Callable[[], asyncio.Future[Any]], *, read: bool = False) -> RpcPromise:
        """Makes the call now, or, when the calling object has writes that are not yet durable, once they are.

        `read`: the error of the future that `deliver` returns counts as read already.
        """
        sender = _sender()
        if sender is None or (sender.dead is None and sender.database.clean):
            return cls(deliver(), read=read)
        sender.check()
        loop = asyncio.get_running_loop()
        result: asyncio.Future[Any] = loop.create_future()

        def opened(error: BaseException | None) -> None:
            if error is not None:
                if not result.done():
                    result.set_exception(error)
                return
            answer = gates.outside(deliver)
            answer.add_done_callback(lambda done: _hand_on(done, result))

        promise = cls(result)
        sender.when_clean(opened)
        if sender.dead is not None:
            raise DurableObjectAbort("the instance was reset")
        return promise

    def __await__(self) -> Generator[Any, None, Any]:
        return self._future.__await__()

    def __getattr__(self, name: str) -> RpcMember:
        if name.startswith("__") or name in {"to_py", "js_object"}:
            raise AttributeError(name)

        def deliver(invoke: Any) -> RpcPromise:
            async def follow() -> Any:
                value = await self._future
                member = value[name] if isinstance(value, dict) and name in value else getattr(value, name)
                result = member if invoke is None else member(*invoke[0], **invoke[1])
                return await result if inspect.isawaitable(result) else result

            return RpcPromise(gates.run_outside(follow()))

        return RpcMember(deliver, name)


def _read_error(future: asyncio.Future[Any]) -> None:
    if not future.cancelled():
        future.exception()


def _hand_on(done: asyncio.Future[Any], result: asyncio.Future[Any]) -> None:
    if result.done():
        return
    if done.cancelled():
        result.cancel()
    elif (error := done.exception()) is not None:
        result.set_exception(error)
    else:
        result.set_result(done.result())
