"""Blob and cursor routes under bodies of every kind, a bucket that fails, and races: one clear answer each."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.protocols.wire import catalogue
from moorage.r2.errors import InternalError
from tests.support.plane import Plane

CODES = {(kind.code, kind.status) for kind in catalogue()}
BLOBS = "/internal/state/blobs/"
OPERATIONS = (
    "put",
    "stat",
    "chunk",
    "list",
    "multipart/start",
    "multipart/part",
    "multipart/complete",
    "multipart/abort",
)
DIGEST = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
GOOD: dict[str, Any] = {
    "path": "assets/x",
    "prefix": "assets",
    "digest": DIGEST,
    "contentBase64": "eA==",
    "offset": 0,
    "length": 1,
    "limit": 2,
    "cursor": None,
    "bytes": 1,
    "uploadId": "u",
    "partNumber": 1,
    "parts": [{"partNumber": 1, "etag": "e"}],
    "next_cursor": 1,
    "expected_revision": 0,
}
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(list(GOOD)), inner, max_size=3),
    max_leaves=6,
)
spoiled = st.fixed_dictionaries({}, optional={name: st.just(value) | anything for name, value in GOOD.items()})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(OPERATIONS), spoiled), min_size=1, max_size=8))
def test_spoiled_bodies_have_a_clear_answer(calls: list[tuple[str, dict[str, Any]]]) -> None:
    async def go() -> None:
        async with Plane() as plane:
            for operation, body in calls:
                answer = await plane.signed("POST", BLOBS + operation, json.dumps(body).encode())
                assert answer.status < 500, (operation, body, answer)
                if answer.status >= 400:
                    assert (answer.json()["error"], answer.status) in CODES

    asyncio.run(go())


@settings(max_examples=60, deadline=None)
@given(st.lists(spoiled | anything, min_size=1, max_size=8))
def test_spoiled_cursors_have_a_clear_answer(bodies: list[Any]) -> None:
    async def go() -> None:
        async with Plane() as plane:
            for body in bodies:
                answer = await plane.signed("PUT", "/internal/state/cursors/audit", json.dumps(body).encode())
                assert answer.status in {202, 400, 409}
                assert answer.status == 202 or (answer.json()["error"], answer.status) in CODES

    asyncio.run(go())


@pytest.mark.parametrize(
    "parts",
    [
        GOOD["parts"],
        [{"partNumber": 10_001, "etag": "e"}],
        [{"partNumber": 1, "etag": ""}],
        [{"partNumber": 1, "etag": "e"}, {"partNumber": "1", "etag": "e"}],
    ],
)
async def test_parts_that_no_upload_has(parts: list[dict[str, Any]]) -> None:
    """A well-formed list of them is weighed after a blob that is already there, as an unknown upload is."""
    body = json.dumps({**GOOD, "path": "ledger/v1/x", "parts": parts}).encode()
    complete = BLOBS + "multipart/complete"
    async with Plane() as plane:
        answer = await plane.signed("POST", complete, body)
        assert (answer.status, answer.json()) == (400, {"error": "invalid_blob_upload"})
        put = await plane.signed("POST", BLOBS + "put", json.dumps({**GOOD, "path": "ledger/v1/x"}).encode())
        assert put.status == 201
        answer = await plane.signed("POST", complete, body)
        assert answer.status == 200
        assert answer.json()["unchanged"] is True


@pytest.mark.parametrize("cursor", ["###", "\u00e9", "=", "a", "\x00"])
async def test_a_cursor_of_no_listing_is_some_position(cursor: str) -> None:
    async with Plane() as plane:
        body = json.dumps({"prefix": "assets", "cursor": cursor}).encode()
        assert (await plane.signed("POST", BLOBS + "list", body)).status == 200


@pytest.mark.parametrize("operation", OPERATIONS[:-1])
async def test_a_bucket_that_fails_is_a_503_without_internals(operation: str) -> None:
    class Failing:
        def __getattr__(self, name: str) -> Any:
            def fail(*args: Any) -> Any:
                raise InternalError("disk /var/lib/secret")

            return fail

    async with Plane() as plane:
        plane.env.STATE_SNAPSHOTS = Failing()
        answer = await plane.signed("POST", BLOBS + operation, json.dumps(GOOD).encode())
        assert (answer.status, answer.json()) == (503, {"error": "blob_store_unavailable"})
        abort = await plane.signed("POST", BLOBS + "multipart/abort", json.dumps(GOOD).encode())
        assert (abort.status, abort.json()) == (200, {"ok": True, "path": "assets/x"})


async def test_puts_of_one_immutable_path_race() -> None:
    async with Plane() as plane:
        import base64
        import hashlib

        def body(text: bytes) -> bytes:
            value = {
                "path": "ledger/v1/race",
                "digest": hashlib.sha256(text).hexdigest(),
                "contentBase64": base64.b64encode(text).decode(),
            }
            return json.dumps(value).encode()

        texts = [b"%d" % (number % 4) for number in range(24)]
        answers = await asyncio.gather(*(plane.signed("POST", BLOBS + "put", body(text)) for text in texts))
        statuses = [answer.status for answer in answers]
        assert statuses.count(201) == 1
        won = texts[statuses.index(201)]
        for text, status in zip(texts, statuses, strict=True):
            assert status in ({201, 200} if text == won else {409})
        found = await plane.bucket.get("ledger/v1/race")
        assert found is not None
        assert await found.bytes() == won  # type: ignore[attr-defined]


async def test_a_chunk_whose_bytes_cannot_be_read_is_a_503() -> None:
    """Not a 206 that breaks off: short chunks are read before the answer begins."""

    class Torn:
        key, size, customMetadata = "assets/x", 10, {"sha256": DIGEST}

        async def bytes(self) -> bytes:
            raise InternalError("blob 41b4 is shorter than its row says")

    class Bucket:
        async def get(self, *arguments: Any) -> Torn:
            return Torn()

    async with Plane() as plane:
        plane.env.STATE_SNAPSHOTS = Bucket()
        answer = await plane.signed("POST", BLOBS + "chunk", json.dumps(GOOD).encode())
        assert (answer.status, answer.json()) == (503, {"error": "blob_store_unavailable"})


@pytest.mark.parametrize("size", [1, 1024 * 1024, 1024 * 1024 + 1, 3 * 1024 * 1024])
async def test_chunks_come_back_whole(size: int) -> None:
    async with Plane() as plane:
        content = bytes(range(256)) * (size // 256 + 1)
        await plane.bucket.put("assets/x", content)
        body = json.dumps({"path": "assets/x", "offset": 3, "length": size}).encode()
        answer = await plane.signed("POST", BLOBS + "chunk", body)
        served = content[3 : 3 + size]
        assert answer.status == 206
        assert answer.body == served
        assert answer.headers["content-length"] == str(len(served))
        assert answer.headers["content-range"] == f"bytes 3-{2 + len(served)}/{len(content)}"
