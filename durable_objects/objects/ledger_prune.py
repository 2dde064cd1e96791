"""Removing shards in R2 that a whole segment holds. The one place where anything below `ledger/v1/` is deleted."""

import asyncio
import hashlib
from typing import Any

from moorage.protocols.ledger.batch import place_shard
from moorage.protocols.ledger.bindings import MAX_BINDING_BYTES, completion_path
from moorage.protocols.ledger.index import PAGE, Prune
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.segments import (
    MAX_MANIFEST_BYTES,
    Segment,
    SegmentShard,
    covered,
    is_manifest_path,
    parse_segment,
)
from moorage.protocols.ledger.shards import MAX_SHARD_BYTES
from moorage.protocols.ledger.validate import parse_shard_text
from moorage.protocols.wire.ledger import LedgerSegmentNotFound, LedgerSegmentRefused, LedgerUsage


def _refused(code: str, where: str, reason: str) -> LedgerSegmentRefused:
    return LedgerSegmentRefused(reason=reason, refusal=code, where=where)


async def _read(bucket: Any, path: str, limit: int) -> bytes | None:
    found = await bucket.get(path)
    if found is None:
        return None
    if found.size > limit:
        raise _refused("byte-limit", path, f"holds more than {limit} bytes")
    return bytes(await found.bytes())


async def _segment(bucket: Any, path: str) -> tuple[Segment, bytes]:
    manifest = await _read(bucket, path, MAX_MANIFEST_BYTES)
    if manifest is None:
        raise LedgerSegmentNotFound(where=path)
    try:
        segment = parse_segment(path, manifest.decode())
    except (LedgerRefusal, UnicodeDecodeError) as error:
        raise _refused("segment-invalid", path, str(error)) from None
    payload = await _read(bucket, segment.payload_path, segment.payload_bytes)
    if payload is None or len(payload) != segment.payload_bytes:
        raise _refused("segment-damaged", path, "its payload is missing or has another size")
    if await asyncio.to_thread(lambda: hashlib.sha256(payload).hexdigest()) != segment.payload_sha256:
        raise _refused("segment-damaged", path, "its payload differs")
    return segment, payload


async def _check_completion(bucket: Any, shard: SegmentShard, held: bytes) -> None:
    """Raises unless the shard's set is as complete in R2 as it was when the segment was made."""
    if shard.completion_sha256 is None:
        return
    identity, _ = place_shard(shard.path, parse_shard_text(held.decode()))
    marker = await _read(bucket, completion_path(identity), MAX_BINDING_BYTES)
    if marker is None or hashlib.sha256(marker).hexdigest() != shard.completion_sha256:
        raise _refused("import-transaction", shard.path, "its completion is missing or another one")


async def prune_segment(bucket: Any, body: Prune) -> dict[str, Any]:
    """Removes the shards of one page; `next` is where to go on, null at the end.

    A shard goes when the segment's payload has just been read back whole and holds the same bytes, or the same events
    but for their clocks. Raises LedgerSegmentNotFound, LedgerSegmentRefused.
    """
    if not is_manifest_path(body.manifest):
        raise LedgerUsage(reason="manifest: it is ledger/v1/segments/YYYY/MM/<digest>.json")
    segment, payload = await _segment(bucket, body.manifest)
    left = [shard for shard in segment.shards if shard.path > body.after]
    going: list[str] = []
    size = 0
    for shard in left[:PAGE]:
        loose = await _read(bucket, shard.path, MAX_SHARD_BYTES)
        if loose is None:
            continue
        held = payload[shard.offset : shard.offset + shard.size]
        if not covered(shard, held, loose):
            raise _refused("segment-conflict", shard.path, "differs from the segment's copy")
        await _check_completion(bucket, shard, held)
        going.append(shard.path)
        size += len(loose)
    if going and not body.dry_run:
        await bucket.delete(going)
    following = left[PAGE - 1].path if len(left) > PAGE else None
    return {"removed": going, "bytes": size, "next": following}
