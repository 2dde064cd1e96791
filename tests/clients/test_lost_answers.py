"""Every request is done and its first answer is lost: what clients then say is true, and nothing is done twice."""

import gzip
import io
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from moorage.clients.blobs import AsyncBlobs
from moorage.clients.bundles import AsyncBundles
from moorage.clients.cursors import AsyncCursors
from moorage.clients.http import AsyncHttp
from moorage.clients.hydrate import hydrate
from moorage.clients.records import AsyncRecords
from moorage.clients.snapshots import AsyncSnapshots
from moorage.clients.state_writer import AsyncStateWriter, Writer
from moorage.protocols.artifact_receipts import ReceiptTuple
from tests.support.http import PlaneTransport
from tests.support.plane import WEBHOOK_SECRET, Plane

from .hydrate_world import ALL, NOW, SLUG, no_sleep, read_tree


class Losing(httpx.AsyncBaseTransport):
    """Lets every request through, and cuts the connection before the answer of every other one to a path."""

    def __init__(self, plane: Plane) -> None:
        self.inner = PlaneTransport(plane)
        self._lost: set[str] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self.inner.handle_async_request(request)
        path = request.url.path
        if path in self._lost:
            self._lost.remove(path)
            return answer
        self._lost.add(path)
        raise httpx.ReadError("reset")


@pytest.fixture
async def http() -> AsyncIterator[AsyncHttp]:
    async with Plane() as plane:
        made = AsyncHttp(
            "http://127.0.0.1:8787", WEBHOOK_SECRET, transport=Losing(plane), now=lambda: NOW, sleep=no_sleep
        )
        yield made
        await made.close()


async def test_cursors(http: AsyncHttp) -> None:
    cursors = AsyncCursors(http)
    for revision, position in enumerate((5, 9, 2)):
        assert (await cursors.write("audit", position, revision)).revision == revision + 1
    assert (await cursors.read("audit")).next_cursor == 2


async def test_records(http: AsyncHttp) -> None:
    records = AsyncRecords(http)
    assert (await records.put(SLUG, 1, {"items": b"x\n"})).revision == 1
    assert (await records.put(SLUG, 1, {"items": b"y\n"}, expected_revision=1, delivery_id="d")).revision == 2
    assert (await records.put(SLUG, 1, {"items": b"y\n"}, delivery_id="d")).revision == 2
    done = await records.commit(SLUG, {"a" * 40: b"c\n"})
    assert done.inserted + done.unchanged == 1
    assert (await records.put(SLUG, 1, {})).revision == 3


async def test_blobs_and_what_is_read_back_of_them(http: AsyncHttp) -> None:
    blobs = AsyncBlobs(http, single_put_bytes=10)
    for path in ("assets/x", "ledger/v1/x"):
        done = await blobs.put(path, b"1" * 100)
        # the completion that was answered says that the blob is there; whose bytes they are nobody has looked at
        assert (done.unchanged, done.read_back) == (True, True)
        assert await blobs.read(path) == b"1" * 100
        assert not (await blobs.put(path, b"1" * 100)).read_back
    assert not (await blobs.put("assets/small", b"1")).read_back


async def test_leases_and_bundles(http: AsyncHttp) -> None:
    async with AsyncStateWriter(http, now=lambda: NOW).lease(Writer("a/b", "state", "w", "j", "1")) as lease:
        assert lease.ticket.seq == 1
    name = ReceiptTuple("1", 1, "n", "a/b#1", 1, 1)
    receipt = await AsyncBundles(http).publish(name, {"f": b"x"})
    assert await AsyncBundles(http).read(receipt) == {"f": b"x"}


async def test_snapshots_and_hydrate(http: AsyncHttp, tmp_path: Path) -> None:
    records, snapshots = AsyncRecords(http), AsyncSnapshots(http, now=lambda: NOW)
    await records.put(SLUG, 1, {"items": b"y\n"})
    archive = tmp_path / "archive.tar.gz"
    with gzip.open(archive, "wb") as packed, tarfile.open(fileobj=packed, mode="w:") as tar:
        member = tarfile.TarInfo("items/1.md")
        member.size = 2
        tar.addfile(member, io.BytesIO(b"y\n"))
    watermark = (await records.repositories())[SLUG]
    sent = await snapshots.upload(
        archive, slug=SLUG, watermark=watermark, uncompressed_bytes=2, identities=[("items", "1")]
    )
    assert await snapshots.latest(SLUG) == sent
    assert (await snapshots.trigger(SLUG)).watermark == watermark
    await AsyncBlobs(http).put("assets/x", b"x")
    await hydrate(http, tmp_path / "state", ALL)
    assert read_tree(tmp_path / "state") == {f"records/{SLUG}/items/1.md": b"y\n", "assets/x": b"x"}
