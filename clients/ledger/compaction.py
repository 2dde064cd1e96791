"""Compaction: months older than the retention into segments, and the removal of shards that segments hold.

Two commands on purpose. Compacting only adds files: payload, read back, manifest. Pruning removes shard files, and
only those whose bytes were just read back from a whole segment; bindings stay, they are the truth of the imports.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from moorage.protocols.ledger.batch import place_shard
from moorage.protocols.ledger.bindings import MAX_BINDING_BYTES, completion_path
from moorage.protocols.ledger.canonical import sha256_text
from moorage.protocols.ledger.refusals import LedgerConflict, LedgerRefusal
from moorage.protocols.ledger.segments import ROOT as SEGMENTS_ROOT
from moorage.protocols.ledger.segments import (
    Segment,
    StoredShard,
    build_segment,
    covered,
    group_shards,
    is_manifest_path,
)
from moorage.protocols.ledger.shards import MAX_SHARD_BYTES, replay_digest

from .files import TrustedRoot
from .import_index import WorkerIndex
from .shard_files import read_shard, read_text
from .sources import FolderSource, Source
from .trees import loose_paths, months, read_segments


def last_compactable_month(today: str, retention_months: int) -> str:
    """`YYYY/MM` of the newest month that lies whole before `retention_months` months ago. `today` is `YYYY-MM-DD`."""
    count = int(today[:4]) * 12 + int(today[5:7]) - 1 - retention_months - 1
    return f"{count // 12:04}/{count % 12 + 1:02}"


def compact(root: TrustedRoot, *, today: str, retention_months: int) -> list[Segment]:
    """Writes segments for every shard of the months before the retention that none holds yet; what was written.

    Shards of unfinished imports are left alone. A crash leaves at most a payload without manifest, which nobody
    reads; the next run writes the same bytes again.
    """
    if retention_months < 1:
        raise LedgerRefusal("positive-integer", "keeps at least 1 month", "retention_months")
    source, last = FolderSource(root), last_compactable_month(today, retention_months)
    written: list[Segment] = []
    for month in months(source):
        if month <= last:
            written += _compact_month(root, source, month)
    return written


def compacted(root: TrustedRoot, *, today: str, retention_months: int) -> Iterator[Segment]:
    """Every whole segment of the months before the retention, whenever it was written."""
    source, last = FolderSource(root), last_compactable_month(today, retention_months)
    for month in months(source):
        if month <= last:
            yield from read_segments(source, month)


def _compact_month(root: TrustedRoot, source: FolderSource, month: str) -> Iterator[Segment]:
    held = {shard.path for segment in read_segments(source, month) for shard in segment.shards}
    sizes = [
        (path, len(stored.text.encode()))
        for path in loose_paths(source, month)
        if path not in held and (stored := _stored(root, path)) is not None
    ]
    for group in group_shards(sizes):
        shards = [stored for path in group if (stored := _stored(root, path)) is not None]
        segment, payload = build_segment(shards)
        _create(root, segment.payload_path, payload.encode())
        back = root.read(segment.payload_path, segment.payload_bytes)
        if back is None or back.data != payload.encode():
            raise LedgerRefusal("segment-damaged", "does not read back", root.where(segment.payload_path))
        _create(root, segment.manifest_path, segment.manifest_text.encode())
        yield segment


def _create(root: TrustedRoot, path: str, data: bytes) -> None:
    if root.create(path, data) == "exists":
        found = root.read(path, len(data))
        if found is None or found.data != data:
            raise LedgerConflict("segment-conflict", "is taken by other bytes", root.where(path))


def _stored(root: TrustedRoot, path: str) -> StoredShard | None:
    try:
        events = read_shard(root, path)
    except LedgerRefusal as refusal:
        if refusal.code == "import-incomplete":
            return None
        raise
    text = read_text(root, path, MAX_SHARD_BYTES)
    assert text is not None
    completion = read_text(root, completion_path(place_shard(path, events)[0]), MAX_BINDING_BYTES)
    return StoredShard(
        path, text, len(events), replay_digest(events), None if completion is None else sha256_text(completion)
    )


@dataclass(frozen=True, slots=True)
class PruneResult:
    """What pruning removed."""

    removed: tuple[str, ...]
    bytes: int


def prune(root: TrustedRoot, *, dry_run: bool = False) -> PruneResult:
    """Removes shard files whose bytes, or events but for their clocks, a whole segment holds.

    With `dry_run`, only says which.

    Raises segment-conflict when a shard's own file differs from the segment's copy: neither is touched then.
    """
    source = FolderSource(root)
    removed: list[str] = []
    total = 0
    for month in months(source):
        for segment in read_segments(source, month):
            for shard in segment.shards:
                loose = root.read(shard.path, MAX_SHARD_BYTES)
                if loose is None:
                    continue
                held = source.read_range(segment.payload_path, shard.offset, shard.size)
                if held is None or not covered(shard, held, loose.data):
                    raise LedgerConflict(
                        "segment-conflict", "differs from the segment's copy", root.where(shard.path)
                    )
                if not dry_run:
                    root.remove(shard.path)
                removed.append(shard.path)
                total += len(loose.data)
    return PruneResult(tuple(removed), total)


def prune_remote(source: Source, index: WorkerIndex, *, dry_run: bool = False) -> Iterator[PruneResult]:
    """Removes the shards in R2 that its segments hold, a step at a time; the service reads each back first.

    `index` signs as the operator. Raises LedgerRefusal as `WorkerIndex.prune`; what went before is gone.
    """
    for month in months(source):
        for path in source.walk(f"{SEGMENTS_ROOT}/{month}"):
            if is_manifest_path(path):
                for removed, size in index.prune(path, dry_run=dry_run):
                    yield PruneResult(tuple(removed), size)
