"""Bounded review history of each item, as its review comment shows it."""

from collections.abc import Iterable
from typing import Any, Final

from ..events import Event
from .chronology import subject_name, summary, unique

DEFAULT_LIMIT: Final = 20
_SHOWN = ("model", "reasoning_effort", "review_mode", "finding_count", "completion_reason", "duration_ms")


def review_histories(events: Iterable[Event], *, limit: int = DEFAULT_LIMIT) -> dict[str, Any]:
    """By item: the newest `limit` transitions of its reviews, newest first, and how many older ones were left out.

    An entry has the event's id, type, time, status, reason, attempt and source revision, and the attributes that the
    history shows. Only the `review` types of numbered subjects count.
    """
    items: dict[str, list[Event]] = {}
    for event in unique(events, ("review.",)):
        if "number" in event.record["subject"]:
            items.setdefault(subject_name(event.record["subject"]), []).append(event)
    return {
        name: {
            "entries": [_entry(event) for event in reversed(history[-limit:])] if limit else [],
            "omitted": max(len(history) - limit, 0),
            "attempts": len({event.record["attempt_id"] for event in history}),
        }
        for name, history in items.items()
    }


def _entry(event: Event) -> dict[str, Any]:
    entry = summary(event)
    entry["attempt_id"] = event.record["attempt_id"]
    if "source_revision" in event.record["subject"]:
        entry["source_revision"] = event.record["subject"]["source_revision"]
    attributes = event.record.get("attributes", {})
    entry.update({name: attributes[name] for name in _SHOWN if name in attributes})
    return entry
