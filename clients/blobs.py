"""Blobs of the state plane: one put or a multipart upload by size, read back and compared.

Spec state-plane-protocol 9, 12.
"""

import base64
import hashlib
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

from moorage.protocols.blobs import MAX_CHUNK_BYTES, MAX_PUT_BYTES, Blob, parse_path, parse_prefix
from moorage.protocols.wire.blobs import InvalidBlobPath, InvalidBlobPrefix

from .errors import ClientError, ConfigurationError, InvalidAnswer, NotFound, RemoteError
from .http import Answer, AsyncHttp, Http
from .record_answers import count_of

PREFIX: Final = "/internal/state/blobs/"
PIECE_BYTES: Final = 1024 * 1024
CHUNK_BYTES: Final = 8 * 1024 * 1024
"""How much is read in one request: less than the service allows, so that a slow line keeps the deadline."""
SINGLE_PUT_BYTES: Final = 8 * 1024 * 1024
"""The largest blob that is put in one request by default; beyond, parts of this size are uploaded."""

EMPTY_PAGES: Final = 100
"""How many pages in a row may hold nothing and name a next one."""
_DIGEST: Final = re.compile("[0-9a-f]{64}")

ReadBack = Literal["multipart", "always", "never"]
Progress = Callable[[int], None]
"""Called with the number of bytes that were just transferred."""


class BlobDiffers(ClientError):
    """What the service gives back is not what it should be: another size, digest or range."""


@dataclass(frozen=True, slots=True)
class Put:
    """The outcome of a put. `unchanged`: the same blob was there already. `read_back`: its bytes were compared."""

    path: str
    size: int
    digest: str
    unchanged: bool
    read_back: bool


def _path(path: str) -> str:
    try:
        return parse_path(path).text
    except InvalidBlobPath:
        raise ConfigurationError(
            f"{path!r} is no blob path: it is below ledger/v1/ or assets/, or artifacts/exact-review/v1/<64 hex>, "
            "in segments of letters, digits and ._+@- that begin with a letter, digit or _, at most 900 characters"
        ) from None


def _prefix(prefix: str) -> str:
    try:
        return parse_prefix(prefix)
    except InvalidBlobPrefix:
        raise ConfigurationError(
            f"{prefix!r} is no blob directory: ledger/v1, assets, artifacts/exact-review/v1, or one below"
        ) from None


def _blob(value: Any) -> Blob:
    try:
        path, size, digest, verified = value["path"], value["bytes"], value["digest"], value["digestVerified"]
    except (TypeError, KeyError):
        raise InvalidAnswer("a blob's description is not whole") from None
    if not isinstance(path, str) or not (digest is None or (isinstance(digest, str) and _DIGEST.fullmatch(digest))):
        raise InvalidAnswer("a blob's path is no text, or its digest no SHA-256")
    return Blob(path, count_of(size, "the size of a blob"), digest, verified is True)


def _pieces(source: BinaryIO, size: int) -> Iterator[bytes]:
    while piece := source.read(size):
        yield piece


class AsyncBlobs:
    """Blobs over an `AsyncHttp`. `single_put_bytes`: the largest blob that is sent in one request, at most 24 MiB."""

    def __init__(self, http: AsyncHttp, *, single_put_bytes: int = SINGLE_PUT_BYTES) -> None:
        if not 0 <= single_put_bytes <= MAX_PUT_BYTES:
            raise ConfigurationError(f"single_put_bytes is between 0 and {MAX_PUT_BYTES}")
        self._http = http
        self._single = single_put_bytes

    async def _call(self, operation: str, value: dict[str, Any]) -> dict[str, Any]:
        return await self._http.json("POST", PREFIX + operation, value)

    async def stat(self, path: str) -> Blob | None:
        """The blob's size and digest; None when there is none. Raises ClientError."""
        try:
            found = await self._call("stat", {"path": _path(path)})
        except NotFound as error:
            if error.code == "blob_not_found":
                return None
            raise
        return _blob(found.get("blob"))

    async def put(
        self, path: str, content: bytes, *, read_back: ReadBack = "multipart", progress: Progress | None = None
    ) -> Put:
        """Stores `content`. Raises Conflict when another blob holds an immutable path, BlobDiffers, ClientError."""
        import io

        return await self._put(path, io.BytesIO(content), read_back, progress)

    async def put_file(
        self, path: str, file: Path, *, read_back: ReadBack = "multipart", progress: Progress | None = None
    ) -> Put:
        """Stores a file, read twice and never whole when it goes in parts. Raises as `put`, and OSError."""
        with file.open("rb") as source:
            return await self._put(path, source, read_back, progress)

    async def _put(self, path: str, source: BinaryIO, read_back: ReadBack, progress: Progress | None) -> Put:
        path = _path(path)
        hasher, size = hashlib.sha256(), 0
        for piece in _pieces(source, PIECE_BYTES):
            hasher.update(piece)
            size += len(piece)
        digest = hasher.hexdigest()
        source.seek(0)
        if size <= self._single or size == 0:
            unchanged, sent_in_parts = await self._put_whole(path, source.read(), digest), False
            if progress is not None:
                progress(size)
        else:
            unchanged, sent_in_parts = await self._put_parts(path, source, size, digest, progress)
        # the service takes the digest of an upload on trust, also when it tells a repeated completion that it has it
        compare = read_back == "always" or (read_back == "multipart" and sent_in_parts)
        if compare:
            await self.compare(path, size, digest)
        return Put(path, size, digest, unchanged, compare)

    async def _put_whole(self, path: str, content: bytes, digest: str) -> bool:
        body = {"path": path, "digest": digest, "contentBase64": base64.b64encode(content).decode()}
        return (await self._call("put", body)).get("unchanged") is True

    async def _put_parts(
        self, path: str, source: BinaryIO, size: int, digest: str, progress: Progress | None
    ) -> tuple[bool, bool]:
        """Whether the blob was there already, and whether parts were sent."""
        started = await self._call("multipart/start", {"path": path, "digest": digest, "bytes": size})
        if started.get("unchanged") is True:
            return True, False
        upload, part_bytes = started.get("uploadId"), started.get("partBytes")
        if not isinstance(upload, str) or not isinstance(part_bytes, int) or part_bytes < 1:
            raise InvalidAnswer("the start of an upload tells no id or no part size")
        try:
            parts, hasher = [], hashlib.sha256()
            for number, piece in enumerate(_pieces(source, part_bytes), 1):
                hasher.update(piece)
                body = {
                    "path": path,
                    "uploadId": upload,
                    "partNumber": number,
                    "contentBase64": base64.b64encode(piece).decode(),
                }
                part = (await self._call("multipart/part", body)).get("part")
                if not isinstance(part, dict) or not isinstance(part.get("etag"), str):
                    raise InvalidAnswer("the receipt of a part has no etag")
                parts.append({"partNumber": number, "etag": part["etag"]})
                if progress is not None:
                    progress(len(piece))
            if hasher.hexdigest() != digest:
                raise BlobDiffers(f"{path}: the source changed while it was being sent")
            body = {"path": path, "uploadId": upload, "digest": digest, "bytes": size, "parts": parts}
            return (await self._call("multipart/complete", body)).get("unchanged") is True, True
        except BaseException:
            await self._abort(path, upload)
            raise

    async def _abort(self, path: str, upload: str) -> None:
        try:
            await self._call("multipart/abort", {"path": path, "uploadId": upload})
        except ClientError:
            # the upload is dropped by the store in its own time; the error that led here matters more
            pass

    async def chunks(self, path: str, *, size: int = CHUNK_BYTES) -> AsyncIterator[bytes]:
        """The blob's bytes in order, `size` bytes at most at a time, compared with its digest at the end.

        Raises NotFound, and BlobDiffers when the blob changed meanwhile or the bytes have another digest.
        """
        blob = await self.stat(path)
        if blob is None:
            raise NotFound(404, "blob_not_found", {"path": path}, what=path)
        async for chunk in self.chunks_of(blob, size=size):
            yield chunk

    async def chunks_of(self, blob: Blob, *, size: int = CHUNK_BYTES) -> AsyncIterator[bytes]:
        """As `chunks`, for a blob that a list has described: one request less."""
        hasher, offset = hashlib.sha256(), 0
        while offset < blob.size:
            length = min(size, MAX_CHUNK_BYTES, blob.size - offset)
            answer = await self._chunk(blob, offset, length)
            hasher.update(answer.body)
            offset += length
            yield answer.body
        if blob.digest is not None and hasher.hexdigest() != blob.digest:
            raise BlobDiffers(f"{blob.path}: its bytes have another digest than the service says")

    async def _chunk(self, blob: Blob, offset: int, length: int) -> Answer:
        import msgspec

        body = msgspec.json.encode({"path": blob.path, "offset": offset, "length": length})
        expected = f"bytes {offset}-{offset + length - 1}/{blob.size}"

        def check(answer: Answer) -> None:
            if answer.status != 206 or len(answer.body) > length:
                raise InvalidAnswer(f"{blob.path}: a range read is answered with 206 and no more than was asked for")

        try:
            answer = await self._http.request(
                "POST", PREFIX + "chunk", body, max_answer_bytes=length + 1024, check=check
            )
        except RemoteError as error:
            if error.status == 416:
                raise BlobDiffers(f"{blob.path}: the blob changed while it was being read") from None
            raise
        digest = answer.headers.get("x-clawsweeper-blob-digest")
        if answer.headers.get("content-range") != expected or len(answer.body) != length or digest != blob.digest:
            raise BlobDiffers(f"{blob.path}: the blob changed while it was being read")
        return answer

    async def read(self, path: str) -> bytes:
        """The whole blob. Raises as `chunks`."""
        return b"".join([chunk async for chunk in self.chunks(path)])

    async def download(self, path: str, target: BinaryIO, progress: Progress | None = None) -> int:
        """Writes the blob to `target` and returns its size. Raises as `chunks`, after bytes may have been written."""
        size = 0
        async for chunk in self.chunks(path):
            target.write(chunk)
            size += len(chunk)
            if progress is not None:
                progress(len(chunk))
        return size

    async def compare(self, path: str, size: int, digest: str) -> None:
        """Reads the blob back. Raises BlobDiffers unless it has this size and its bytes have this digest."""
        hasher, found = hashlib.sha256(), 0
        async for chunk in self.chunks(path):
            hasher.update(chunk)
            found += len(chunk)
        if found != size or hasher.hexdigest() != digest:
            raise BlobDiffers(f"{path}: read back {found} bytes with another digest than was sent")

    async def list(self, prefix: str, *, page: int = 1000) -> AsyncIterator[Blob]:
        """Every blob below a directory, in the order of their paths' bytes. Raises ClientError."""
        within = _prefix(prefix)
        body: dict[str, Any] = {"prefix": within, "limit": page}
        last, empty = "", 0
        while True:
            found = await self._call("list", body)
            blobs = found.get("blobs")
            if not isinstance(blobs, list):
                raise InvalidAnswer("a page of blobs holds no list of them")
            empty = 0 if blobs else empty + 1
            for blob in map(_blob, blobs):
                if not blob.path.startswith(within):
                    raise InvalidAnswer(f"a page of blobs below {within} holds {blob.path!r}")
                if blob.path <= last:
                    raise InvalidAnswer("a page of blobs is out of order, or repeats an earlier one")
                last = blob.path
                yield blob
            cursor = found.get("nextCursor")
            if cursor is None:
                return
            if not isinstance(cursor, str) or cursor == body.get("cursor") or empty > EMPTY_PAGES:
                raise InvalidAnswer("the cursor of a page of blobs does not move on")
            body["cursor"] = cursor


class Blobs:
    """The synchronous face of `AsyncBlobs`, over an `Http`."""

    def __init__(self, http: Http, *, single_put_bytes: int = SINGLE_PUT_BYTES) -> None:
        self._loop = http.loop
        self._blobs = AsyncBlobs(http.asynchronous, single_put_bytes=single_put_bytes)

    def stat(self, path: str) -> Blob | None:
        """See `AsyncBlobs.stat`."""
        return self._loop.run(self._blobs.stat(path))

    def put(self, path: str, content: bytes, **options: Any) -> Put:
        """See `AsyncBlobs.put`."""
        return self._loop.run(self._blobs.put(path, content, **options))

    def put_file(self, path: str, file: Path, **options: Any) -> Put:
        """See `AsyncBlobs.put_file`."""
        return self._loop.run(self._blobs.put_file(path, file, **options))

    def chunks(self, path: str, *, size: int = CHUNK_BYTES) -> Iterator[bytes]:
        """See `AsyncBlobs.chunks`."""
        return self._loop.iterate(self._blobs.chunks(path, size=size))

    def read(self, path: str) -> bytes:
        """See `AsyncBlobs.read`."""
        return self._loop.run(self._blobs.read(path))

    def download(self, path: str, target: BinaryIO, progress: Progress | None = None) -> int:
        """See `AsyncBlobs.download`."""
        return self._loop.run(self._blobs.download(path, target, progress))

    def compare(self, path: str, size: int, digest: str) -> None:
        """See `AsyncBlobs.compare`."""
        self._loop.run(self._blobs.compare(path, size, digest))

    def list(self, prefix: str, *, page: int = 1000) -> Iterator[Blob]:
        """See `AsyncBlobs.list`."""
        return self._loop.iterate(self._blobs.list(prefix, page=page))
