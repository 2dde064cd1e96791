"""`POST /internal/sessions/<campaign>/<session>/<verb>`: commits of sessions, straight on the bucket binding.

Verbs and bodies: `moorage.protocols.sessions.shared`. The lease and the pointer's move are the `SessionCommits`
object's; objects are created here, once, by conditional writes, and read back in pieces.
"""

import asyncio
import base64
import binascii
import hashlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final

from moorage.durable_objects.objects.sessions import BINDING
from moorage.protocols.sessions import shared
from moorage.protocols.sessions.identities import SEGMENT_GRAMMAR, shared_prefix
from moorage.protocols.wire.sessions import (
    SessionCommitsNotConfigured,
    SessionCommitsUnavailable,
    SessionObjectExists,
    SessionObjectNotFound,
    SessionObjectTooLarge,
    SessionUsage,
)
from moorage.r2.errors import BadDigest, BadUpload, EntityTooSmall, InternalError, InvalidPart, NoSuchUpload

from ..routing import MIB, Answer, Call, Handler, Raw, Result, Route
from ..settings import BUCKET_BINDING

CREATE_ONLY: Final = {"etagDoesNotMatch": "*"}
OFFLOAD_BYTES: Final = MIB
MAX_KEY_BYTES: Final = 1024
"""The longest key of a bucket, as UTF-8."""
_UPLOAD_REFUSALS: Final = (NoSuchUpload, InvalidPart, EntityTooSmall, BadUpload)
CAPS: Final = {"object-create": 48 * MIB, "upload-part": 16 * MIB}


def _known(params: Mapping[str, str]) -> bool:
    return shared.known(params["campaign"], params["session"])


def _bucket(call: Call) -> Any:
    bucket = getattr(call.env, BUCKET_BINDING, None)
    if bucket is None:
        raise SessionCommitsNotConfigured(reason=f"{BUCKET_BINDING} is not bound")
    return bucket


def _parsed(verb: str, call: Call) -> Any:
    try:
        return shared.parse_body(verb, call.body)
    except shared.BadBody as error:
        raise SessionUsage(reason=str(error)) from None


def _prefix(call: Call) -> str:
    return shared_prefix(call.params["campaign"], call.params["session"])


def _whole(call: Call, below: Callable[[], str]) -> str:
    """The key in the bucket. Raises SessionUsage."""
    try:
        key = f"{_prefix(call)}/{below()}"
    except shared.BadBody as error:
        raise SessionUsage(reason=str(error)) from None
    if len(key.encode()) > MAX_KEY_BYTES:
        raise SessionUsage(reason=f"the key is longer than {MAX_KEY_BYTES} bytes with the session's prefix")
    return key


def _key(call: Call, key: str) -> str:
    return _whole(call, lambda: shared.check_key(key))


def _new_key(call: Call, body: Any) -> str:
    return _whole(call, lambda: shared.check_created(body.run_id, body.path))


def _content(text: str, limit: int) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise SessionUsage(reason="contentBase64: it is not base64") from None
    if len(data) > limit:
        raise SessionObjectTooLarge(maxBytes=limit, reason="send it in parts")
    return data


async def _sha256(data: bytes) -> str:
    if len(data) < OFFLOAD_BYTES:
        return hashlib.sha256(data).hexdigest()
    return await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest())


def _shown(key: str, found: Any) -> dict[str, Any]:
    return {"key": key, "size": found.size, "generation": found.version, "etag": found.etag}


async def create(call: Call) -> Result:
    """201 with size, generation and ETag; 409 when there is something under the key, whatever it is."""
    bucket, body = _bucket(call), _parsed("object-create", call)
    key = _new_key(call, body)
    data = _content(body.contentBase64, shared.MAX_OBJECT_BYTES)
    if await _sha256(data) != body.sha256:
        raise SessionUsage(reason="sha256: it is not that of contentBase64")
    stored = await bucket.put(key, data, {"onlyIf": CREATE_ONLY})
    if stored is None:
        raise SessionObjectExists(key=key)
    return Answer(_shown(key, stored), 201)


async def stat(call: Call) -> Result:
    """200 with size, generation and ETag."""
    bucket, body = _bucket(call), _parsed("object-stat", call)
    key = _key(call, body.key)
    found = await bucket.head(key)
    if found is None:
        raise SessionObjectNotFound(key=key)
    return _shown(key, found)


async def _stream(found: Any) -> AsyncIterator[bytes]:
    async for chunk in found:
        yield bytes(chunk)


async def read(call: Call) -> Result:
    """200 with raw bytes from `offset` on; size, generation and ETag of the whole object are in headers."""
    bucket, body = _bucket(call), _parsed("object-read", call)
    key = _key(call, body.key)
    found = await bucket.head(key)
    served = 0
    if found is not None and body.offset < found.size:
        served = min(body.length, found.size - body.offset)
        size = found.size
        found = await bucket.get(key, {"range": {"offset": body.offset, "length": served}})
        if found is not None and found.size != size:
            # the pointer was replaced between the two; the client asks again
            raise SessionCommitsUnavailable
    if found is None:
        raise SessionObjectNotFound(key=key)
    headers = {
        "content-type": "application/octet-stream",
        "cache-control": "no-store",
        "x-moorage-object-size": str(found.size),
        "x-moorage-object-generation": found.version,
        "x-moorage-object-etag": found.etag,
    }
    return Raw(_stream(found) if served else b"", 200, headers, served)


def _upload(call: Call, body: Any) -> tuple[str, str]:
    """The key that an upload lies under until it is complete, and the store's id of it."""
    mark, _, upload = body.upload_id.partition(".")
    if len(mark) != 32 or set(mark) - set("0123456789abcdef") or not upload:
        raise SessionUsage(reason="upload_id: it is not what upload-start answered")
    return f"{_prefix(call)}/uploads/{body.run_id}/{mark}", upload


async def start(call: Call) -> Result:
    """201 with `upload_id` and `part_bytes`; 409 when there is something under the key already."""
    bucket, body = _bucket(call), _parsed("upload-start", call)
    key = _new_key(call, body)
    if await bucket.head(key) is not None:
        raise SessionObjectExists(key=key)
    mark = secrets.token_hex(16)
    upload = await bucket.createMultipartUpload(f"{_prefix(call)}/uploads/{body.run_id}/{mark}")
    return Answer({"key": key, "upload_id": f"{mark}.{upload.uploadId}", "part_bytes": shared.PART_BYTES}, 201)


async def part(call: Call) -> Result:
    """200 with the part's number and ETag."""
    bucket, body = _bucket(call), _parsed("upload-part", call)
    _new_key(call, body)
    place, upload = _upload(call, body)
    data = _content(body.contentBase64, shared.PART_BYTES)
    try:
        stored = await bucket.resumeMultipartUpload(place, upload).uploadPart(body.number, data)
    except _UPLOAD_REFUSALS as error:
        raise SessionUsage(reason=f"upload_id: {error}") from None
    return {"number": body.number, "etag": str(stored.etag)}


async def complete(call: Call) -> Result:
    """201 as `object-create`; 409 when another finished first.

    A multipart completion takes no condition on the platform, so the parts are joined beside and copied under the key
    by a conditional write that also compares the digest.
    """
    bucket, body = _bucket(call), _parsed("upload-complete", call)
    key = _new_key(call, body)
    place, upload = _upload(call, body)
    parts = [{"partNumber": entry.number, "etag": entry.etag} for entry in body.parts]
    try:
        await bucket.resumeMultipartUpload(place, upload).complete(parts)
    except (*_UPLOAD_REFUSALS, InternalError) as error:
        if error.__cause__ is not None:
            # the store failed; what has no cause names an upload that never was, or a part twice
            raise
        # a repeated request finds no upload any more
        if await bucket.head(key) is not None:
            raise SessionObjectExists(key=key) from None
        if await bucket.head(place) is None:
            unknown = "there is no such upload, or a part is named twice"
            raise SessionUsage(reason=f"parts: {unknown if isinstance(error, InternalError) else error}") from None
    joined = await bucket.get(place)
    if joined is None:
        raise SessionCommitsUnavailable
    try:
        if joined.size != body.size:
            raise SessionUsage(reason=f"size: the parts are {joined.size} bytes, not {body.size}")
        stored = await bucket.put(key, joined.body, {"onlyIf": CREATE_ONLY, "sha256": body.sha256})
    except BadDigest:
        raise SessionUsage(reason="sha256: it is not that of the parts") from None
    finally:
        await bucket.delete(place)
    if stored is None:
        raise SessionObjectExists(key=key)
    return Answer(_shown(key, stored), 201)


def _object(verb: str) -> Handler:
    async def handler(call: Call) -> Result:
        namespace: Any = getattr(call.env, BINDING, None)
        if namespace is None:
            raise SessionCommitsNotConfigured(reason=f"{BINDING} is not bound")
        campaign, session = call.params["campaign"], call.params["session"]
        stub = namespace.getByName(shared.object_name(campaign, session))
        return Answer.of(await stub.call(verb, campaign, session, call.body))

    return handler


_HANDLERS: dict[str, Callable[[Call], Awaitable[Result]]] = {
    "object-create": create,
    "object-stat": stat,
    "object-read": read,
    "upload-start": start,
    "upload-part": part,
    "upload-complete": complete,
}

routes = [
    Route(
        ("POST",),
        f"{shared.TEMPLATE}{verb}",
        _HANDLERS.get(verb) or _object(verb),
        failure=SessionCommitsUnavailable,
        accepts=_known,
        transport_cap=CAPS.get(verb, 2 * MIB),
    )
    for verb in shared.VERBS
]

TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "integer"}


def _members(**members: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(members), "properties": members}


_STORED: Final = _members(key=TEXT, size=NUMBER, generation=TEXT, etag=TEXT)
_LEASE: Final = _members(holder=TEXT, token=NUMBER, expires_at={"type": "integer", "description": "ms since 1970"})
_ANSWERS: Final[dict[str, tuple[int, Any, tuple[int, ...]]]] = {
    "lease-acquire": (200, _LEASE, (423,)),
    "lease-renew": (200, _LEASE, (409,)),
    "lease-release": (200, _members(ok={"const": True}), (409,)),
    "object-create": (201, _STORED, (409, 413)),
    "object-stat": (200, _STORED, (404,)),
    "object-read": (200, None, (404,)),
    "upload-start": (201, _members(key=TEXT, upload_id=TEXT, part_bytes=NUMBER), (409,)),
    "upload-part": (200, _members(number=NUMBER, etag=TEXT), (413,)),
    "upload-complete": (201, _STORED, (409,)),
    "pointer-move": (200, _members(size=NUMBER, generation=TEXT, etag=TEXT), (409, 412, 422)),
}


def describe() -> Any:
    """What the OpenAPI document says about these routes."""
    import msgspec

    from ..openapi import Description

    bodies, components = msgspec.json.schema_components(
        [verb.body for verb in shared.VERBS.values()], ref_template="#/components/schemas/Session{name}"
    )
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "pattern": f"^{SEGMENT_GRAMMAR}$"},
        }
        for name in ("campaign", "session")
    ]
    paths = {}
    for (name, verb), body in zip(shared.VERBS.items(), bodies, strict=True):
        status, schema, refusals = _ANSWERS[name]
        content = {"application/octet-stream": {}} if schema is None else {"application/json": {"schema": schema}}
        error = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}}
        paths[f"{shared.TEMPLATE}{name}"] = {
            "post": {
                "summary": verb.summary,
                "operationId": f"sessions-{name}",
                "tags": ["sessions"],
                "parameters": parameters,
                "security": [{"webhook": []}],
                "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
                "responses": {
                    str(status): {"description": "done", "content": content},
                    **{str(code): {"description": "refused", **error} for code in (400, *refusals)},
                },
            }
        }
    return Description(paths, {f"Session{name}": schema for name, schema in components.items()})
