"""What the queue's statistics conclude from its numbers. Spec state-plane-protocol 11.10 and the sample it names.

Operators' tools read the words: they recover what was parked only while the pressure is `idle`, and they take a
status that they do not know for `unknown`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..javascript import iso_time

DispatcherState = Literal["active", "paused", "blocked"]
SECOND: Final = 1_000
HOUR: Final = 3_600_000
NOT_DRAINING_FROM: Final = 100

_MESSAGES: Final[Mapping[str, str]] = {
    "queue_empty": "Nothing waits for a review, and none is under way.",
    "claim_stalled": "A review was handed out and no run has claimed it for too long.",
    "dispatcher_blocked": "Reviews wait, and nothing can be handed out: the code host refuses or does not answer.",
    "dispatcher_paused": "Reviews wait, and the review workflow is switched off.",
    "claim_delayed": "A review was handed out and its claim takes longer than usual.",
    "handoff_current": "Dispatch-to-claim handoffs are within the expected window.",
}


@dataclass(frozen=True, slots=True)
class Phase:
    """Reviews in one state: how many, and since when the oldest has been in it (milliseconds) with its key."""

    count: int
    since: int | None = None
    key: str | None = None

    def age(self, now: int) -> int | None:
        """Whole seconds, or None when there is none."""
        return None if self.since is None else max(0, now - self.since) // SECOND

    def wire(self, now: int) -> dict[str, Any]:
        """`{count, oldest_at, oldest_age_seconds, oldest_key}`."""
        return {
            "count": self.count,
            "oldest_at": None if self.since is None else iso_time(self.since),
            "oldest_age_seconds": self.age(now),
            "oldest_key": self.key,
        }


@dataclass(frozen=True, slots=True)
class Phases:
    """Reviews that wait, that were handed out, and that a run works on."""

    pending: Phase
    dispatching: Phase
    leased: Phase


def handoff_limits(dispatch_lease_ms: int) -> tuple[int, int]:
    """From what age on (milliseconds) a hand-out without a claim is late, and stuck: a third and two thirds of
    its lease, within bounds."""
    late = min(120 * SECOND, max(30 * SECOND, dispatch_lease_ms // 3))
    return late, min(300 * SECOND, max(late + SECOND, dispatch_lease_ms * 2 // 3))


def handoff(phases: Phases, total: int, dispatcher: DispatcherState, now: int, lease_ms: int) -> dict[str, Any]:
    """`status`, `reason` and `message` of the way from queue to run; `total`: reviews in any state."""
    late, stuck = handoff_limits(lease_ms)
    waited, waiting = (phases.dispatching.age(now) or 0) * SECOND, phases.pending.count > 0
    if total == 0:
        status, reason = "idle", "queue_empty"
    elif waited >= stuck:
        status, reason = "stalled", "claim_stalled"
    elif dispatcher == "blocked" and waiting:
        status, reason = "stalled", "dispatcher_blocked"
    elif dispatcher == "paused" and waiting:
        status, reason = "degraded", "dispatcher_paused"
    elif waited >= late:
        status, reason = "degraded", "claim_delayed"
    else:
        status, reason = "healthy", "handoff_current"
    return {"status": status, "reason": reason, "message": _MESSAGES[reason]}


@dataclass(frozen=True, slots=True)
class Load:
    """Reviews: waiting, ready, ready for a repository with room, under way; and how many may be under way."""

    pending: int
    ready: int
    admissible: int
    active: int
    capacity: int


def pressure(load: Load, dispatcher: DispatcherState) -> dict[str, str]:
    """`status` (`idle`, `congested`, `saturated`, `unknown`) and `reason`: whether ready reviews wait for room."""
    if load.pending and dispatcher != "active":
        return {"status": "unknown", "reason": "dispatcher_inactive"}
    if load.ready < 1:
        return {"status": "idle", "reason": "no_ready_backlog"}
    if load.admissible < 1:
        return {"status": "idle", "reason": "no_admissible_backlog"}
    if load.active < load.capacity:
        return {"status": "idle", "reason": "capacity_available"}
    status = "saturated" if load.admissible >= load.capacity else "congested"
    return {"status": status, "reason": "capacity_full_with_backlog"}


def publication_health(pending: int, active: int, parked: int, oldest_ms: int, drain: int) -> dict[str, str | None]:
    """`status` and `reason` of the publications; `oldest_ms`: age of the oldest that waits, `drain`: ended less
    enqueued in an hour."""
    if not (pending or active or parked):
        return {"status": "idle", "reason": None}
    if parked:
        return {"status": "critical", "reason": "dead_letter_capacity"}
    if oldest_ms >= 6 * HOUR:
        return {"status": "critical", "reason": "oldest_pending_over_6h"}
    if oldest_ms >= HOUR:
        return {"status": "degraded", "reason": "oldest_pending_over_1h"}
    if pending >= NOT_DRAINING_FROM and drain <= 0:
        return {"status": "degraded", "reason": "not_draining"}
    return {"status": "healthy", "reason": None}
