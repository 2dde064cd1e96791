"""Snapshots of records: the latest one, its archive in ranges, building one there or sending one from here.

Spec state-plane-protocol 4, 12.
"""

import base64
import hashlib
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from moorage.protocols import snapshot_uploads as uploads
from moorage.protocols import snapshots as rules
from moorage.protocols.javascript import iso_time

from .errors import ClientError, InvalidAnswer, NotFound
from .http import Answer, AsyncHttp, Http

PREFIX: Final = "/internal/state/records/snapshots/"
CHUNK_BYTES: Final = 8 * 1024 * 1024
"""How much of an archive is read in one request: few enough that a slow line keeps the deadline."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An archive in the service's bucket; `watermark` is the store revision below which it holds everything live."""

    slug: str
    watermark: int
    object_key: str
    bytes: int
    uncompressed_bytes: int
    file_count: int
    created_at: str
    max_chunk_bytes: int = rules.MAX_CHUNK_BYTES


class SnapshotDiffers(ClientError):
    """What the service gives back of a snapshot is not what it said, or it was replaced while being read."""


def snapshot_of(slug: str, value: Mapping[str, Any]) -> Snapshot:
    """Returns the snapshot in an envelope. Raises InvalidAnswer."""
    found = value.get("snapshot")
    if value.get("ok") is not True or not isinstance(found, dict) or found.get("repoSlug") != slug:
        raise InvalidAnswer(f"the answer is no snapshot of {slug}")
    counts = [found.get(name) for name in ("revisionWatermark", "bytes", "uncompressedBytes", "fileCount")]
    if any(not isinstance(count, int) or isinstance(count, bool) or count < 0 for count in counts):
        raise InvalidAnswer("a count of a snapshot is no integer")
    key, access = found.get("objectKey"), found.get("access")
    if not isinstance(key, str) or not isinstance(access, dict) or access.get("mode") != "worker_range_proxy":
        raise InvalidAnswer("a snapshot has no key, or another access than range reads")
    chunk = access.get("maxChunkBytes")
    if not isinstance(chunk, int) or chunk < 1:
        raise InvalidAnswer("a snapshot has no chunk size")
    watermark, size, uncompressed, files = (int(str(count)) for count in counts)
    return Snapshot(slug, watermark, key, size, uncompressed, files, str(found.get("createdAt")), chunk)


class AsyncSnapshots:
    """Snapshots over an `AsyncHttp`. Methods raise ClientError and its kinds."""

    def __init__(self, http: AsyncHttp, *, now: Callable[[], float] | None = None) -> None:
        import time

        self._http = http
        self._now = now or time.time

    async def latest(self, slug: str) -> Snapshot | None:
        """The newest snapshot of a repository; None when it has none, which is no failure."""
        try:
            found = await self._http.json(
                "POST", f"{PREFIX}latest", {"repoSlug": slug}, check=lambda value: _check(slug, value)
            )
        except NotFound as error:
            if error.code == "snapshot_not_found":
                return None
            raise
        return snapshot_of(slug, found)

    async def trigger(self, slug: str) -> Snapshot:
        """Lets the service build a snapshot now."""
        found = await self._http.json(
            "POST", f"{PREFIX}trigger", {"repoSlug": slug}, check=lambda value: _check(slug, value)
        )
        return snapshot_of(slug, found)

    async def chunks(self, snapshot: Snapshot, *, offset: int = 0, size: int = CHUNK_BYTES) -> AsyncIterator[bytes]:
        """The archive's bytes from `offset` on, at most `size` at a time. Raises SnapshotDiffers."""
        while offset < snapshot.bytes:
            length = min(size, snapshot.max_chunk_bytes, snapshot.bytes - offset)
            yield await self._chunk(snapshot, offset, length)
            offset += length

    async def _chunk(self, snapshot: Snapshot, offset: int, length: int) -> bytes:
        body = {
            "repoSlug": snapshot.slug,
            "revisionWatermark": snapshot.watermark,
            "offset": offset,
            "length": length,
        }
        expected = f"bytes {offset}-{offset + length - 1}/{snapshot.bytes}"

        def check(answer: Answer) -> None:
            if answer.status != 206:
                raise InvalidAnswer("a range read of a snapshot is answered with 206")

        answer = await self._http.request(
            "POST", f"{PREFIX}chunk", msgspec.json.encode(body), max_answer_bytes=length + 1024, check=check
        )
        if answer.headers.get("content-range") != expected or len(answer.body) != length:
            raise SnapshotDiffers(f"the snapshot of {snapshot.slug} at {snapshot.watermark} was replaced meanwhile")
        return answer.body

    async def upload(
        self,
        archive: Path,
        *,
        slug: str,
        watermark: int,
        uncompressed_bytes: int,
        identities: Sequence[rules.Identity],
        operation_id: str | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Snapshot:
        """Sends an archive that was built here, with the identities of its files in order, and registers it.

        `operation_id` makes it repeatable; a failure aborts the upload. Raises OSError, ClientError.
        """
        size, digest = _measure(archive)
        start = {
            "repoSlug": slug,
            "revisionWatermark": watermark,
            "bytes": size,
            "uncompressedBytes": uncompressed_bytes,
            "fileCount": len(identities),
            "identityDigest": rules.identity_digest(identities),
            "operationId": operation_id or str(uuid.uuid4()),
            "sha256": digest,
        }
        begun = await self._call("start", start)
        if begun.get("partBytes") != rules.PART_BYTES or not isinstance(begun.get("uploadId"), str):
            raise InvalidAnswer(f"uploads have parts of {rules.PART_BYTES} bytes and an id")
        upload = {"uploadId": begun["uploadId"]}
        try:
            parts = await self._send_parts(archive, upload, progress)
            listed = [list(pair) for pair in identities]
            complete: dict[str, Any] = {**upload, "parts": parts}
            if len(msgspec.json.encode(listed)) + 64 * 1024 < uploads.MAX_UPLOAD_REQUEST_BYTES:
                complete["identities"] = listed
            else:
                for number, start_at in enumerate(range(0, len(listed), rules.MANIFEST_CHUNK), 1):
                    chunk = listed[start_at : start_at + rules.MANIFEST_CHUNK]
                    await self._call("manifest", {**upload, "partNumber": number, "identities": chunk})
            found = snapshot_of(slug, await self._call("complete", complete))
        except BaseException:
            await self._abort(upload)
            raise
        if (found.object_key, found.watermark, found.bytes) != (begun.get("objectKey"), watermark, size):
            raise InvalidAnswer("the registered snapshot is not the one that was sent")
        return found

    async def _send_parts(
        self, archive: Path, upload: Mapping[str, str], progress: Callable[[int], None] | None
    ) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for number, data in enumerate(_pieces(archive, rules.PART_BYTES), 1):
            body = {
                **upload,
                "partNumber": number,
                "data": base64.b64encode(data).decode(),
                "sha256": hashlib.sha256(data).hexdigest(),
            }
            part = (await self._call("part", body)).get("part")
            if not isinstance(part, dict) or not isinstance(part.get("etag"), str):
                raise InvalidAnswer("the receipt of a part has no etag")
            parts.append({"partNumber": number, "etag": part["etag"]})
            if progress is not None:
                progress(len(data))
        return parts

    async def _call(self, operation: str, body: Mapping[str, Any]) -> dict[str, Any]:
        # the two members bind the signed body to its route and time, whatever the signature's version
        bound = {**body, "operation": operation, "issuedAt": iso_time(int(self._now() * 1000))}
        return await self._http.json("POST", f"{PREFIX}upload/{operation}", bound)

    async def _abort(self, upload: Mapping[str, str]) -> None:
        try:
            await self._call("abort", upload)
        except ClientError:
            pass  # it expires by itself; the error that led here matters more


def _check(slug: str, value: Mapping[str, Any]) -> None:
    snapshot_of(slug, value)


def _pieces(path: Path, size: int) -> Iterator[bytes]:
    with path.open("rb") as source:
        while piece := source.read(size):
            yield piece


def _measure(path: Path) -> tuple[int, str]:
    hasher, size = hashlib.sha256(), 0
    for piece in _pieces(path, 1024 * 1024):
        hasher.update(piece)
        size += len(piece)
    return size, hasher.hexdigest()


class Snapshots:
    """The synchronous face of `AsyncSnapshots`, over an `Http`."""

    def __init__(self, http: Http) -> None:
        self._loop = http.loop
        self._snapshots = AsyncSnapshots(http.asynchronous)

    def latest(self, slug: str) -> Snapshot | None:
        """See `AsyncSnapshots.latest`."""
        return self._loop.run(self._snapshots.latest(slug))

    def trigger(self, slug: str) -> Snapshot:
        """See `AsyncSnapshots.trigger`."""
        return self._loop.run(self._snapshots.trigger(slug))

    def chunks(self, snapshot: Snapshot, *, offset: int = 0, size: int = CHUNK_BYTES) -> Iterator[bytes]:
        """See `AsyncSnapshots.chunks`."""
        return self._loop.iterate(self._snapshots.chunks(snapshot, offset=offset, size=size))

    def upload(self, archive: Path, **options: Any) -> Snapshot:
        """See `AsyncSnapshots.upload`."""
        return self._loop.run(self._snapshots.upload(archive, **options))
