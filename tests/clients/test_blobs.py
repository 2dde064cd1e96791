"""Blob clients against a state plane in this process: sizes, read-back, lost answers, changed sources."""

import hashlib
import io
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from moorage.clients.blobs import AsyncBlobs, BlobDiffers, Blobs
from moorage.clients.errors import ConfigurationError, Conflict, InvalidAnswer, NotFound, TransportError
from moorage.clients.http import AsyncHttp, Http
from tests.support.http import PlaneTransport, Script
from tests.support.plane import START_MS, WEBHOOK_SECRET, Plane

URL = "http://127.0.0.1:8787"
MIB = 1024 * 1024
NOW = START_MS / 1000 + 5


async def no_sleep(seconds: float) -> None:
    pass


class World:
    """A plane, a transport to it, and a client. `answers`: changes answers of an operation on their way back."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.before: Any = None
        self.transport = PlaneTransport(plane, self._before)
        self.http = AsyncHttp(
            URL, WEBHOOK_SECRET, transport=self.transport, now=lambda: NOW, sleep=no_sleep, chance=lambda: 0.0
        )

    async def _before(self, request: httpx.Request) -> httpx.Response | None:
        return None if self.before is None else await self.before(request)

    def blobs(self, single_put_bytes: int = 8 * MIB) -> AsyncBlobs:
        return AsyncBlobs(self.http, single_put_bytes=single_put_bytes)

    def operations(self) -> list[str]:
        return [request.url.path.removeprefix("/internal/state/blobs/") for request in self.transport.seen]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with Plane() as plane:
        world = World(plane)
        yield world
        await world.http.close()


def content_of(size: int) -> bytes:
    return random.Random(size).randbytes(size)


async def test_small_blobs_are_put_once(world: World) -> None:
    done = await world.blobs().put("ledger/v1/a", b"x")
    assert (done.size, done.digest, done.unchanged, done.read_back) == (
        1,
        hashlib.sha256(b"x").hexdigest(),
        False,
        False,
    )
    assert (await world.blobs().put("ledger/v1/a", b"x")).unchanged is True
    assert world.operations() == ["put", "put"]
    with pytest.raises(Conflict, match="ledger_blob_immutable_conflict"):
        await world.blobs().put("ledger/v1/a", b"y")
    assert await world.blobs().read("ledger/v1/a") == b"x"
    blob = await world.blobs().stat("ledger/v1/a")
    assert blob is not None
    assert blob.verified is True


async def test_empty_blobs(world: World) -> None:
    assert (await world.blobs(0).put("assets/empty", b"", read_back="always")).size == 0
    assert await world.blobs().read("assets/empty") == b""


async def test_large_blobs_go_in_parts_and_are_read_back(world: World, tmp_path: Path) -> None:
    content = content_of(17 * MIB)
    file = tmp_path / "large"
    file.write_bytes(content)
    moved: list[int] = []
    done = await world.blobs().put_file("assets/large", file, progress=moved.append)
    assert (done.size, done.unchanged, done.read_back) == (len(content), False, True)
    assert moved == [8 * MIB, 8 * MIB, MIB]
    assert world.operations() == [
        "multipart/start",
        *["multipart/part"] * 3,
        "multipart/complete",
        "stat",
        *["chunk"] * 3,
    ]
    again = await world.blobs().put_file("assets/large", file)
    assert (again.unchanged, again.read_back) == (True, False)
    target = io.BytesIO()
    assert await world.blobs().download("assets/large", target) == len(content)
    assert target.getvalue() == content


async def test_what_was_damaged_is_found_on_reading_back(world: World) -> None:
    async def damage(request: httpx.Request) -> httpx.Response | None:
        if request.url.path.endswith("/multipart/part"):
            body = msgspec.json.decode(request.content)
            if body["partNumber"] == 2:
                await world.plane.bucket.put("elsewhere", b"")  # the part itself cannot be changed once it is signed
        if request.url.path.endswith("/chunk"):
            length = msgspec.json.decode(request.content)["length"]
            blob = await world.plane.bucket.head("assets/large")
            assert blob is not None
            headers = {
                "content-range": f"bytes 0-{length - 1}/{blob.size}",
                "x-clawsweeper-blob-digest": blob.customMetadata["sha256"],
            }
            return httpx.Response(206, headers=headers, content=b"\0" * length)
        return None

    world.before = damage
    with pytest.raises(BlobDiffers, match="another digest"):
        await world.blobs(1).put("assets/large", b"0123456789")


async def test_a_source_that_changes_is_not_completed(world: World, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(content_of(9 * MIB))

    async def change(request: httpx.Request) -> httpx.Response | None:
        if request.url.path.endswith("/multipart/start"):
            file.write_bytes(content_of(10 * MIB)[: 9 * MIB])
        return None

    world.before = change
    with pytest.raises(BlobDiffers, match="changed while it was being sent"):
        await world.blobs().put_file("ledger/v1/large", file)
    assert world.operations()[-1] == "multipart/abort"
    assert await world.blobs().stat("ledger/v1/large") is None


async def test_an_upload_that_fails_is_dropped(world: World) -> None:
    async def fail(request: httpx.Request) -> httpx.Response | None:
        if request.url.path.endswith("/multipart/part"):
            raise httpx.WriteError("cut off")
        return None

    world.before = fail
    with pytest.raises(TransportError):
        await world.blobs(1).put("assets/large", b"0123456789")
    assert world.operations() == ["multipart/start", *["multipart/part"] * 4, "multipart/abort"]


async def test_lost_answers_of_every_step_are_made_up_for(world: World) -> None:
    lost: set[str] = set()
    straight = PlaneTransport(world.plane)

    async def lose(request: httpx.Request) -> httpx.Response | None:
        if request.url.path not in lost:
            lost.add(request.url.path)
            await straight.handle_async_request(request)
            raise httpx.ReadError("the answer is lost")
        return None

    world.before = lose
    done = await world.blobs(1).put("ledger/v1/large", b"0123456789")
    assert (done.size, done.unchanged) == (10, True)
    assert await world.blobs().read("ledger/v1/large") == b"0123456789"


async def test_a_blob_that_changes_while_it_is_read(world: World) -> None:
    await world.blobs().put("assets/a", b"0123456789")

    async def change(request: httpx.Request) -> httpx.Response | None:
        if request.url.path.endswith("/chunk") and msgspec.json.decode(request.content)["offset"] == 4:
            await world.plane.bucket.put("assets/a", b"abcdefghij", {"customMetadata": {"sha256": "0" * 64}})
        return None

    world.before = change
    chunks = world.blobs().chunks("assets/a", size=4)
    assert await anext(chunks) == b"0123"
    with pytest.raises(BlobDiffers, match="changed while it was being read"):
        await anext(chunks)


async def test_a_blob_that_shrinks_while_it_is_read(world: World) -> None:
    await world.blobs().put("assets/a", b"0123456789")

    async def shrink(request: httpx.Request) -> httpx.Response | None:
        if request.url.path.endswith("/chunk"):
            await world.plane.bucket.put("assets/a", b"")
        return None

    world.before = shrink
    with pytest.raises(BlobDiffers, match="changed"):
        await world.blobs().read("assets/a")


async def test_missing_blobs(world: World) -> None:
    assert await world.blobs().stat("assets/none") is None
    with pytest.raises(NotFound, match="assets/none"):
        await world.blobs().read("assets/none")


async def test_listing(world: World) -> None:
    paths = [f"assets/d/{number:03}" for number in range(7)]
    for path in paths:
        await world.blobs().put(path, path.encode())
    assert [blob.path async for blob in world.blobs().list("assets/d", page=3)] == paths
    assert [blob.path async for blob in world.blobs().list("assets/none")] == []
    assert world.operations().count("list") == 4


@pytest.mark.parametrize(
    "pages",
    [
        [{"blobs": None}],
        [{"blobs": [{"path": "assets/a"}], "nextCursor": None}],
        [{"blobs": [{"path": 1, "bytes": 1, "digest": None, "digestVerified": False}], "nextCursor": None}],
        [
            {
                "blobs": [{"path": "assets/a", "bytes": 1, "digest": None, "digestVerified": False}] * 2,
                "nextCursor": None,
            }
        ],
        [{"blobs": [], "nextCursor": "x"}, {"blobs": [], "nextCursor": "x"}],
    ],
)
async def test_pages_are_checked(pages: list[dict[str, Any]]) -> None:
    script = Script([httpx.Response(200, json=page) for page in pages])
    async with AsyncHttp(URL, "s", transport=script, sleep=no_sleep) as http:
        with pytest.raises(InvalidAnswer):
            _ = [blob async for blob in AsyncBlobs(http).list("assets")]


async def test_paths_are_checked_before_anything_is_sent(world: World) -> None:
    for path in ("", "assets", "assets/../x", "/etc/passwd", "ledger/v2/a"):
        with pytest.raises(ConfigurationError, match="no blob path"):
            await world.blobs().put(path, b"")
    with pytest.raises(ConfigurationError, match="no blob directory"):
        _ = [blob async for blob in world.blobs().list("nowhere")]
    with pytest.raises(ConfigurationError, match="single_put_bytes"):
        world.blobs(25 * MIB)
    assert world.transport.seen == []


def test_synchronous_face(tmp_path: Path) -> None:
    with Http(URL, WEBHOOK_SECRET, transport=Script([])) as http:
        plane = Plane()
        http.loop.run(plane.__aenter__())
        http.asynchronous._transport = PlaneTransport(plane)
        http.asynchronous._now = lambda: NOW
        blobs = Blobs(http)
        file = tmp_path / "f"
        file.write_bytes(b"file")
        assert blobs.put("assets/a", b"content").size == 7
        assert blobs.put_file("assets/b", file, read_back="always").read_back is True
        assert b"".join(blobs.chunks("assets/a", size=3)) == b"content"
        assert [blob.path for blob in blobs.list("assets")] == ["assets/a", "assets/b"]
        found = blobs.stat("assets/b")
        assert found is not None
        blobs.compare("assets/b", 4, hashlib.sha256(b"file").hexdigest())
        with pytest.raises(BlobDiffers):
            blobs.compare("assets/b", 5, "0" * 64)
        http.loop.run(plane.__aexit__())
