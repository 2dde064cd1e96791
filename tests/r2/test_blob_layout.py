"""State blobs on a bucket that several processes share: each has locks of its own."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from moorage.protocols.blobs import BlobPath, parse_path
from moorage.protocols.wire.blobs import (
    BlobNotFound,
    BlobRangeNotSatisfiable,
    BlobStoreUnavailable,
    InvalidBlobUpload,
    LedgerBlobImmutableConflict,
)
from moorage.r2 import Bucket
from moorage.r2.layouts.blobs import BlobLayout, PathLocks

from .stores import KINDS, bucket_of

PATH = parse_path("ledger/v1/race")
MUTABLE = parse_path("assets/race")


@pytest_asyncio.fixture(params=KINDS)
async def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bucket]:
    async with bucket_of(request.param, tmp_path) as opened:
        yield opened


def process(bucket: Any) -> BlobLayout:
    """The layout as another process has it."""
    return BlobLayout(bucket, PathLocks())


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


async def uploaded(layout: BlobLayout, path: BlobPath, content: bytes) -> tuple[str, list[dict[str, Any]]]:
    """An upload that waits for its completion."""
    upload = await layout.start(path, digest(content), len(content))
    assert upload is not None
    etag = await layout.part(path, upload, 1, content)
    return upload, [{"partNumber": 1, "etag": etag}]


async def stored(bucket: Bucket, path: BlobPath) -> bytes:
    found: Any = await bucket.get(path.text)
    return bytes(await found.bytes())


async def test_completions_and_puts_of_one_immutable_path_race(bucket: Bucket) -> None:
    contents = [b"%d" % (number % 3) for number in range(6)]
    layouts = [process(bucket) for _ in contents]
    pending = [await uploaded(layout, PATH, content) for layout, content in zip(layouts, contents, strict=True)]
    outcomes = await asyncio.gather(
        *(
            layout.complete(PATH, upload, digest(content), len(content), parts)
            for layout, content, (upload, parts) in zip(layouts, contents, pending, strict=True)
        ),
        *(process(bucket).put(PATH, content, digest(content)) for content in contents),
        return_exceptions=True,
    )
    assert outcomes.count(True) == 1
    won = [*contents, *contents][outcomes.index(True)]
    for content, outcome in zip([*contents, *contents], outcomes, strict=True):
        if content == won:
            assert outcome in (True, False)
        else:
            assert isinstance(outcome, LedgerBlobImmutableConflict)
    assert await stored(bucket, PATH) == won


@pytest.mark.parametrize("path", [PATH, MUTABLE], ids=["immutable", "mutable"])
async def test_one_upload_completed_by_two_processes(bucket: Bucket, path: BlobPath) -> None:
    content = b"once"
    upload, parts = await uploaded(process(bucket), path, content)
    outcomes = await asyncio.gather(
        *(process(bucket).complete(path, upload, digest(content), len(content), parts) for _ in range(4)),
        return_exceptions=True,
    )
    assert set(outcomes) <= {True, False}
    assert True in outcomes
    assert await stored(bucket, path) == content


class Between:
    """A bucket in which something happens just before a call."""

    def __init__(self, bucket: Bucket, **steps: Any) -> None:
        self._bucket = bucket
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            if name in self._steps:
                await self._steps[name]()
            return await getattr(self._bucket, name)(*arguments)

        return getattr(self._bucket, name) if name.startswith(("resume", "create")) else call


async def test_a_rival_completes_between_the_look_and_the_completion(bucket: Bucket) -> None:
    content = b"mine"
    for rival, outcome in ((b"mine", False), (b"theirs", LedgerBlobImmutableConflict)):
        upload, parts = await uploaded(process(bucket), PATH, content)
        looks = 0

        async def late(rival: bytes = rival) -> None:
            nonlocal looks
            looks += 1
            if looks == 2:  # the first look saw nothing, the completion was refused
                assert await stored(bucket, PATH) == rival

        class Racing(Between):
            def resumeMultipartUpload(self, key: str, upload: str, rival: bytes = rival) -> Any:
                handle = bucket.resumeMultipartUpload(key, upload)
                complete = handle.complete

                async def after_the_rival(*arguments: Any) -> Any:
                    await bucket.put(PATH.text, rival, {"customMetadata": {"sha256": digest(rival)}})
                    return await complete(*arguments)

                handle.complete = after_the_rival  # type: ignore[method-assign, assignment]
                return handle

        racing = process(Racing(bucket, head=late))
        work = racing.complete(PATH, upload, digest(content), len(content), parts)
        if outcome is False:
            assert await work is False
        else:
            with pytest.raises(LedgerBlobImmutableConflict):
                await work
        assert await stored(bucket, PATH) == rival
        await bucket.delete(PATH.text)


async def test_a_chunk_is_of_one_object_whatever_happens_meanwhile(bucket: Bucket) -> None:
    layout = process(bucket)
    await layout.put(MUTABLE, b"0123456789", digest(b"0123456789"))
    blob, served, found = await layout.chunk(MUTABLE, 4, 100)
    assert (blob.size, blob.digest, served) == (10, digest(b"0123456789"), 6)
    assert bytes(await found.bytes()) == b"456789"
    with pytest.raises(BlobRangeNotSatisfiable) as caught:
        await layout.chunk(MUTABLE, 10, 1)
    assert caught.value.body() == {"error": "invalid_blob_range", "bytes": 10}
    with pytest.raises(BlobNotFound):
        await layout.chunk(parse_path("assets/none"), 0, 1)

    async def longer() -> None:
        await bucket.put(MUTABLE.text, b"x" * 30)

    blob, served, found = await process(Between(bucket, head=longer)).chunk(MUTABLE, 20, 100)
    assert (blob.size, blob.digest, served) == (30, None, 10)
    assert bytes(await found.bytes()) == b"x" * 10

    async def gone() -> None:
        await bucket.delete(MUTABLE.text)

    with pytest.raises(BlobNotFound):
        await process(Between(bucket, head=gone)).chunk(MUTABLE, 40, 1)


async def test_a_blob_that_changes_with_every_look_is_no_endless_loop(tmp_path: Path) -> None:
    async with bucket_of("memory", tmp_path) as bucket:

        async def there() -> None:
            await bucket.put(MUTABLE.text, b"x" * 30)

        async def short() -> None:
            await bucket.put(MUTABLE.text, b"x")

        with pytest.raises(BlobStoreUnavailable):
            await process(Between(bucket, head=there, get=short)).chunk(MUTABLE, 20, 1)


async def test_an_unknown_upload_is_refused(bucket: Bucket) -> None:
    layout = process(bucket)
    upload, parts = await uploaded(layout, PATH, b"x")
    await layout.abort(PATH, upload)
    for unknown in (upload, "u", "u" * 100, "\u00e9"):
        with pytest.raises(InvalidBlobUpload):
            await layout.complete(PATH, unknown, digest(b"x"), 1, parts)
        with pytest.raises(InvalidBlobUpload):
            await layout.part(PATH, unknown, 1, b"x")
    assert await layout.stat(PATH) is None
