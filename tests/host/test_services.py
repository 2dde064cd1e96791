"""Service bindings: requests, method calls, events, copies, and the output gate."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from moorage.durable_objects.runtime.testing import ControlledLog
from moorage.wrangler_compat.host.host import Host
from moorage.wrangler_compat.host.server import Serving
from moorage.wrangler_compat.host.values import BindingError
from tests.support.names import stable
from tests.support.workers_in_process import ask, host_of, lay

FRONT = """
    import json
    from workers import DurableObject, Response, RpcTarget, WorkerEntrypoint, env

    class Counter(RpcTarget):
        def __init__(self):
            self.value = 0
        async def up(self, by):
            self.value += by
            return [self.value, env.NAME]

    class Room(DurableObject):
        async def ask(self, text):
            await self.ctx.storage.put("text", text)
            return await self.env.SVC.remember(text)
        async def call_me(self):
            seen = []
            async def heard(text):
                seen.append(text)
                await self.ctx.storage.put("heard", text)
                return await self.ctx.storage.get("heard")
            answer = await self.env.SVC.call_back(heard)
            return [answer, seen]

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            path = request.url.split("/", 3)[3]
            if path == "pass":
                answer = await self.env.SVC.fetch(request)
                return Response(await answer.text() + "!", headers=[("x-front", "seen")], status=answer.status)
            if path == "asgi":
                answer = await self.env.SVC.fetch("http://svc/asgi")
                return Response(f"{answer.status} {await answer.text()}", status=202)
            if path == "callback":
                counter = Counter()
                return Response.json(await self.env.SVC.count(counter, 2))
            return Response.json(await self.env.SVC.describe(path))
"""
BACK = """
    from workers import Response, RpcTarget, WorkerEntrypoint, asgi, env

    remembered = []
    events = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b"asgi of the other"})

    class Handle(RpcTarget):
        def __init__(self, value):
            self._value = value
        async def read(self):
            return self._value + " by " + env.NAME

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            if request.url.endswith("/asgi"):
                return await asgi.fetch(app, request, self.env)
            if "/moved/" in request.url:
                status = int(request.url.rpartition("/")[2])
                target = "/moved/307" if status == 306 else "/x"
                return Response(None, status=307 if status in (306, 300) else status, headers={
                    "location": "/moved/300" if status == 300 else target
                })
            body = await request.text() if request.method == "POST" else ""
            return Response(f"{env.NAME} {request.method} {body} {request.headers.get('x-a')}", status=209)

        async def describe(self, text, extra=None):
            return {"text": text, "name": self.env.NAME, "module": env.NAME, "extra": extra}

        def same(self, value):
            return value

        @property
        def label(self):
            return {"of": self.env.NAME}

        async def change(self, value):
            value["changed"] = True
            return value

        async def remember(self, text):
            remembered.append(text)
            return len(remembered)

        async def call_back(self, function):
            return await function("hello")

        async def count(self, counter, by):
            await counter.up(by)
            return [await counter.up(by), env.NAME]

        async def open(self, value):
            return Handle(value)

        async def fail(self):
            raise KeyError("a key")

        def _private(self):
            return "private"

        @staticmethod
        def fixed():
            return "static"

        async def scheduled(self, controller, env_, ctx):
            events.append((controller.cron, controller.scheduledTime))
            if controller.cron == "fail":
                raise ValueError("cron")

        async def queue(self, batch, env_, ctx):
            events.append((batch.queue, [message.body for message in batch.messages]))
            batch.messages[0].ack()
            batch.messages[1].retry(delaySeconds=3)

    class Admin(WorkerEntrypoint):
        async def fetch(self, request):
            return Response(f"admin of {env.NAME}")

        async def secret(self):
            return self.env.NAME + " admin"
"""
FRONT_CONFIG = """
[vars]
NAME = "front"
[[services]]
binding = "SVC"
service = "back"
[[services]]
binding = "ADMIN"
service = "back"
entrypoint = "Admin"
[[services]]
binding = "SELF"
service = "front"
[[durable_objects.bindings]]
name = "ROOM"
class_name = "Room"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Room"]
"""
BACK_CONFIG = """
[vars]
NAME = "back"
"""


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    lay(tmp_path / "front", FRONT, FRONT_CONFIG)
    lay(tmp_path / "back", BACK, BACK_CONFIG)
    made = host_of(tmp_path / "state", tmp_path / "front", tmp_path / "back")
    await made.start()
    yield made
    await made.close()


@pytest.fixture
def env(host: Host) -> Any:
    return host.workers[0].env


@pytest.mark.parametrize(
    "value",
    ["hello", 42, 3.5, True, None, "", {}, [], {"a": [1, {"b": None}]}, [1, "two", 3.0, True, None]],
    ids=stable,
)
async def test_values_come_back_as_copies(env: Any, value: Any) -> None:
    answer = await env.SVC.same(value)
    assert answer == value
    assert type(answer) is type(value) or isinstance(value, dict | list)
    assert answer is not value or not isinstance(value, dict | list)


async def test_arguments(env: Any) -> None:
    assert await env.SVC.describe("x", extra={"n": 1}) == {
        "text": "x", "name": "back", "module": "back", "extra": {"n": 1}
    }  # fmt: skip
    assert await env.SVC.label == {"of": "back"}
    given = {"a": 1}
    assert (await env.SVC.change(given)).changed is True
    assert given == {"a": 1}
    assert bytes(await env.SVC.same(b"\x00\xff")) == b"\x00\xff"
    with pytest.raises(TypeError):
        await env.SVC.describe()


@pytest.mark.parametrize("value", [(1, 2), {"a": [(1,)]}, bytearray(b"x")], ids=stable)
async def test_what_cannot_cross(env: Any, value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be sent over RPC"):
        await env.SVC.same(value)
    with pytest.raises(Exception, match=r"^DataCloneError"):
        await env.SVC.same({"x": object()})


async def test_functions_and_targets_are_called_where_they_live(host: Host, env: Any) -> None:
    heard = []

    async def listen(text: str) -> str:
        heard.append(text)
        return text.upper()

    assert await env.SVC.call_back(listen) == "HELLO"
    assert heard == ["hello"]
    handle = await env.SVC.open("kept there")
    assert await handle.read() == "kept there by back"
    assert await env.SVC.open("pipelined").read() == "pipelined by back"
    assert await (await ask(host, "/callback")).json() == [[4, "front"], "back"]
    assert await env.ROOM.getByName("a").call_me() == ["hello", ["hello"]]


@pytest.mark.parametrize("name", ["nothing", "fixed", "scheduled_", "alarm", "ctx", "env"])
async def test_what_is_no_method(env: Any, name: str) -> None:
    with pytest.raises(TypeError, match=f'The RPC receiver does not implement the method "{name}"'):
        await getattr(env.SVC, name)()


async def test_private_names_are_no_members(env: Any) -> None:
    with pytest.raises(AttributeError):
        _ = env.SVC._private


async def test_an_error_of_the_other_worker(env: Any) -> None:
    with pytest.raises(KeyError, match="a key") as caught:
        await env.SVC.fail()
    assert caught.value.remote is True  # type: ignore[attr-defined]


async def test_requests(host: Host, env: Any) -> None:
    answer = await env.SVC.fetch("http://svc/x", method="POST", body="body", headers={"x-a": "1"})
    assert (answer.status, await answer.text()) == (209, "back POST body 1")
    answer = await env.SVC.fetch("http://svc/x", {"method": "POST", "body": "dict"})
    assert await answer.text() == "back POST dict None"
    assert await (await env.ADMIN.fetch("http://svc/")).text() == "admin of back"
    assert await env.ADMIN.secret() == "back admin"
    assert await (await env.SELF.fetch("http://self/text")).json() == {
        "text": "text", "name": "back", "module": "back", "extra": None
    }  # fmt: skip


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (301, "back GET  1"),
        (302, "back GET  1"),
        (303, "back GET  1"),
        (307, "back POST body 1"),
        (308, "back POST body 1"),
        (306, "back POST body 1"),
    ],
)
async def test_redirects_are_followed_through_the_binding(env: Any, status: int, text: str) -> None:
    sent = {"method": "POST", "body": "body", "headers": {"x-a": "1"}}
    answer = await env.SVC.fetch(f"http://svc/moved/{status}", sent)
    assert (answer.status, await answer.text()) == (209, text)
    assert (answer.url, answer.redirected) == ("http://svc/x", True)
    answer = await env.SVC.fetch(f"http://svc/moved/{status}", {**sent, "redirect": "manual"})
    assert (answer.status // 100, answer.redirected) == (3, False)
    with pytest.raises(OSError, match="redirect='error' forbids"):
        await env.SVC.fetch(f"http://svc/moved/{status}", {**sent, "redirect": "error"})


async def test_redirects_without_end(env: Any) -> None:
    with pytest.raises(OSError, match="more than 20 redirects"):
        await env.SVC.fetch("http://svc/moved/300")


async def test_events(host: Host, env: Any) -> None:
    events = host.workers[1].module.events
    assert await env.SVC.scheduled(scheduledTime=5000, cron="* * * * *") == {"outcome": "ok", "noRetry": False}
    assert (await env.SVC.scheduled({"cron": "fail"})).outcome == "exception"
    assert events[0] == ("* * * * *", 5000)
    answer = await env.SVC.queue("name", [{"id": "1", "body": {"n": 1}}, {"id": "2", "body": "two", "attempts": 4}])
    assert events[-1] == ("name", [{"n": 1}, "two"])
    assert answer == {
        "outcome": "ok",
        "ackAll": False,
        "retryBatch": {"retry": False},
        "explicitAcks": ["1"],
        "retryMessages": [{"msgId": "2", "delaySeconds": 3.0}],
    }
    with pytest.raises(LookupError, match=r"back\.Admin has no queue handler"):
        await env.ADMIN.queue("name", [])
    with pytest.raises(LookupError, match="front has no scheduled handler"):
        await env.SELF.scheduled()


async def test_a_binding_is_no_container(env: Any) -> None:
    assert bool(env.SVC)
    with pytest.raises(TypeError, match=r"Fetcher.*has no len"):
        len(env.SVC)
    with pytest.raises(TypeError, match=r"Fetcher.*is not iterable"):
        list(env.SVC)


async def test_over_a_real_server(tmp_path: Path) -> None:
    lay(tmp_path / "front", FRONT, FRONT_CONFIG)
    lay(tmp_path / "back", BACK, BACK_CONFIG)
    serving = Serving(host_of(tmp_path / "state", tmp_path / "front", tmp_path / "back", mode="serve"))
    await serving.start()
    async with httpx.AsyncClient(base_url=serving.url) as client:
        assert (await client.get("/hello")).json()["name"] == "back"
        passed = await client.post("/pass", content=b"of the client", headers={"x-a": "1"})
        assert (passed.status_code, passed.text) == (209, "back POST of the client 1!")
        assert passed.headers["x-front"] == "seen"
        # The other Worker's ASGI application answers its caller, not the client.
        asgi = await client.get("/asgi")
        assert (asgi.status_code, asgi.text) == (202, "201 asgi of the other")
    await serving.stop()


async def test_a_call_waits_for_the_output_gate(host: Host, env: Any) -> None:
    room = env.ROOM.getByName("a")
    assert await room.ask("first") == 1
    instance = next(iter(host.workers[0].own["Room"].live.values()))
    log = instance.database.log = ControlledLog(instance.database.log)
    log.hold()
    asking = asyncio.ensure_future(room.ask("second"))
    await asyncio.wait({asking}, timeout=0.1)
    assert host.workers[1].module.remembered == ["first"], "the call left before the write was durable"
    log.release()
    assert await asking == 2


@pytest.mark.parametrize(
    ("config", "text"),
    [
        (
            '[[services]]\nbinding = "S"\nservice = "nowhere"',
            "S is bound to the Worker nowhere, which does not run in",
        ),
        (
            '[[services]]\nbinding = "S"\nservice = "back"\nentrypoint = "Nobody"',
            "the entrypoint Nobody of back, which has no WorkerEntrypoint class of that name; it has: Admin",
        ),
    ],
)
async def test_faults_are_named_at_the_start(tmp_path: Path, config: str, text: str) -> None:
    lay(tmp_path / "one", BACK, BACK_CONFIG + config)
    lay(tmp_path / "back", BACK, BACK_CONFIG)
    host = host_of(tmp_path / "state", tmp_path / "one", tmp_path / "back")
    with pytest.raises(BindingError) as caught:
        await host.start()
    assert text in str(caught.value)
    await host.close()
