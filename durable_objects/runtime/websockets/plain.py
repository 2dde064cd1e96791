"""Sockets taken by `accept()`: their frames become events for listeners, in order, as code of whoever accepted.

In an object every run passes the object's gate, and the instance stays in memory until the peer has closed.
"""

import asyncio
import contextlib
import contextvars
import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .. import gate as gates
from ..web import Blob
from ..web.values import JsBytes
from .end import SocketEnd
from .events import CloseEvent, ErrorEvent, Event, MessageEvent
from .frames import ABNORMAL, Close, Failure, Frame

if TYPE_CHECKING:
    from ..instance import Instance
    from .socket import WebSocket

_log = logging.getLogger("moorage.websockets")


@dataclass(frozen=True, slots=True)
class Listener:
    """A function of `addEventListener`."""

    function: Callable[..., Any]
    once: bool


class PlainDelivery:
    """Takes the frames of one accepted socket. `replying` is true while the listeners of a `close` event run."""

    __slots__ = (
        "_alive",
        "_context",
        "_running",
        "_section",
        "_socket",
        "half_open",
        "instance",
        "loop",
        "replying",
        "tasks",
    )

    def __init__(self, socket: "WebSocket", *, half_open: bool) -> None:
        turn = gates.current
        self._socket = socket
        self.loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._section = None if turn is None else turn.section
        self._running = False
        self.half_open = half_open
        self.instance: Instance | None = None if turn is None else turn.owner
        self.replying = False
        self.tasks: set[asyncio.Future[Any]] = set()
        self._alive = self.instance is not None
        if self.instance is not None:
            self.instance.hold_socket(socket._end)

    def ready(self, end: SocketEnd) -> None:
        """Starts a run that delivers what waits, unless one is under way."""
        if self._running:
            return
        self._running = True
        if self.instance is not None:
            instance = self.instance
            run = instance.namespace.drive(self._deliver(end))
            gates.start(instance.gate, instance, self._section, run, self.loop, self._context)
        else:
            task = gates.outside(self._start_plain, end)
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)

    def settled(self, end: SocketEnd) -> None:
        """A program sees no end that its peer does not answer (semantics 13.4)."""

    def _start_plain(self, end: SocketEnd) -> "asyncio.Task[None]":
        return asyncio.Task(self._deliver(end), loop=self.loop, context=self._context)

    async def _deliver(self, end: SocketEnd) -> None:
        try:
            while (frame := end.take()) is not None:
                self._event(end, frame)
                if end.inbox:
                    await asyncio.sleep(0)  # every message is an event of its own: others come in between
        finally:
            self._running = False

    def _event(self, end: SocketEnd, frame: Frame) -> None:
        if isinstance(frame, str | bytes):
            data: Any = frame
            if isinstance(frame, bytes):
                data = Blob([frame]) if self._socket.binaryType == "blob" else JsBytes(frame)
            self.dispatch(MessageEvent(data, self._socket))
            return
        if isinstance(frame, Failure):
            self.dispatch(ErrorEvent(frame.error, self._socket))
            frame = Close(ABNORMAL, str(frame.error), clean=False)
        self._closed(end, frame)

    def _closed(self, end: SocketEnd, frame: Close) -> None:
        end.closed_incoming = True
        if not frame.clean:
            end.lost = True
        self.replying = frame.clean and not self.half_open
        self.dispatch(CloseEvent(frame.code, frame.reason, frame.clean, self._socket))
        if self.replying and not end.closed_outgoing and not end.lost:
            # a listener may have closed with a code of its own, as programs for older dates do; else it is echoed
            end.closed_outgoing = True
            end.emit(Close(frame.code, frame.reason), self.instance)
        self.replying = False
        self.let_go(end)

    def let_go(self, end: SocketEnd) -> None:
        """The socket no longer keeps its object in memory."""
        if self._alive and self.instance is not None:
            self._alive = False
            self.instance.drop_socket(end)

    def dispatch(self, event: Event) -> None:
        """Calls every listener; an error in one is logged and keeps nobody else from being called."""
        for listener in self._socket._heard_by(event.type):
            try:
                result = listener(event)
            except Exception:
                _log.exception("a listener of %r failed", event.type)
                continue
            if inspect.isawaitable(result):
                # the coroutine itself, so that one that never began is closed without a warning
                work = asyncio.ensure_future(result)
                self.tasks.add(work)
                work.add_done_callback(self._listened)

    def _listened(self, work: "asyncio.Future[Any]") -> None:
        self.tasks.discard(work)
        if not work.cancelled() and (error := work.exception()) is not None:
            _log.error("an asynchronous listener failed", exc_info=error)


def abandon_later(end: SocketEnd) -> None:
    """Tells the peer of a forgotten end; called by the garbage collector, so from anywhere."""
    peer = end.peer
    if peer is None or peer.consumer is None:
        end.abandon()
        return
    with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to be told
        peer.consumer.loop.call_soon_threadsafe(end.abandon)
