"""The programs of `examples/` that show bindings, each served for real."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from moorage.wrangler_compat.host.host import Host
from moorage.wrangler_compat.host.testing import WorkerRuntime, WorkerServer

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.moorage(dir=tuple(str(EXAMPLES / name) for name in names))


@example("kv")
def test_kv(moorage_worker: WorkerServer) -> None:
    assert moorage_worker.fetch("/", "POST", body="no address").status_code == 422
    made = moorage_worker.fetch("/docs?note=the+manual", "POST", body="https://docs.example/")
    assert (made.status_code, made.text) == (201, "/docs")
    other = moorage_worker.fetch("/", "POST", body="https://other.example/").text
    assert moorage_worker.fetch("/docs").headers["location"] == "https://docs.example/"
    names = {entry["name"]: entry["note"] for entry in moorage_worker.fetch("/").json()}
    assert names == {"docs": "the manual", other[1:]: None}
    assert moorage_worker.fetch("/docs", "DELETE").status_code == 204
    assert moorage_worker.fetch("/docs").status_code == 404


@example("kv")
async def test_links_end_after_a_day(moorage_runtime: WorkerRuntime) -> None:
    await moorage_runtime.fetch("/a", method="POST", body="https://a.example/")
    await moorage_runtime.advance(24 * 3600 * 1000 - 1000)
    assert (await moorage_runtime.fetch("/a")).status == 302
    await moorage_runtime.advance(1000)
    assert (await moorage_runtime.fetch("/a")).status == 404


@example("d1-todo")
def test_d1_todo(moorage_worker: WorkerServer) -> None:
    assert moorage_worker.fetch("/").json() == {"left": 0, "items": []}
    added = moorage_worker.fetch("/", "POST", json=["buy bread", "bake a cake"])
    assert (added.status_code, added.json()) == (201, [1, 2])
    refused = moorage_worker.fetch("/", "POST", json=["something new", "buy bread"])
    assert refused.status_code == 409
    assert moorage_worker.fetch("/1", "PUT").status_code == 204
    assert moorage_worker.fetch("/9", "PUT").status_code == 404
    moorage_worker.reload()
    assert moorage_worker.fetch("/").json() == {
        "left": 1,
        "items": [{"id": 1, "title": "buy bread", "done": True}, {"id": 2, "title": "bake a cake", "done": False}],
    }


@example("queue/producer", "queue/consumer")
def test_queue(moorage_worker: WorkerServer) -> None:
    orders = [{"number": 1, "parts": 3}, {"number": 2, "parts": 0}]
    queued = moorage_worker.fetch("/", "POST", json=orders)
    assert (queued.status_code, queued.json()) == (202, {"queued": 2})

    async def shipped(host: Host) -> Any:
        return await host.workers[1].env.SHIPPED.get(["order:1", "order:2"])

    end = time.monotonic() + 20
    while None in (found := moorage_worker.run(shipped)).values() and time.monotonic() < end:
        time.sleep(0.02)
    assert json.loads(found["order:1"]) == {"parts": 3, "attempts": 1}
    assert json.loads(found["order:2"]) == {"failed": {"number": 2, "parts": 0}}


@example("assets")
def test_assets(moorage_worker: WorkerServer) -> None:
    page = moorage_worker.fetch("/")
    assert "<h1>Files first</h1>" in page.text
    assert moorage_worker.fetch("/", headers={"if-none-match": page.headers["etag"]}).status_code == 304
    assert moorage_worker.fetch("/style.css").headers["content-type"] == "text/css; charset=utf-8"
    assert moorage_worker.fetch("/api/time-zone").json() == {"zone": "UTC"}
    assert moorage_worker.fetch("/members").status_code == 401
    assert "Welcome back" in moorage_worker.fetch("/members", headers={"authorization": "Bearer member"}).text
    missing = moorage_worker.fetch("/none")
    assert (missing.status_code, "There is no such page" in missing.text) == (404, True)


@example("services/shop", "services/stock")
def test_services(moorage_worker: WorkerServer) -> None:
    assert moorage_worker.fetch("/bread", "POST").status_code == 409
    assert moorage_worker.fetch("/bread", "PUT", body="3").json() == {"left": 3}
    assert moorage_worker.fetch("/bread", "POST").json() == {"left": 2, "note": None}
    assert moorage_worker.fetch("/bread", "POST").json() == {"left": 1, "note": "ordered more"}
    assert moorage_worker.fetch("/bread").json() == {"name": "bread", "left": 1}


@example("queue/consumer", "queue/producer")
async def test_a_queue_by_the_clock(moorage_runtime: WorkerRuntime) -> None:
    orders = moorage_runtime.worker("orders").env.ORDERS
    await orders.send({"number": 7, "parts": 0})
    await moorage_runtime.advance(150)
    assert await moorage_runtime.env.SHIPPED.get("order:7") is None
    await moorage_runtime.advance(1_000)
    found = await moorage_runtime.env.SHIPPED.get("order:7", "json")
    assert found == {"failed": {"number": 7, "parts": 0}}
