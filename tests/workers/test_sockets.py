"""WebSockets that leave a Worker, against a server of another library."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request as HandshakeRequest
from websockets.http11 import Response as HandshakeResponse
from websockets.typing import Subprotocol

from moorage.durable_objects.runtime import DurableObject, WebSocket
from moorage.durable_objects.runtime.testing import memory_runtime, settle
from moorage.durable_objects.runtime.web import Request
from moorage.durable_objects.runtime.websockets import Close, WebSocketSyntaxError
from moorage.wrangler_compat.workers import asgi, js, sockets
from moorage.wrangler_compat.workers.current import WorkerContext, running
from moorage.wrangler_compat.workers.outgoing import fetch

SEEN: list[Any] = []


async def handle(server: ServerConnection) -> None:
    assert server.request is not None
    SEEN.append(server.request.headers.get("x-from"))
    with contextlib.suppress(ConnectionClosed):
        while True:
            message = await server.recv()
            if message == "close":
                await server.close(4001, "enough")
            elif message == "vanish":
                server.transport.abort()
            else:
                await server.send(message)
    SEEN.append((server.close_code, server.close_reason))


def refuse(connection: ServerConnection, request: HandshakeRequest) -> HandshakeResponse | None:
    return connection.respond(403, "not you") if request.path == "/refuse" else None


def chosen(connection: ServerConnection, offered: Sequence[Subprotocol]) -> Subprotocol | None:
    return Subprotocol("chat") if "chat" in offered else None


@pytest.fixture
async def server() -> AsyncIterator[str]:
    SEEN.clear()
    async with serve(handle, "127.0.0.1", 0, select_subprotocol=chosen, process_request=refuse) as running:
        yield f"127.0.0.1:{running.sockets[0].getsockname()[1]}"
    await sockets.close()


async def seen(count: int) -> None:
    """Waits until the server has seen so much."""
    while len(SEEN) < count:
        await asyncio.sleep(0.01)


class Heard:
    """Listeners of every kind."""

    def __init__(self, socket: Any) -> None:
        self.events: asyncio.Queue[Any] = asyncio.Queue()
        for kind in ("open", "message", "error", "close"):
            socket.addEventListener(kind, self.events.put_nowait)

    async def next(self, kind: str) -> Any:
        event = await asyncio.wait_for(self.events.get(), 10)
        assert event.type == kind
        return event


async def test_a_socket_of_a_url(server: str) -> None:
    socket = js.WebSocket.new(f"ws://{server}/x", ["chat"])
    heard = Heard(socket)
    assert (socket.readyState, socket.url, socket.protocol) == (0, f"ws://{server}/x", "")
    with pytest.raises(TypeError, match="You must call one of accept"):
        socket.send("too early")
    await heard.next("open")
    assert (socket.readyState, socket.protocol) == (1, "chat")
    for message in ("text", "", b"\x00\xff"):
        socket.send(message)
        assert (await heard.next("message")).data == message
    socket.close(4000, "done")
    closed = await heard.next("close")
    assert (closed.code, closed.reason, closed.wasClean) == (4000, "done", True)
    assert socket.readyState == 3
    await seen(2)
    assert SEEN == [None, (4000, "done")]


@pytest.mark.parametrize(("message", "code", "clean"), [("close", 4001, True), ("vanish", 1006, False)])
async def test_the_servers_end_arrives(server: str, message: str, code: int, clean: bool) -> None:
    socket = js.WebSocket.new(f"ws://{server}/")
    heard = Heard(socket)
    await heard.next("open")
    socket.send(message)
    closed = await heard.next("close")
    assert (closed.code, closed.wasClean, socket.readyState) == (code, clean, 3)


@pytest.mark.parametrize("path", ["/refuse", ""])
async def test_a_connection_that_fails_says_so(server: str, path: str) -> None:
    address = server if path else "127.0.0.1:1"
    socket = js.WebSocket.new(f"ws://{address}{path}")
    heard = Heard(socket)
    assert isinstance((await heard.next("error")).error, OSError)
    closed = await heard.next("close")
    assert (closed.code, closed.wasClean, socket.readyState) == (1006, False, 3)
    socket.send("nobody is there")
    with pytest.raises(TypeError, match="cannot call accept"):
        socket.accept()


async def test_a_socket_closed_before_it_is_open(server: str) -> None:
    socket = js.WebSocket.new(f"ws://{server}/")
    socket.close()
    assert socket.readyState == 3
    await seen(2)
    assert SEEN[1] == (1001, "")


@pytest.mark.parametrize(
    ("url", "protocols"),
    [("nonsense", None), ("ftp://x/", None), ("ws://x/#part", None), ("ws://x/", "a b"), ("ws://x/", ["a", "a"])],
)
async def test_arguments_that_are_none(url: str, protocols: Any) -> None:
    with pytest.raises(WebSocketSyntaxError, match="WebSocket Constructor") as caught:
        js.WebSocket.new(url, protocols)
    assert caught.value.name == "SyntaxError"


async def test_fetch_with_an_upgrade(server: str) -> None:
    headers = {"Upgrade": "websocket", "x-from": "me", "Sec-WebSocket-Protocol": "chat"}
    response = await fetch(f"http://{server}/", headers=headers)
    assert (response.status, response.headers["sec-websocket-protocol"]) == (101, "chat")
    socket = response.webSocket
    heard = Heard(socket)
    socket.accept()
    socket.send("hello")
    assert (await heard.next("message")).data == "hello"
    socket.close(1000, "bye")
    assert (await heard.next("close")).reason == "bye"
    await seen(2)
    assert SEEN == ["me", (1000, "bye")]
    refused = await fetch(f"http://{server}/refuse", headers=headers)
    assert (refused.status, await refused.text(), refused.web_socket) == (403, "not you", None)
    with pytest.raises(OSError, match="failed"):
        await fetch("http://127.0.0.1:1/", headers=headers)


async def test_an_object_is_kept_by_its_connection(server: str) -> None:
    class Follower(DurableObject):
        heard: list[Any] = []

        async def follow(self, url: str) -> None:
            self.socket = WebSocket.new(url)
            self.socket.onmessage = lambda event: self.ctx.storage.put("last", event.data)
            self.socket.onopen = lambda event: event.target.send("first")

        async def say(self, text: str) -> None:
            self.socket.send(text)

        async def last(self) -> Any:
            return await self.ctx.storage.get("last")

        def drop(self) -> None:
            self.ctx.abort("dropped")

    runtime = memory_runtime()
    runtime.namespace("w-Follower", Follower)
    await runtime.start()
    stub = runtime.namespaces["w-Follower"].getByName("a")
    await stub.follow(f"ws://{server}/")
    while await stub.last() != "first":
        await asyncio.sleep(0.01)
    await runtime.clock.advance(60_000)  # type: ignore[attr-defined]
    await stub.say("second")
    while await stub.last() != "second":
        await asyncio.sleep(0.01)
    with pytest.raises(Exception, match="dropped"):
        await stub.drop()
    await seen(2)
    assert SEEN[1][0] == 1006
    await runtime.close()


async def test_the_hosts_end_closes_connections(server: str) -> None:
    socket = js.WebSocket.new(f"ws://{server}/")
    heard = Heard(socket)
    await heard.next("open")
    await sockets.close()
    assert (await heard.next("close")).code == 1001
    await seen(2)
    assert SEEN == [None, (1001, "")]


async def test_an_asgi_application_over_a_pair() -> None:
    sent = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        if scope["type"] == "lifespan":
            raise NotImplementedError
        assert (await receive())["type"] == "websocket.connect"
        await send({"type": "websocket.accept", "subprotocol": "chat"})
        assert await receive() == {"type": "websocket.receive", "text": "hello"}
        for _ in range(64):
            await send({"type": "websocket.send", "bytes": b"x" * 65536})
            sent += 1
        assert await receive() == {"type": "websocket.disconnect", "code": 4000, "reason": "enough"}
        sent += 1

    request = Request("https://test/", headers={"Upgrade": "websocket", "Sec-WebSocket-Protocol": "chat"})
    with running(WorkerContext()) as worker:
        response = await asgi.websocket(app, request, {})
        assert (response.status, response.headers["sec-websocket-protocol"]) == (101, "chat")
        end = response.web_socket._release()
        end.push("hello")
        await settle()
        assert sent < 10  # nobody reads yet, so the application waits
        received = 0
        while received < 64:
            if end.take() is not None:
                received += 1
            else:
                await asyncio.sleep(0)
        end.push(Close(4000, "enough"))
        await worker.background.drain()
    assert sent == 65
