"""Building, registering, uploading and pruning snapshots, with buckets that fail."""

import asyncio
import base64
import gzip
import hashlib
import io
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from moorage.durable_objects.objects import snapshots as stores
from moorage.durable_objects.objects.records import Records
from moorage.protocols import snapshots as rules
from moorage.protocols.snapshot_uploads import OPERATION_LIFETIME_MS
from tests.objects.record_requests import commit_lot, tuple_write
from tests.objects.sqlite_storage import Storage
from tests.support.plane import Plane

SLUG = "acme-widgets"


@asynccontextmanager
async def plane() -> AsyncIterator[Plane]:
    async with Plane() as opened:
        yield opened


async def post(opened: Plane, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    answer = await opened.signed("POST", f"/internal/state/records/{path}", msgspec.json.encode(body))
    return answer.status, answer.json()


async def write(opened: Plane, number: int, text: str, slug: str = SLUG) -> None:
    operations: list[dict[str, Any]] = [
        {"path": f"records/{slug}/items/{number}.md", "expectedDigest": None,
         "contentBase64": base64.b64encode(text.encode()).decode()},
        {"path": f"records/{slug}/closed/{number}.md", "expectedDigest": None},
        {"path": f"records/{slug}/plans/{number}.md", "expectedDigest": None},
        {"path": f"records/{slug}/decision-packets/{number}.json", "expectedDigest": None},
    ]  # fmt: skip
    body = {"deliveryId": f"{slug}-{number}", "key": f"{slug}/{number}", "operations": operations}
    assert (await post(opened, "tuples", body))[0] == 202


def names(archive: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive)), mode="r:") as opened:
        return opened.getnames()


class SmallBucket:
    """Takes a multipart upload and remembers the sizes of its parts; may fail at a part or at the end."""

    def __init__(self, fail_at: int = 0) -> None:
        self.parts: list[bytes] = []
        self.fail_at = fail_at
        self.completed = self.aborted = False

    async def createMultipartUpload(self, key: str, options: Any) -> "SmallBucket":
        return self

    async def uploadPart(self, number: int, data: bytes) -> dict[str, Any]:
        if number == self.fail_at:
            raise OSError("the connection was cut")
        self.parts.append(data)
        return {"partNumber": number, "etag": str(number)}

    async def complete(self, parts: Any) -> None:
        self.completed = True

    async def abort(self) -> None:
        self.aborted = True


async def test_parts_are_8_mib_and_the_archive_is_whole() -> None:
    storage = Storage()
    records = Records(storage, lambda: 1)
    for number in range(1, 13):
        noise = hashlib.shake_256(str(number).encode()).hexdigest(1_000_000)
        records.write_tuple(tuple_write(f"d-{number}", number, items=noise))
    bucket = SmallBucket()

    snapshot = await stores.build(records, bucket, SLUG, 48, 5)

    assert [len(part) for part in bucket.parts[:-1]] == [rules.BUILD_PART_BYTES] * (len(bucket.parts) - 1)
    assert len(bucket.parts) > 1
    assert bucket.completed
    archive = b"".join(bucket.parts)
    assert (snapshot.bytes, snapshot.file_count, snapshot.uncompressed_bytes) == (len(archive), 12, 24_000_000)
    assert names(archive) == [f"items/{number}.md" for number in sorted(map(str, range(1, 13)))]
    storage.close()


async def test_a_failed_part_aborts_the_upload() -> None:
    storage = Storage()
    records = Records(storage, lambda: 1)
    bucket = SmallBucket(fail_at=1)

    with pytest.raises(OSError, match="cut"):
        await stores.build(records, bucket, SLUG, 0, 5)

    assert bucket.aborted
    assert not bucket.completed
    storage.close()


async def test_a_page_of_ids_is_not_the_end() -> None:
    storage = Storage()
    records = Records(storage, lambda: 1)
    for start in range(0, stores.IDS_PER_PAGE + 30, 100):
        records.write_commits(commit_lot([f"c{number}\n" for number in range(start, start + 100)]))
    tally = {"files": 0, "bytes": 0}

    chunks = [chunk async for chunk in stores.tar_stream(records, SLUG, tally)]

    assert tally["files"] == len(chunks) - 1 == 600
    storage.close()


async def test_a_bucket_that_fails_is_503_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with plane() as opened:

        async def fail(*args: Any) -> Any:
            raise OSError("disk full")

        monkeypatch.setattr(opened.bucket, "createMultipartUpload", fail)
        status, body = await post(opened, "snapshots/trigger", {"repoSlug": SLUG})

        assert (status, body["error"], body["snapshotStoreAvailable"]) == (503, "snapshot_store_unavailable", False)
        assert "disk full" not in str(body)
        assert (await post(opened, "snapshots/latest", {"repoSlug": SLUG}))[0] == 404


async def test_a_lost_object_is_said_and_not_served() -> None:
    async with plane() as opened:
        _, body = await post(opened, "snapshots/trigger", {"repoSlug": SLUG})
        await opened.bucket.delete(body["snapshot"]["objectKey"])

        assert (await post(opened, "snapshots/latest", {"repoSlug": SLUG}))[0] == 503
        chunk = {"repoSlug": SLUG, "revisionWatermark": 0, "offset": 0, "length": 1}
        assert (await post(opened, "snapshots/chunk", chunk))[0] == 503


async def test_slugs_of_blob_prefixes_have_none() -> None:
    async with plane() as opened:
        assert (await post(opened, "snapshots/trigger", {"repoSlug": "assets"}))[0] == 400
        assert (await post(opened, "snapshots/latest", {"repoSlug": "assets"}))[0] == 404


def start_body(archive: bytes, identities: list[list[str]], watermark: int, **more: Any) -> dict[str, Any]:
    return {
        "repoSlug": SLUG,
        "revisionWatermark": watermark,
        "bytes": len(archive),
        "uncompressedBytes": 10,
        "fileCount": len(identities),
        "identityDigest": rules.identity_digest([(pair[0], pair[1]) for pair in identities]),
        "sha256": hashlib.sha256(archive).hexdigest(),
        **more,
    }


async def upload(opened: Plane, archive: bytes, start: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    status, begun = await post(opened, "snapshots/upload/start", start)
    assert status == 201, begun
    data = {"data": base64.b64encode(archive).decode(), "sha256": hashlib.sha256(archive).hexdigest()}
    status, part = await post(
        opened, "snapshots/upload/part", {"uploadId": begun["uploadId"], "partNumber": 1, **data}
    )
    assert status == 200, part
    return begun["uploadId"], [part["part"]]


async def test_coverage_is_proven_by_identities() -> None:
    async with plane() as opened:
        await write(opened, 1, "one\n")
        await write(opened, 2, "two\n")
        wrong, right = [["items", "1"], ["items", "3"]], [["items", "1"], ["items", "2"]]
        for identities, status, code in ((wrong, 422, "snapshot_coverage_incomplete"), (right, 201, None)):
            upload_id, parts = await upload(opened, b"archive", start_body(b"archive", identities, 8))
            body = {"uploadId": upload_id, "parts": parts, "identities": identities}
            got, answer = await post(opened, "snapshots/upload/complete", body)
            assert (got, answer.get("error")) == (status, code)

        few = start_body(b"archive", [["items", "1"]], 8)
        upload_id, parts = await upload(opened, b"archive", few)
        body = {"uploadId": upload_id, "parts": parts, "identities": [["items", "1"]]}
        assert (await post(opened, "snapshots/upload/complete", body))[0] == 422


async def test_staged_lists_stand_in_for_identities_and_go_afterwards() -> None:
    async with plane() as opened:
        await write(opened, 1, "one\n")
        identities = [["items", "1"]]
        upload_id, parts = await upload(opened, b"archive", start_body(b"archive", identities, 4))
        complete = {"uploadId": upload_id, "parts": parts}
        status, answer = await post(opened, "snapshots/upload/complete", complete)
        assert (status, answer["error"]) == (400, "snapshot_manifest_missing")

        manifest = {"uploadId": upload_id, "partNumber": 1}
        for listed, code in (([["items", "2"]], None), (identities, "snapshot_manifest_conflict")):
            _, answer = await post(opened, "snapshots/upload/manifest", {**manifest, "identities": listed})
            assert answer.get("error") == code
        status, answer = await post(opened, "snapshots/upload/manifest", {**manifest, "identities": []})
        assert (status, answer["error"]) == (400, "invalid_snapshot_identities")
        status, answer = await post(opened, "snapshots/upload/manifest", {**manifest, "partNumber": 2})
        assert (status, answer["error"]) == (400, "invalid_snapshot_manifest_part")
        # the list is whole, and not the one that was declared
        _, answer = await post(opened, "snapshots/upload/complete", complete)
        assert answer == {"error": "snapshot_identity_digest_mismatch", "snapshotStoreAvailable": True}
        (staged,) = [found.key for found in (await opened.bucket.list()).objects if ".manifest/" in found.key]
        await opened.bucket.put(staged, msgspec.json.encode(identities))
        status, answer = await post(opened, "snapshots/upload/complete", complete)
        assert (status, answer["error"]) == (400, "snapshot_manifest_digest_mismatch")

        upload_id, parts = await upload(opened, b"archive", start_body(b"archive", identities, 4))
        manifest = {"uploadId": upload_id, "partNumber": 1, "identities": identities}
        assert (await post(opened, "snapshots/upload/manifest", manifest)) == (200, {"ok": True})
        assert (await post(opened, "snapshots/upload/complete", {"uploadId": upload_id, "parts": parts}))[0] == 201
        keys = [found.key for found in (await opened.bucket.list()).objects]
        assert [key for key in keys if ".manifest/" in key and upload_id in key] == []


async def test_an_operation_id_makes_a_start_repeatable() -> None:
    async with plane() as opened:
        body = start_body(b"archive", [], 0, operationId="op-1")
        first = await post(opened, "snapshots/upload/start", body)
        again = await post(opened, "snapshots/upload/start", body)
        assert (first[0], again[0]) == (201, 200)
        assert first[1] == again[1]

        other = await post(opened, "snapshots/upload/start", {**body, "uncompressedBytes": 11})
        assert other == (409, {"error": "snapshot_operation_conflict"})
        await post(opened, "snapshots/upload/abort", {"uploadId": first[1]["uploadId"]})
        assert (await post(opened, "snapshots/upload/start", body))[0] == 410


async def test_a_part_is_bound_to_its_bytes() -> None:
    async with plane() as opened:
        size = rules.PART_BYTES + 1
        body = start_body(b"x" * size, [], 0)
        _, begun = await post(opened, "snapshots/upload/start", body)
        for data, status in ((b"a", 200), (b"a", 200), (b"b", 409)):
            part = {
                "uploadId": begun["uploadId"],
                "partNumber": 2,
                "data": base64.b64encode(data).decode(),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
            assert (await post(opened, "snapshots/upload/part", part))[0] == status


async def test_what_an_expired_upload_left_is_removed_later() -> None:
    async with plane() as opened:
        upload_id, _ = await upload(opened, b"archive", start_body(b"archive", [["items", "1"]], 0))
        manifest = {"uploadId": upload_id, "partNumber": 1, "identities": [["items", "1"]]}
        await post(opened, "snapshots/upload/manifest", manifest)
        assert (await opened.bucket.list()).objects
        await opened.advance(OPERATION_LIFETIME_MS + 1)

        assert not (await opened.bucket.list()).objects


async def test_a_clean_up_that_fails_is_tried_again_and_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async with plane() as opened:
        await upload(opened, b"archive", start_body(b"archive", [["items", "1"]], 0))
        tried: list[int] = []

        async def fail(keys: Any) -> None:
            tried.append(opened.clock.now())
            raise OSError("down")

        monkeypatch.setattr(opened.bucket, "delete", fail)
        await opened.advance(24 * 3_600_000)

        waits = [(later - earlier) // 60_000 for earlier, later in pairwise(tried)]
        assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60]


async def test_an_archive_that_is_being_removed_is_not_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    async with plane() as opened:
        identities = [["items", "1"]]
        upload_id, parts = await upload(opened, b"archive", start_body(b"archive", identities, 0))
        complete = {"uploadId": upload_id, "parts": parts}
        # the archive is finished and not registered
        assert (await post(opened, "snapshots/upload/complete", {**complete, "identities": [["items", "2"]]}))[
            0
        ] == 400
        (archive,) = [found.key for found in (await opened.bucket.list()).objects]
        looked, removing, remove = asyncio.Event(), asyncio.Event(), asyncio.Event()
        head, delete = opened.bucket.head, opened.bucket.delete

        async def slow_head(key: str) -> Any:
            found = await head(key)
            if not removing.is_set():
                looked.set()
                await removing.wait()
            return found

        async def slow_delete(keys: Any) -> None:
            if keys == archive:
                removing.set()
                await remove.wait()
            await delete(keys)

        monkeypatch.setattr(opened.bucket, "head", slow_head)
        monkeypatch.setattr(opened.bucket, "delete", slow_delete)
        completing = asyncio.create_task(
            post(opened, "snapshots/upload/complete", {**complete, "identities": identities})
        )
        await looked.wait()
        aborting = asyncio.create_task(post(opened, "snapshots/upload/abort", {"uploadId": upload_id}))
        await removing.wait()
        await opened.settle()
        remove.set()

        assert (await aborting)[0] == 200
        assert (await completing)[1]["error"] == "snapshot_object_not_found"
        assert (await post(opened, "snapshots/latest", {"repoSlug": SLUG}))[0] == 404


async def test_the_same_object_registers_once() -> None:
    async with plane() as opened:
        created = opened.clock.now()
        key = rules.object_key(SLUG, 0, created, "01234567-89ab-cdef-0123-456789abcdef")
        await opened.bucket.put(key, b"archive")
        body = {**start_body(b"archive", [["items", "1"]], 0), "objectKey": key, "createdAt": created}
        body["identities"] = [["items", "1"]]
        first = await post(opened, "snapshots/register", body)
        assert first[0] == 201
        assert await post(opened, "snapshots/register", body) == first
        assert (await post(opened, "snapshots/register", {**body, "uncompressedBytes": 9}))[0] == 409
        for change, status, code in (
            ({"bytes": 8}, 400, "snapshot_size_mismatch"),
            ({"identities": None}, 400, "invalid_snapshot_identities"),
            ({"identities": [["items", "2"]]}, 400, "snapshot_identity_digest_mismatch"),
        ):
            got, answer = await post(opened, "snapshots/register", {**body, **change})
            assert (got, answer["error"]) == (status, code)
