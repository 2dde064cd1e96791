"""What JavaScript does with promises, where Python code meets it: as tasks, returned unawaited, as answers."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from moorage.wrangler_compat.host.host import Host
from moorage.wrangler_compat.host.server import Serving
from moorage.wrangler_compat.host.settings import HostSettings
from moorage.wrangler_compat.workers import switching

WRANGLER = """
name = "sample"
main = "entry.py"
compatibility_date = "2026-07-01"
compatibility_flags = ["python_workers"]
[[durable_objects.bindings]]
name = "THINGS"
class_name = "Thing"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Thing"]
"""
ENTRY = """
import asyncio
from js import Response as JsResponse
from workers import DurableObject, Response, WorkerEntrypoint

class Thing(DurableObject):
    async def one(self):
        return 1

    async def by_task(self):
        return await asyncio.create_task(self.env.THINGS.getByName("other").one())

    async def unawaited(self):
        return self.env.THINGS.getByName("other").one()

    async def answer(self):
        return JsResponse.new("from an object", {"status": 203})

    async def fetch(self, request):
        async def later():
            return Response("later")
        return later()

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        stub = self.env.THINGS.getByName("one")
        match request.url.rpartition("/")[2]:
            case "task":
                return Response(str(await asyncio.create_task(stub.one())))
            case "group":
                async with asyncio.TaskGroup() as group:
                    made = [group.create_task(stub.one()) for _ in range(3)]
                return Response(str(sum(task.result() for task in made)))
            case "object":
                return Response(str(await stub.by_task()))
            case "unawaited":
                return Response(str(await stub.unawaited()))
            case "answer":
                return await stub.answer()
            case "dated":
                return Response("old", headers={"Date": "Thu, 01 Jan 1970 00:00:00 GMT", "x-kept": "yes"})
        return await stub.fetch(request)
"""


@pytest.fixture(params=[False, True], ids=["plain", "with run_sync"])
async def client(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[httpx.AsyncClient]:
    monkeypatch.setattr(switching, "enabled", False)
    if request.param:
        switching.enable()
    (tmp_path / "wrangler.toml").write_text(WRANGLER)
    (tmp_path / "entry.py").write_text(ENTRY)
    settings = HostSettings(state=tmp_path / "state", port=0, access_log=False)
    serving = Serving(Host([tmp_path], settings, environ={}))
    await serving.start()
    async with httpx.AsyncClient(base_url=serving.url, timeout=20) as made:
        yield made
    await serving.stop()


@pytest.mark.parametrize(
    ("path", "text"), [("task", "1"), ("group", "3"), ("object", "1"), ("unawaited", "1"), ("fetch", "later")]
)
async def test_a_method_call_stands_where_a_coroutine_may(client: httpx.AsyncClient, path: str, text: str) -> None:
    answer = await client.get(f"/{path}")
    assert (answer.status_code, answer.text) == (200, text)


async def test_a_platform_response_crosses_to_the_worker(client: httpx.AsyncClient) -> None:
    answer = await client.get("/answer")
    assert (answer.status_code, answer.text) == (203, "from an object")


async def test_an_answer_has_one_date(client: httpx.AsyncClient) -> None:
    answer = await client.get("/dated")
    assert len(answer.headers.get_list("date")) == 1
    assert "1970" not in answer.headers["date"]
    assert answer.headers["x-kept"] == "yes"
