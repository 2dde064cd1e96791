"""Status and timing of every operation, as a dashboard shows it."""

from collections.abc import Iterable
from typing import Any

from ..events import Event
from .chronology import is_terminal, milliseconds, subject_name, summary, unique

_SUMS = ("cost_usd_micros", "input_tokens", "output_tokens")


def status_and_timing(events: Iterable[Event]) -> dict[str, Any]:
    """`operations` by operation id, and `totals` by event type and status.

    Times are those of occurrence; `elapsed_ms` runs from the first to the last event of the operation. Tokens and
    cost are sums over its events. `running` is true while the last transition is no end.
    """
    operations: dict[str, Any] = {}
    totals: dict[str, dict[str, int]] = {}
    for event in unique(events):
        record = event.record
        status, kind = record["action"]["status"], record["event_type"]
        counts = totals.setdefault(kind, {})
        counts[status] = counts.get(status, 0) + 1
        at = milliseconds(event)
        operation = operations.setdefault(
            record["operation_id"],
            {
                "subject": subject_name(record["subject"]),
                "started_at": record["occurred_at"],
                "elapsed_ms": 0,
                "attempts": 0,
                "events": 0,
                "sums": {},
                "_first": at,
                "_attempts": set(),
            },
        )
        operation["events"] += 1
        operation["_attempts"].add(record["attempt_id"])
        operation["attempts"] = len(operation["_attempts"])
        operation["elapsed_ms"] = max(at - operation["_first"], 0)
        operation["last"] = summary(event)
        operation["running"] = not is_terminal(status)
        attributes = record.get("attributes", {})
        for name in _SUMS:
            value = attributes.get(name)
            if isinstance(value, int):
                operation["sums"][name] = operation["sums"].get(name, 0) + value
    for operation in operations.values():
        del operation["_first"], operation["_attempts"]
    return {"operations": operations, "totals": totals}
