"""Cursor clients against a state plane in this process, and against answers that are wrong."""

import logging
from typing import Any

import httpx
import pytest

from moorage.clients.cursors import AsyncCursors, CursorConflict, Cursors
from moorage.clients.errors import ConfigurationError, InvalidAnswer, RemoteError
from moorage.clients.http import AsyncHttp, Http
from moorage.protocols.javascript import ABSENT
from tests.support.http import PlaneTransport, Script
from tests.support.plane import START_MS, WEBHOOK_SECRET, Plane

URL = "http://127.0.0.1:8787"
NOW = START_MS / 1000 + 5


async def no_sleep(seconds: float) -> None:
    pass


def options(transport: httpx.AsyncBaseTransport) -> dict[str, Any]:
    return {"transport": transport, "now": lambda: NOW, "sleep": no_sleep}


def answer(mode: str = "audit", position: Any = 7, revision: Any = 1, **more: Any) -> dict[str, Any]:
    return {"ok": True, "mode": mode, "next_cursor": position, "revision": revision, "updated_at": None, **more}


async def test_read_and_write() -> None:
    async with Plane() as plane, AsyncHttp(URL, WEBHOOK_SECRET, **options(PlaneTransport(plane))) as http:
        cursors = AsyncCursors(http)
        fresh = await cursors.read("audit")
        assert (fresh.next_cursor, fresh.revision, fresh.updated_at, fresh.audit_batch) == (0, 0, None, ABSENT)
        moved = await cursors.write("audit", 7, 0)
        assert (moved.next_cursor, moved.revision) == (7, 1)
        assert await cursors.read("audit") == moved
        with pytest.raises(CursorConflict) as caught:
            await cursors.write("audit", 9, 0)
        assert caught.value.current == moved
        batch = {"remainingTargets": [], "outstandingRunIds": ["1"], "dispatchingTarget": None}
        assert (await cursors.write("audit", 9, 1, batch)).audit_batch == batch
        assert (await cursors.write("audit", 9, 2)).audit_batch == batch
        assert (await cursors.write("audit", 9, 3, None)).audit_batch is None


async def test_a_lost_answer_is_no_conflict() -> None:
    async with Plane() as plane:
        lose = [True]

        async def before(request: httpx.Request) -> httpx.Response | None:
            if lose and request.method == "PUT":
                lose.clear()
                await transport.handle_async_request(request)
                raise httpx.ReadError("cut off after the write")
            return None

        transport = PlaneTransport(plane)
        lossy = PlaneTransport(plane, before)
        async with AsyncHttp(URL, WEBHOOK_SECRET, **options(lossy)) as http:
            cursor = await AsyncCursors(http).write("hot-intake", 5, 0)
    assert (cursor.next_cursor, cursor.revision) == (5, 1)
    assert len(lossy.seen) == 2


async def test_somebody_elses_write_is_a_conflict_also_after_a_retry() -> None:
    conflict = {"error": "fanout_cursor_revision_conflict", "current": answer("audit", 8, 1)}
    script = Script([httpx.Response(503), httpx.Response(409, json=conflict)])
    async with AsyncHttp(URL, "s", **options(script)) as http:
        with pytest.raises(CursorConflict, match="audit is at revision 1, position 8"):
            await AsyncCursors(http).write("audit", 5, 0)


async def test_another_409_is_not_a_lost_compare() -> None:
    async with AsyncHttp(URL, "s", **options(Script([httpx.Response(409, json={"error": "other"})]))) as http:
        with pytest.raises(RemoteError, match="other"):
            await AsyncCursors(http).write("audit", 5, 0)


@pytest.mark.parametrize(
    "value",
    [
        {},
        answer(ok=False),
        answer("hot-intake"),
        answer(position=-1),
        answer(position=True),
        answer(revision="1"),
        answer(revision=2**53),
        answer(updated_at=5),
    ],
)
async def test_answers_are_checked(value: dict[str, Any]) -> None:
    async with AsyncHttp(URL, "s", **options(Script([httpx.Response(200, json=value)] * 4))) as http:
        with pytest.raises(InvalidAnswer):
            await AsyncCursors(http).read("audit")


async def test_unknown_modes_are_refused_before_anything_is_sent() -> None:
    script = Script([])
    async with AsyncHttp(URL, "s", **options(script)) as http:
        for mode in ("nope", "audit/../x", "AUDIT", ""):
            with pytest.raises(ConfigurationError, match="hot-intake"):
                await AsyncCursors(http).read(mode)
    assert script.seen == []


async def test_fail_open_warns_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    failures = [httpx.Response(500)] * 4 + [httpx.ConnectError("refused")] * 4
    async with AsyncHttp(URL, "s3cret-s3cret", **options(Script(failures))) as http:
        cursors = AsyncCursors(http)
        assert await cursors.try_read("audit") is None
        assert await cursors.try_write("audit", 5, 0) is None
        assert await cursors.try_read("nope") is None
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 3
    assert "s3cret" not in caplog.text


def test_synchronous_face() -> None:
    with Http(URL, WEBHOOK_SECRET, transport=Script([])) as outer:
        plane = Plane()
        outer.loop.run(plane.__aenter__())
        outer.asynchronous._transport = PlaneTransport(plane)
        outer.asynchronous._now = lambda: NOW
        cursors = Cursors(outer)
        assert cursors.write("audit", 3, 0).revision == 1
        assert cursors.read("audit").next_cursor == 3
        assert cursors.try_write("audit", 4, 0) is None
        found = cursors.try_read("audit")
        assert found is not None
        assert found.revision == 1
        outer.loop.run(plane.__aexit__())
