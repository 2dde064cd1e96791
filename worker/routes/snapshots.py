"""Snapshots of records and their uploads (spec state-plane-protocol 4)."""

from collections.abc import AsyncIterator
from typing import Any

from moorage.protocols import json_body
from moorage.protocols import snapshots as rules
from moorage.protocols.snapshot_uploads import MAX_UPLOAD_REQUEST_BYTES
from moorage.protocols.wire import ExactReviewQueueUnavailable, InvalidJson, Reply, WireError
from moorage.protocols.wire.snapshot_uploads import SnapshotRequestTooLarge, SnapshotUploadUnavailable
from moorage.protocols.wire.snapshots import SnapshotStoreUnavailable

from ..routing import Answer, Call, Raw, Result, Route, Style
from ..settings import BUCKET_BINDING

BASE = "/internal/state/records/snapshots"


def _bucket(call: Call) -> Any:
    bucket = getattr(call.env, BUCKET_BINDING, None)
    if bucket is None:
        raise SnapshotStoreUnavailable(snapshotStoreAvailable=False, detail=f"{BUCKET_BINDING} is not available")
    return bucket


async def _ask_bucket(work: Any, detail: str) -> Any:
    """Awaits a bucket call; its failure, and a missing object, are snapshot_store_unavailable."""
    try:
        found = await work
    except Exception as error:
        raise SnapshotStoreUnavailable(snapshotStoreAvailable=False, detail=f"{BUCKET_BINDING} failed") from error
    if found is None:
        raise SnapshotStoreUnavailable(snapshotStoreAvailable=False, detail=detail)
    return found


async def latest(call: Call) -> Result:
    """200 with the newest snapshot, whose object must be there."""
    slug = rules.parse_repository(json_body.members(call.body))
    bucket = _bucket(call)
    answer = Answer.of(await call.queue.newest_snapshot(slug))
    if answer.status == 200:
        key = answer.value["snapshot"]["objectKey"]
        await _ask_bucket(bucket.head(key), "the object of the newest snapshot is gone")
    return answer


async def trigger(call: Call) -> Result:
    """201 with a snapshot that the service builds now."""
    slug = rules.parse_repository(json_body.members(call.body))
    _bucket(call)
    return Answer.of(await call.queue.trigger_snapshot(slug))


async def chunk(call: Call) -> Result:
    """206 with a range of an archive, streamed."""
    members = json_body.members(call.body)
    slug = rules.parse_repository(members)
    bucket = _bucket(call)
    asked = rules.parse_range(members)
    answer: Reply = await call.queue.snapshot_with_watermark(slug, asked.watermark)
    if answer["status"] != 200:
        return Answer.of(answer)
    size = answer["value"]["bytes"]
    length = asked.cut(size)
    options = {"range": {"offset": asked.offset, "length": length}}
    found = await _ask_bucket(bucket.get(answer["value"]["objectKey"], options), "the object of the snapshot is gone")
    headers = {
        "content-type": "application/gzip",
        "accept-ranges": "bytes",
        "content-range": f"bytes {asked.offset}-{asked.offset + length - 1}/{size}",
        "x-clawsweeper-snapshot-revision": str(asked.watermark),
    }
    return Raw(_stream(found), 206, headers, length)


async def _stream(found: Any) -> AsyncIterator[bytes]:
    async for piece in found.body:
        yield bytes(piece)


async def register(call: Call) -> Result:
    """201 with an archive that is in the bucket already."""
    return Answer.of(await call.queue.register_snapshot(json_body.members(call.body)))


_METHODS = {
    "start": "start_snapshot_upload",
    "part": "put_snapshot_part",
    "manifest": "stage_snapshot_manifest",
    "complete": "complete_snapshot_upload",
    "abort": "abort_snapshot_upload",
}


async def _upload(call: Call, operation: str) -> Result:
    if len(call.body) > MAX_UPLOAD_REQUEST_BYTES:
        raise SnapshotRequestTooLarge
    try:
        members = json_body.parse_object(call.body)
    except json_body.NotJson:
        # the router's own refusal, in the router's style (`snapshot-uploads/unknown-operation`)
        return Answer(InvalidJson().body(), InvalidJson.status, style=Style.INDENTED)
    answer = Answer.of(await getattr(call.queue, _METHODS[operation])(members))
    if "snapshotStoreAvailable" in answer.value:
        answer.style = Style.INDENTED  # the registration's answer
    return answer


async def start(call: Call) -> Result:
    """201 with the upload, 200 when the operation id began it before."""
    return await _upload(call, "start")


async def part(call: Call) -> Result:
    """200 with the part's receipt."""
    return await _upload(call, "part")


async def manifest(call: Call) -> Result:
    """200: a list of identities is staged."""
    return await _upload(call, "manifest")


async def complete(call: Call) -> Result:
    """The registration's answer."""
    return await _upload(call, "complete")


async def abort(call: Call) -> Result:
    """200: the upload is gone."""
    return await _upload(call, "abort")


def _no_bucket() -> WireError:
    return SnapshotStoreUnavailable()


routes = [
    *(
        Route(("POST",), f"{BASE}/{handler.__name__}", handler, queue=True, failure=ExactReviewQueueUnavailable)
        for handler in (latest, trigger, chunk, register)
    ),
    *(
        Route(
            ("POST",),
            f"{BASE}/upload/{handler.__name__}",
            handler,
            style=Style.COMPACT,
            queue=True,
            bucket=_no_bucket,
            failure=SnapshotUploadUnavailable,
        )
        for handler in (start, part, manifest, complete, abort)
    ),
]
