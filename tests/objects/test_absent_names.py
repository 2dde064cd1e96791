"""Asking for a queue, a sweep or a session that nobody made makes no file, however it is asked or refused."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moorage.durable_objects.objects.jobs import REGISTRY, JobQueue
from moorage.durable_objects.objects.sessions import SessionCommits
from moorage.durable_objects.objects.sweep_state import SweepState
from moorage.durable_objects.runtime import Runtime
from moorage.protocols.jobs.routes import VERB_AUTH

STORES = ("install", "targets", "agent")
STATE = "schema_version: 1\n"


class Folder:
    """A runtime on a folder, with the three classes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runtime = Runtime(path)
        env = SimpleNamespace()
        env.JOB_QUEUE = self.queues = self.runtime.namespace("w-JobQueue", JobQueue, env)
        self.sweeps = self.runtime.namespace("w-SweepState", SweepState, env)
        self.sessions = self.runtime.namespace("w-SessionCommits", SessionCommits, env)

    @property
    def files(self) -> list[Path]:
        return [path for path in self.path.rglob("*.sqlite") if path.name != "alarms.sqlite"]

    async def again(self) -> "Folder":
        await self.runtime.close()
        opened = Folder(self.path)
        await opened.runtime.start()
        return opened

    async def session(self, verb: str, **body: Any) -> tuple[int, Any]:
        answer = await self.sessions.getByName("c/s").call(verb, "c", "s", json.dumps(body).encode())
        return answer["status"], answer["value"]

    async def sweep(self, verb: str, **body: Any) -> tuple[int, Any]:
        answer = await self.sweeps.getByName("s").call(verb, json.dumps(body))
        value = answer["value"]
        return answer["status"], json.loads(value) if isinstance(value, str) else value


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Folder]:
    opened = Folder(tmp_path)
    await opened.runtime.start()
    yield opened
    await opened.runtime.close()


async def test_verbs_of_a_queue_that_is_not_there(folder: Folder) -> None:
    stub = folder.queues.getByName("typo")
    for verb in [*sorted(set(VERB_AUTH) - {*STORES, "claim"}), "no verb"]:
        answer = await stub.call(verb, {"extension": "e", "id": "x", "all": True})
        assert (answer["status"], answer["value"]["error"]) == (404, "job_no_database"), verb
        assert "typo" in answer["value"]["message"]
    assert (await stub.claim({"waitSeconds": 50}, "t"))["status"] == 404
    for after in (-1, 0):
        assert (await stub.events(after, 15, "t"))["status"] == 404
    assert await folder.queues.getByName(REGISTRY).knows("typo") is False
    assert folder.files == []


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("install", {"extensions": [{"manifest": {"id": 5}}]}),
        ("install", {"no": 1}),
        ("targets", {"targets": [{"path": 5}]}),
        ("targets", {"targets": [{"path": "record:a-b/items/1", "body": "x"}]}),
        ("agent", {"version": "x"}),
    ],
)
async def test_what_is_refused_makes_no_queue(folder: Folder, verb: str, body: Any) -> None:
    answer = await getattr(folder.queues.getByName("q"), verb)(body)
    assert answer["status"] == 400
    assert folder.files == []


@pytest.mark.parametrize(("verb", "body"), [("install", {"extensions": []}), ("targets", {}), ("agent", {})])
async def test_each_store_makes_the_queue(folder: Folder, verb: str, body: Any) -> None:
    assert (await getattr(folder.queues.getByName("q"), verb)(body))["status"] == 200
    opened = await folder.again()
    assert (await opened.queues.getByName("q").call("status", {}))["value"]["queued"] == 0
    assert await opened.queues.getByName(REGISTRY).knows("q") is (verb == "install")
    await opened.runtime.close()


async def test_verbs_of_a_sweep_that_is_not_there(folder: Folder) -> None:
    item = {"source": "s", "id": "1", "writer": "w"}
    advance = {"source": "s", "to": "1", "past_item": "1", "writer": "w"}
    cases: list[tuple[str, dict[str, Any], int, Any]] = [
        ("read", {}, 404, "NO-STATE"),
        ("export", {}, 404, "NO-STATE"),
        ("validate", {}, 200, {"downgraded": []}),
        ("cursor-get", {"source": "s"}, 200, {"cursor": None}),
        ("upsert-item", {**item, "item": {}}, 409, "LEASE-LOST"),
        ("upsert-items", {"writer": "w", "items": []}, 409, "LEASE-LOST"),
        ("cursor-advance", advance, 409, "LEASE-LOST"),
        ("lease-release", {"writer": "w"}, 200, None),
        ("import", {"document": "plain"}, 422, "CORRUPT"),
    ]
    for verb, body, status, expected in cases:
        found, answer = await folder.sweep(verb, **body)
        assert found == status, verb
        assert (answer.get("payload") if status == 200 else answer["word"]) == expected, verb
    assert folder.files == []


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("lease-acquire", {"writer": "w"}),
        ("run-record", {"writer": "w", "outcome": "failed", "counts": {}, "timestamp": "t"}),
        ("import-legacy", {"text": None}),
        ("import", {"document": STATE}),
    ],
)
async def test_what_writes_makes_the_sweep(folder: Folder, verb: str, body: Any) -> None:
    # a transaction that is undone takes the tables with it, and the next one makes them
    assert (await folder.sweep("upsert-item", source="s", id="1", writer="w", item={}))[0] == 409
    assert (await folder.sweep(verb, **body))[0] == 200
    assert (await folder.sweep("read"))[0] == 200
    opened = await folder.again()
    assert (await opened.sweep("read"))[0] == 200
    await opened.runtime.close()


async def test_a_refusal_that_came_after_the_tables(folder: Folder) -> None:
    infinite = STATE + 'items:\n  "s:1":\n    n: inf\n'
    status, _ = await folder.sweep("import", document=infinite)
    assert status == 422
    assert folder.files == []
    assert (await folder.sweep("read"))[0] == 404
    assert (await folder.sweep("lease-acquire", writer="w"))[0] == 200


async def test_a_session_that_is_not_there(folder: Folder) -> None:
    held = {"holder": "h", "token": 1, "ttl_seconds": 60}
    cases = [
        ("lease-renew", held, 409, "session_lease_lost"),
        ("lease-release", held, 409, "session_lease_lost"),
        ("lease-acquire", {"holder": "", "ttl_seconds": 60}, 400, "session_usage"),
        ("pointer-move", {"holder": "h", "token": 1, "document": "{}", "expect": None}, 503, None),
    ]
    for verb, body, status, code in cases:
        found, value = await folder.session(verb, **body)
        assert (found, value["error"]) == (status, code or value["error"]), verb
    assert folder.files == []


async def test_the_first_lease_makes_the_session(folder: Folder) -> None:
    status, lease = await folder.session("lease-acquire", holder="h", ttl_seconds=60)
    assert (status, lease["token"]) == (200, 1)
    opened = await folder.again()
    status, _ = await opened.session("lease-acquire", holder="other", ttl_seconds=60)
    assert status == 423
    assert (await opened.session("lease-release", holder="h", token=1))[0] == 200
    await opened.runtime.close()
