"""WebSockets of applications (spec python-workers-api 3)."""

import asyncio
from typing import Any

import pytest

from moorage.durable_objects.runtime.web import Request
from moorage.wrangler_compat.workers import asgi
from moorage.wrangler_compat.workers.calling import call_fetch
from moorage.wrangler_compat.workers.current import WorkerContext, running
from tests.workers.asgi.programs import (
    Sent,
    without_lifespan,
)


class Pair:
    """Both sides of a socket, as the platform gives them."""

    def __init__(self) -> None:
        self.client, self.server = Socket(), Socket()

    def object_values(self) -> list[Any]:
        return [self.client, self.server]

    @classmethod
    def new(cls) -> "Pair":
        made.append(cls())
        return made[-1]


made: list[Pair] = []


class Event:
    def __init__(self, **values: Any) -> None:
        vars(self).update(values)


class Socket:
    def __init__(self) -> None:
        self.listeners: dict[str, Any] = {}
        self.sent: list[Any] = []
        self.closed: tuple[int, str] | None = None

    def accept(self) -> None: ...

    def addEventListener(self, kind: str, listener: Any) -> None:
        self.listeners[kind] = listener

    def send(self, data: Any) -> None:
        self.sent.append(data)

    def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> list[Pair]:
    from moorage.wrangler_compat.workers import js

    monkeypatch.setitem(js.web_sockets, "WebSocketPair", Pair)
    made.clear()
    return made


async def test_a_socket_between_program_and_application(pairs: list[Pair]) -> None:
    seen: Sent = []

    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert (scope["type"], scope["subprotocols"], scope["path"]) == ("websocket", ["chat", "other"], "/x")
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept", "subprotocol": "chat"})
        while True:
            message = await receive()
            seen.append(message)
            if message["type"] == "websocket.disconnect":
                return
            await send({"type": "websocket.send", **{key: message[key] for key in message if key != "type"}})

    context = WorkerContext()
    with running(context):
        asked = Request("http://example.com/x", headers={"sec-websocket-protocol": "chat, other"})
        response = await asgi.websocket(app, asked, {})
        assert (response.status, response.web_socket) == (101, pairs[0].client)
        assert response.headers["sec-websocket-protocol"] == "chat"
        server = pairs[0].server
        for data in ("text", b"bytes", "", b""):
            server.listeners["message"](Event(data=data))
        while len(server.sent) < 4:
            await asyncio.sleep(0)
        server.listeners["close"](Event(code=1001, reason="bye"))
        await context.background.drain()
    assert server.sent == ["text", b"bytes", "", b""]
    assert seen[1] == {"type": "websocket.receive", "bytes": b"bytes"}
    assert seen[2] == {"type": "websocket.receive", "text": ""}
    assert seen[-1] == {"type": "websocket.disconnect", "code": 1001, "reason": "bye"}
    assert server.closed is None


@pytest.mark.parametrize(("fails", "code"), [(False, 1000), (True, 1011)])
async def test_an_application_that_ends_closes_its_socket(pairs: list[Pair], fails: bool, code: int) -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})
        if fails:
            raise ZeroDivisionError

    context = WorkerContext()
    with running(context):
        await asgi.websocket(app, Request("http://a"), {})
        await context.background.drain()
    assert pairs[0].server.closed == (code, "")


async def test_a_refused_socket(pairs: list[Pair]) -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.close", "code": 4000})

    assert (await asgi.websocket(app, Request("http://a"), {})).status == 403


async def test_a_server_s_socket_goes_straight_through() -> None:
    sent: Sent = []
    events = [
        {"type": "websocket.connect"},
        {"type": "websocket.receive", "bytes": b""},
        {"type": "websocket.disconnect", "code": 1005},
    ]

    async def receive() -> Any:
        return events.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "bytes": (await receive())["bytes"]})
        assert (await receive())["code"] == 1005

    scope = {
        "type": "websocket",
        "path": "/",
        "raw_path": b"/",
        "query_string": b"",
        "headers": [(b"upgrade", b"websocket")],
        "scheme": "ws",
    }
    incoming = Request.from_asgi(scope, receive, send)
    assert incoming.url.startswith("http://")
    default = asgi.entrypoint(app)
    response = await call_fetch(default(None, {}).fetch, incoming)  # type: ignore[attr-defined]
    assert response.passthrough
    assert sent == [{"type": "websocket.accept"}, {"type": "websocket.send", "bytes": b""}]
