"""WebSockets through a real server and a client of another library."""

import asyncio
import contextlib
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from moorage.wrangler_compat.host import metrics
from moorage.wrangler_compat.host.host import Host
from moorage.wrangler_compat.host.server import Serving
from moorage.wrangler_compat.host.settings import HostSettings

WRANGLER = """
name = "sockets"
main = "entry.py"
compatibility_date = "2026-07-01"
compatibility_flags = ["python_workers"]
[vars]
GREETING = "hello"
[[durable_objects.bindings]]
name = "ROOMS"
class_name = "Room"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Room"]
"""
ENTRY = '''
import asyncio, json
from js import WebSocketPair, WebSocketRequestResponsePair
from workers import DurableObject, Response, WorkerEntrypoint, asgi, env

async def app(scope, receive, send):
    """An ASGI application: echoes with what it knows of the handshake."""
    if scope["type"] == "lifespan":
        return
    assert (await receive())["type"] == "websocket.connect"
    if scope["path"].endswith("/refuse"):
        await send({"type": "websocket.close"})
        return
    await send({"type": "websocket.accept", "subprotocol": (scope["subprotocols"] or [None])[0]})
    await send({"type": "websocket.send", "text": scope["env"].GREETING + scope["path"]})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            await scope["env"].ROOMS.getByName("asgi").note(f"asgi {message['code']} {message.get('reason', '')}")
            return
        if message.get("text") == "bye":
            await send({"type": "websocket.close", "code": 4002, "reason": "as asked"})
        else:
            kept = {key: value for key, value in message.items() if key != "type"}
            await send({"type": "websocket.send", **kept})

class Room(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.built = 1

    async def note(self, line):
        lines = await self.ctx.storage.get("log") or []
        await self.ctx.storage.put("log", [*lines, line])

    async def log(self):
        return await self.ctx.storage.get("log") or []

    async def fetch(self, request):
        if request.headers.get("upgrade") != "websocket":
            return Response("a WebSocket is expected", status=426)
        client, server = WebSocketPair.new().object_values()
        if request.url.endswith("/half-open"):
            server.accept({"allowHalfOpen": True})
        elif request.url.endswith("/plain"):
            server.accept()
            server.addEventListener("message", lambda event: server.send(event.data))
            server.addEventListener("close", lambda event: self.ctx.waitUntil(
                self.note(f"plain {event.code} {event.reason} {event.wasClean}")))
        else:
            self.ctx.acceptWebSocket(server, ["all"])
            server.serializeAttachment({"path": request.url.rpartition("/")[2]})
            self.ctx.setWebSocketAutoResponse(WebSocketRequestResponsePair.new("ping", "pong"))
        protocol = request.headers.get("sec-websocket-protocol")
        headers = {"x-room": "yes"}
        if protocol:
            headers["sec-websocket-protocol"] = protocol.partition(",")[0]
        return Response(None, status=101, web_socket=client, headers=headers)

    async def webSocketMessage(self, ws, message):
        if message == "slow":
            await asyncio.sleep(0.05)
        elif message == "count":
            await self.ctx.storage.put("n", (await self.ctx.storage.get("n") or 0) + 1)
            ws.send(str(await self.ctx.storage.get("n")))
        elif message == "who":
            ws.send(json.dumps([self.built, ws.deserializeAttachment(), len(self.ctx.getWebSockets("all"))]))
        elif message == "close":
            ws.close(4001, "enough")
        elif message == "abort":
            self.ctx.abort("asked to")
        elif message == "env":
            ws.send(env.GREETING)
        elif message == "flood":
            for _ in range(64):
                ws.send(b"x" * 65536)
        else:
            ws.send(message)

    async def webSocketClose(self, ws, code, reason, clean):
        if reason == "answer me":
            ws.send("one more thing")
            ws.close(4555, "answered")
        if reason == "take your time":
            await asyncio.sleep(0.05)
        await self.note(f"close {code} {reason} {clean}")

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        path = request.url.split("/", 3)[3].partition("?")[0]
        if path == "log":
            return Response.json(await self.env.ROOMS.getByName("a").log())
        if path == "asgi-log":
            return Response.json(await self.env.ROOMS.getByName("asgi").log())
        if path.startswith("asgi"):
            return await asgi.websocket(app, request, self.env)
        if path.startswith("both"):
            return await asgi.fetch(app, request, self.env)
        if path == "raise":
            raise ValueError("no sockets today")
        if path == "worker":
            pair = WebSocketPair.new()
            server = pair[1]
            server.accept()
            server.addEventListener("message", lambda event: server.send(env.GREETING + " " + event.data))
            return Response(None, status=101, web_socket=pair[0])
        return await self.env.ROOMS.getByName("a").fetch(request)
'''

Open = Callable[..., Awaitable[Serving]]


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Open]:
    made: list[Serving] = []
    (tmp_path / "wrangler.toml").write_text(WRANGLER)
    (tmp_path / "entry.py").write_text(textwrap.dedent(ENTRY))

    async def start(**settings: Any) -> Serving:
        options = HostSettings(state=tmp_path / "state", port=0, access_log=False, drain_seconds=5, **settings)
        serving = Serving(Host([tmp_path], options, mode="serve", environ={}))
        made.append(serving)
        await serving.start()
        return serving

    yield start
    for serving in made:
        await serving.stop()


def dial(serving: Serving, path: str, **options: Any) -> connect:
    return connect(serving.url.replace("http", "ws", 1) + path, proxy=None, **options)


async def log(serving: Serving, path: str = "/log", lines: int = 1) -> list[str]:
    """The object's log, once it has `lines`."""
    async with httpx.AsyncClient(base_url=serving.url, timeout=20) as client:
        for _ in range(200):
            found: list[str] = (await client.get(path)).json()
            if len(found) >= lines:
                return found
            await asyncio.sleep(0.01)
    raise AssertionError(f"the log still has {found}")


async def closed(client: ClientConnection) -> tuple[int, str]:
    """Reads to the end; the code and reason the client saw."""
    while client.close_code is None:
        with contextlib.suppress(ConnectionClosed):
            await asyncio.wait_for(client.recv(), 10)
    return client.close_code or 0, client.close_reason or ""


async def test_echo_through_a_sleeping_object(serve: Open) -> None:
    serving = await serve(idle_seconds=0.1)
    async with dial(serving, "/one", subprotocols=[Subprotocol("chat"), Subprotocol("other")]) as client:
        assert client.subprotocol == "chat"
        assert client.response is not None
        assert client.response.headers["x-room"] == "yes"
        for message in ("text", "", b"\x00\xff", b""):
            await client.send(message)
            assert await client.recv() == message
        await client.send("who")
        assert await client.recv() == '[1, {"path": "one"}, 1]'
        namespace = serving.host.workers[0].own["Room"]
        while namespace.live:
            await asyncio.sleep(0.02)
        assert b'moorage_objects_sockets{namespace="sockets-Room"} 1.0' in metrics.render(serving.host.runtime)
        await client.send("ping")
        assert await client.recv() == "pong"
        assert not namespace.live
        await client.send("env")
        assert await client.recv() == "hello"
        assert namespace.live
    assert await log(serving) == ["close 1000  True"]


@pytest.mark.parametrize(("code", "reason"), [(1000, "bye"), (4000, "späte Zeit"), (1001, "")])
async def test_a_clients_close_reaches_the_object(serve: Open, code: int, reason: str) -> None:
    serving = await serve()
    client = await dial(serving, "/one")
    await client.close(code, reason)
    assert await log(serving) == [f"close {code} {reason} True"]


async def test_an_objects_answer_to_a_close_reaches_the_client(serve: Open) -> None:
    serving = await serve()
    async with dial(serving, "/one") as client:
        closing = asyncio.ensure_future(client.close(1000, "answer me"))
        assert await client.recv() == "one more thing"
        await closing
        assert (client.close_code, client.close_reason) == (4555, "answered")
    async with dial(serving, "/one") as client:
        await client.close(4000, "take your time")
        assert (client.close_code, client.close_reason) == (4000, "take your time")
    lines = ["close 1000 answer me True", "close 4000 take your time True"]
    assert await log(serving, lines=2) == lines
    assert serving.host.couplings.open == set()


async def test_a_close_that_is_never_answered_ends_after_a_while(serve: Open) -> None:
    serving = await serve()
    client = await dial(serving, "/half-open")
    [coupling] = serving.host.couplings.open
    coupling._send.__self__.close_timeout = 0.05  # type: ignore[attr-defined]
    await client.close(4000, "me first")
    assert (client.close_code, client.close_reason) == (4000, "me first")
    while serving.host.couplings.open:
        await asyncio.sleep(0.01)


async def test_a_lost_client_is_an_unclean_close(serve: Open) -> None:
    serving = await serve()
    client = await dial(serving, "/one")
    client.transport.abort()
    assert await log(serving) == ["close 1006 WebSocket disconnected without sending Close frame. False"]
    plain = await dial(serving, "/plain")
    plain.transport.abort()
    assert (await log(serving, lines=2))[1].startswith("plain 1006")


async def test_an_objects_close_reaches_the_client(serve: Open) -> None:
    serving = await serve()
    async with dial(serving, "/one") as client:
        await client.send("close")
        assert await closed(client) == (4001, "enough")
    assert await log(serving) == ["close 4001 enough True"]


async def test_an_abort_cuts_the_connection(serve: Open) -> None:
    serving = await serve()
    async with dial(serving, "/one") as client, dial(serving, "/plain") as plain:
        await client.send("abort")
        assert (await closed(client))[0] == 1006
        assert (await closed(plain))[0] == 1006
        async with dial(serving, "/two") as other:
            await other.send("who")
            assert await other.recv() == '[1, {"path": "two"}, 1]'


async def test_plain_sockets_of_object_and_worker(serve: Open) -> None:
    serving = await serve()
    async with dial(serving, "/plain") as client:
        for message in ("text", b"bytes", b""):
            await client.send(message)
            assert await client.recv() == message
        await client.close(4005, "done")
    assert await log(serving) == ["plain 4005 done True"]
    async with dial(serving, "/worker") as client:
        await client.send("you")
        assert await client.recv() == "hello you"


async def test_an_answer_to_a_message_waits_for_its_write(serve: Open) -> None:
    serving = await serve()
    async with dial(serving, "/one") as client:
        for _ in range(20):
            await client.send("count")
        for number in range(1, 21):
            assert await client.recv() == str(number)


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [("/raise", 500, "internal_error"), ("/asgi/refuse", 403, "")],
)
async def test_a_refusal_is_an_ordinary_response(serve: Open, path: str, status: int, text: str) -> None:
    serving = await serve()
    with pytest.raises(InvalidStatus) as caught:
        await dial(serving, path)
    assert caught.value.response.status_code == status
    assert text in caught.value.response.body.decode()


async def test_a_plain_request_for_a_socket_is_answered(serve: Open) -> None:
    serving = await serve()
    async with httpx.AsyncClient(base_url=serving.url) as client:
        assert (await client.get("/one")).status_code == 426


@pytest.mark.parametrize("path", ["/asgi/x%20y", "/both/x%20y"])
async def test_an_asgi_application_has_the_servers_own_channels(
    serve: Open, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING")
    serving = await serve()
    async with dial(serving, path, subprotocols=[Subprotocol("chat")]) as client:
        assert client.subprotocol == "chat"
        assert await client.recv() == "hello" + path.replace("%20", " ")
        for message in ("text", "", b"\x00\xff", b""):
            await client.send(message)
            assert await client.recv() == message
        await client.close(4003, "enough")
    assert await log(serving, "/asgi-log") == ["asgi 4003 enough"]
    async with dial(serving, path) as client:
        await client.recv()
        await client.send("bye")
        assert await closed(client) == (4002, "as asked")
    assert not caplog.records


async def test_a_client_that_does_not_read_is_cut_off(serve: Open, caplog: pytest.LogCaptureFixture) -> None:
    serving = await serve(socket_buffer=1024 * 1024)
    client = await dial(serving, "/one", max_queue=1, compression=None)
    for _ in range(8):
        await client.send("flood")
    assert await log(serving) == ["close 1006 WebSocket disconnected without sending Close frame. False"]
    assert "left more than 1048576 bytes unread" in caplog.text
    client.transport.abort()


async def test_a_busy_object_holds_its_client_back(serve: Open) -> None:
    serving = await serve()
    async with dial(serving, "/one", compression=None) as client:
        await client.send("slow")
        for _ in range(64):
            await client.send(b"x" * 65536)
        [coupling] = serving.host.couplings.open
        peer = coupling.end.peer
        assert peer is not None
        most = 0
        for _ in range(64):
            most = max(most, peer.buffered)
            assert await client.recv() == b"x" * 65536
        assert most <= 256 * 1024 + 65536 + 64


async def test_a_message_beyond_the_limit_closes_with_1009(serve: Open) -> None:
    serving = await serve(socket_message=1000)
    async with dial(serving, "/one") as client:
        await client.send("x" * 1000)
        assert await client.recv() == "x" * 1000
        await client.send("x" * 1001)
        assert (await closed(client))[0] == 1009


async def test_a_reload_tells_clients_to_come_back(serve: Open) -> None:
    serving = await serve()
    async with dial(serving, "/one") as one, dial(serving, "/worker") as two:
        await one.send("text")
        assert await one.recv() == "text"
        await serving.host.reload()
        assert (await closed(one))[0] == 1012
        assert (await closed(two))[0] == 1012
    async with dial(serving, "/one") as again:
        await again.send("again")
        assert await again.recv() == "again"
    assert not [line for line in await log(serving) if "1012" in line]


async def test_a_stop_closes_every_socket(serve: Open) -> None:
    serving = await serve()
    async with dial(serving, "/one") as one, dial(serving, "/asgi") as two:
        await one.send("text")
        assert await one.recv() == "text"
        await two.recv()
        await serving.stop()
        assert (await closed(one))[0] == 1012
        assert (await closed(two))[0] == 1012
