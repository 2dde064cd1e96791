"""State blobs in a bucket: `ledger/v1/` and `artifacts/` written once, `assets/` at will.

Spec state-plane-storage 4.

An object's custom metadata holds `sha256` and `verified`: `server` when the service hashed the bytes (single
put), `client` when the digest is the uploader's word (multipart). Immutability is a condition of the write itself
(`etagDoesNotMatch: "*"`), of a put as of the completion of an upload, never a check followed by a write. For stores
that keep no condition on a completion, puts and completions under one immutable path are taken one at a time as well;
there, and only there, two processes may both complete an upload.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from moorage.protocols.blobs import (
    MAX_PART_BYTES,
    Blob,
    BlobPath,
    Existing,
    check_parts,
    compare,
    conflict,
    known_digest,
)
from moorage.protocols.wire.blobs import (
    BlobNotFound,
    BlobRangeNotSatisfiable,
    BlobSizeMismatch,
    BlobStoreUnavailable,
    InvalidBlobUpload,
)

from ..errors import (
    BadUpload,
    EntityTooSmall,
    InvalidPart,
    NoSuchUpload,
    R2Error,
    RangeNotSatisfiable,
    UnknownUpload,
)

log = logging.getLogger("moorage.r2.blobs")

CREATE_ONLY: Final = {"etagDoesNotMatch": "*"}
_UPLOAD_REFUSALS: Final = (NoSuchUpload, UnknownUpload, InvalidPart, EntityTooSmall, BadUpload)
_ATTEMPTS: Final = 3


def _blob(found: Any) -> Blob:
    metadata = found.customMetadata or {}
    digest = known_digest(metadata.get("sha256"))
    return Blob(found.key, found.size, digest, digest is not None and metadata.get("verified") == "server")


class PathLocks:
    """One lock for each path that is in use; none is kept for one that is not."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, path: BlobPath) -> AsyncIterator[None]:
        """Holds the lock of an immutable path; a mutable one needs none."""
        if not path.immutable:
            yield
            return
        lock, users = self._held.get(path.text, (asyncio.Lock(), 0))
        self._held[path.text] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._held[path.text]
            if users == 1:
                del self._held[path.text]
            else:
                self._held[path.text] = (lock, users - 1)


class BlobLayout:
    """The blob operations on one bucket. A failure of the bucket is an R2Error or OSError of its own."""

    def __init__(self, bucket: Any, locks: PathLocks) -> None:
        self._bucket = bucket
        self._locks = locks

    async def stat(self, path: BlobPath) -> Blob | None:
        """The blob's size and digest, or None."""
        found = await self._bucket.head(path.text)
        return None if found is None else _blob(found)

    async def put(self, path: BlobPath, content: bytes, digest: str) -> bool:
        """Stores `content`, whose SHA-256 is `digest`; whether anything was written (False: the same blob was there).

        Raises LedgerBlobImmutableConflict or ArtifactBlobImmutableConflict.
        """
        metadata = {"sha256": digest, "verified": "server"}
        if not path.immutable:
            if compare(path, await self.stat(path), digest, len(content)) is Existing.SAME:
                return False
            await self._bucket.put(path.text, content, {"customMetadata": metadata})
            return True
        options = {"customMetadata": metadata, "onlyIf": CREATE_ONLY}
        async with self._locks.hold(path):
            for _ in range(_ATTEMPTS):
                if await self._bucket.put(path.text, content, options) is not None:
                    return True
                existing = await self.stat(path)
                if existing is None:
                    continue  # removed between the two, by the clean-up of artifacts
                if compare(path, existing, digest, len(content)) is Existing.SAME:
                    return False
                raise conflict(path, existing)
        raise BlobStoreUnavailable

    async def chunk(self, path: BlobPath, offset: int, length: int) -> tuple[Blob, int, Any]:
        """The blob, the number of bytes served and the object whose body streams them; cut at the end of the blob.

        Raises BlobNotFound, BlobRangeNotSatisfiable (`blobs/ranges`).
        """
        asked = {"range": {"offset": offset, "length": length}}
        for _ in range(_ATTEMPTS):
            try:
                found = await self._bucket.get(path.text, asked)
            except RangeNotSatisfiable:
                blob = await self.stat(path)
                if blob is not None and offset < blob.size:
                    continue  # a longer one came in between
            else:
                blob = None if found is None else _blob(found)
                if blob is not None:
                    return blob, min(length, blob.size - offset), found
            if blob is None:
                raise BlobNotFound(path=path.text)
            raise BlobRangeNotSatisfiable(bytes=blob.size)
        raise BlobStoreUnavailable

    async def page(self, prefix: str, cursor: str | None, limit: int) -> tuple[list[Blob], str | None]:
        """A page in the order of the paths' bytes, and the cursor of the next one or None.

        A bucket gives shorter pages when metadata is asked for, so several of them may make one of ours.
        """
        blobs: list[Blob] = []
        while True:
            options: dict[str, Any] = {
                "prefix": prefix,
                "limit": limit - len(blobs),
                "include": ["customMetadata"],
            }
            if cursor is not None:
                options["cursor"] = cursor
            listed = await self._bucket.list(options)
            blobs += [_blob(found) for found in listed.objects]
            cursor = listed.cursor if listed.truncated else None
            if cursor is None or len(blobs) >= limit:
                return blobs, cursor

    async def start(self, path: BlobPath, digest: str, size: int) -> str | None:
        """Opens a multipart upload and returns its id; None when the same blob is there already.

        Raises LedgerBlobImmutableConflict or ArtifactBlobImmutableConflict.
        """
        existing = await self.stat(path)
        verdict = compare(path, existing, digest, size)
        if verdict is Existing.SAME:
            return None
        if existing is not None and verdict is Existing.CONFLICT:
            raise conflict(path, existing)
        options = {"customMetadata": {"sha256": digest, "verified": "client"}}
        upload = await self._bucket.createMultipartUpload(path.text, options)
        return str(upload.uploadId)

    async def part(self, path: BlobPath, upload_id: str, number: int, content: bytes) -> str:
        """Stores a part and returns its etag; the number's former part is replaced. Raises InvalidBlobUpload."""
        try:
            part = await self._bucket.resumeMultipartUpload(path.text, upload_id).uploadPart(number, content)
        except _UPLOAD_REFUSALS:
            raise InvalidBlobUpload from None
        return str(part.etag)

    async def complete(
        self, path: BlobPath, upload_id: str, digest: str, size: int, parts: list[dict[str, Any]]
    ) -> bool:
        """Joins the parts; whether anything was written.

        False: a rival finished the same blob, and the upload is dropped.

        The digest is not checked, and the one given at the start is what is stored (`blobs/multipart-digest-of-start-
        counts`). Raises InvalidBlobUpload, BlobSizeMismatch (the object stays), and the conflict of an immutable
        path.
        """
        upload = self._bucket.resumeMultipartUpload(path.text, upload_id)
        async with self._locks.hold(path):
            for _ in range(_ATTEMPTS):
                existing = await self.stat(path)
                verdict = compare(path, existing, digest, size)
                if existing is not None and verdict in {Existing.SAME, Existing.CONFLICT}:
                    await self.abort(path, upload_id)
                    if verdict is Existing.CONFLICT:
                        raise conflict(path, existing)
                    return False
                check_parts(parts)
                try:
                    made = await upload.complete(parts, {"onlyIf": CREATE_ONLY} if path.immutable else None)
                except _UPLOAD_REFUSALS:
                    if compare(path, await self.stat(path), digest, size) is Existing.SAME:
                        return False  # a rival completed the same upload between the two
                    raise InvalidBlobUpload from None
                if made is not None:
                    break
            else:
                raise BlobStoreUnavailable
        if made.size != size:
            raise BlobSizeMismatch(expectedBytes=size, receivedBytes=made.size)
        return True

    async def abort(self, path: BlobPath, upload_id: str) -> None:
        """Drops an upload. An unknown or finished one is no error (`blobs/multipart-abort`), nor is a bucket that
        fails: what is abandoned takes room and does nothing else.
        """
        try:
            await self._bucket.resumeMultipartUpload(path.text, upload_id).abort()
        except (R2Error, OSError) as error:
            log.info("the upload of %s was not dropped: %s", path.text, error)


PART_BYTES: Final = MAX_PART_BYTES
"""The part size that clients are told; smaller ones are taken as long as the bucket takes them."""
