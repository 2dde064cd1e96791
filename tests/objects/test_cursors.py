"""Cursors in the queue object: stored as the reference stores them, kept over eviction, one writer at a time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from moorage.durable_objects.objects.cursors import CursorStore
from moorage.durable_objects.objects.exact_review_queue import RETIRED_TABLES, ExactReviewQueue, drop_retired_tables
from moorage.durable_objects.runtime.testing import ManualClock, memory_runtime
from moorage.protocols.wire.cursors import FanoutCursorRevisionConflict, FanoutCursorStoreInvalid
from tests.objects.sqlite_storage import Storage
from tests.support.plane import START_MS, Plane

CURSOR = "/internal/state/cursors/audit"


def write(position: int, revision: int) -> dict[str, int]:
    return {"next_cursor": position, "expected_revision": revision}


def test_the_entry_has_the_references_key_and_members() -> None:
    storage = Storage()
    CursorStore(storage, lambda: START_MS).write("audit", write(7, 0))
    assert storage.kv.values == {
        "target-fanout-cursor:v1:audit": {
            "mode": "audit",
            "nextCursor": 7,
            "revision": 1,
            "updatedAt": "2026-11-30T14:13:20.000Z",
        }
    }
    storage.close()


def test_a_refused_write_writes_nothing() -> None:
    storage = Storage()
    store = CursorStore(storage, lambda: START_MS)
    store.write("audit", write(7, 0))
    before = dict(storage.kv.values)
    with pytest.raises(FanoutCursorRevisionConflict):
        store.write("audit", write(8, 0))
    assert storage.kv.values == before
    storage.close()


def test_an_unreadable_entry_stays_until_it_is_repaired() -> None:
    storage = Storage()
    storage.kv.put("target-fanout-cursor:v1:audit", {"mode": "audit", "nextCursor": "x"})
    store = CursorStore(storage, lambda: START_MS)
    attempts: list[Callable[[], object]] = [lambda: store.read("audit"), lambda: store.write("audit", write(1, 0))]
    for attempt in attempts:
        with pytest.raises(FanoutCursorStoreInvalid):
            attempt()
    assert storage.kv.values["target-fanout-cursor:v1:audit"] == {"mode": "audit", "nextCursor": "x"}
    storage.close()


async def test_kept_over_eviction() -> None:
    runtime = memory_runtime(clock=ManualClock(START_MS))
    namespace = runtime.namespace("w-ExactReviewQueue", ExactReviewQueue)
    await runtime.start()
    stub = namespace.getByName("global")
    assert (await stub.write_cursor("audit", write(7, 0)))["status"] == 202
    await runtime.clock.advance(60_000)  # type: ignore[attr-defined]
    assert not namespace.live
    reply = await namespace.getByName("global").read_cursor("audit")
    assert (reply["status"], reply["value"]["next_cursor"], reply["value"]["revision"]) == (200, 7, 1)
    conflict = await namespace.getByName("global").write_cursor("audit", write(8, 0))
    assert (conflict["status"], conflict["value"]["error"]) == (409, "fanout_cursor_revision_conflict")
    await runtime.close()


async def test_one_of_many_writers_wins() -> None:
    async with Plane() as plane:
        bodies = [b'{"next_cursor":%d,"expected_revision":0}' % number for number in range(20)]
        answers = await asyncio.gather(*(plane.signed("PUT", CURSOR, body) for body in bodies))
        assert sorted(answer.status for answer in answers) == [202] + [409] * 19
        (won,) = [answer.json()["next_cursor"] for answer in answers if answer.status == 202]
        current = (await plane.signed("GET", CURSOR)).json()
        assert (current["next_cursor"], current["revision"]) == (won, 1)


async def test_an_unreadable_entry_is_a_500_without_internals() -> None:
    class Broken(ExactReviewQueue):
        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            ctx.storage.kv.put("target-fanout-cursor:v1:audit", "garbage")

    async with Plane() as plane:
        plane.env.EXACT_REVIEW_QUEUE = plane.runtime.namespace("broken-ExactReviewQueue", Broken, plane.env)
        await plane.runtime.open_alarms(plane.env.EXACT_REVIEW_QUEUE)
        answer = await plane.signed("GET", CURSOR)
        assert (answer.status, answer.json()) == (500, {"error": "fanout_cursor_store_invalid"})


async def test_storage_that_fails_is_a_503() -> None:
    class Failing(ExactReviewQueue):
        def read_cursor(self, mode: str) -> Any:
            raise OSError("disk: /var/lib/secret")

    async with Plane() as plane:
        plane.env.EXACT_REVIEW_QUEUE = plane.runtime.namespace("failing-ExactReviewQueue", Failing, plane.env)
        await plane.runtime.open_alarms(plane.env.EXACT_REVIEW_QUEUE)
        answer = await plane.signed("GET", CURSOR)
        assert (answer.status, answer.json()) == (503, {"error": "fanout_cursor_store_unavailable"})


def test_retired_tables_are_dropped_and_others_stay() -> None:
    storage = Storage()
    for table in (*RETIRED_TABLES, "state_writer_tickets"):
        storage.sql.exec(f"CREATE TABLE {table} (a)")
        storage.sql.exec(f"INSERT INTO {table} VALUES (1)")
    drop_retired_tables(storage)
    drop_retired_tables(storage)
    left = [row["name"] for row in storage.sql.exec("SELECT name FROM sqlite_master").toArray()]
    assert left == ["state_writer_tickets"]
    storage.close()
