"""Record clients: checked answers, expectations, paging, lost answers."""

import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import msgspec
import pytest

from moorage.clients.errors import ConfigurationError, InvalidAnswer
from moorage.clients.http import AsyncHttp
from moorage.clients.record_answers import journal_page
from moorage.clients.records import (
    AsyncRecords,
    Committed,
    RecordConflict,
    Records,
    RevisionConflict,
    Written,
)
from moorage.protocols.records import SECTIONS, RecordId
from tests.support.command_line import served_plane
from tests.support.http import PlaneTransport
from tests.support.plane import START_MS, WEBHOOK_SECRET, Plane

SLUG = "acme-widgets"


async def no_sleep(seconds: float) -> None:
    pass


class World:
    """A plane and a client; `spoil` changes answers of success on their way back, `cuts` loses so many."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.spoil: Callable[[dict[str, Any]], None] | None = None
        self.cuts = 0
        self.transport = _Spoiling(self)
        self.http = AsyncHttp(
            "http://127.0.0.1:8787", WEBHOOK_SECRET, transport=self.transport, now=lambda: START_MS / 1000 + 5,
            sleep=no_sleep, chance=lambda: 0.0,
        )  # fmt: skip
        self.records = AsyncRecords(self.http)


class _Spoiling(PlaneTransport):
    def __init__(self, world: World) -> None:
        super().__init__(world.plane)
        self._world = world

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await super().handle_async_request(request)
        if self._world.cuts:
            self._world.cuts -= 1
            raise httpx.ReadError("cut")
        if self._world.spoil is not None and answer.status_code < 300:
            body = msgspec.json.decode(answer.content)
            self._world.spoil(body)
            return httpx.Response(answer.status_code, json=body)
        return answer


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with Plane() as plane:
        made = World(plane)
        yield made
        await made.http.close()


async def put(world: World, number: int, text: str, **options: Any) -> Written:
    return await world.records.put(SLUG, number, {"items": text.encode()}, **options)


async def test_an_item_is_written_read_and_deleted(world: World) -> None:
    assert await put(world, 7, "one\n") == Written(1, False)
    item = await world.records.item(SLUG, 7)
    assert (item.revision, item.content("items"), item.digest("closed")) == (1, b"one\n", None)

    await world.records.put(SLUG, 7, {}, expected_revision=1)

    record = await world.records.read(RecordId(SLUG, "items", "7"))
    assert record is not None
    assert (record.deleted, record.revision) == (True, 2)
    assert await world.records.read(RecordId(SLUG, "items", "8")) is None


async def test_a_byte_order_mark_comes_back(world: World) -> None:
    await put(world, 7, "\ufeff# hi\n")

    assert (await world.records.item(SLUG, 7)).content("items") == b"\xef\xbb\xbf# hi\n"
    rows = [row async for row in world.records.journal(SLUG, sections=["items"])]
    assert rows[0].record.content == b"\xef\xbb\xbf# hi\n"


async def test_expectations_are_compared(world: World) -> None:
    await put(world, 7, "one\n")

    with pytest.raises(RevisionConflict, match="at revision 1, not at 5") as refused:
        await put(world, 7, "two\n", expected_revision=5)
    assert refused.value.found == 1
    with pytest.raises(RecordConflict) as conflict:
        await world.records.write(SLUG, 7, {"items": b"two\n"}, expected={}, delivery_id="d")
    assert conflict.value.current is not None
    assert conflict.value.current["revision"] == 1


async def test_a_lost_answer_is_no_second_write(world: World) -> None:
    expected = {"items": None}
    world.cuts = 1
    first = await world.records.write(SLUG, 7, {"items": b"one\n"}, expected=expected, delivery_id="d-1")

    assert first == Written(1, True)
    assert (await world.records.item(SLUG, 7)).revision == 1


async def test_what_the_service_would_refuse_is_not_sent(world: World) -> None:
    with pytest.raises(ConfigurationError, match="closed"):
        await world.records.put(SLUG, 7, {"closed": b"x", "plans": b"y"})
    with pytest.raises(ConfigurationError, match="slug"):
        await world.records.item("a/b", 7)
    with pytest.raises(ConfigurationError, match="no focused read"):
        await world.records.read(RecordId(SLUG, "commits", "0" * 40))
    assert [request for request in world.transport.seen if request.url.path.endswith("/tuples")] == []


async def test_lists_and_journal_are_paged(world: World) -> None:
    for number in (2, 10, 33):
        await put(world, number, f"item {number}\n")

    listed = [entry.number async for entry in world.records.live(SLUG, "items", page=2)]
    rows = [row async for row in world.records.journal(SLUG, limit=5)]
    pages = [page async for page in world.records.pages(SLUG, sections=["items"], limit=1)]

    assert listed == [2, 10, 33]
    assert [row.store_revision for row in rows] == list(range(1, 13))
    assert [len(page.rows) for page in pages] == [1, 1, 1]
    assert pages[0].revision == 12
    assert [row.record.id.id async for row in world.records.journal(SLUG, since=5, sections=["items"])] == ["33"]


async def test_commits_go_in_lots(world: World) -> None:
    contents = {hashlib.sha1(str(number).encode()).hexdigest(): b"c" * 20_000 for number in range(120)}

    assert await world.records.commit(SLUG, contents) == Committed(120, 0, 120)
    assert await world.records.commit(SLUG, dict(list(contents.items())[:3])) == Committed(0, 3, 120)
    assert len([request for request in world.transport.seen if request.url.path.endswith("/commits")]) == 4


def wrong_digest(body: dict[str, Any]) -> None:
    body["content"] = "other"


def out_of_order(body: dict[str, Any]) -> None:
    body["records"].reverse()


def wrong_slug(body: dict[str, Any]) -> None:
    body["repoSlug"] = "other"


def wrong_cursor(body: dict[str, Any]) -> None:
    body["nextCursor"] = 99


def fractional(body: dict[str, Any]) -> None:
    for entry in body["records"]:
        entry["revision"] = 1.5


@pytest.mark.parametrize("spoil", [out_of_order, wrong_slug, wrong_cursor, fractional])
async def test_a_spoiled_page_is_asked_for_again_and_never_believed(world: World, spoil: Any) -> None:
    await put(world, 1, "one\n")
    await put(world, 2, "two\n")
    before = len(world.transport.seen)
    world.spoil = spoil

    with pytest.raises(InvalidAnswer):
        [row async for row in world.records.journal(SLUG)]
    assert len(world.transport.seen) - before == 4
    with pytest.raises(InvalidAnswer):
        [entry async for entry in world.records.live(SLUG, "items")]


async def test_content_with_another_digest_is_refused(world: World) -> None:
    await put(world, 1, "one\n")
    world.spoil = wrong_digest

    with pytest.raises(InvalidAnswer, match="digest"):
        await world.records.item(SLUG, 1)


@pytest.mark.parametrize(
    "row",
    [
        {"section": "items", "id": "01"},
        {"section": "jobs", "id": "1"},
        {"section": "items", "id": "1", "storeRevision": 0},
        {"section": "items", "id": "1", "storeRevision": 1, "revision": 1, "deleted": True, "content": "x"},
        None,
    ],
)
def test_rows_that_name_no_record_are_refused(row: Any) -> None:
    body = {"repoSlug": SLUG, "revision": 1, "records": [row], "nextCursor": None}

    with pytest.raises(InvalidAnswer):
        journal_page(SLUG, SECTIONS, 0, body)


def test_the_synchronous_face_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with served_plane(monkeypatch) as served, served.client() as http:
        records = Records(http)
        assert records.put(SLUG, 7, {"items": b"one\n"}).revision == 1
        assert records.item(SLUG, 7).content("items") == b"one\n"
        assert [entry.number for entry in records.live(SLUG, "items")] == [7]
        assert len(list(records.journal(SLUG))) == 4
        assert records.journal_page(SLUG, limit=1).next_cursor == 1
        assert records.repositories() == {SLUG: 4}
        assert records.commit(SLUG, {"0" * 40: b"c\n"}) == Committed(1, 0, 5)
        record = records.read(RecordId(SLUG, "items", "7"))
        assert record is not None
        write = records.write(SLUG, 7, {}, expected={"items": record.digest}, delivery_id="d")
        assert write == Written(2, False)


@pytest.mark.parametrize("number", [0, -1, 2**53])
async def test_numbers_that_no_item_has_are_a_callers_error(world: World, number: int) -> None:
    with pytest.raises(ConfigurationError, match="item number"):
        await world.records.item(SLUG, number)
    with pytest.raises(ConfigurationError, match="item number"):
        await world.records.write(SLUG, number, {}, expected={}, delivery_id="d")
