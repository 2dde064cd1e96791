"""WebSockets that leave the Worker: `js.WebSocket.new(url)`, and `fetch` with `Upgrade: websocket`.

The other side of a socket is a connection of the `websockets` library. It reads only while the program keeps up, and
what the program sends waits here while the network is slow.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
from typing import TYPE_CHECKING
from weakref import WeakSet

from moorage.durable_objects.runtime.web import Body, Headers, Request, Response
from moorage.durable_objects.runtime.websockets import (
    DISCONNECTED,
    Close,
    Failure,
    SocketEnd,
    WebSocket,
    WebSocketFailure,
)
from moorage.durable_objects.runtime.websockets.end import make_pipe

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

MAX_MESSAGE_BYTES = 32 * 1024 * 1024
CONNECT_SECONDS = 30.0
_NO_STATUS, _ABNORMAL, _NORMAL = 1005, 1006, 1000

# Fields of the handshake, which the library writes itself.
_HANDSHAKE = frozenset({
    "host", "connection", "upgrade", "content-length", "sec-websocket-key", "sec-websocket-version",
    "sec-websocket-extensions", "sec-websocket-protocol",
})  # fmt: skip

_open: WeakSet[NetworkConnection] = WeakSet()
_log = logging.getLogger("moorage.workers")


class NetworkConnection:
    """An open connection to a server. Once it is coupled with an end, what happens at either is passed on."""

    def __init__(self, client: ClientConnection) -> None:
        self._client = client
        self._end: SocketEnd | None = None
        self._reader: asyncio.Task[None] | None = None
        self._writer: asyncio.Task[None] | None = None
        self._context = contextvars.copy_context()
        self.loop = asyncio.get_running_loop()
        self.subprotocol: str | None = client.subprotocol
        self.extensions = (
            ", ".join(client.response.headers.get_all("sec-websocket-extensions")) if client.response else ""
        )
        _open.add(self)

    def couple(self, end: SocketEnd) -> None:
        """Passes messages on until the connection is closed."""
        self._end = end
        self._reader = asyncio.Task(self._read(end), loop=self.loop, context=self._context)
        end.listen(self)

    async def close(self) -> None:
        """Ends the connection (1001): nobody wants it any more."""
        await self._client.close(1001)

    async def _read(self, end: SocketEnd) -> None:
        from websockets.exceptions import ConnectionClosed

        client = self._client
        try:
            while True:
                end.push(await client.recv())
                if end.full:
                    await end.room()
        except ConnectionClosed:
            code = client.close_code or _ABNORMAL
            end.push(DISCONNECTED if code == _ABNORMAL else Close(code, client.close_reason or ""))
        except Exception as error:
            _log.exception("a WebSocket connection failed")
            end.push(Failure(WebSocketFailure(f"the WebSocket connection failed: {error}")))
        finally:
            end.abandon()
            _open.discard(self)

    def ready(self, end: SocketEnd) -> None:
        """A frame waits to be sent."""
        if self._writer is None:
            self._writer = asyncio.Task(self._write(end), loop=self.loop, context=self._context)

    def settled(self, end: SocketEnd) -> None:
        """The library has answered the server's Close frame already."""

    async def _write(self, end: SocketEnd) -> None:
        from websockets.exceptions import ConnectionClosed

        try:
            while (frame := end.take()) is not None:
                if isinstance(frame, str | bytes):
                    await self._client.send(frame)
                elif isinstance(frame, Close) and frame.clean:
                    await self._client.close(_NORMAL if frame.code == _NO_STATUS else frame.code, frame.reason)
                else:
                    self._client.transport.abort()  # the object is gone, and says no goodbye
        except ConnectionClosed:
            return  # the reader tells how
        finally:
            self._writer = None


async def dial(url: str, protocols: list[str], headers: list[tuple[str, str]] | None = None) -> NetworkConnection:
    """Connects to a `ws:` or `wss:` URL.

    Raises OSError when the network fails or the server refuses; `__cause__` then has the library's error.
    """
    from websockets.asyncio.client import connect
    from websockets.exceptions import WebSocketException
    from websockets.typing import Subprotocol

    try:
        client = await connect(
            url,
            subprotocols=[Subprotocol(name) for name in protocols] or None,
            additional_headers=headers,
            user_agent_header=None,
            open_timeout=CONNECT_SECONDS,
            max_size=MAX_MESSAGE_BYTES,
        )
    except (WebSocketException, TimeoutError) as error:
        raise WebSocketFailure(f"WebSocket to {url} failed: {error or type(error).__name__}") from error
    return NetworkConnection(client)


async def upgrade(request: Request) -> Response:
    """`fetch` of a WebSocket: the Response has status 101 and the socket, or is what the server refused with.

    Raises OSError when the network fails.
    """
    from websockets.exceptions import InvalidStatus

    offered = request.fields.get("sec-websocket-protocol") or ""
    protocols = [name.strip() for name in offered.split(",") if name.strip()]
    headers = [(name, value) for name, value in request.fields if name.lower() not in _HANDSHAKE]
    try:
        connection = await dial("ws" + request.url.removeprefix("http"), protocols, headers)
    except WebSocketFailure as failure:
        if not isinstance(failure.__cause__, InvalidStatus):
            raise
        refused = failure.__cause__.response
        fields = Headers(list(refused.headers.raw_items()))
        return Response.received(refused.status_code, fields, Body(bytes(refused.body)), url=request.url)
    near, far = make_pipe()
    connection.couple(far)
    answered = connection._client.response
    fields = Headers([] if answered is None else list(answered.headers.raw_items()))
    response = Response.received(101, fields, None, url=request.url)
    response.web_socket = WebSocket(near)
    response.web_socket.protocol = connection.subprotocol or ""
    return response


async def close() -> None:
    """Ends the connections of the running loop; the host calls it when its Workers end."""
    loop = asyncio.get_running_loop()
    for connection in list(_open):
        if connection.loop is loop:
            with contextlib.suppress(Exception):
                await connection.close()


WebSocket.connector = dial
