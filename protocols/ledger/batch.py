"""A batch of shards before it is imported: every rule that needs the batch alone (spec action-ledger 12.1, 5 to
9).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .bindings import (
    Binding,
    EventBinding,
    completion_binding,
    event_binding,
    producer_run_binding,
    shard_set_binding,
)
from .events import Event
from .order import causal_order
from .publication import check_ascending, is_shard_path
from .refusals import LedgerRefusal
from .shards import MAX_SHARD_EVENTS, Shard, ShardIdentity, pack, shard_path, shard_text
from .timestamps import calendar_date
from .validate import parse_shard_text

MAX_DEPTH: Final = 6
MAX_FOLDER_ENTRIES: Final = 512
MAX_FOLDERS: Final = 512
MAX_FILES: Final = 256
MAX_FILE_LINES: Final = 2048
MAX_BATCH_BYTES: Final = 16_777_216
MAX_BATCH_EVENTS: Final = 262_144
MAX_BINDING_READS: Final = 262_144

_DATE = re.compile(r"ledger/v1/events/([0-9]{4})/([0-9]{2})/([0-9]{2})/")
_PART = re.compile(r"-part-([0-9]{6})-of-([0-9]{6})\.jsonl")


@dataclass(frozen=True, slots=True)
class PlacedShard:
    """A shard whose content and path agree. `part` is index and count, None for an unnumbered one."""

    identity: ShardIdentity
    shard: Shard
    part: tuple[int, int] | None


def check_expected_paths(paths: Sequence[str]) -> None:
    """Raises manifest-empty, path-syntax, manifest-order for a list of paths that an import is told to expect."""
    if not 1 <= len(paths) <= MAX_FILES:
        raise LedgerRefusal("manifest-empty", f"an import expects 1 to {MAX_FILES} paths")
    for path in paths:
        if not isinstance(path, str) or not is_shard_path(path):
            raise LedgerRefusal("path-syntax", "must be a shard's path", str(path)[:200])
    check_ascending(paths)


def path_date(path: str) -> str:
    """The date in a shard's path. Raises path-syntax, calendar-date."""
    found = _DATE.match(path)
    if found is None or not is_shard_path(path):
        raise LedgerRefusal("path-syntax", "must be ledger/v1/events/YYYY/MM/DD/…/….jsonl", path)
    return calendar_date(f"{found[1]}-{found[2]}-{found[3]}", path)


def path_part(path: str) -> tuple[int, int] | None:
    """Index and count in a shard's path, None when it is not numbered."""
    found = _PART.search(path)
    return (int(found[1]), int(found[2])) if found and found.end() == len(path) else None


def place_shard(path: str, events: Sequence[Event]) -> tuple[ShardIdentity, tuple[int, int] | None]:
    """The identity that `path` must have for its first event's producer. Raises path-identity and path errors."""
    date = path_date(path)
    identity = ShardIdentity.of_producer(events[0].producer, date)
    part = path_part(path)
    if part is not None and not 1 <= part[0] <= part[1]:
        raise LedgerRefusal("path-identity", "its part numbers are impossible", path)
    expected = shard_path(identity, *(part or (None, None)))
    if expected != path:
        raise LedgerRefusal("path-identity", f"its producer and date belong at {expected}", path)
    return identity, part


def check_shard_events(events: Sequence[Event], where: str = "") -> None:
    """Raises empty-shard, event-limit, duplicate-event, causal-order for a shard's parsed events."""
    if not events:
        raise LedgerRefusal("empty-shard", "a shard holds at least one event", where)
    if len(events) > MAX_SHARD_EVENTS:
        raise LedgerRefusal("event-limit", f"a shard holds at most {MAX_SHARD_EVENTS} events", where)
    seen: set[str] = set()
    for event in events:
        if event.event_id in seen:
            raise LedgerRefusal("duplicate-event", f"holds event {event.event_id} twice", where)
        seen.add(event.event_id)
    if [event.event_id for event in causal_order(events)] != [event.event_id for event in events]:
        raise LedgerRefusal("causal-order", "its events are not in canonical causal order", where)


def parse_source_shard(path: str, content: str) -> PlacedShard:
    """One shard of the source, read once. Raises line-limit, framing, event and path refusals."""
    if content.count("\n") > MAX_FILE_LINES:
        raise LedgerRefusal("line-limit", f"a shard holds at most {MAX_FILE_LINES} lines", path)
    if not content.endswith("\n"):
        raise LedgerRefusal("framing", "must end with a line feed", path)
    if content.count("\n") > MAX_SHARD_EVENTS:
        raise LedgerRefusal("event-limit", f"a shard holds at most {MAX_SHARD_EVENTS} events", path)
    try:
        events = parse_shard_text(content)
    except LedgerRefusal as refusal:
        raise refusal.at(path) from None
    check_shard_events(events, path)
    if any(event.producer != events[0].producer for event in events):
        raise LedgerRefusal("mixed-producers", "holds events of several producers", path)
    identity, part = place_shard(path, events)
    return PlacedShard(identity, Shard(path, content, tuple(events)), part)


def _check_set(identity: ShardIdentity, shards: Sequence[PlacedShard]) -> None:
    where = shards[0].shard.path
    parts = [shard.part for shard in shards]
    if any(part is None for part in parts):
        if len(shards) == 1:
            events = shards[0].shard.events
            packed = list(pack(causal_order(events)))
            if len(packed) != 1:
                raise LedgerRefusal("not-packed", "must be written in numbered parts", where)
            return
        code = "mixed-numbering" if any(parts) else "repeated-unnumbered"
        raise LedgerRefusal(code, "a set is one unnumbered shard, or numbered parts", where)
    numbers = sorted(part for part in parts if part is not None)
    count = numbers[0][1]
    if numbers != [(index, count) for index in range(1, count + 1)]:
        raise LedgerRefusal("incomplete-set", f"must be parts 1 to {count}, each given once", where)
    in_order = sorted(shards, key=lambda placed: placed.part or (0, 0))
    groups = list(pack(causal_order([event for placed in in_order for event in placed.shard.events])))
    expected = [(shard_path(identity, at, len(groups)), shard_text(group)) for at, group in enumerate(groups, 1)]
    if expected != [(placed.shard.path, placed.shard.text) for placed in in_order]:
        raise LedgerRefusal("not-packed", "is not what the writer makes of these events", where)


@dataclass(frozen=True, slots=True)
class Batch:
    """A checked batch and the binding files that importing it needs, each list sorted by path."""

    shards: tuple[PlacedShard, ...]
    events: Mapping[str, Event]
    reservations: tuple[Binding, ...]
    completions: tuple[Binding, ...]

    def bindings(self) -> dict[str, EventBinding]:
        """What the batch binds each of its events to, by event id."""
        return {
            event_id: EventBinding(event_id, event.record["semantic_sha256"], event.parent)
            for event_id, event in self.events.items()
        }


def check_batch(shards: Sequence[PlacedShard], expected_producer: Mapping[str, Any] | None = None) -> Batch:
    """The batch of these shards, rules 7 to 9 checked. `expected_producer` is camelCase, its component not compared.

    Raises duplicate-event, causal-cycle, split-partition, the set refusals, producer-provenance, total-events.
    """
    events: dict[str, Event] = {}
    sets: dict[ShardIdentity, list[PlacedShard]] = {}
    dates: dict[str, str] = {}
    for placed in shards:
        for event in placed.shard.events:
            if event.event_id in events:
                raise LedgerRefusal(
                    "duplicate-event", f"event {event.event_id} is also in another shard", placed.shard.path
                )
            events[event.event_id] = event
        sets.setdefault(placed.identity, []).append(placed)
    if len(events) > MAX_BATCH_EVENTS:
        raise LedgerRefusal("event-limit", f"a batch holds at most {MAX_BATCH_EVENTS} events")
    causal_order(list(events.values()))
    for identity, members in sets.items():
        date = dates.setdefault(identity.run_digest(), identity.partition_date)
        if date != identity.partition_date:
            raise LedgerRefusal("split-partition", f"its producer run already has date {date}", members[0].shard.path)
    for identity, members in sets.items():
        _check_set(identity, members)
        if expected_producer is not None:
            _check_provenance(identity, expected_producer, members[0].shard.path)
    reservations = {binding.path: binding for binding in map(event_binding, events.values())}
    completions = []
    for identity, members in sets.items():
        run, reserved = (
            producer_run_binding(identity),
            shard_set_binding(identity, [placed.shard for placed in members]),
        )
        reservations[run.path] = run
        reservations[reserved.path] = reserved
        completions.append(completion_binding(identity, reserved.text))
    return Batch(
        tuple(sorted(shards, key=lambda placed: placed.shard.path)),
        events,
        tuple(binding for _, binding in sorted(reservations.items())),
        tuple(sorted(completions, key=lambda binding: binding.path)),
    )


def _check_provenance(identity: ShardIdentity, expected: Mapping[str, Any], where: str) -> None:
    run = identity.to_json()
    for name in ("repository", "sha", "workflow", "job", "runId", "runAttempt"):
        if name in expected and run[name] != expected[name]:
            raise LedgerRefusal("producer-provenance", f"its {name} is {run[name]!r}, not the expected one", where)
