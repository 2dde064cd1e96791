"""The spool: one file an event, below one folder a repository (spec action-ledger 9, 11)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from moorage.protocols.ledger.events import Event
from moorage.protocols.ledger.markers import (
    MAX_MARKER_BYTES,
    MAX_SEAL_BYTES,
    Seal,
    parse_marker,
    parse_seal,
)
from moorage.protocols.ledger.order import order_key
from moorage.protocols.ledger.paths import SPOOL, spool_folder, spool_path
from moorage.protocols.ledger.refusals import LedgerConflict, LedgerRefusal
from moorage.protocols.ledger.shards import producer_key, producer_text
from moorage.protocols.ledger.spool_limits import (
    MAX_ENTRIES,
    MAX_EVENTS,
    MAX_PRODUCERS,
    MAX_REPOSITORIES,
    MAX_TOTAL_BYTES,
)
from moorage.protocols.ledger.validate import MAX_EVENT_BYTES, parse_event_file

from .files import TrustedRoot

PARTITIONS = f"{SPOOL}/_partitions"
SEALS = f"{SPOOL}/_finalizations"
LOCKS = f"{SPOOL}/_locks"
_RESERVED = frozenset({"_partitions", "_finalizations", "_locks"})


def marker_path(producer: Mapping[str, Any]) -> str:
    """Path of a producer's partition marker."""
    return f"{PARTITIONS}/{producer_key(producer)}.txt"


def seal_path(producer: Mapping[str, Any]) -> str:
    """Path of a producer's seal."""
    return f"{SEALS}/{producer_key(producer)}.json"


def lock_path(producer: Mapping[str, Any]) -> str:
    """Path of a producer's lock."""
    return f"{LOCKS}/{producer_key(producer)}.lock"


def _refusal(code: str, detail: str, where: str) -> LedgerRefusal:
    return LedgerRefusal(code, detail, where)


def read_event_file(root: TrustedRoot, relative: str) -> Event | None:
    """The event of a file, None when it is missing. Raises what `parse_event_file` and `TrustedRoot.read` raise."""
    content = root.read(relative, MAX_EVENT_BYTES)
    if content is None:
        return None
    where = root.where(relative)
    try:
        return parse_event_file(content.text(where))
    except LedgerRefusal as refusal:
        raise (refusal if refusal.where == where else refusal.at(where)) from None


def write_event(root: TrustedRoot, event: Event) -> tuple[Event, bool]:
    """Spools an event: the stored event (the first writer's, on replay) and whether this call stored it.

    Raises event-conflict when the key is taken by different content.
    """
    path = spool_path(event.record["subject"]["repository"], event.event_id)
    if root.create(path, f"{event.line}\n".encode()) == "created":
        return event, True
    stored = read_event_file(root, path)
    if stored is None:
        raise LedgerRefusal("unsafe-entry", "vanished while it was compared", root.where(path))
    if stored.replay_text != event.replay_text:
        raise LedgerConflict("event-conflict", "its key is taken by an event with other content", event.event_id)
    return stored, False


def has_event(root: TrustedRoot, event: Event) -> bool:
    """Whether the spool has a file for this event's id."""
    path = spool_path(event.record["subject"]["repository"], event.event_id)
    return root.read(path, MAX_EVENT_BYTES) is not None


def read_marker(root: TrustedRoot, producer: Mapping[str, Any]) -> str | None:
    """The producer's partition date, None without a marker. Raises calendar-date, byte-limit."""
    path = marker_path(producer)
    content = root.read(path, MAX_MARKER_BYTES)
    if content is None:
        return None
    try:
        return parse_marker(content.text(root.where(path)))
    except LedgerRefusal as refusal:
        raise refusal.at(root.where(path)) from None


def require_marker(root: TrustedRoot, producer: Mapping[str, Any]) -> str:
    """The producer's partition date. Raises missing-partition without a marker: finalising never makes one up."""
    date = read_marker(root, producer)
    if date is None:
        raise LedgerRefusal(
            "missing-partition", "the producer has events but no partition marker", root.where(marker_path(producer))
        )
    return date


def write_marker(root: TrustedRoot, producer: Mapping[str, Any], date: str) -> None:
    """Ties the producer to its date, before its first event. Raises partition-conflict for another date."""
    found = read_marker(root, producer)
    if found is None and root.create(marker_path(producer), f"{date}\n".encode()) == "exists":
        found = require_marker(root, producer)
    if found is not None and found != date:
        raise LedgerConflict(
            "partition-conflict",
            f"the producer's events belong to {found}, not {date}; use a new invocation identity",
            root.where(marker_path(producer)),
        )


def read_seal(root: TrustedRoot, producer: Mapping[str, Any]) -> Seal | None:
    """The producer's seal, None while it is open. Raises seal-invalid, calendar-date."""
    path = seal_path(producer)
    content = root.read(path, MAX_SEAL_BYTES)
    if content is None:
        return None
    try:
        return parse_seal(content.text(root.where(path)), producer)
    except LedgerRefusal as refusal:
        raise (refusal if refusal.where else refusal.at(root.where(path))) from None


def write_seal(root: TrustedRoot, seal: Seal) -> None:
    """Closes a producer. Raises seal-conflict when it was closed over other events."""
    path, text = seal_path(seal.producer), seal.text()
    if root.create(path, text.encode()) == "created":
        return
    stored = root.read(path, MAX_SEAL_BYTES)
    if stored is None or stored.data != text.encode():
        raise LedgerConflict("seal-conflict", "the producer was sealed over other events", root.where(path))


@dataclass(slots=True)
class _Budget:
    """Counts events, producers and bytes while a spool is read, so that a limit is met before everything is held."""

    events: int = 0
    size: int = 0
    producers: set[str] = field(default_factory=set)

    def add(self, event: Event, where: str) -> None:
        self.events += 1
        self.size += len(event.line.encode()) + 1
        self.producers.add(producer_text(event.producer))
        if self.events > MAX_EVENTS:
            raise _refusal("spool-events", f"a spool holds at most {MAX_EVENTS} events", where)
        if self.size > MAX_TOTAL_BYTES:
            raise _refusal("spool-bytes", f"a spool holds at most {MAX_TOTAL_BYTES} bytes of events", where)
        if len(self.producers) > MAX_PRODUCERS:
            raise _refusal("spool-producers", f"a spool holds at most {MAX_PRODUCERS} producers", where)


def _read_folder(root: TrustedRoot, folder: str, code: str) -> Iterator[Event]:
    path = f"{SPOOL}/{folder}"
    where = root.where(path)
    entries = root.entries(
        path, MAX_ENTRIES, lambda: _refusal("spool-entries", f"a folder holds at most {MAX_ENTRIES} entries", where)
    )
    for entry in entries:
        if entry.kind != "file":
            raise _refusal("unsafe-entry", "must be a regular file", f"{where}/{entry.name}")
        if not entry.name.endswith(".json"):
            continue
        file = f"{path}/{entry.name}"
        event = read_event_file(root, file)
        if event is None:
            raise _refusal("unsafe-entry", "vanished while the spool was read", root.where(file))
        if spool_path(event.record["subject"]["repository"], event.event_id) != file:
            raise _refusal(code, "its repository and id belong at another path", root.where(file))
        yield event


def iter_spool(root: TrustedRoot) -> Iterator[Event]:
    """Events of the whole spool, folder by folder. Raises at the first entry that does not belong there."""
    where = root.where(SPOOL)
    try:
        folders = root.entries(
            SPOOL,
            MAX_REPOSITORIES + len(_RESERVED),
            lambda: _refusal("spool-repositories", f"a spool holds at most {MAX_REPOSITORIES} repositories", where),
        )
    except FileNotFoundError:
        return
    for entry in folders:
        if entry.kind != "folder":
            raise _refusal("unsafe-entry", "must be a folder", f"{where}/{entry.name}")
    repositories = [entry.name for entry in folders if entry.name not in _RESERVED]
    if len(repositories) > MAX_REPOSITORIES:
        raise _refusal("spool-repositories", f"a spool holds at most {MAX_REPOSITORIES} repositories", where)
    budget = _Budget()
    for folder in repositories:
        for event in _read_folder(root, folder, "spool-path"):
            budget.add(event, where)
            yield event


def read_spool(root: TrustedRoot) -> list[Event]:
    """Every event of the spool, in plain order (time, then id). A missing spool is empty."""
    return sorted(iter_spool(root), key=order_key)


def read_spool_repository(root: TrustedRoot, repository: str) -> list[Event]:
    """The events of one repository. Raises spool-repository for an event that belongs elsewhere."""
    budget = _Budget()
    events = []
    try:
        for event in _read_folder(root, spool_folder(repository), "spool-repository"):
            budget.add(event, root.where(SPOOL))
            events.append(event)
    except FileNotFoundError:
        return []
    return sorted(events, key=order_key)


def by_producer(events: list[Event]) -> dict[str, list[Event]]:
    """Events grouped by their producer's canonical text, in that order, which is also the order of their locks."""
    groups: dict[str, list[Event]] = {}
    for event in events:
        groups.setdefault(producer_text(event.producer), []).append(event)
    return dict(sorted(groups.items()))
