"""A queue item and the table of its states. Spec state-plane-protocol 11, state-plane-storage 2.6."""

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET

from .decisions import Decision

State = Literal["pending", "dispatching", "leased", "parked"]
Event = Literal["replace", "withdraw", "dispatch", "reserve", "claim", "give_back", "defer", "park", "recover"]

TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    # a newer event; a parked item is woken by it
    ("pending", "replace"): "pending",
    ("dispatching", "replace"): "dispatching",
    ("leased", "replace"): "leased",
    ("parked", "replace"): "pending",
    # a newer event that takes the work away from its holder
    ("dispatching", "withdraw"): "pending",
    ("leased", "withdraw"): "pending",
    # the alarm makes a lease and hands the item out; a batch takes it without a hand-out
    ("pending", "dispatch"): "dispatching",
    ("pending", "reserve"): "leased",
    ("dispatching", "claim"): "leased",
    ("leased", "claim"): "leased",
    # completion that leaves work, an expired lease, a failed hand-out
    ("dispatching", "give_back"): "pending",
    ("leased", "give_back"): "pending",
    ("pending", "defer"): "pending",
    ("dispatching", "park"): "parked",
    ("leased", "park"): "parked",
    ("pending", "park"): "parked",
    ("parked", "recover"): "pending",
}
HELD: Final[frozenset[State]] = frozenset({"dispatching", "leased"})


class ImpossibleTransition(ValueError):
    """The table has no such move: a defect of the caller, never of a request."""


class DispatchFailure(msgspec.Struct, frozen=True, rename="camel"):
    """Why the last hand-out failed. `status` is the code host's, None when it did not answer; `at` in
    milliseconds."""

    status: int | None
    failure_class: str
    at: int
    fingerprint: str
    detail: dict[str, list[str]] | None


class QueueItem(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One item. Times in milliseconds.

    `decision` is the newest one, `lease_decision` that of the lease: they differ while a newer revision waits
    behind a
    lease. `waiting_since` is the first event of the present wait, which bounds the debounce.
    """

    key: str
    decision: Decision
    state: State
    revision: int
    created_at: int
    updated_at: int
    waiting_since: int
    next_attempt_at: int | None = None
    backoff_reason: str | None = None
    attempts: int = 0
    first_failed_at: int | None = None
    parked_reason: str | None = None
    parked_until: int | None = None
    parked_recovery_attempts: int = 0
    dispatch_failure: DispatchFailure | None = None
    lease_decision: Decision | None = None
    lease_id: str | None = None
    lease_revision: int | None = None
    lease_expires_at: int | None = None
    lease_heartbeat_at: int | None = None
    lease_phase: str | None = None
    claimed_run_id: str | None = None
    claimed_run_attempt: int | None = None
    claim_generation: int | None = None
    claim_protocol_version: int | None = None
    claimed_at: int | None = None
    dispatched_at: int | None = None
    batch_id: str | None = None

    @property
    def lane(self) -> str:
        """`review` or `publication`."""
        return self.decision.lane

    @property
    def has_newer_revision(self) -> bool:
        """Whether something newer waits behind the lease."""
        return self.lease_revision is not None and self.revision > self.lease_revision

    @property
    def asked_by_command(self) -> bool:
        """Whether somebody asked for it by a command, and is still to be answered."""
        publication = self.decision.publication
        asked = self.decision if publication is UNSET else publication.producer_decision
        return asked.command_status_marker is not UNSET or asked.status_comment_id is not UNSET

    @property
    def held_decision(self) -> Decision | None:
        """What the holder works on: the lease's own decision, also when ingress has replaced the item's."""
        if self.lease_decision is not None:
            return self.lease_decision
        return None if self.has_newer_revision else self.decision


_NO_LEASE: Final[Mapping[str, Any]] = {
    "lease_decision": None,
    "lease_id": None,
    "lease_revision": None,
    "lease_expires_at": None,
    "lease_heartbeat_at": None,
    "lease_phase": None,
    "claimed_run_id": None,
    "claimed_run_attempt": None,
    "claim_generation": None,
    "claim_protocol_version": None,
    "claimed_at": None,
    "dispatched_at": None,
    "batch_id": None,
}
_NOT_PARKED: Final[Mapping[str, Any]] = {"parked_reason": None, "parked_until": None}
_NOT_WAITING: Final[Mapping[str, Any]] = {"next_attempt_at": None, "backoff_reason": None}


def move(item: QueueItem, event: Event, now: int, **changes: Any) -> QueueItem:
    """`item` after `event`, with `changes`; what the new state does not have is cleared.

    Raises ImpossibleTransition when the table has no such move.
    """
    state = TRANSITIONS.get((item.state, event))
    if state is None:
        raise ImpossibleTransition(f"{item.key}: {event} while {item.state}")
    cleared: dict[str, Any] = {}
    if state not in HELD:
        cleared.update(_NO_LEASE)
    if state != "parked":
        cleared.update(_NOT_PARKED)
    if state != "pending":
        cleared.update(_NOT_WAITING)
    return msgspec.structs.replace(item, **{**cleared, "state": state, "updated_at": now, **changes})


def silence_deadline(item: QueueItem, grace_ms: int) -> int | None:
    """When a held item's lease ends: its expiry, or sooner once its holder has begun heartbeats and falls silent.

    A holder that never sent a heartbeat, or whose last one said `finalizing`, has the whole lease (spec 11.4).
    """
    if item.lease_expires_at is None:
        return None
    if item.state == "leased" and item.lease_heartbeat_at is not None and item.lease_phase == "review":
        return min(item.lease_expires_at, item.lease_heartbeat_at + grace_ms)
    return item.lease_expires_at


def due_at(item: QueueItem, grace_ms: int) -> int | None:
    """When something happens to the item by itself: its next attempt, its lease's end, its recovery; None: never."""
    if item.state == "pending":
        return item.next_attempt_at
    if item.state == "parked":
        return item.parked_until
    return silence_deadline(item, grace_ms)
