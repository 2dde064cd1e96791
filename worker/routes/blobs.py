"""`POST /internal/state/blobs/<operation>` straight on the bucket binding (spec state-plane-protocol 9)."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

from moorage.protocols import blobs as rules
from moorage.protocols.json_body import NotJson, parse_as
from moorage.protocols.wire import InvalidJson
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
WHOLE_BYTES = MIB
"""Chunks up to this size are read before the answer begins, so that a store that fails is a clean 503."""

_locks = PathLocks()

Operation: TypeAlias = Callable[[BlobLayout, rules.Body], Awaitable[Result]]


def _parse(body: bytes) -> rules.Body:
    return parse_as(rules.Body, body)


def _handler(operation: Operation) -> Handler:
    """A route's handler: the body must be a JSON object, then the bucket must be there, then the operation decides.

    The first refusal is the router's, in its style (`auth/non-object-json-body`); the others are compact.
    """
    parse = rules.parse_content_body if operation in {put, part} else _parse

    async def handle(call: Call) -> Result:
        try:
            body = parse(call.body)
        except NotJson:
            return Answer(InvalidJson().body(), InvalidJson.status, style=Style.INDENTED)
        bucket = getattr(call.env, BUCKET_BINDING, None)
        if bucket is None:
            raise BlobStoreUnavailable(detail=f"{BUCKET_BINDING} is not available")
        return await operation(BlobLayout(bucket, _locks), body)

    return handle


async def _sha256(content: bytes) -> str:
    if len(content) < OFFLOAD_BYTES:
        return hashlib.sha256(content).hexdigest()
    return await asyncio.to_thread(lambda: hashlib.sha256(content).hexdigest())


async def put(layout: BlobLayout, body: rules.Body) -> Result:
    """201 when written, 200 when the same blob was there."""
    path = rules.parse_path(body.path)
    digest = rules.parse_digest(path, body.digest)
    content = rules.decode_content(body.contentBase64, rules.MAX_PUT_BYTES, BlobTooLarge)
    if await _sha256(content) != digest:
        raise BlobDigestMismatch
    written = await layout.put(path, content, digest)
    value = {"ok": True, "path": path.text, "bytes": len(content), "digest": digest, "unchanged": not written}
    return Answer(value, 201 if written else 200)


async def stat(layout: BlobLayout, body: rules.Body) -> Result:
    """200 with the blob's descriptor."""
    path = rules.parse_path(body.path)
    blob = await layout.stat(path)
    if blob is None:
        raise BlobNotFound(path=path.text)
    return {"ok": True, "blob": blob.descriptor()}


async def _stream(found: Any) -> AsyncIterator[bytes]:
    async for piece in found:
        yield piece if isinstance(piece, bytes) else bytes(piece)


async def chunk(layout: BlobLayout, body: rules.Body) -> Result:
    """206 with raw bytes, always, also for a whole blob; long ones are streamed."""
    path = rules.parse_path(body.path)
    offset, length = rules.parse_range(body)
    blob, served, found = await layout.chunk(path, offset, length)
    headers = {
        "content-type": "application/octet-stream",
        "accept-ranges": "bytes",
        "content-length": str(served),
        "content-range": f"bytes {offset}-{offset + served - 1}/{blob.size}",
    }
    if blob.digest is not None:
        headers["x-clawsweeper-blob-digest"] = blob.digest
    if served <= WHOLE_BYTES:
        return Raw(await found.bytes(), 206, headers)
    return Raw(_stream(found), 206, headers, served)


async def list_page(layout: BlobLayout, body: rules.Body) -> Result:
    """200 with a page of descriptors."""
    prefix = rules.parse_prefix(body.prefix)
    limit = rules.parse_limit(body.limit)
    blobs, cursor = await layout.page(prefix, rules.parse_cursor(body.cursor), limit)
    return {"ok": True, "prefix": prefix, "blobs": [blob.descriptor() for blob in blobs], "nextCursor": cursor}


async def start(layout: BlobLayout, body: rules.Body) -> Result:
    """201 with an upload id, 200 without one when the same blob was there."""
    path = rules.parse_path(body.path)
    digest = rules.parse_digest(path, body.digest)
    size = rules.parse_bytes(body.bytes)
    upload_id = await layout.start(path, digest, size)
    value: dict[str, Any] = {"ok": True, "path": path.text}
    if upload_id is None:
        return value | {"bytes": size, "digest": digest, "unchanged": True, "uploadId": None}
    value |= {"digest": digest, "unchanged": False, "uploadId": upload_id, "partBytes": PART_BYTES}
    return Answer(value, 201)


async def part(layout: BlobLayout, body: rules.Body) -> Result:
    """200 with the part's receipt."""
    path = rules.parse_path(body.path)
    upload_id = rules.parse_upload_id(body.uploadId)
    number = rules.parse_part_number(body.partNumber)
    content = rules.decode_content(body.contentBase64, rules.MAX_PART_BYTES, BlobPartTooLarge)
    if not content:
        raise InvalidBlobContent
    etag = await layout.part(path, upload_id, number, content)
    return {"ok": True, "path": path.text, "part": {"partNumber": number, "etag": etag}}


async def complete(layout: BlobLayout, body: rules.Body) -> Result:
    """201 when the parts were joined, 200 when a rival had finished the same blob."""
    path = rules.parse_path(body.path)
    upload_id = rules.parse_upload_id(body.uploadId)
    digest = rules.parse_digest(path, body.digest)
    size = rules.parse_bytes(body.bytes)
    parts = rules.parse_parts(body.parts)
    written = await layout.complete(path, upload_id, digest, size, parts)
    value = {"ok": True, "path": path.text, "bytes": size, "digest": digest, "unchanged": not written}
    return Answer(value, 201 if written else 200)


async def abort(layout: BlobLayout, body: rules.Body) -> Result:
    """200, whatever the upload's state."""
    path = rules.parse_path(body.path)
    await layout.abort(path, rules.parse_upload_id(body.uploadId))
    return {"ok": True, "path": path.text}


_OPERATIONS: dict[str, tuple[Operation, int]] = {
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
        _handler(run),
        style=Style.COMPACT,
        failure=BlobStoreUnavailable,
        transport_cap=cap,
    )
    for operation, (run, cap) in _OPERATIONS.items()
]
