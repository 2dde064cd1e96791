"""The contract of `r2/backend.py`, on every backend, through the API that Workers use."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from moorage.r2 import Bucket, R2Error, R2Object, R2ObjectBody, RangeError

from .stores import KINDS, HandClock, bucket_of

MEBIBYTE = 1024**2


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest_asyncio.fixture(params=KINDS)
async def bucket(request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock) -> AsyncIterator[Bucket]:
    async with bucket_of(request.param, tmp_path, clock) as opened:
        yield opened


async def text_of(bucket: Bucket, key: str) -> str | None:
    found = await bucket.get(key)
    if found is None:
        return None
    assert isinstance(found, R2ObjectBody)
    return await found.text()


async def stream(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def test_put_get_head_delete(bucket: Bucket, clock: HandClock) -> None:
    put = await bucket.put("folder/a b?c#d", "hello")
    assert put is not None
    assert (put.size, put.etag) == (5, hashlib.md5(b"hello").hexdigest())
    assert put.httpEtag == f'"{put.etag}"'
    assert put.uploaded == datetime.fromtimestamp(clock.ms / 1000, UTC)
    assert put.range is None
    assert put["key"] == "folder/a b?c#d"
    got = await bucket.get("folder/a b?c#d")
    assert isinstance(got, R2ObjectBody)
    assert await got.text() == "hello"
    assert got.version == put.version
    assert got.uploaded == put.uploaded
    assert got.range == {"offset": 0, "length": 5}
    head = await bucket.head("folder/a b?c#d")
    assert head is not None
    assert head.version == put.version
    assert head.checksums.md5 == hashlib.md5(b"hello").digest()
    assert head.checksums.sha256 is None
    await bucket.delete("folder/a b?c#d")
    await bucket.delete("folder/a b?c#d")
    assert await bucket.get("folder/a b?c#d") is None
    assert await bucket.head("folder/a b?c#d") is None


@pytest.mark.parametrize("key", ["a/../b", "./x", "..", "/lead", "a//b", "%2F", "ü/😀", "tab\there", "a+b&c=d"])
async def test_keys_are_taken_as_they_are(bucket: Bucket, key: str) -> None:
    await bucket.put(key, key)
    assert await text_of(bucket, key) == key
    assert [item.key for item in (await bucket.list()).objects] == [key]
    await bucket.delete(key)
    assert (await bucket.list()).objects == []


@pytest.mark.parametrize("size", [0, 1, 300_000, 9 * MEBIBYTE])
async def test_values_come_back_whole(bucket: Bucket, size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    data = data[:size]
    sources: dict[str, Any] = {
        "bytes": data,
        "bytearray": bytearray(data),
        "memoryview": memoryview(data),
        "stream": stream(*(data[start : start + 70_001] for start in range(0, size, 70_001))),
    }
    for name, source in sources.items():
        await bucket.put(name, source)
        got = await bucket.get(name)
        assert isinstance(got, R2ObjectBody)
        assert got.size == size
        assert got.etag == hashlib.md5(data).hexdigest()
        assert await got.bytes() == data


async def test_a_body_is_read_in_chunks_by_iteration_or_reader(bucket: Bucket) -> None:
    data = b"0123456789" * 250_000
    await bucket.put("k", data)
    got = await bucket.get("k")
    assert isinstance(got, R2ObjectBody)
    assert not got.bodyUsed
    chunks = [chunk async for chunk in got]
    assert b"".join(chunks) == data
    assert 1 < len(chunks) < 100
    assert got.bodyUsed
    with pytest.raises(TypeError, match="Body has already been used"):
        await got.text()
    got = await bucket.get("k")
    assert isinstance(got, R2ObjectBody)
    reader = got.body.getReader()
    read = bytearray()
    while not (step := await reader.read()).done:
        read += step.value
    assert bytes(read) == data
    got = await bucket.get("k")
    assert isinstance(got, R2ObjectBody)
    assert b"".join([chunk async for chunk in got.body]) == data


async def test_an_open_body_survives_overwrite_and_delete(bucket: Bucket) -> None:
    old = b"old" * 400_000
    await bucket.put("k", old)
    first, second = await bucket.get("k"), await bucket.get("k")
    assert isinstance(first, R2ObjectBody)
    assert isinstance(second, R2ObjectBody)
    await bucket.put("k", "new")
    assert await first.bytes() == old
    await bucket.delete("k")
    assert await second.bytes() == old
    assert await bucket.get("k") is None


async def test_a_body_may_be_left_unread(bucket: Bucket) -> None:
    await bucket.put("k", b"x" * 900_000)
    for _ in range(40):
        got = await bucket.get("k")
        assert isinstance(got, R2ObjectBody)
    got = await bucket.get("k")
    assert isinstance(got, R2ObjectBody)
    async for _chunk in got:
        break
    assert await text_of(bucket, "k") == "x" * 900_000


async def test_metadata(bucket: Bucket) -> None:
    expiry = datetime(2030, 1, 2, 3, 4, 5, 678_000, UTC)
    custom = {"Upper": "é😀", "plain": "a b", "empty": "", "moorage": "mine", "spaces": "  x "}
    await bucket.put(
        "k",
        "x",
        {"httpMetadata": {"contentType": "text/x", "cacheExpiry": expiry, "contentEncoding": "gzip"}},
        customMetadata=custom,
        sha256=hashlib.sha256(b"x").hexdigest(),
    )
    for found in (await bucket.head("k"), await bucket.get("k")):
        assert found is not None
        assert found.httpMetadata == {"contentType": "text/x", "cacheExpiry": expiry, "contentEncoding": "gzip"}
        assert found.httpMetadata.contentType == "text/x"
        assert found.customMetadata == custom
        assert found.checksums.toJSON().keys() == {"md5", "sha256"}
        headers = {"content-type": "old", "x-other": "kept"}
        found.writeHttpMetadata(headers)
        assert headers == {
            "content-type": "text/x",
            "x-other": "kept",
            "content-encoding": "gzip",
            "expires": "Wed, 02 Jan 2030 03:04:05 GMT",
        }


async def test_keywords_win_and_unknown_ones_are_refused(bucket: Bucket) -> None:
    options = {"customMetadata": {"a": "1"}, "unknown to the platform": True}
    put = await bucket.put("k", "x", options, customMetadata={"a": "2"})
    assert put is not None
    assert put.customMetadata == {"a": "2"}
    with pytest.raises(TypeError, match="unexpected option 'custommetadata'"):
        await bucket.put("k", "x", custommetadata={})


async def test_create_only_is_one_step(bucket: Bucket) -> None:
    results = await asyncio.gather(
        *(bucket.put("k", f"writer {number}", onlyIf={"etagDoesNotMatch": "*"}) for number in range(12))
    )
    winners = [number for number, result in enumerate(results) if result is not None]
    assert len(winners) == 1
    assert await text_of(bucket, "k") == f"writer {winners[0]}"


@pytest.mark.parametrize("how", ["etag", "date"])
async def test_compare_and_swap_loses_no_update(bucket: Bucket, clock: HandClock, how: str) -> None:
    """Counting with conditional puts: every success is one step, whoever wrote in between."""
    await bucket.put("n", "0")
    successes = 0

    async def count() -> None:
        nonlocal successes
        for _ in range(4):
            seen = await bucket.get("n")
            assert isinstance(seen, R2ObjectBody)
            value = int(await seen.text())
            clock.advance(5)
            condition = (
                {"etagMatches": seen.etag}
                if how == "etag"
                else {"uploadedBefore": seen.uploaded, "etagMatches": seen.etag}
            )
            if await bucket.put("n", str(value + 1), onlyIf=condition) is not None:
                successes += 1

    await asyncio.gather(*(count() for _ in range(5)))
    assert successes >= 4
    assert await text_of(bucket, "n") == str(successes)


async def test_conditions_on_dates(bucket: Bucket, clock: HandClock) -> None:
    put = await bucket.put("k", "one")
    assert put is not None
    earlier, later = (datetime.fromtimestamp((clock.ms + by) / 1000, UTC) for by in (-1, 1))
    assert await bucket.put("k", "no", onlyIf={"uploadedBefore": put.uploaded}) is None
    assert await bucket.put("k", "no", onlyIf={"uploadedAfter": put.uploaded}) is None
    assert await bucket.put("k", "no", onlyIf={"uploadedBefore": earlier}) is None
    assert await text_of(bucket, "k") == "one"
    assert await bucket.put("k", "two", onlyIf={"uploadedBefore": later, "uploadedAfter": earlier}) is not None
    assert await text_of(bucket, "k") == "two"
    assert await bucket.put("absent", "no", onlyIf={"uploadedAfter": earlier}) is None
    assert await bucket.put("absent", "yes", onlyIf={"uploadedBefore": earlier}) is not None


async def test_failed_conditions_of_get(bucket: Bucket) -> None:
    put = await bucket.put("k", "hello")
    assert put is not None
    failed = await bucket.get("k", onlyIf={"etagDoesNotMatch": put.etag}, range={"offset": 100})
    assert type(failed) is R2Object
    assert not hasattr(failed, "body")
    assert failed.range == {"offset": 0, "length": 5}
    assert await bucket.get("absent", onlyIf={"etagMatches": "x"}) is None


async def test_ranges(bucket: Bucket) -> None:
    data = bytes(range(250)) * 4000
    await bucket.put("k", data)
    for asked, span in (
        ({"offset": 300_000, "length": 500_000}, (300_000, 500_000)),
        ({"suffix": 7}, (999_993, 7)),
        ({"offset": 999_999, "length": 9}, (999_999, 1)),
        ({"length": 3}, (0, 3)),
        ({}, (0, 1_000_000)),
    ):
        got = await bucket.get("k", range=asked)
        assert isinstance(got, R2ObjectBody)
        assert got.size == 1_000_000
        assert got.range == dict(zip(("offset", "length"), span, strict=True))
        assert await got.bytes() == data[span[0] : span[0] + span[1]]
    with pytest.raises(R2Error, match=r"^get: The requested range is not satisfiable \(10039\)$"):
        await bucket.get("k", range={"offset": 1_000_000})
    with pytest.raises(RangeError):
        await bucket.get("k", range={"offset": -1})


async def test_a_wrong_checksum_changes_nothing(bucket: Bucket) -> None:
    await bucket.put("k", "old")
    for value in (b"new", stream(b"ne", b"w"), b"n" * 20 * MEBIBYTE):
        with pytest.raises(R2Error, match="The SHA-1 checksum you specified did not match") as caught:
            await bucket.put("k", value, sha1="00" * 20)
        assert caught.value.code == 10037
    assert await text_of(bucket, "k") == "old"


class Broken(Exception):
    pass


async def breaking(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
    raise Broken


@pytest.mark.parametrize("chunks", [(), (b"half",), (b"x" * 6 * MEBIBYTE,) * 4], ids=["none", "small", "large"])
@pytest.mark.parametrize("condition", [None, {"etagMatches": "*"}], ids=["plain", "conditional"])
async def test_a_broken_stream_changes_nothing(
    bucket: Bucket, chunks: tuple[bytes, ...], condition: dict[str, str] | None
) -> None:
    await bucket.put("k", "old")
    with pytest.raises(Broken):
        await bucket.put("k", breaking(*chunks), onlyIf=condition)
    with pytest.raises(Broken):
        await bucket.put("new", breaking(*chunks))
    assert await text_of(bucket, "k") == "old"
    assert [item.key for item in (await bucket.list()).objects] == ["k"]


async def test_a_cancelled_upload_changes_nothing(bucket: Bucket) -> None:
    await bucket.put("k", "old")
    reached, closed = asyncio.Event(), asyncio.Event()

    async def stuck() -> AsyncIterator[bytes]:
        try:
            yield b"x" * 700_000
            yield b"x" * 700_000
            reached.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    upload = asyncio.create_task(bucket.put("k", stuck()))
    await reached.wait()
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert closed.is_set()
    assert await text_of(bucket, "k") == "old"


async def test_list_pages_cover_everything_once(bucket: Bucket) -> None:
    keys = sorted(
        {f"{letter}/{number}" for letter in "aé😀z" for number in range(7)} | {"a", "b", "z"}, key=str.encode
    )
    for key in keys:
        await bucket.put(key, "")
    for limit in (1, 2, 5, 1000):
        seen: list[str] = []
        groups: list[str] = []
        for delimiter in ("", "/"):
            seen, groups, cursor = [], [], None
            while True:
                page = await bucket.list(limit=limit, cursor=cursor, delimiter=delimiter)
                assert len(page.objects) + len(page.delimitedPrefixes) <= limit
                seen += [item.key for item in page.objects]
                groups += page.delimitedPrefixes
                assert page.truncated == (page.cursor is not None)
                if not page.truncated:
                    break
                cursor = page.cursor
            assert seen == [key for key in keys if not delimiter or "/" not in key]
            assert groups == ([f"{letter}/" for letter in "azé😀"] if delimiter else [])


async def test_list_that_begins_inside_a_group(bucket: Bucket) -> None:
    for key in ("a/1", "a/2", "b/1", "c"):
        await bucket.put(key, "")
    page = await bucket.list(delimiter="/", startAfter="a/1")
    assert (page.delimitedPrefixes, [item.key for item in page.objects]) == (["a/", "b/"], ["c"])
    page = await bucket.list(delimiter="/", startAfter="a/2", limit=1)
    assert (page.delimitedPrefixes, page.truncated) == (["b/"], True)
    page = await bucket.list(delimiter="/", prefix="b/", startAfter="b/0")
    assert [item.key for item in page.objects] == ["b/1"]


async def test_list_includes_metadata_on_request(bucket: Bucket) -> None:
    for number in range(3):
        await bucket.put(f"k{number}", "x", httpMetadata={"contentType": "a/b"}, customMetadata={"n": number})
    bare = (await bucket.list()).objects[1]
    assert bare.customMetadata == {}
    with pytest.raises(TypeError, match="HTTP metadata unknown for key `k1`"):
        bare.writeHttpMetadata({})
    full = (await bucket.list(include=["customMetadata", "httpMetadata"])).objects[1]
    assert (full.customMetadata, full.httpMetadata) == ({"n": "1"}, {"contentType": "a/b"})
    with pytest.raises(RangeError, match="Unsupported include value etag"):
        await bucket.list(include=["etag"])
    with pytest.raises(TypeError, match="'prefix' field on 'ListOptions'"):
        await bucket.list(prefix=5)


async def test_delete_many(bucket: Bucket) -> None:
    keys = [f"k{number:02d}" for number in range(30)]
    await asyncio.gather(*(bucket.put(key, key) for key in keys))
    await bucket.delete([*keys[:29], "absent", keys[0]])
    assert [item.key for item in (await bucket.list()).objects] == [keys[29]]
    await bucket.delete([])


async def test_multipart(bucket: Bucket) -> None:
    first, last = b"a" * 5 * MEBIBYTE, b"tail"
    upload = await bucket.createMultipartUpload("big", httpMetadata={"contentType": "x/y"}, customMetadata={"A": "1"})
    resumed = await bucket.resumeMultipartUpload("big", upload.uploadId)
    one = await resumed.uploadPart(2, stream(first))
    replaced = await upload.uploadPart(7, "other")
    two = await upload.uploadPart(7, last)
    await upload.uploadPart(9, "not named")
    assert await bucket.head("big") is None
    with pytest.raises(R2Error, match=r"^completeMultipartUpload: .* \(10025\)$"):
        await upload.complete([one, replaced])
    done = await upload.complete([{"partNumber": 2, "etag": one.etag}, two])
    assert done.size == 5 * MEBIBYTE + 4
    digests = hashlib.md5(first).digest() + hashlib.md5(last).digest()
    assert done.etag == f"{hashlib.md5(digests).hexdigest()}-2"
    assert done.checksums.toJSON() == {}
    got = await bucket.get("big")
    assert isinstance(got, R2ObjectBody)
    assert (got.customMetadata, got.httpMetadata) == ({"A": "1"}, {"contentType": "x/y"})
    assert await got.bytes() == first + last
    part = await bucket.get("big", range={"offset": 5 * MEBIBYTE - 2, "length": 4})
    assert isinstance(part, R2ObjectBody)
    assert await part.text() == "aata"
    for late in (upload.complete([one, two]), upload.uploadPart(3, "x")):
        with pytest.raises(R2Error, match="10024"):
            await late
    await upload.abort()
    assert await bucket.head("big") is not None
    await bucket.delete("big")
    assert await bucket.head("big") is None


async def test_an_open_multipart_body_survives_overwrite(bucket: Bucket) -> None:
    upload = await bucket.createMultipartUpload("big")
    parts = [await upload.uploadPart(number, bytes([number]) * 5 * MEBIBYTE) for number in (1, 2)]
    await upload.complete(parts)
    got = await bucket.get("big")
    assert isinstance(got, R2ObjectBody)
    chunks = aiter(got)
    start = await anext(chunks)
    await bucket.put("big", "small")
    rest = b"".join([chunk async for chunk in chunks])
    assert start + rest == b"\1" * 5 * MEBIBYTE + b"\2" * 5 * MEBIBYTE
    assert await text_of(bucket, "big") == "small"


async def test_an_upload_is_completed_create_only(bucket: Bucket) -> None:
    """Ours alone: the platform's `complete` takes no condition."""
    create_only = {"onlyIf": {"etagDoesNotMatch": "*"}}
    await bucket.put("k", "there")
    upload = await bucket.createMultipartUpload("k")
    part = await upload.uploadPart(1, "late")
    assert await upload.complete([part], create_only) is None
    assert await text_of(bucket, "k") == "there"
    with pytest.raises(R2Error, match="10025"):
        await upload.complete([{"partNumber": 1, "etag": "wrong"}], create_only)
    await bucket.delete("k")
    done = await upload.complete([part], onlyIf=create_only["onlyIf"])  # it has stayed open
    assert done is not None
    assert done.size == 4
    assert await text_of(bucket, "k") == "late"
    other = await bucket.createMultipartUpload("k")
    replacing = await other.complete([await other.uploadPart(1, "later")])
    assert replacing.size == 5
    for condition in ({"etagMatches": replacing.etag}, {"etagDoesNotMatch": "x"}, {"uploadedBefore": 0}):
        with pytest.raises(TypeError, match="create-only"):
            await other.complete([part], onlyIf=condition)
    with pytest.raises(TypeError, match="unexpected option"):
        await other.complete([part], sha256="00" * 32)


async def test_of_rivals_that_complete_create_only_one_wins(bucket: Bucket) -> None:
    uploads = [await bucket.createMultipartUpload("race") for _ in range(4)]
    parts = [await upload.uploadPart(1, f"rival {number}") for number, upload in enumerate(uploads)]
    create_only = {"onlyIf": {"etagDoesNotMatch": "*"}}
    *results, put = await asyncio.gather(
        *(upload.complete([part], create_only) for upload, part in zip(uploads, parts, strict=True)),
        bucket.put("race", "put", create_only),
    )
    won = [number for number, result in enumerate([*results, put]) if result is not None]
    assert len(won) == 1
    assert await text_of(bucket, "race") == ("put" if won == [4] else f"rival {won[0]}")


async def test_a_broken_part_keeps_the_part_before(bucket: Bucket) -> None:
    upload = await bucket.createMultipartUpload("k")
    good = await upload.uploadPart(1, "good")
    with pytest.raises(Broken):
        await upload.uploadPart(1, breaking(b"half"))
    assert (await upload.complete([good])).size == 4


async def test_differences_are_written_down(bucket: Bucket) -> None:
    assert all(name and len(reason) > 20 for name, reason in bucket.backend.differences.items())


async def test_closing_twice_is_allowed(bucket: Bucket) -> None:
    await bucket.put("k", "x")
    await bucket.close()
    await bucket.close()


async def test_a_closed_bucket_refuses_work(bucket: Bucket) -> None:
    await bucket.close()
    for work in (bucket.put("k", "x"), bucket.get("k"), bucket.list(), bucket.delete("k")):
        with pytest.raises(R2Error, match="10001"):
            await work
