"""WebSockets of ASGI applications: the server's own channels, or a pair of the platform's sockets."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from moorage.durable_objects.runtime.web import Request, Response

from .current import current

logger = logging.getLogger("asgi")

ABNORMAL = 1006


async def serve(app: Any, request: Request, env: Any, state: dict[str, Any]) -> Response:
    """Runs `app` for `request` and returns the Response that accepts (or has accepted) the socket.

    The request of a server's `websocket` scope is handed over as it is: binary and empty frames, close codes and
    reasons are the server's. Any other request gets one side of a `WebSocketPair`, the application the other.
    """
    scope = request.scope
    exchange = request.exchange
    if scope is not None and scope["type"] == "websocket" and exchange is not None:
        request.exchange = None
        await app({**scope, "env": env, "state": dict(state)}, exchange.receive, exchange.send)
        return Response.sent(101)
    return await _over_a_pair(app, request, env, state)


class _Socket:
    """The application's side of a pair, as ASGI messages."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.closed = False
        self.decided: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.events.put_nowait({"type": "websocket.connect"})
        server.addEventListener("message", self._message)
        server.addEventListener("close", self._close)
        server.addEventListener("error", self._error)

    def _message(self, event: Any) -> None:
        data = event.data
        if isinstance(data, str):
            self.events.put_nowait({"type": "websocket.receive", "text": data})
        else:
            self.events.put_nowait({"type": "websocket.receive", "bytes": bytes(data)})

    def _close(self, event: Any) -> None:
        self._gone(getattr(event, "code", None) or 1005, getattr(event, "reason", "") or "")

    def _error(self, event: Any) -> None:
        self._gone(ABNORMAL, "")

    def _gone(self, code: int, reason: str) -> None:
        if not self.closed:
            self.closed = True
            self.events.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})

    async def send(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind in {"websocket.accept", "websocket.close"} and not self.decided.done():
            self.decided.set_result(message)
            if kind == "websocket.close":
                self.closed = True
            return
        if self.closed:
            raise OSError("the WebSocket is closed")
        if kind == "websocket.send":
            data = message.get("bytes")
            self.server.send(message.get("text", "") if data is None else data)
            end = getattr(self.server, "_end", None)
            if end is not None and end.full:
                await end.room()
        elif kind == "websocket.close":
            self.closed = True
            self.server.close(message.get("code", 1000), message.get("reason") or "")
        else:
            raise RuntimeError(f"Unexpected ASGI message {kind!r}")

    def ended(self, failed: bool) -> None:
        """The application returned or raised: a socket that is still open is closed, so that the client knows."""
        if not self.closed and self.decided.done():
            self.closed = True
            self.server.close(1011 if failed else 1000, "")


async def _over_a_pair(app: Any, request: Request, env: Any, state: dict[str, Any]) -> Response:
    from . import js
    from .asgi import request_to_scope

    client, server = js.WebSocketPair.new().object_values()
    server.accept()
    socket = _Socket(server)
    scope = request_to_scope(request, env, ws=True, state=state)
    offered = request.fields.get("sec-websocket-protocol") or ""
    scope["subprotocols"] = [name.strip() for name in offered.split(",") if name.strip()]

    async def run() -> None:
        failed = True
        try:
            await app(scope, socket.events.get, socket.send)
            failed = False
        except Exception as error:
            if not socket.decided.done():
                socket.decided.set_exception(error)
            logger.error("Exception in ASGI WebSocket application", exc_info=error)
        finally:
            if not socket.decided.done():
                socket.decided.set_exception(
                    RuntimeError("The application neither accepted nor closed the WebSocket")
                )
            socket.ended(failed)

    task = asyncio.ensure_future(run())
    current().wait_until(task)
    first = await socket.decided
    if first["type"] == "websocket.close":
        return Response(None, status=403)
    headers: list[tuple[str, str]] = [
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in first.get("headers", ())
    ]
    if first.get("subprotocol"):
        headers.append(("sec-websocket-protocol", first["subprotocol"]))
    return Response(None, status=101, headers=headers, web_socket=client)
