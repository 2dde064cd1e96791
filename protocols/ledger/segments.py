"""Monthly segments: many shards in one immutable payload, with a manifest that says what it holds.

A payload is the shards' contents one after another, in path order. Its manifest lists each shard's path, place, size
and digests, and the digest of its import completion; it is named after its own digest and is written last, so that a
segment exists once its manifest does. Both are create-only below `ledger/v1/segments/YYYY/MM/`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .canonical import canonical_digest, canonical_text, parse_json, sha256_text
from .numbers import integer
from .publication import is_shard_path
from .refusals import LedgerRefusal
from .shards import EVENTS_ROOT, MAX_SHARD_BYTES, replay_digest
from .text import is_digest
from .validate import parse_shard_text

ROOT: Final = "ledger/v1/segments"
SCHEMA: Final = "moorage.action-ledger-segment"
# One signed put takes 24 MiB, so a payload fits into one with room to spare.
MAX_PAYLOAD_BYTES: Final = 16_777_216
# Keeps a manifest of canonical JSON within its 10,000 values.
MAX_SHARDS: Final = 1_000
MAX_MANIFEST_BYTES: Final = 1_048_576

_MANIFEST_PATH = re.compile(rf"{ROOT}/([0-9]{{4}})/([0-9]{{2}})/([0-9a-f]{{64}})\.json")
_MEMBERS = frozenset({"month", "payload_bytes", "payload_sha256", "schema", "schema_version", "shards"})
_SHARD_MEMBERS = frozenset({"bytes", "completion_sha256", "events", "offset", "path", "replay_sha256", "sha256"})


@dataclass(frozen=True, slots=True)
class SegmentShard:
    """A shard's place in a payload. `completion_sha256` is None for a shard that was never imported."""

    path: str
    offset: int
    size: int
    events: int
    sha256: str
    replay_sha256: str
    completion_sha256: str | None

    def to_json(self) -> dict[str, Any]:
        """Its entry in the manifest."""
        return {
            "bytes": self.size,
            "completion_sha256": self.completion_sha256,
            "events": self.events,
            "offset": self.offset,
            "path": self.path,
            "replay_sha256": self.replay_sha256,
            "sha256": self.sha256,
        }


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment. `month` is `YYYY/MM`."""

    month: str
    payload_sha256: str
    payload_bytes: int
    shards: tuple[SegmentShard, ...]

    def to_json(self) -> dict[str, Any]:
        """The manifest object."""
        return {
            "month": self.month,
            "payload_bytes": self.payload_bytes,
            "payload_sha256": self.payload_sha256,
            "schema": SCHEMA,
            "schema_version": 1,
            "shards": [shard.to_json() for shard in self.shards],
        }

    @property
    def manifest_text(self) -> str:
        """Content of the manifest file."""
        return canonical_text(self.to_json()) + "\n"

    @property
    def manifest_path(self) -> str:
        """Path of the manifest, named after the digest of its object."""
        return f"{ROOT}/{self.month}/{canonical_digest(self.to_json())}.json"

    @property
    def payload_path(self) -> str:
        """Path of the payload, named after its digest."""
        return f"{ROOT}/{self.month}/{self.payload_sha256}.jsonl"


def is_manifest_path(path: str) -> bool:
    """Whether `path` has the form of a segment's manifest."""
    return _MANIFEST_PATH.fullmatch(path) is not None


def covered(shard: SegmentShard, held: bytes, loose: bytes) -> bool:
    """Whether a shard's own file may go: the segment's copy `held` is whole, and the file adds nothing to it.

    That is so for the same bytes, and for the same events with other clocks: a set that is published again after its
    shards went.
    """
    try:
        if sha256_text(held.decode()) != shard.sha256:
            return False
        return held == loose or replay_digest(parse_shard_text(loose.decode())) == shard.replay_sha256
    except (UnicodeDecodeError, LedgerRefusal):
        return False


def month_of(path: str) -> str:
    """`YYYY/MM` of a shard's path."""
    if not is_shard_path(path):
        raise LedgerRefusal("path-syntax", "must be a shard's path", path)
    return path[len(EVENTS_ROOT) + 1 : len(EVENTS_ROOT) + 8]


@dataclass(frozen=True, slots=True)
class StoredShard:
    """A shard that is to be compacted, already validated by the reader rules."""

    path: str
    text: str
    events: int
    replay_sha256: str
    completion_sha256: str | None


def group_shards(sizes: Iterable[tuple[str, int]]) -> Iterator[list[str]]:
    """Cuts (path, bytes) pairs, sorted by path and of one month, into the groups that become segments."""
    group: list[str] = []
    total = 0
    for path, size in sizes:
        if group and (total + size > MAX_PAYLOAD_BYTES or len(group) == MAX_SHARDS):
            yield group
            group, total = [], 0
        group.append(path)
        total += size
    if group:
        yield group


def build_segment(shards: Sequence[StoredShard]) -> tuple[Segment, str]:
    """The segment of these shards and its payload. They are of one month, sorted by path, each given once."""
    if not shards:
        raise LedgerRefusal("empty-segment", "a segment holds at least one shard")
    month = month_of(shards[0].path)
    entries: list[SegmentShard] = []
    offset = 0
    for before, shard in zip([None, *shards], shards, strict=False):
        if month_of(shard.path) != month or (before is not None and before.path >= shard.path):
            raise LedgerRefusal("manifest-order", "a segment holds shards of one month, sorted", shard.path)
        size = len(shard.text.encode())
        entries.append(
            SegmentShard(
                shard.path,
                offset,
                size,
                shard.events,
                sha256_text(shard.text),
                shard.replay_sha256,
                shard.completion_sha256,
            )
        )
        offset += size
    payload = "".join(shard.text for shard in shards)
    return Segment(month, sha256_text(payload), offset, tuple(entries)), payload


def parse_segment(path: str, content: str) -> Segment:
    """The segment of a manifest file at `path`. Raises segment-invalid."""
    found = _MANIFEST_PATH.fullmatch(path)
    try:
        value = parse_json(content)
        if found is None or not isinstance(value, dict) or frozenset(value) != _MEMBERS:
            raise LedgerRefusal("segment-invalid", "has other members")
        if value["schema"] != SCHEMA or type(value["schema_version"]) is not int or value["schema_version"] != 1:
            raise LedgerRefusal("segment-invalid", "has another schema")
        if not is_digest(value["payload_sha256"]) or not isinstance(value["shards"], list):
            raise LedgerRefusal("segment-invalid", "has no payload digest or no shards")
        segment = Segment(
            str(value["month"]),
            value["payload_sha256"],
            integer(value["payload_bytes"], 1, "payload_bytes"),
            tuple(map(_segment_shard, value["shards"])),
        )
        if segment.manifest_text != content or segment.manifest_path != path:
            raise LedgerRefusal("segment-invalid", "is not named after its digest, or not canonical")
        _check_places(segment)
    except LedgerRefusal as refusal:
        raise LedgerRefusal("segment-invalid", refusal.detail, path) from None
    return segment


def _segment_shard(value: Any) -> SegmentShard:
    if not isinstance(value, dict) or frozenset(value) != _SHARD_MEMBERS:
        raise LedgerRefusal("segment-invalid", "has other members in a shard")
    completion = value["completion_sha256"]
    if not (is_digest(value["sha256"]) and is_digest(value["replay_sha256"])) or not (
        completion is None or is_digest(completion)
    ):
        raise LedgerRefusal("segment-invalid", "has a bad digest in a shard")
    return SegmentShard(
        str(value["path"]),
        integer(value["offset"], 0, "offset"),
        integer(value["bytes"], 1, "bytes"),
        integer(value["events"], 1, "events"),
        value["sha256"],
        value["replay_sha256"],
        completion,
    )


def _check_places(segment: Segment) -> None:
    offset, before = 0, ""
    for shard in segment.shards:
        if shard.offset != offset or shard.path <= before or shard.size > MAX_SHARD_BYTES:
            raise LedgerRefusal("segment-invalid", "its shards do not lie one after another, by path")
        if month_of(shard.path) != segment.month:
            raise LedgerRefusal("segment-invalid", "holds a shard of another month")
        offset, before = offset + shard.size, shard.path
    if offset != segment.payload_bytes or not segment.shards:
        raise LedgerRefusal("segment-invalid", "its payload has another size")
