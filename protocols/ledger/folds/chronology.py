"""One order of events for all folds, and the few facts that they all show."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..events import Event
from ..timestamps import instant

Chronology = tuple[int, str, int, str]


def chronology(event: Event) -> Chronology:
    """Sort key: instant of occurrence, then phase ordinal, then event id."""
    seconds, fraction = instant(event.record["occurred_at"])
    return seconds, fraction, event.record["phase_seq"], event.event_id


def unique(events: Iterable[Event], prefixes: tuple[str, ...] = ("",)) -> list[Event]:
    """The events whose type has one of `prefixes`, in chronological order, each once.

    A spool and a tree may both hold one event, under two writers' clocks: the earlier one counts, whatever the order
    they come in. Only what is wanted is held in memory.
    """
    kept: dict[str, tuple[Chronology, str, Event]] = {}
    for event in events:
        if event.record["event_type"].startswith(prefixes):
            entry = (chronology(event), event.line, event)
            kept[event.event_id] = min(entry, kept.get(event.event_id, entry), key=lambda each: each[:2])
    return [event for _, _, event in sorted(kept.values(), key=lambda each: each[0])]


def subject_name(subject: Mapping[str, Any]) -> str:
    """`owner/name#number`, or `owner/name:kind[:id]` of what has no number."""
    if "number" in subject:
        return f"{subject['repository']}#{subject['number']}"
    identifier = subject.get("subject_id") or subject.get("cluster_id")
    return f"{subject['repository']}:{subject['kind']}" + (f":{identifier}" if identifier else "")


def milliseconds(event: Event) -> int:
    """Epoch milliseconds of occurrence, cut."""
    seconds, fraction = instant(event.record["occurred_at"])
    return seconds * 1000 + int(f"{fraction}000"[:3])


def summary(event: Event) -> dict[str, Any]:
    """What every view shows of an event."""
    record = event.record
    shown: dict[str, Any] = {
        "event_id": record["event_id"],
        "event_type": record["event_type"],
        "occurred_at": record["occurred_at"],
        "status": record["action"]["status"],
    }
    if "reason_code" in record["action"]:
        shown["reason_code"] = record["action"]["reason_code"]
    return shown


_TERMINAL = frozenset(
    {
        *("blocked", "cancelled", "completed", "executed", "failed", "published"),
        *("recovered", "released", "sent", "skipped", "unchanged", "validated"),
    }
)


def is_terminal(status: str) -> bool:
    """Whether a status ends a phase."""
    return status in _TERMINAL
