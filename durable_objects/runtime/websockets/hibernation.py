"""The sockets of one object that may sleep: they outlive its instances (semantics 13)."""

import asyncio
import inspect
import logging
import math
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from .. import gate as gates
from ..clone import Undefined
from ..errors import DurableObjectError
from ..ids import DurableObjectId
from ..javascript import text_of
from ..web.values import JsBytes
from .end import SocketEnd, State
from .frames import DISCONNECTED, ENDINGS, Close, Ending, Failure, Frame
from .socket import WebSocket, WebSocketRequestResponsePair

if TYPE_CHECKING:
    from ..instance import Instance
    from ..namespace import DurableObjectNamespace

MAX_SOCKETS: Final = 32_768
MAX_TAGS: Final = 10
MAX_TAG_LENGTH: Final = 256
MAX_AUTO_RESPONSE_BYTES: Final = 2_048
MAX_EVENT_TIMEOUT_MS: Final = 604_800_000
MAX_UNSIGNED: Final = 2**32 - 1
FORGET_SECONDS: Final = 60.0
# Handlers of one socket that may be waiting at once; the client is held back beyond that.
MAX_RUNNING: Final = 128

_log = logging.getLogger("moorage.websockets")


def distinct_tags(tags: Any) -> tuple[str, ...]:
    """The tags without repeats, in order. Raises an error for more than 10 of those, or for one beyond 256 bytes."""
    if tags is None or isinstance(tags, Undefined):
        return ()
    if not isinstance(tags, list | tuple):
        raise TypeError(
            "Failed to execute 'acceptWebSocket' on 'DurableObjectState': parameter 2 is not of type 'Array'."
        )
    seen: dict[str, None] = {}
    for value in tags:
        tag = text_of(value)
        if tag in seen:
            continue
        if len(seen) >= MAX_TAGS:
            raise DurableObjectError(f"a Hibernatable WebSocket cannot have more than {MAX_TAGS} tags")
        if len(tag.encode("utf-8", "replace")) > MAX_TAG_LENGTH:
            raise DurableObjectError(f'"{tag}" is longer than the max tag length ({MAX_TAG_LENGTH} characters).')
        seen[tag] = None
    return tuple(seen)


def tags_of(socket: WebSocket) -> tuple[str, ...]:
    """`ctx.getTags(ws)`. Raises an error for a socket that was not accepted by `acceptWebSocket`."""
    match socket._end.state:
        case State.HIBERNATING:
            return socket._end.tags
        case State.PLAIN:
            raise DurableObjectError("only hibernatable websockets can have tags.")
    raise DurableObjectError("you must call 'acceptWebSocket()' before attempting to access the tags of a WebSocket.")


class HibernationManager:
    """Keeps an object's sockets, their tags and the auto-response, and delivers their events.

    The handlers of one socket start in the order of its frames; like any events they may overlap where one waits.
    """

    def __init__(self, namespace: "DurableObjectNamespace", object_id: DurableObjectId) -> None:
        self.namespace = namespace
        self.id = object_id
        self.loop = asyncio.get_running_loop()
        self.sockets: dict[SocketEnd, None] = {}
        self.by_tag: dict[str, dict[SocketEnd, None]] = {}
        self.auto_response: tuple[str, str] | None = None
        self.event_timeout: int | None = None
        self.closed = False

    @property
    def instance(self) -> "Instance | None":
        """The object's live instance, if there is one."""
        return self.namespace.live.get(str(self.id))

    # What `ctx` offers.

    def accept(self, socket: WebSocket, tags: Any) -> None:
        """`ctx.acceptWebSocket(ws, tags)`. Raises an error for a socket in use, too many sockets, or wrong tags."""
        end = socket._end
        if end.state in {State.PLAIN, State.HIBERNATING}:
            raise DurableObjectError(
                "Cannot call `acceptWebSocket()` if the WebSocket was already accepted via `accept()`"
            )
        if end.state is not State.WAITING or end.peer is None or end.peer.state is not State.WAITING or end.deaf:
            raise DurableObjectError(
                "Cannot call `acceptWebSocket()` on this WebSocket because its pair has already been accepted or "
                "used in a Response."
            )
        distinct = distinct_tags(tags)
        if len(self.sockets) >= MAX_SOCKETS:
            raise DurableObjectError(
                f"only {MAX_SOCKETS} websockets can be accepted on a single Durable Object instance"
            )
        end.state = State.HIBERNATING
        end.tags = distinct
        end.socket = socket
        self.sockets[end] = None
        for tag in distinct:
            self.by_tag.setdefault(tag, {})[end] = None
        end.listen(self)

    def listed(self, tag: str | None) -> list[WebSocket]:
        """`ctx.getWebSockets(tag)`: all, the newest first, or those with a tag, the oldest first."""
        ends = reversed(self.sockets) if tag is None else iter(self.by_tag.get(tag, ()))
        return [_socket_of(end) for end in ends]

    def set_auto_response(self, pair: WebSocketRequestResponsePair | None) -> None:
        """Sets or removes the auto-response. Raises ValueError for a text of more than 2,048 bytes."""
        if pair is None:
            self.auto_response = None
            return
        for name, text in (("Request", pair.request), ("Response", pair.response)):
            size = len(text.encode("utf-8", "replace"))
            if size > MAX_AUTO_RESPONSE_BYTES:
                raise ValueError(
                    f"{name} cannot be larger than {MAX_AUTO_RESPONSE_BYTES} bytes. "
                    f"A {name.lower()} of size {size} was provided."
                )
        self.auto_response = (pair.request, pair.response)

    def set_event_timeout(self, milliseconds: int) -> None:
        """Sets how long an event may take; 0 removes the limit. Raises an error beyond seven days."""
        if milliseconds > MAX_EVENT_TIMEOUT_MS:
            raise DurableObjectError(f"Event timeout should not exceed {MAX_EVENT_TIMEOUT_MS} ms.")
        self.event_timeout = milliseconds or None

    # Life.

    def hibernate(self) -> None:
        """The instance was evicted: its `WebSocket` objects go, the sockets stay."""
        for end in self.sockets:
            end.socket = None
        if not self.sockets:
            self.namespace.runtime.clock.call_later(FORGET_SECONDS, self._forget)

    def _forget(self) -> None:
        # the platform forgets an idle object's bookkeeping after 70 s without access (semantics 2.4)
        if not self.sockets and self.instance is None and self.namespace.sockets.get(str(self.id)) is self:
            del self.namespace.sockets[str(self.id)]

    def drop(self, ending: Ending = DISCONNECTED) -> None:
        """The object was reset, or the runtime ends: every connection is cut, without an event."""
        self.closed = True
        sockets, self.sockets, self.by_tag = list(self.sockets), {}, {}
        for end in sockets:
            end.abandon(ending)

    def _remove(self, end: SocketEnd) -> None:
        if end not in self.sockets:
            return  # the object was reset meanwhile
        del self.sockets[end]
        for tag in end.tags:
            tagged = self.by_tag[tag]
            del tagged[end]
            if not tagged:
                del self.by_tag[tag]

    def settled(self, end: SocketEnd) -> None:
        """What the peer does not answer, an object does not wait for."""

    # Events.

    def ready(self, end: SocketEnd) -> None:
        """Delivers what waits, in order."""
        if end.running < MAX_RUNNING and not self.closed:
            gates.outside(self._next, end)

    def _next(self, end: SocketEnd) -> None:
        while not self.closed and end.running < MAX_RUNNING and (frame := end.take()) is not None:
            if self.auto_response is not None and frame == self.auto_response[0]:
                end.timestamp = self.namespace.runtime.clock.now()
                if not end.closed_outgoing:
                    end.emit(self.auto_response[1], None)
                continue
            end.running += 1
            try:
                instance = self.namespace.instance(self.id)
            except DurableObjectError:
                end.abandon()  # the runtime is closing
                return
            answer = instance.event(partial(self._handle, instance, end, frame), _nothing)
            answer.add_done_callback(partial(_over, end, frame))

    async def _handle(self, instance: "Instance", end: SocketEnd, frame: Frame) -> None:
        if isinstance(frame, ENDINGS):
            # it is listed while the handler runs, up to its first wait
            self.loop.call_soon(self._remove, end)
        try:
            name, args = self._call(end, frame)
            handler = getattr(instance.object, name, None) or getattr(instance.object, f"on_{name}", None)
            if callable(handler):
                value = self.namespace.runtime.call_relaxed(handler, *args)
                if inspect.isawaitable(value):
                    await self._limited(value)
        except Exception:
            _log.exception("a WebSocket handler of %s failed", self.id)
        finally:
            end.running -= 1
            if end.inbox and not self.loop.is_closed():
                self.loop.call_soon(self.ready, end)

    def _call(self, end: SocketEnd, frame: Frame) -> tuple[str, tuple[Any, ...]]:
        if isinstance(frame, Close):
            end.closed_incoming = True
            if not frame.clean:
                end.lost = True
            return "webSocketClose", (_socket_of(end), frame.code, frame.reason, frame.clean)
        if isinstance(frame, Failure):
            end.closed_incoming = end.lost = True
            return "webSocketError", (_socket_of(end), frame.error)
        return "webSocketMessage", (_socket_of(end), JsBytes(frame) if isinstance(frame, bytes) else frame)

    async def _limited(self, value: Any) -> None:
        if self.event_timeout is None:
            await value
            return
        work = asyncio.ensure_future(value)

        def too_long() -> None:
            _log.error("a WebSocket event of %s took more than %s ms and was ended", self.id, self.event_timeout)
            work.cancel()

        timer = self.namespace.runtime.clock.call_later(self.event_timeout / 1000, too_long)
        try:
            await asyncio.wait([work])
        finally:
            timer.cancel()
            if not work.done():
                work.cancel()
        if not work.cancelled():
            work.result()


def _socket_of(end: SocketEnd) -> WebSocket:
    if end.socket is None:
        end.socket = WebSocket(end)
    socket: WebSocket = end.socket
    return socket


def _nothing(_value: Any) -> None:
    return None


def _over(end: SocketEnd, frame: Frame, answer: "asyncio.Future[Any]") -> None:
    if not answer.cancelled():
        answer.exception()  # a reset; otherwise the error was logged
    if isinstance(frame, Close) and not end.closed_outgoing:
        end.settle()


def whole_milliseconds(value: Any) -> int:
    """An event timeout as the platform converts it to an unsigned 32-bit number; TypeError for what is none."""
    if value is None or isinstance(value, Undefined):
        return 0
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise TypeError("The value cannot be converted because it is not an integer.")
    if number < 0:
        raise TypeError(
            "The value cannot be converted because it is negative and this API expects a positive number."
        )
    if number > MAX_UNSIGNED:
        raise TypeError(f"Value out of range. Must be less than or equal to {MAX_UNSIGNED}.")
    return int(number)
