"""ASGI applications: straight to the server, or beside the program (spec python-workers-api 3)."""

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from moorage.durable_objects.runtime.web import Request, Response
from moorage.wrangler_compat.workers import WorkerEntrypoint, asgi, lifespan, patch_env
from moorage.wrangler_compat.workers.calling import call_fetch
from moorage.wrangler_compat.workers.current import ExecutionContext, WorkerContext, running

App = Callable[[Any, Any, Any], Awaitable[None]]
Sent = list[dict[str, Any]]


def start(status: int = 200, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(data: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


def without_lifespan(app: App) -> App:
    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] != "lifespan", "no lifespan here"
        await app(scope, receive, send)

    return wrapped


class Server:
    """One request of a server: what it gives and what it was sent."""

    def __init__(self, method: str = "GET", path: bytes = b"/a%20b", content: bytes = b"") -> None:
        self.sent: Sent = []
        self.messages = [{"type": "http.request", "body": content, "more_body": False}]
        self.scope: dict[str, Any] = {
            "type": "http", "method": method, "path": "/a b", "raw_path": path, "query_string": b"x=1",
            "scheme": "http", "headers": [(b"host", b"example.com"), (b"content-length", b"%d" % len(content))],
            "client": ("127.0.0.1", 5), "extensions": {"own": {}},
        }  # fmt: skip
        self.request = Request.from_asgi(self.scope, self.receive, self.send)

    async def receive(self) -> Any:
        return self.messages.pop(0) if self.messages else {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(dict(message))

    async def answer(self, handler: Any) -> Response:
        response = await call_fetch(handler, self.request, None, None)
        await response.send(self.send)
        return response


@without_lifespan
async def hello(scope: Any, receive: Any, send: Any) -> None:
    scope["seen"] = True
    await send(start(200, (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")))
    await send(body(b"hello"))


async def returned(app: App, handler: Callable[[App], Any]) -> tuple[Server, Response]:
    server = Server()
    return server, await server.answer(handler(app))


def returns_at_once(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        return await asgi.fetch(app, request, {"NAME": "x"})

    return fetch


def returns_through_another(app: App) -> Any:
    async def route(request: Any) -> Any:
        await asyncio.sleep(0)
        return await asgi.fetch(app, request, {"NAME": "x"})

    async def fetch(request: Any) -> Any:
        if request.method == "GET":
            return await route(request)
        return Response("other")

    return fetch


def returns_the_coroutine(app: App) -> Any:
    def fetch(request: Any) -> Any:
        return asgi.fetch(app, request, {"NAME": "x"})

    return fetch


def returns_in_a_try(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        try:
            return await asgi.fetch(app, request, {"NAME": "x"})
        except ZeroDivisionError:
            return Response("caught", status=500)

    return fetch


@pytest.mark.parametrize(
    "handler", [returns_at_once, returns_through_another, returns_the_coroutine, returns_in_a_try]
)
async def test_a_response_that_is_returned_goes_straight_to_the_server(handler: Any) -> None:
    server, response = await returned(hello, handler)
    assert response.passthrough
    assert server.sent == [start(200, (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")), body(b"hello")]


def keeps_it(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        response = await asgi.fetch(app, request, {"NAME": "x"})
        return response  # noqa: RET504

    return fetch


def changes_it(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        response = (await asgi.fetch(app, request, {"NAME": "x"})).js_object
        response.headers.set("x-added", "1")
        return response

    return fetch


def answers_with_another(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        inner = await asgi.fetch(app, request, {"NAME": "x"})
        return Response(await inner.text(), status=201)

    return fetch


def inside_a_with(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        with patch_env(A=1):
            return await asgi.fetch(app, request, {"NAME": "x"})

    return fetch


def inside_a_finally(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        try:
            return await asgi.fetch(app, request, {"NAME": "x"})
        finally:
            gc.isenabled()

    return fetch


def in_a_task(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        return await asyncio.wait_for(asgi.fetch(app, request, {"NAME": "x"}), 5)

    return fetch


def through_one_that_looks(app: App) -> Any:
    async def route(request: Any) -> Any:
        return await asgi.fetch(app, request, {"NAME": "x"})

    async def fetch(request: Any) -> Any:
        response = await route(request)
        assert response.status == 200
        return response

    return fetch


@pytest.mark.parametrize(
    ("handler", "status", "added"),
    [
        (keeps_it, 200, False),
        (changes_it, 200, True),
        (answers_with_another, 201, False),
        (inside_a_with, 200, False),
        (inside_a_finally, 200, False),
        (in_a_task, 200, False),
        (through_one_that_looks, 200, False),
    ],
)
async def test_a_response_that_the_program_may_look_at_is_not_sent_before(
    handler: Any, status: int, added: bool
) -> None:
    server, response = await returned(hello, handler)
    assert not response.passthrough
    assert response.status == status
    assert [message["type"] for message in server.sent] == ["http.response.start", "http.response.body"]
    assert server.sent[0]["status"] == status
    assert server.sent[1]["body"] == b"hello"
    assert ((b"x-added", b"1") in server.sent[0]["headers"]) == added
    if status == 200:
        cookies = [value for name, value in server.sent[0]["headers"] if name == b"set-cookie"]
        assert cookies == [b"a=1", b"b=2"]


async def test_a_method_of_a_class_goes_straight_too() -> None:
    class Default(WorkerEntrypoint):
        async def fetch(self, request: Any) -> Any:
            return await asgi.fetch(hello, request, self.env, self.ctx)

    context = WorkerContext()
    server = Server()
    assert (await server.answer(Default(ExecutionContext(context), {}).fetch)).passthrough


@pytest.mark.parametrize("handler", [returns_at_once, keeps_it])
async def test_the_scope(handler: Any) -> None:
    scopes: list[Any] = []

    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await send(start())
        await send(body(b""))

    server, _ = await returned(app, handler)
    (scope,) = scopes
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == ("/a b", b"/a%20b", b"x=1")
    assert scope["env"] == {"NAME": "x"}
    assert scope["state"] == {}
    assert (b"host", b"example.com") in scope["headers"]
    if handler is returns_at_once:
        assert scope["extensions"] == {"own": {}}
        assert scope is not server.scope


async def test_a_request_that_was_read_is_not_handed_over() -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        data = (await receive())["body"]
        await send(start())
        await send(body(data))

    async def fetch(request: Any) -> Any:
        text = await request.clone().text()
        assert text == "abc"
        return await asgi.fetch(app, request, None)

    server = Server("POST", content=b"abc")
    response = await server.answer(fetch)
    assert not response.passthrough
    assert server.sent[1]["body"] == b"abc"


def request(content: Any = None) -> Request:
    return Request("http://example.com/x", method="POST", body=content)


async def test_a_request_of_the_program_s_own() -> None:
    @without_lifespan
    async def echo(scope: Any, receive: Any, send: Any) -> None:
        messages = []
        while True:
            message = await receive()
            messages.append(message["body"])
            if not message["more_body"]:
                break
        await send(start(200, (b"x-path", scope["raw_path"])))
        await send(body(b"|".join(messages)))

    async def chunks() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    response = await asgi.fetch(echo, request(chunks()), None)
    assert response.headers["x-path"] == "/x"
    assert await response.text() == "a|b|"


async def test_chunks_are_made_as_they_are_asked_for() -> None:
    made: list[int] = []

    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        for number in range(3):
            made.append(number)
            await send(body(b"%d" % number, more=True))
        await send(body(b""))

    response = await asgi.fetch(app, request(), None)
    for _ in range(10):
        await asyncio.sleep(0)
    assert made == [0]
    assert response.body is not None
    assert [chunk async for chunk in response.body] == [b"0", b"1", b"2"]
    assert made == [0, 1, 2]


@pytest.mark.parametrize("handler", [returns_at_once, keeps_it])
async def test_an_error_before_the_answer_is_raised(handler: Any, caplog: pytest.LogCaptureFixture) -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError("app crash")

    with pytest.raises(ZeroDivisionError, match="app crash"):
        await returned(app, handler)
    assert "ASGI request failed" in caplog.text


async def test_an_error_before_the_answer_can_be_caught_and_answered() -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError

    server, response = await returned(app, returns_in_a_try)
    assert response.status == 500
    assert server.sent[1]["body"] == b"caught"


@without_lifespan
async def fails_midway(scope: Any, receive: Any, send: Any) -> None:
    await send(start())
    await send(body(b"chunk-1", more=True))
    raise RuntimeError("app failed mid-stream")


@pytest.mark.parametrize("handler", [returns_at_once, keeps_it])
async def test_an_error_in_the_middle_cuts_the_answer(handler: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    with pytest.raises(RuntimeError, match="mid-stream"):
        await server.answer(handler(fails_midway))
    assert server.sent == [start(), body(b"chunk-1", more=True)]
    assert "after response started" in caplog.text


async def test_an_error_behind_a_complete_answer_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        await send(body(b"ok"))
        raise RuntimeError("post-response error")

    for handler in (returns_at_once, keeps_it):
        caplog.clear()
        server, _ = await returned(app, handler)
        await asyncio.sleep(0)
        assert server.sent == [start(200, *server.sent[0]["headers"]), body(b"ok")]
        assert "post-response error" in caplog.text


async def test_an_application_that_never_answers() -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        return

    for handler in (returns_at_once, keeps_it):
        with pytest.raises(RuntimeError, match="did not generate a response"):
            await returned(app, handler)


async def test_an_application_that_stops_midway_without_an_error() -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        await send(body(b"half", more=True))

    response = await asgi.fetch(app, request(), None)
    with pytest.raises(RuntimeError, match="before its response was complete"):
        await response.text()


@pytest.mark.parametrize("status", [204, 205, 304])
async def test_statuses_without_a_body(status: int) -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start(status, (b"x-null-body", b"1")))
        await send(body(b"dropped"))

    response = await asgi.fetch(app, request(), None)
    assert (response.status, response.headers["x-null-body"], await response.text()) == (status, "1", "")


async def test_messages_with_keys_left_out() -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    response = await asgi.fetch(app, request(), None)
    assert (response.status, await response.text()) == (200, "")


@pytest.mark.parametrize(
    "messages",
    [[body(b"x")], [start(), start()], [start(), body(b""), body(b"")], [{"type": "http.response.trailers"}]],
)
async def test_messages_out_of_order(messages: Sent) -> None:
    errors: list[str] = []

    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages[:-1]:
            await send(message)
        try:
            await send(messages[-1])
        except RuntimeError as error:
            errors.append(str(error))
            raise

    try:
        await asgi.fetch(app, request(), None)
    except RuntimeError:
        pass
    await asyncio.sleep(0)
    assert len(errors) == 1
    assert errors[0].startswith("Unexpected ASGI message")


async def test_an_application_is_told_when_its_reader_goes() -> None:
    told: list[str] = []

    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        try:
            while True:
                await send(body(b"tick", more=True))
        except OSError:
            told.append((await receive())["type"])
            told.append((await receive())["type"])

    context = WorkerContext()
    with running(context):
        response = await asgi.fetch(app, request(), None)
        assert response.body is not None
        async for _ in response.body:
            break
        await context.background.drain()
        assert told[-1] == "http.disconnect"
        told.clear()
        response = await asgi.fetch(app, request(), None)
        del response
        gc.collect()
        await context.background.drain()
        assert told[-1] == "http.disconnect"


async def test_background_work_of_an_application_goes_on() -> None:
    release = asyncio.Event()
    done: list[bool] = []

    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        await send(body(b"early"))
        await release.wait()
        done.append(True)

    context = WorkerContext()
    with running(context):
        response = await asgi.fetch(app, request(), None)
        assert await response.text() == "early"
        release.set()
        await context.background.drain()
    assert done == [True]


class LifespanApp:
    def __init__(self, **behaviour: Any) -> None:
        self.events: list[str] = []
        self.behaviour = behaviour

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            assert (await receive())["type"] == "lifespan.startup"
            self.events.append("startup")
            if "fail" in self.behaviour:
                try:
                    raise ValueError("real startup error")
                except ValueError:
                    await send({"type": "lifespan.startup.failed", "message": self.behaviour["fail"]})
                    raise
            scope["state"]["made"] = [1]
            await send({"type": "lifespan.startup.complete"})
            assert (await receive())["type"] == "lifespan.shutdown"
            self.events.append("shutdown")
            kind = "failed" if "fail_shutdown" in self.behaviour else "complete"
            await send({"type": f"lifespan.shutdown.{kind}", "message": "boom"})
            return
        scope["state"]["own"] = True
        self.events.append(f"request {sorted(scope['state'])}")
        await send(start())
        await send(body(b"ok"))


async def test_lifespan_runs_once_and_its_state_is_copied() -> None:
    app = LifespanApp()
    for _ in range(2):
        await asgi.fetch(app, request(), None)
    seen = "request ['made', 'own']"
    assert app.events == ["startup", seen, seen]
    await lifespan.shutdown_all()
    assert app.events == ["startup", seen, seen, "shutdown"]
    await asgi.fetch(app, request(), None)
    assert app.events[4:] == ["startup", seen]
    await lifespan.shutdown_all()


async def test_requests_that_come_together_start_it_once() -> None:
    app = LifespanApp()
    await asyncio.gather(*(asgi.fetch(app, request(), None) for _ in range(5)))
    assert app.events.count("startup") == 1
    await lifespan.shutdown_all()


@pytest.mark.parametrize(
    ("message", "text"), [("boom-startup", "boom-startup"), ("", "ASGI lifespan startup failed")]
)
async def test_a_failed_startup(message: str, text: str) -> None:
    app = LifespanApp(fail=message)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=text) as caught:
            await asgi.fetch(app, request(), None)
        assert "real startup error" in str(caught.value.__cause__)
    assert app.events == ["startup", "startup"]


async def test_a_failed_shutdown_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    app = LifespanApp(fail_shutdown=True)
    await asgi.fetch(app, request(), None)
    await lifespan.shutdown_all()
    assert "shutdown failed: boom" in caplog.text


async def test_applications_made_for_each_request_do_not_pile_up() -> None:
    context = WorkerContext()
    apps = [LifespanApp() for _ in range(lifespan.MOST + 3)]
    with running(context):
        for app in apps:
            await asgi.fetch(app, request(), None)
        await context.background.drain()
        assert [app.events[-1] for app in apps[:3]] == ["shutdown"] * 3
        assert apps[3].events[-1] != "shutdown"
        await lifespan.shutdown_all()
    assert all(app.events[-1] == "shutdown" for app in apps)


async def test_an_application_without_lifespan(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    assert await (await asgi.fetch(hello, request(), None)).text() == "hello"
    assert caplog.text == ""


async def test_the_scope_of_both_spellings() -> None:
    made = Request("http://example.com/", headers={"Header1": "Value1"})
    expected = [(b"header1", b"Value1")]
    assert asgi.request_to_scope(made, {})["headers"] == expected
    assert asgi.request_to_scope(made.js_object, {})["headers"] == expected


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
