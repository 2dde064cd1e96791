"""Couples a server's WebSocket with the end of a pair that a Worker returned.

ASGI has no half-closed socket: a server answers a client's Close frame by itself, with the client's own code, and
only then tells. What an object sends in `webSocketClose` reaches a client that closed first where the server has
the extension of `ws1`, as `moorage serve` and `dev` do.
"""

import asyncio
import logging
from typing import Any, Final

from moorage.durable_objects.runtime.awaitables import run_synchronous_part
from moorage.durable_objects.runtime.gate import outside
from moorage.durable_objects.runtime.web import Request, Response
from moorage.durable_objects.runtime.web.body import Receive, Send
from moorage.durable_objects.runtime.web.request import Scope
from moorage.durable_objects.runtime.websockets import (
    DISCONNECTED,
    RESTARTED,
    Close,
    Failure,
    SocketEnd,
    WebSocket,
    WebSocketFailure,
)

HALF_CLOSE: Final = "moorage.half_close"
"""The ASGI extension: after `websocket.disconnect` the application may still send, `websocket.close` last."""

NO_STATUS: Final = 1005
ABNORMAL: Final = 1006
# A server may not say 1005, which stands for a Close frame without a code; ASGI's own default is this one.
NORMAL: Final = 1000
INTERNAL: Final = 1011

# Fields of the handshake, which the server writes itself.
_HANDSHAKE: Final = frozenset(
    {b"upgrade", b"connection", b"sec-websocket-accept", b"sec-websocket-extensions", b"sec-websocket-protocol"}
)

_log = logging.getLogger("moorage.host")


def upgrade_request(scope: Scope, receive: Receive, send: Send) -> Request:
    """The request of a `websocket` scope, as a Worker's `fetch` gets it: GET, with `Upgrade: websocket`.

    Nothing is received or sent yet: an ASGI application may still take both channels as they are.
    """
    if all(name != b"upgrade" for name, _ in scope["headers"]):
        scope = {**scope, "headers": [*scope["headers"], (b"upgrade", b"websocket")]}
    return Request.from_asgi(scope, receive, send)


class Couplings:
    """The open connections of one host. `limit` is what may wait for a slow client, in bytes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.open: set[Coupling] = set()

    async def answer(self, response: Response, scope: Scope, receive: Receive, send: Send) -> int:
        """Couples the socket of `response` until it is closed, or refuses with the response; returns the status.

        Raises TypeError for a socket that cannot be returned.
        """
        if response.passthrough:
            if response.failure is not None:
                raise response.failure
            return response.status
        socket = response.web_socket
        if response.status != 101 or not isinstance(socket, WebSocket):
            await refuse(response, scope, receive, send)
            return response.status
        end = socket._release()
        if (await receive())["type"] != "websocket.connect":
            end.abandon()
            return response.status
        await send(_acceptance(response))
        coupling = Coupling(end, receive, send, self.limit, half_close=HALF_CLOSE in scope.get("extensions", {}))
        self.open.add(coupling)
        try:
            await coupling.run()
        finally:
            self.open.discard(coupling)
        return response.status

    def restart(self) -> None:
        """The Workers end: every client is told to come back (1012)."""
        for coupling in list(self.open):
            coupling.end_with(RESTARTED)


def _acceptance(response: Response) -> dict[str, Any]:
    headers = [(name.lower(), value) for name, value in response.raw_headers()]
    protocol = next((value for name, value in headers if name == b"sec-websocket-protocol"), None)
    return {
        "type": "websocket.accept",
        "subprotocol": None if protocol is None else protocol.decode("latin-1"),
        "headers": [(name, value) for name, value in headers if name not in _HANDSHAKE],
    }


async def refuse(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Answers a handshake with an ordinary response, or with the server's own refusal where ASGI lacks that."""
    if "websocket.http.response" not in scope.get("extensions", {}):
        await receive()
        await send({"type": "websocket.close", "code": INTERNAL})
        return

    async def sending(message: Any) -> None:
        await send({**message, "type": "websocket." + message["type"]})

    await response.send(sending)


class Coupling:
    """One open connection. What the server receives is pushed into the end, what the end receives is sent.

    The server is asked for the next message only once the pipe has room for it, and the next frame is sent once the
    server took the last.
    """

    __slots__ = (
        "_closing",
        "_half_close",
        "_leaving",
        "_limit",
        "_reader",
        "_receive",
        "_said_close",
        "_send",
        "_settled",
        "_writing",
        "end",
        "loop",
    )

    def __init__(self, end: SocketEnd, receive: Receive, send: Send, limit: int, *, half_close: bool) -> None:
        self.end = end
        self.loop = asyncio.get_running_loop()
        self._receive = receive
        self._send = send
        self._limit = limit
        self._reader: asyncio.Task[Any] | None = None
        self._half_close = half_close
        self._closing = self._leaving = self._said_close = self._settled = self._writing = False

    async def run(self) -> None:
        """Returns when the connection is closed. The end is told how, whatever happens."""
        end = self.end
        self._reader = asyncio.current_task()
        end.listen(self)
        try:
            await self._read()
        except asyncio.CancelledError:
            if not self._closing:
                raise
        except OSError:
            end.push(DISCONNECTED)
        except Exception as error:
            end.push(Failure(WebSocketFailure(f"the WebSocket connection failed: {error}")))
            raise
        finally:
            end.abandon()
            self._reader = None

    async def _read(self) -> None:
        end = self.end
        receive = self._receive
        while True:
            message = await receive()
            if message["type"] == "websocket.receive":
                text = message.get("text")
                end.push(message.get("bytes") or b"" if text is None else text)
                if end.full:
                    await end.room()
            else:
                close = _close_of(message)
                end.push(close)
                if self._half_close and close.clean and not self._said_close:
                    # what is sent now still reaches the client; the writer ends this wait, or the connection does
                    self._leaving = True
                    await receive()
                return

    def ready(self, end: SocketEnd) -> None:
        """A frame waits to be sent. A client that lets too much wait loses its connection."""
        if end.buffered > self._limit:
            _log.warning("a WebSocket client left more than %d bytes unread and was cut off", self._limit)
            self._cut()
        elif not self._writing:
            self._writing = True
            outside(run_synchronous_part, self._write())

    async def _write(self) -> None:
        # Called as a plain function up to the first wait, which a server takes only when the client is slow.
        send = self._send
        try:
            while (frame := self.end.take()) is not None:
                if isinstance(frame, str):
                    await send({"type": "websocket.send", "text": frame})
                elif isinstance(frame, bytes):
                    await send({"type": "websocket.send", "bytes": frame})
                elif isinstance(frame, Close) and frame.clean:
                    code = NORMAL if frame.code == NO_STATUS else frame.code
                    self._said_close = True
                    await send({"type": "websocket.close", "code": code, "reason": frame.reason})
                    if self._leaving:
                        self._cut()
                else:
                    self._cut()  # an aborted object says no goodbye: the client sees 1006
        except OSError:
            self._cut()
        except Exception:
            _log.exception("a WebSocket message could not be sent")
            self._cut()
        finally:
            self._writing = False
            if self._settled:
                self._cut()

    def settled(self, end: SocketEnd) -> None:
        """The client's Close frame stays unanswered: the server answers it by itself."""
        self._settled = self._leaving
        if self._settled and not self._writing:
            self._cut()

    def _cut(self) -> None:
        self.end.abandon()
        if self._reader is not None and not self._closing:
            self._closing = True
            self._reader.cancel()

    def end_with(self, frame: Close) -> None:
        """Closes the connection from here; the Worker's side sees a lost connection."""
        end = self.end
        end.push(DISCONNECTED)
        end._arrive(frame)


def _close_of(message: Any) -> Close:
    code = message.get("code", NO_STATUS)
    if code == ABNORMAL or (code == NO_STATUS and "reason" not in message):
        # uvicorn says 1005 for a lost connection too; only after a Close frame is there a reason
        return DISCONNECTED
    return Close(code, message.get("reason") or "")
