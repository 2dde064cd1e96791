"""The order of events: plain, causal, and what makes a set impossible (spec action-ledger 10.2)."""

import heapq
from collections.abc import Iterable, Sequence

from .events import Event
from .refusals import LedgerConflict, LedgerRefusal
from .timestamps import instant

OrderKey = tuple[int, int, str, str]


def order_key(event: Event) -> OrderKey:
    """Sort key: source-time events first, by instant and id; then generated-time events, by id alone."""
    if event.is_source_time:
        seconds, fraction = instant(event.occurred_at)
        return 0, seconds, fraction, event.event_id
    return 1, 0, "", event.event_id


def unique_events(events: Iterable[Event]) -> list[Event]:
    """The events without repetitions, the first given of equal ones kept.

    Raises LedgerConflict: event-conflict for one id with two contents, duplicate-metadata for equal digests that are
    not replay-equal.
    """
    kept: dict[str, Event] = {}
    for event in events:
        first = kept.setdefault(event.event_id, event)
        if first is event or first.line == event.line:
            continue
        if first.record["semantic_sha256"] != event.record["semantic_sha256"]:
            raise LedgerConflict("event-conflict", "is given twice with different content", event.event_id)
        if first.replay_text != event.replay_text:
            raise LedgerConflict("duplicate-metadata", "is given twice with different metadata", event.event_id)
    return list(kept.values())


def causal_order(events: Sequence[Event]) -> list[Event]:
    """Deterministic topological order of unique events. Raises causal-cycle."""
    by_id = {event.event_id: event for event in events}
    children: dict[str, list[Event]] = {}
    ready: list[tuple[OrderKey, Event]] = []
    for event in events:
        if event.parent is not None and event.parent in by_id:
            children.setdefault(event.parent, []).append(event)
        else:
            ready.append((order_key(event), event))
    heapq.heapify(ready)
    ordered: list[Event] = []
    while ready:
        _, event = heapq.heappop(ready)
        ordered.append(event)
        for child in children.get(event.event_id, ()):
            heapq.heappush(ready, (order_key(child), child))
    if len(ordered) != len(events):
        raise LedgerRefusal("causal-cycle", "events are each other's ancestors")
    return ordered
