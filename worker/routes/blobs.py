"""`POST /internal/state/blobs/<operation>` straight on the bucket binding (spec state-plane-protocol 9)."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from typing import Any

from moorage.protocols import blobs as rules
from moorage.protocols.json_body import NotJson, parse_as
from moorage.protocols.wire import InvalidJson, WireError
from moorage.protocols.wire.blobs import (
    BlobDigestMismatch,
    BlobNotFound,
    BlobPartTooLarge,
    BlobStoreUnavailable,
    BlobTooLarge,
    InvalidBlobContent,
)
from moorage.r2.layouts.blobs import PART_BYTES, BlobLayout, PathLocks

from ..routing import MIB, Answer, Call, Handler, Raw, Result, Route, Style
from ..settings import BUCKET_BINDING

PREFIX = "/internal/state/blobs/"
OFFLOAD_BYTES = MIB
"""Contents from this size on are hashed in a thread, so that the loop goes on serving."""

_locks = PathLocks()


def _missing_bucket() -> WireError:
    return BlobStoreUnavailable(detail=f"{BUCKET_BINDING} is not available")


def _layout(call: Call) -> BlobLayout:
    return BlobLayout(getattr(call.env, BUCKET_BINDING), _locks)


def _body(call: Call) -> rules.Body:
    try:
        return parse_as(rules.Body, call.body)
    except NotJson:
        raise InvalidJson from None


async def _sha256(content: bytes) -> str:
    if len(content) < OFFLOAD_BYTES:
        return hashlib.sha256(content).hexdigest()
    return await asyncio.to_thread(lambda: hashlib.sha256(content).hexdigest())


async def put(call: Call) -> Result:
    """201 when written, 200 when the same blob was there."""
    body = _body(call)
    path = rules.parse_path(body.path)
    digest = rules.parse_digest(path, body.digest)
    content = rules.decode_content(body.contentBase64, rules.MAX_PUT_BYTES, BlobTooLarge)
    if await _sha256(content) != digest:
        raise BlobDigestMismatch
    written = await _layout(call).put(path, content, digest)
    value = {"ok": True, "path": path.text, "bytes": len(content), "digest": digest, "unchanged": not written}
    return Answer(value, 201 if written else 200)


async def stat(call: Call) -> Result:
    """200 with the blob's descriptor."""
    path = rules.parse_path(_body(call).path)
    blob = await _layout(call).stat(path)
    if blob is None:
        raise BlobNotFound(path=path.text)
    return {"ok": True, "blob": blob.descriptor()}


async def _stream(found: Any) -> AsyncIterator[bytes]:
    async for chunk in found:
        yield bytes(chunk)


async def chunk(call: Call) -> Result:
    """206 with raw bytes, always, also for a whole blob."""
    body = _body(call)
    path = rules.parse_path(body.path)
    offset, length = rules.parse_range(body)
    blob, served, found = await _layout(call).chunk(path, offset, length)
    headers = {
        "content-type": "application/octet-stream",
        "accept-ranges": "bytes",
        "content-length": str(served),
        "content-range": f"bytes {offset}-{offset + served - 1}/{blob.size}",
    }
    if blob.digest is not None:
        headers["x-clawsweeper-blob-digest"] = blob.digest
    return Raw(_stream(found), 206, headers, served)


async def list_page(call: Call) -> Result:
    """200 with a page of descriptors."""
    body = _body(call)
    prefix = rules.parse_prefix(body.prefix)
    limit = rules.parse_limit(body.limit)
    blobs, cursor = await _layout(call).page(prefix, rules.parse_cursor(body.cursor), limit)
    return {"ok": True, "prefix": prefix, "blobs": [blob.descriptor() for blob in blobs], "nextCursor": cursor}


async def start(call: Call) -> Result:
    """201 with an upload id, 200 without one when the same blob was there."""
    body = _body(call)
    path = rules.parse_path(body.path)
    digest = rules.parse_digest(path, body.digest)
    size = rules.parse_bytes(body.bytes)
    upload_id = await _layout(call).start(path, digest, size)
    value: dict[str, Any] = {"ok": True, "path": path.text}
    if upload_id is None:
        return value | {"bytes": size, "digest": digest, "unchanged": True, "uploadId": None}
    value |= {"digest": digest, "unchanged": False, "uploadId": upload_id, "partBytes": PART_BYTES}
    return Answer(value, 201)


async def part(call: Call) -> Result:
    """200 with the part's receipt."""
    body = _body(call)
    path = rules.parse_path(body.path)
    upload_id = rules.parse_upload_id(body.uploadId)
    number = rules.parse_part_number(body.partNumber)
    content = rules.decode_content(body.contentBase64, rules.MAX_PART_BYTES, BlobPartTooLarge)
    if not content:
        raise InvalidBlobContent
    etag = await _layout(call).part(path, upload_id, number, content)
    return {"ok": True, "path": path.text, "part": {"partNumber": number, "etag": etag}}


async def complete(call: Call) -> Result:
    """201 when the parts were joined, 200 when a rival had finished the same blob."""
    body = _body(call)
    path = rules.parse_path(body.path)
    upload_id = rules.parse_upload_id(body.uploadId)
    digest = rules.parse_digest(path, body.digest)
    size = rules.parse_bytes(body.bytes)
    parts = rules.parse_parts(body.parts)
    written = await _layout(call).complete(path, upload_id, digest, size, parts)
    value = {"ok": True, "path": path.text, "bytes": size, "digest": digest, "unchanged": not written}
    return Answer(value, 201 if written else 200)


async def abort(call: Call) -> Result:
    """200, whatever the upload's state."""
    body = _body(call)
    path = rules.parse_path(body.path)
    await _layout(call).abort(path, rules.parse_upload_id(body.uploadId))
    return {"ok": True, "path": path.text}


_OPERATIONS: dict[str, tuple[Handler, int]] = {
    "put": (put, 48 * MIB),
    "stat": (stat, MIB),
    "chunk": (chunk, MIB),
    "list": (list_page, MIB),
    "multipart/start": (start, MIB),
    "multipart/part": (part, 16 * MIB),
    "multipart/complete": (complete, 4 * MIB),
    "multipart/abort": (abort, MIB),
}

routes = [
    Route(
        ("POST",),
        PREFIX + operation,
        handler,
        style=Style.COMPACT,
        bucket=_missing_bucket,
        failure=BlobStoreUnavailable,
        transport_cap=cap,
    )
    for operation, (handler, cap) in _OPERATIONS.items()
]
