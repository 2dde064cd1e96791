"""WebSockets of objects and Workers in process: life of a socket, order, the output gate, sleep, resets."""

import asyncio
import datetime
import gc
import json
import weakref
from typing import Any

import pytest

from moorage.durable_objects.runtime import (
    DurableObject,
    DurableObjectError,
    WebSocketPair,
    WebSocketRequestResponsePair,
)
from moorage.durable_objects.runtime.testing import ControlledLog, SocketClient, settle
from moorage.durable_objects.runtime.web import Response
from moorage.durable_objects.runtime.websockets import (
    Failure,
    WebSocketFailure,
    hibernation,
)

from .conftest import Make

LOG: list[Any] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    LOG.clear()


class Room(DurableObject):
    """What `fetch` opens depends on the path; messages say what to do."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        LOG.append("built")
        self.clock = ctx.clock

    async def fetch(self, request: Any) -> Response:
        client, server = WebSocketPair.new()
        match request.url.rpartition("/")[2]:
            case "plain":
                server.accept()
                server.addEventListener("message", lambda event: server.send(event.data))
                server.addEventListener("close", lambda event: LOG.append(("plain", event.code, event.wasClean)))
            case "open":
                server.accept({"allowHalfOpen": True})
                server.addEventListener("close", lambda event: LOG.append(("half open", server.readyState)))
                self.half_open = server
            case "forgotten":
                self.ctx.acceptWebSocket(server)
                return Response("no socket for you")
            case _:
                self.ctx.acceptWebSocket(server, ["tag"])
        return Response(None, status=101, web_socket=client)

    async def webSocketMessage(self, ws: Any, message: Any) -> None:
        if not isinstance(message, str):
            ws.send(bytes(message)[::-1])
            return
        what, _, rest = message.partition(" ")
        match what:
            case "sleep":
                await self.clock.sleep(float(rest))
                LOG.append(message)
            case "put":
                await self.ctx.storage.put("key", rest)
                ws.send(f"kept {rest}")
                ws.send("second")
            case "unyielding":
                await self.ctx.storage.put("key", "lost")
                ws.send("never seen")
                self.ctx.abort("undone")
            case "block":
                await self.ctx.blockConcurrencyWhile(lambda: self.clock.sleep(float(rest)))
                LOG.append("block over")
            case "note":
                LOG.append(rest)
            case "raise":
                raise RuntimeError(rest)
            case "close":
                ws.close(*json.loads(rest))
            case _:
                ws.send(message)

    async def webSocketClose(self, ws: Any, code: int, reason: str, clean: bool) -> None:
        LOG.append(("closed", code, reason, clean))
        if reason == "answer me":
            ws.close(4999, "answered")

    async def webSocketError(self, ws: Any, error: Exception) -> None:
        LOG.append(("error", str(error), ws.readyState))
        ws.send("dropped silently")
        ws.close(1011)

    def broadcast(self, text: str, tag: str | None = None) -> int:
        sockets = self.ctx.getWebSockets(tag) if tag else self.ctx.getWebSockets()
        for ws in sockets:
            ws.send(text)
        return len(sockets)

    def count(self) -> int:
        return len(self.ctx.getWebSockets())

    def limit(self, milliseconds: Any) -> Any:
        self.ctx.setHibernatableWebSocketEventTimeout(milliseconds)
        return self.ctx.getHibernatableWebSocketEventTimeout()

    def answer_pings(self) -> None:
        self.ctx.setWebSocketAutoResponse(WebSocketRequestResponsePair.new("ping", "pong"))

    def answer_no_pings(self) -> None:
        self.ctx.setWebSocketAutoResponse()

    def times(self) -> Any:
        return [self.ctx.getWebSocketAutoResponseTimestamp(ws) for ws in self.ctx.getWebSockets()]

    def close_half_open(self) -> None:
        self.half_open.close(4000, "at last")

    def identical(self) -> bool:
        return self.ctx.getWebSockets()[0] is self.ctx.getWebSockets()[0]

    def stop(self) -> None:
        self.ctx.abort("stopped")


async def room(make: Make, **options: Any) -> Any:
    runtime = await make({"Room": Room}, **options)
    return runtime, runtime.namespaces["w-Room"].getByName("a")


def ends(client: SocketClient) -> list[Any]:
    """What a client received, its close event as a tuple."""
    return [
        (item.code, item.reason, item.wasClean) if hasattr(item, "wasClean") else item for item in client.received
    ]


# Order, and the gates.


async def test_handlers_start_in_order_and_overlap_where_one_waits(in_memory: Make) -> None:
    runtime, stub = await room(in_memory)
    one, two = await SocketClient.connect(stub), await SocketClient.connect(stub)
    one.send("sleep 5")
    one.send("note after")
    two.send("note other")
    await settle()
    assert LOG == ["built", "after", "other"]
    await runtime.clock.advance(5_000)
    assert LOG == ["built", "after", "other", "sleep 5"]


async def test_a_client_is_held_back_by_handlers_that_wait(in_memory: Make) -> None:
    runtime, stub = await room(in_memory)
    client = await SocketClient.connect(stub)
    for _ in range(hibernation.MAX_RUNNING):
        client.send("sleep 5")
    client.send("note first")
    client.send("note second")
    await settle()
    assert LOG == ["built"]
    assert client.socket.bufferedAmount > 0
    await runtime.clock.advance(5_000)
    assert LOG.count("sleep 5") == hibernation.MAX_RUNNING
    assert LOG.index("sleep 5") < LOG.index("first") < LOG.index("second")


async def test_a_critical_section_holds_messages_back(in_memory: Make) -> None:
    runtime, stub = await room(in_memory)
    one, two, plain = [await SocketClient.connect(stub, f"https://do/{path}") for path in ("a", "b", "plain")]
    one.send("block 2")
    await settle()
    two.send("note delivered")
    plain.send("echo")
    await runtime.clock.advance(1_999)
    assert (LOG, plain.received) == (["built"], [])
    await runtime.clock.advance(1)
    assert LOG == ["built", "block over", "delivered"]
    assert plain.received == ["echo"]


async def test_nothing_leaves_before_earlier_writes_are_durable(on_disk: Make) -> None:
    log = ControlledLog()
    _, stub = await room(on_disk, log=log)
    client, plain = await SocketClient.connect(stub), await SocketClient.connect(stub, "https://do/plain")
    log.hold()
    client.send("put one")
    plain.send("sent while the gate is shut")
    client.send("echo")
    for _ in range(20):
        await asyncio.sleep(0.005)
    assert (client.received, plain.received) == ([], [])
    log.release()
    for _ in range(1000):
        if len(client.received) == 3:
            break
        await asyncio.sleep(0.005)  # a thread syncs
    assert client.received == ["kept one", "second", "echo"]
    assert plain.received == ["sent while the gate is shut"]


async def test_a_message_whose_write_fails_never_leaves(on_disk: Make) -> None:
    log = ControlledLog()
    _, stub = await room(on_disk, log=log)
    client = await SocketClient.connect(stub)
    log.fail(OSError("no space"))
    client.send("put one")
    for _ in range(20):
        await asyncio.sleep(0.005)
    assert [code for code, _, _ in ends(client)] == [1006]


async def test_a_send_does_not_commit_what_an_abort_undoes(in_memory: Make) -> None:
    runtime, stub = await room(in_memory)
    client = await SocketClient.connect(stub)
    client.send("unyielding")
    await settle()
    assert ends(client) == [(1006, "WebSocket disconnected without sending Close frame.", False)]
    again = await SocketClient.connect(runtime.namespaces["w-Room"].getByName("a"))
    assert await again.socket._end.peer.consumer.instance.state.storage.get("key") is None


# Sleep and resets.


async def test_a_socket_wakes_its_object_and_keeps_nothing_else(in_memory: Make) -> None:
    runtime, stub = await room(in_memory)
    client = await SocketClient.connect(stub)
    [ws] = runtime.namespaces["w-Room"].live[str(stub.id)].state.getWebSockets()
    forgotten = weakref.ref(ws)
    del ws
    assert await stub.identical()
    await runtime.clock.advance(11_000)
    gc.collect()
    assert forgotten() is None
    assert not runtime.namespaces["w-Room"].live
    client.send(b"\x01\x02")
    await settle()
    assert client.received == [b"\x02\x01"]
    assert LOG == ["built", "built"]
    assert await stub.count() == 1


async def test_auto_responses_run_no_code(in_memory: Make) -> None:
    runtime, stub = await room(in_memory)
    await stub.answer_pings()
    client = await SocketClient.connect(stub)
    assert await stub.times() == [None]
    await runtime.clock.advance(20_000)
    client.send("ping")
    client.send(b"ping")
    await settle()
    assert client.received == ["pong", b"gnip"]
    moment = datetime.datetime.fromtimestamp(runtime.clock.now() / 1000)
    assert await stub.times() == [moment]
    await stub.answer_no_pings()
    client.send("ping")
    await settle()
    assert client.received == ["pong", b"gnip", "ping"]


async def test_an_auto_response_without_sockets_is_forgotten_after_a_while(in_memory: Make) -> None:
    runtime, stub = await room(in_memory)
    await stub.answer_pings()
    await runtime.clock.advance(20_000)
    assert len(runtime.namespaces["w-Room"].sockets) == 1
    await runtime.clock.advance(60_000)
    assert runtime.namespaces["w-Room"].sockets == {}


async def test_a_reset_cuts_every_socket_and_runs_no_handler(in_memory: Make) -> None:
    runtime, stub = await room(in_memory)
    clients = [await SocketClient.connect(stub, f"https://do/{path}") for path in ("a", "b", "plain")]
    with pytest.raises(DurableObjectError, match="stopped"):
        await stub.stop()
    await settle()
    for client in clients:
        assert [code for code, _, _ in ends(client)] == [1006]
    assert LOG == ["built"]
    fresh = runtime.namespaces["w-Room"].getByName("a")
    assert await fresh.count() == 0
    clients[0].send("into the void")
    await settle()
    assert LOG == ["built", "built"]


async def test_the_end_of_the_runtime_tells_clients_to_come_back(in_memory: Make) -> None:
    runtime, stub = await room(in_memory)
    client = await SocketClient.connect(stub)
    await runtime.close()
    await settle()
    assert ends(client) == [(1012, "Service Restart", True)]


async def test_an_open_plain_socket_keeps_the_instance_until_it_is_closed(in_memory: Make) -> None:
    runtime, stub = await room(in_memory)
    client = await SocketClient.connect(stub, "https://do/plain")
    await runtime.clock.advance(3_600_000)
    assert runtime.namespaces["w-Room"].live
    client.close(4000, "done")
    await settle()
    assert ends(client) == [(4000, "done", True)]
    assert LOG == ["built", ("plain", 4000, True)]
    await runtime.clock.advance(10_000)
    assert not runtime.namespaces["w-Room"].live


async def test_an_event_may_take_as_long_as_is_set(in_memory: Make, caplog: pytest.LogCaptureFixture) -> None:
    runtime, stub = await room(in_memory)
    await stub.limit(2_000)
    client = await SocketClient.connect(stub)
    client.send("sleep 1")
    client.send("sleep 3")
    client.send("note next")
    await runtime.clock.advance(1_999)
    assert (LOG, caplog.text) == (["built", "next", "sleep 1"], "")
    await runtime.clock.advance(1)
    assert "took more than 2000 ms" in caplog.text
    await runtime.clock.advance(5_000)
    assert LOG == ["built", "next", "sleep 1"]


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (-1, "negative"),
        (2**32, "less than or equal to 4294967295"),
        (float("nan"), "not an integer"),
        ("x", "not an integer"),
    ],
)
async def test_time_limits_that_are_none(in_memory: Make, value: Any, error: str) -> None:
    _, stub = await room(in_memory)
    with pytest.raises(TypeError, match=error):
        await stub.limit(value)
    for good, kept in ((1.9, 1), ("42", 42), (1000, 1000), (0, None)):
        assert await stub.limit(good) == kept


async def test_an_error_in_a_handler_is_logged(in_memory: Make, caplog: pytest.LogCaptureFixture) -> None:
    _, stub = await room(in_memory)
    client = await SocketClient.connect(stub)
    client.send("raise broken")
    client.send("still here")
    await settle()
    assert client.received == ["still here"]
    assert "RuntimeError: broken" in caplog.text


# Ends.


@pytest.mark.parametrize(
    ("asked", "seen"),
    [
        ([4000, "over"], (4000, "over", True)),
        ([1000], (1000, "", True)),
        ([], (1005, "", True)),
    ],
)
async def test_an_object_closes(in_memory: Make, asked: list[Any], seen: tuple[Any, ...]) -> None:
    _, stub = await room(in_memory)
    client = await SocketClient.connect(stub)
    client.send("close " + json.dumps(asked))
    await settle()
    assert ends(client) == [seen]
    assert client.socket.readyState == 3
    assert ["built", ("closed", *seen)] == LOG
    assert await stub.count() == 0


async def test_a_client_closes(in_memory: Make) -> None:
    _, stub = await room(in_memory)
    silent, answered = await SocketClient.connect(stub), await SocketClient.connect(stub)
    silent.close(1001, "bye")
    answered.close(1000, "answer me")
    await settle()
    assert (ends(silent), silent.socket.readyState) == ([], 2)
    assert (ends(answered), answered.socket.readyState) == ([(4999, "answered", True)], 3)
    assert await stub.count() == 0


async def test_a_client_that_vanishes_and_a_connection_that_breaks(in_memory: Make) -> None:
    _, stub = await room(in_memory)
    lost, broken = await SocketClient.connect(stub), await SocketClient.connect(stub)
    lost.vanish()
    broken.socket._end.push(Failure(WebSocketFailure("a bad frame")))
    await settle()
    assert LOG == [
        "built",
        ("closed", 1006, "WebSocket disconnected without sending Close frame.", False),
        ("error", "a bad frame", 3),
    ]
    assert await stub.count() == 0


async def test_half_open_sockets_close_when_they_are_told(in_memory: Make) -> None:
    _, stub = await room(in_memory)
    client = await SocketClient.connect(stub, "https://do/open")
    client.close(1000, "mine")
    await settle()
    assert (LOG, ends(client)) == (["built", ("half open", 2)], [])
    await stub.close_half_open()
    await settle()
    assert ends(client) == [(4000, "at last", True)]


async def test_a_client_end_that_is_thrown_away_closes_its_peer(in_memory: Make) -> None:
    _, stub = await room(in_memory)
    assert (await stub.fetch("https://do/forgotten")).status == 200
    await settle()
    gc.collect()
    await settle()
    assert LOG == ["built", ("closed", 1006, "WebSocket disconnected without sending Close frame.", False)]


async def test_an_answers_socket_changes_hands(in_memory: Make) -> None:
    class Keeper(DurableObject):
        def fetch(self) -> Response:
            self.client, server = WebSocketPair.new()
            self.ctx.acceptWebSocket(server)
            return Response(None, status=101, web_socket=self.client)

        def misuse(self) -> None:
            self.client.accept()

        def webSocketMessage(self, ws: Any) -> None:
            ws.send("a handler may take fewer arguments")

    runtime = await in_memory({"Keeper": Keeper})
    stub = runtime.namespaces["w-Keeper"].getByName("a")
    client = await SocketClient.connect(stub)
    with pytest.raises(TypeError, match="already used in a response"):
        await stub.misuse()
    client.send("hello")
    await settle()
    assert client.received == ["a handler may take fewer arguments"]


async def test_tags_of_sockets_that_have_none(in_memory: Make) -> None:
    class Tags(DurableObject):
        def of(self, how: str) -> Any:
            self.pair = WebSocketPair.new()
            if how == "plain":
                self.pair[1].accept()
            return self.ctx.getTags(self.pair[1])

        def accept_twice(self) -> None:
            self.pair = WebSocketPair.new()
            self.ctx.acceptWebSocket(self.pair[1])
            self.ctx.acceptWebSocket(self.pair[1])

        def accept_both(self) -> None:
            self.pair = WebSocketPair.new()
            self.ctx.acceptWebSocket(self.pair[1])
            self.ctx.acceptWebSocket(self.pair[0])

        def accept_wrongly(self, tags: Any) -> int:
            self.pair = WebSocketPair.new()
            self.ctx.acceptWebSocket(self.pair[1], tags)
            return len(self.ctx.getTags(self.pair[1]))

        def accept_nothing(self) -> None:
            self.ctx.acceptWebSocket("x")  # type: ignore[arg-type]

    runtime = await in_memory({"Tags": Tags})
    stub = runtime.namespaces["w-Tags"].getByName("a")
    with pytest.raises(DurableObjectError, match=r"you must call 'acceptWebSocket\(\)'"):
        await stub.of("none")
    with pytest.raises(DurableObjectError, match="only hibernatable websockets can have tags"):
        await stub.of("plain")
    with pytest.raises(DurableObjectError, match=r"already accepted via `accept\(\)`"):
        await stub.accept_twice()
    with pytest.raises(DurableObjectError, match="its pair has already been accepted"):
        await stub.accept_both()
    with pytest.raises(DurableObjectError, match="more than 10 tags"):
        await stub.accept_wrongly([str(number) for number in range(11)])
    assert await stub.accept_wrongly([*map(str, range(10)), "0", "9"]) == 10, "repeats do not count"
    with pytest.raises(DurableObjectError, match="longer than the max tag length"):
        await stub.accept_wrongly(["ü" * 129])
    with pytest.raises(TypeError, match="parameter 2 is not of type 'Array'"):
        await stub.accept_wrongly("one")
    with pytest.raises(TypeError, match="takes a WebSocket"):
        await stub.accept_nothing()


async def test_an_object_takes_a_limited_number(in_memory: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hibernation.MAX_SOCKETS == 32_768
    monkeypatch.setattr(hibernation, "MAX_SOCKETS", 2)
    _, stub = await room(in_memory)
    clients = [await SocketClient.connect(stub) for _ in range(2)]
    with pytest.raises(DurableObjectError, match="only 2 websockets can be accepted"):
        await SocketClient.connect(stub)
    clients[0].close(1000)
    await settle()
    await SocketClient.connect(stub)
