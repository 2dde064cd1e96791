"""Reading a tree of shards of any size with constant memory (spec action-ledger 11).

Shards come in path order, a month at a time; a shard that a verified segment holds is read from there, whether or not
its own file still exists. A shard whose import is not complete is a fault, or passed over, as the caller says.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from moorage.protocols.ledger.batch import check_shard_events, place_shard
from moorage.protocols.ledger.bindings import MAX_BINDING_BYTES, check_visible, completion_path, reservation_path
from moorage.protocols.ledger.events import Event
from moorage.protocols.ledger.publication import is_shard_path
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.segments import MAX_MANIFEST_BYTES, Segment, SegmentShard, parse_segment
from moorage.protocols.ledger.segments import ROOT as SEGMENTS_ROOT
from moorage.protocols.ledger.shards import EVENTS_ROOT, MAX_SHARD_BYTES, ShardIdentity, replay_digest
from moorage.protocols.ledger.validate import parse_shard_text

from .files import Entry
from .sources import Source

_YEAR: Final = re.compile("[0-9]{4}")
_MONTH: Final = re.compile("0[1-9]|1[0-2]")
_CHUNK: Final = 1 << 20
_HIDDEN: Final = frozenset({"import-incomplete", "import-transaction"})


@dataclass(frozen=True, slots=True)
class ReadShard:
    """A shard as it was read. `imported` says that its set has a reservation, and then its completion too."""

    path: str
    size: int
    events: tuple[Event, ...]
    identity: ShardIdentity
    imported: bool


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a shard's bytes are: in a segment, or in its own object."""

    path: str
    segment: tuple[Segment, SegmentShard] | None


def months(source: Source, *, strict: bool = False) -> list[str]:
    """`YYYY/MM` of every month with shards or segments, sorted.

    With `strict`, raises path-syntax for what no reading of a month would meet: anything but folders of the two.
    """
    return sorted({month for root in (EVENTS_ROOT, SEGMENTS_ROOT) for month in _months_below(source, root, strict)})


def _months_below(source: Source, root: str, strict: bool) -> Iterator[str]:
    for year in source.list(root):
        if _is_folder(source, f"{root}/{year.name}", year, _YEAR, strict):
            for month in source.list(f"{root}/{year.name}"):
                if _is_folder(source, f"{root}/{year.name}/{month.name}", month, _MONTH, strict):
                    yield f"{year.name}/{month.name}"


def _is_folder(source: Source, path: str, entry: Entry, form: "re.Pattern[str]", strict: bool) -> bool:
    if strict and not (entry.kind == "folder" and form.fullmatch(entry.name)):
        raise LedgerRefusal("path-syntax", "must be a folder YYYY/MM", source.where(path))
    return entry.kind == "folder"


def loose_paths(source: Source, month: str) -> Iterator[str]:
    """Paths of the shards of a month that have files of their own."""
    for path in source.walk(f"{EVENTS_ROOT}/{month}"):
        if not is_shard_path(path):
            raise LedgerRefusal("path-syntax", "is no shard", source.where(path))
        yield path


def _payload_digest(source: Source, segment: Segment) -> str | None:
    digest, at = hashlib.sha256(), 0
    while at < segment.payload_bytes:
        piece = source.read_range(segment.payload_path, at, min(_CHUNK, segment.payload_bytes - at))
        if not piece:
            return None
        digest.update(piece)
        at += len(piece)
    if source.read_range(segment.payload_path, segment.payload_bytes, 1):
        return None
    return digest.hexdigest()


def read_segments(source: Source, month: str) -> list[Segment]:
    """The segments of a month whose manifest and payload are whole; damaged ones raise.

    Raises segment-invalid for a bad manifest, segment-damaged for a payload that is missing or differs.
    """
    found = []
    for entry in source.list(f"{SEGMENTS_ROOT}/{month}"):
        path = f"{SEGMENTS_ROOT}/{month}/{entry.name}"
        if not entry.name.endswith(".json"):
            continue
        content = source.read(path, MAX_MANIFEST_BYTES)
        if content is None:
            continue
        segment = parse_segment(path, _text(content, source.where(path)))
        if _payload_digest(source, segment) != segment.payload_sha256:
            raise LedgerRefusal("segment-damaged", "its payload is missing or differs", source.where(path))
        found.append(segment)
    return found


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise LedgerRefusal("utf8", f"is not UTF-8 at byte {error.start}", where) from None


def _places(source: Source, month: str) -> list[_Place]:
    places = {path: _Place(path, None) for path in loose_paths(source, month)}
    for segment in read_segments(source, month):
        for shard in segment.shards:
            places[shard.path] = _Place(shard.path, (segment, shard))
    return [place for _, place in sorted(places.items())]


def _content(source: Source, place: _Place) -> bytes:
    where = source.where(place.path)
    if place.segment is None:
        data = source.read(place.path, MAX_SHARD_BYTES)
        if data is None:
            raise LedgerRefusal("missing", "vanished while the tree was read", where)
        return data
    segment, shard = place.segment
    data = source.read_range(segment.payload_path, shard.offset, shard.size)
    if data is None or hashlib.sha256(data).hexdigest() != shard.sha256:
        raise LedgerRefusal("segment-damaged", f"its place in {segment.payload_path} differs", where)
    return data


class _ImportStates:
    """Reservation and completion of the last set asked for: the parts of a set are neighbours."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._last: tuple[str, str | None, str | None] = ("", None, None)

    def of(self, identity: ShardIdentity) -> tuple[str | None, str | None]:
        """The two files' contents, None when missing."""
        name = reservation_path(identity)
        if self._last[0] != name:
            self._last = (name, self._read(name), self._read(completion_path(identity)))
        return self._last[1], self._last[2]

    def _read(self, path: str) -> str | None:
        data = self._source.read(path, MAX_BINDING_BYTES)
        return None if data is None else _text(data, self._source.where(path))


def read_place(source: Source, states: _ImportStates, place: _Place) -> ReadShard:
    """One shard, every reader rule applied."""
    data, where = _content(source, place), source.where(place.path)
    try:
        events = parse_shard_text(_text(data, where))
    except LedgerRefusal as refusal:
        raise (refusal if refusal.where == where else refusal.at(where)) from None
    check_shard_events(events, where)
    identity, _ = place_shard(place.path, events)
    reservation, completion = states.of(identity)
    if reservation is not None or completion is not None:
        check_visible(identity, place.path, replay_digest(events), reservation, completion)
    return ReadShard(place.path, len(data), tuple(events), identity, reservation is not None)


def iter_shards(
    source: Source,
    *,
    since_month: str | None = None,
    until_month: str | None = None,
    hidden: Callable[[LedgerRefusal], None] | None = None,
    strict: bool = False,
) -> Iterator[ReadShard]:
    """Every shard of a tree, by path. `since_month` and `until_month` (`YYYY/MM`, inclusive) bound the partitions.

    `strict`: as of `months`.

    A shard whose import is not complete raises; with `hidden`, it is reported there and passed over, as readers must.
    """
    states = _ImportStates(source)
    for month in months(source, strict=strict):
        if (since_month is not None and month < since_month) or (until_month is not None and month > until_month):
            continue
        for place in _places(source, month):
            try:
                shard = read_place(source, states, place)
            except LedgerRefusal as refusal:
                if hidden is None or refusal.code not in _HIDDEN:
                    raise
                hidden(refusal)
                continue
            yield shard
