"""Snapshot clients: absence, ranges, archives that change, and sending one."""

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from moorage.clients.errors import InvalidAnswer, RemoteError
from moorage.clients.http import AsyncHttp
from moorage.clients.records import AsyncRecords
from moorage.clients.snapshots import AsyncSnapshots, SnapshotDiffers, Snapshots, snapshot_of
from moorage.protocols import snapshot_uploads as uploads
from moorage.protocols import snapshots as rules
from moorage.protocols import ustar
from tests.support.command_line import served_plane
from tests.support.http import PlaneTransport
from tests.support.plane import START_MS, WEBHOOK_SECRET, Plane

SLUG = "acme-widgets"
NOW = START_MS / 1000 + 5


async def no_sleep(seconds: float) -> None:
    pass


class World:
    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.transport = PlaneTransport(plane, self._before)
        self.lose: str | None = None
        self.http = AsyncHttp(
            "http://127.0.0.1:8787", WEBHOOK_SECRET, transport=self.transport, now=lambda: NOW, sleep=no_sleep
        )
        self.records = AsyncRecords(self.http)
        self.snapshots = AsyncSnapshots(self.http, now=lambda: NOW)

    async def _before(self, request: httpx.Request) -> httpx.Response | None:
        if self.lose is not None and request.url.path.endswith(self.lose):
            return httpx.Response(404, json={"error": "snapshot_not_found"})
        return None


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with Plane() as plane:
        made = World(plane)
        yield made
        await made.http.close()


async def test_a_repository_may_have_none(world: World) -> None:
    assert await world.snapshots.latest(SLUG) is None


async def test_the_archive_comes_in_ranges(world: World) -> None:
    await world.records.put(SLUG, 7, {"items": b"one\n"})
    made = await world.snapshots.trigger(SLUG)

    assert await world.snapshots.latest(SLUG) == made
    whole = b"".join([chunk async for chunk in world.snapshots.chunks(made)])
    pieces = [chunk async for chunk in world.snapshots.chunks(made, size=50)]
    rest = b"".join([chunk async for chunk in world.snapshots.chunks(made, offset=20)])
    assert len(whole) == made.bytes
    assert b"".join(pieces) == whole
    assert [len(piece) for piece in pieces[:-1]] == [50] * (len(pieces) - 1)
    assert rest == whole[20:]
    assert gzip.decompress(whole)[:10] == b"items/7.md"


async def test_a_replaced_archive_is_noticed(world: World) -> None:
    await world.records.put(SLUG, 7, {"items": b"one\n"})
    first = await world.snapshots.trigger(SLUG)
    await world.plane.advance(5)
    for _ in range(2):
        await world.snapshots.trigger(SLUG)
    await world.plane.bucket.put((await world.snapshots.trigger(SLUG)).object_key, b"short")

    with pytest.raises((SnapshotDiffers, RemoteError)):
        [chunk async for chunk in world.snapshots.chunks(first)]


def archive_of(folder: Path, files: dict[str, bytes]) -> tuple[Path, list[tuple[str, str]]]:
    identities = []
    data = b""
    for name in sorted(files):
        section, _, rest = name.partition("/")
        identities.append((section, rest.partition(".")[0]))
        data += ustar.entry(name, files[name])
    path = folder / "archive.tar.gz"
    path.write_bytes(gzip.compress(data + ustar.END))
    return path, identities


async def test_an_archive_is_sent_and_registered(world: World, tmp_path: Path) -> None:
    await world.records.put(SLUG, 7, {"items": b"one\n"})
    path, identities = archive_of(tmp_path, {"items/7.md": b"one\n"})
    seen: list[int] = []

    sent = await world.snapshots.upload(
        path, slug=SLUG, watermark=4, uncompressed_bytes=4, identities=identities, progress=seen.append
    )

    assert await world.snapshots.latest(SLUG) == sent
    assert sum(seen) == path.stat().st_size == sent.bytes


async def test_an_archive_that_covers_too_little_is_aborted(world: World, tmp_path: Path) -> None:
    await world.records.put(SLUG, 7, {"items": b"one\n"})
    path, identities = archive_of(tmp_path, {"items/8.md": b"one\n"})

    with pytest.raises(RemoteError, match="snapshot_coverage_incomplete"):
        await world.snapshots.upload(path, slug=SLUG, watermark=4, uncompressed_bytes=4, identities=identities)

    assert await world.snapshots.latest(SLUG) is None
    assert not (await world.plane.bucket.list()).objects


async def test_identities_that_do_not_fit_are_staged(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.records.put(SLUG, 7, {"items": b"one\n"})
    path, identities = archive_of(tmp_path, {f"items/{number}.md": b"one\n" for number in (7, 8, 9)})
    monkeypatch.setattr(rules, "MANIFEST_CHUNK", 2)
    monkeypatch.setattr(uploads, "MAX_UPLOAD_REQUEST_BYTES", 64 * 1024 + 30)

    sent = await world.snapshots.upload(path, slug=SLUG, watermark=4, uncompressed_bytes=12, identities=identities)

    assert sent.file_count == 3
    operations = [seen.url.path.rpartition("/")[2] for seen in world.transport.seen]
    assert operations.count("manifest") == 2


@pytest.mark.parametrize(
    "change",
    [
        {"repoSlug": "other"},
        {"bytes": -1},
        {"fileCount": True},
        {"objectKey": None},
        {"access": {"mode": "presigned"}},
        {"access": {"mode": "worker_range_proxy", "maxChunkBytes": 0}},
    ],
)
def test_a_description_that_is_not_whole_is_refused(change: dict[str, object]) -> None:
    good: dict[str, object] = {
        "repoSlug": SLUG,
        "revisionWatermark": 1,
        "objectKey": "k",
        "bytes": 1,
        "uncompressedBytes": 1,
        "fileCount": 1,
        "createdAt": "t",
        "access": {"mode": "worker_range_proxy", "maxChunkBytes": 5},
    }
    assert snapshot_of(SLUG, {"ok": True, "snapshot": good}).watermark == 1
    with pytest.raises(InvalidAnswer):
        snapshot_of(SLUG, {"ok": True, "snapshot": {**good, **change}})


def test_the_synchronous_face_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with served_plane(monkeypatch) as served, served.client() as http:
        snapshots = Snapshots(http)
        assert snapshots.latest(SLUG) is None
        made = snapshots.trigger(SLUG)
        assert sum(map(len, snapshots.chunks(made))) == made.bytes
