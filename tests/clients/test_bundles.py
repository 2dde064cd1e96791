"""Bundles: the archive's bytes, and the cache in front of the caller's fetcher against a state plane in this
process."""

import base64
import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.clients.bundles import AsyncBundles
from moorage.clients.errors import Conflict
from moorage.clients.http import AsyncHttp
from moorage.protocols.artifact_receipts import PREFIX, ReceiptTuple
from moorage.protocols.bundles import MAGIC, MAX_FILES, InvalidBundle, pack, unpack
from tests.support.http import PlaneTransport
from tests.support.plane import START_MS, WEBHOOK_SECRET, Plane

CAPTURED = Path(__file__).parent.parent / "vectors" / "captured" / "artifact.json"
NAME = ReceiptTuple("9001", 1, "exact-review-9001-1", "acme/widgets#7", 3, 2)
FILES = {"report.md": b"# report\n", "sub/a.json": b"{}\n"}

segments = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="/\\\0"), min_size=1).filter(
    lambda text: text not in {".", ".."}
)
trees = st.dictionaries(st.lists(segments, min_size=1, max_size=3).map("/".join), st.binary(max_size=20), max_size=6)


def test_the_archive_is_the_one_that_the_captured_client_made() -> None:
    bodies = [json.loads(exchange["request"]["body"]) for exchange in json.loads(CAPTURED.read_text())["exchanges"]]
    archives = [base64.b64decode(body["contentBase64"]) for body in bodies if "contentBase64" in body]
    assert archives[0] == pack(FILES)
    assert unpack(archives[0]) == FILES


@given(trees)
def test_bundles_are_read_back_and_deterministic(files: dict[str, bytes]) -> None:
    try:
        archive = pack(files)
    except InvalidBundle:
        return
    assert unpack(archive) == files
    assert pack(dict(reversed(files.items()))) == archive


@given(st.integers(0, 400), st.integers(0, 255))
def test_no_spoiled_byte_goes_unnoticed(place: int, value: int) -> None:
    archive = pack(FILES)
    spoiled = bytearray(archive)
    spoiled[place % len(archive)] = value
    if bytes(spoiled) == archive:
        return
    try:
        found = unpack(bytes(spoiled))
    except InvalidBundle:
        return
    # only a name may change without a digest noticing; the receipt's digest of the whole archive does
    assert sorted(found.values()) == sorted(FILES.values())


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"": b""},
        {"/a": b""},
        {"a//b": b""},
        {"a/../b": b""},
        {"./a": b""},
        {"a\\b": b""},
        {"a\0": b""},
        {"a": b"", "a/b": b""},
        {str(number): b"" for number in range(MAX_FILES + 1)},
        {"x" * 1_100_000: b""},
    ],
)
def test_what_cannot_be_bundled(files: dict[str, bytes]) -> None:
    with pytest.raises(InvalidBundle):
        pack(files)


@pytest.mark.parametrize(
    "change", [lambda data: data + b"x", lambda data: data[:-1], lambda data: data[5:], lambda data: b""]
)
def test_what_is_no_bundle(change: Any) -> None:
    with pytest.raises(InvalidBundle):
        unpack(change(pack(FILES)))
    with pytest.raises(InvalidBundle):
        unpack(MAGIC + b"\xff\xff\xff\xff")


class World:
    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.broken: str | None = None
        self.fetched = 0
        self.transport = PlaneTransport(plane, self._before)
        self.http = AsyncHttp(
            "http://127.0.0.1:8787",
            WEBHOOK_SECRET,
            transport=self.transport,
            now=lambda: START_MS / 1000 + 5,
            sleep=self._no_sleep,
            chance=lambda: 0.0,
        )
        self.bundles = AsyncBundles(self.http)

    async def _no_sleep(self, seconds: float) -> None:
        pass

    async def _before(self, request: httpx.Request) -> httpx.Response | None:
        if self.broken is not None and request.url.path.endswith(self.broken):
            return httpx.Response(503, json={"error": "artifact_cache_unavailable"})
        return None

    async def fetch(self) -> dict[str, bytes]:
        self.fetched += 1
        return FILES


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with Plane() as plane:
        world = World(plane)
        yield world
        await world.http.close()


async def test_a_miss_is_fetched_and_cached_and_the_next_one_is_a_hit(world: World) -> None:
    first = await world.bundles.restore(NAME, world.fetch)
    assert (first.cached, first.reason, dict(first.files)) == (False, "no receipt", FILES)
    second = await world.bundles.restore(NAME, world.fetch)
    assert (second.cached, dict(second.files), world.fetched) == (True, FILES, 1)


@pytest.mark.parametrize("member", ["producer_run_attempt", "lease_revision", "protocol_version"])
async def test_only_the_exact_tuple_is_reused(world: World, member: str) -> None:
    await world.bundles.publish(NAME, FILES)
    import dataclasses

    change: dict[str, Any] = {member: 7}
    other = dataclasses.replace(NAME, **change)
    assert (await world.bundles.restore(other, world.fetch, publish=False)).cached is False
    assert await world.bundles.lookup(other) is None


@pytest.mark.parametrize("broken", ["receipt/lookup", "receipt/store", "blobs/put", "blobs/stat", "blobs/chunk"])
async def test_no_failure_of_the_cache_reaches_the_caller(world: World, broken: str) -> None:
    if broken in {"blobs/stat", "blobs/chunk"}:
        await world.bundles.publish(NAME, FILES)
    world.broken = broken
    restored = await world.bundles.restore(NAME, world.fetch)
    assert dict(restored.files) == FILES


async def test_a_cached_object_that_differs_is_never_given_out(world: World) -> None:
    receipt = await world.bundles.publish(NAME, FILES)
    await world.plane.bucket.put(receipt["objectKey"], pack({"report.md": b"# forged\n"}))
    restored = await world.bundles.restore(NAME, world.fetch, publish=False)
    assert (restored.cached, dict(restored.files)) == (False, FILES)


async def test_a_receipt_is_immutable(world: World) -> None:
    await world.bundles.publish(NAME, FILES)
    await world.bundles.publish(NAME, FILES)
    with pytest.raises(Conflict):
        await world.bundles.publish(NAME, {"report.md": b"other"})
    digest = hashlib.sha256(pack(FILES)).hexdigest()
    receipt = await world.bundles.lookup(NAME)
    assert receipt is not None
    assert receipt["objectKey"] == PREFIX + digest


async def test_what_the_fetcher_raises_is_raised(world: World) -> None:
    async def broken() -> dict[str, bytes]:
        raise KeyError("nothing there either")

    with pytest.raises(KeyError):
        await world.bundles.restore(NAME, broken)
