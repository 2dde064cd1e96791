"""WebSockets as uvicorn speaks them, with two things that ASGI has no word for.

A client's Close frame is not answered at once but by what the application sends in answer, so that an object chooses
the code; without an answer the client's own code is sent back. And a connection that is lost without a Close frame is
1006.
"""

from collections.abc import Coroutine
from typing import Any, Final

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Close, Frame, Opcode

from .sockets import HALF_CLOSE

_ABNORMAL: Final = 1006


class HalfClosingProtocol(WebSocketsSansIOProtocol):
    """One connection. A Close frame is answered after `close_timeout` seconds or when the application ends."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._reply: bytes | None = None
        self._served = self.app
        self.app = self._serve

    async def _serve(self, scope: Any, receive: Any, send: Any) -> None:
        scope["extensions"][HALF_CLOSE] = {}
        try:
            await self._served(scope, receive, send)
        finally:
            self._answer()

    def handle_close(self, event: Frame) -> None:
        received = self.conn.close_rcvd
        if self.close_sent or self.transport.is_closing() or received is None or not self.handshake_complete:
            super().handle_close(event)
            return
        self.stop_keepalive()
        # the library has made its echo already; it is written when nobody says anything better
        self._reply = b"".join(self.conn.data_to_send())
        message = {"type": "websocket.disconnect", "code": received.code, "reason": received.reason}
        self.queue.put_nowait(message)  # type: ignore[arg-type]
        self.close_timer = self.loop.call_later(self.close_timeout, self._answer)

    def _answer(self, frame: bytes | None = None) -> None:
        reply, self._reply = self._reply, None
        if reply is None:
            return
        if self.close_timer is not None:
            self.close_timer.cancel()
            self.close_timer = None
        self.close_sent = True
        if not self.disconnected:
            self.transport.write(reply if frame is None else frame)
            self.transport.close()

    def send(self, message: Any) -> Coroutine[Any, Any, None]:
        return super().send(message) if self._reply is None else self._send_late(message)

    async def _send_late(self, message: Any) -> None:
        await self.writable.wait()
        if self.disconnected or self._reply is None:
            raise ClientDisconnected
        if message["type"] == "websocket.close":
            code, reason = message.get("code", 1000), message.get("reason") or ""
            self._answer(self._frame(Opcode.CLOSE, Close(code, reason).serialize()))
        elif message.get("bytes") is not None:
            self.transport.write(self._frame(Opcode.BINARY, message["bytes"]))
        else:
            self.transport.write(self._frame(Opcode.TEXT, message["text"].encode()))

    def _frame(self, opcode: Opcode, data: bytes) -> bytes:
        return Frame(opcode, data).serialize(mask=False, extensions=self.conn.extensions)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.handshake_complete and self.conn.close_rcvd is None and not self.close_sent:
            self.queue.put_nowait({"type": "websocket.disconnect", "code": _ABNORMAL})
        super().connection_lost(exc)

    def on_task_complete(self, task: Any) -> None:
        self.app = self._served  # nothing refers to itself any more
        super().on_task_complete(task)

    def shutdown(self) -> None:
        if self._reply is not None:
            self._answer()
        else:
            super().shutdown()
