"""What a completion, an expired lease or an ended run does to an item.

Spec state-plane-protocol 11.4 to 11.6; `exact-review-lease/complete-*`, `exact-review-publication/*`. The
decision of the *lease*
counts, also when ingress has replaced the item's.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import UNSET

from ..wire.queue import (
    CompletionKindOutsidePublication,
    FailureKindOutsidePublication,
    InvalidDirectLifecycleRequeue,
    LeaseAttemptNotClaimed,
    LeaseNotClaimed,
    LeaseProtocolNotClaimed,
)
from .backoff import DEFERRED_MS, parked_recovery, publication_delay, review_delay
from .completions import DEFAULT_KINDS, KINDS, Completion
from .decisions import RETENTION_RECOVERY, SHARD_RECOVERY, Decision
from .items import QueueItem, move

MAX_REVIEW_FAILURES: Final = 8
MAX_PUBLICATION_RETRIES: Final = 12
"""Failures of any kind, about seven hours of them: a publication that nothing helps becomes somebody's business. The
specification names the reason `retry_exhausted` and no number.
"""
MAX_PERMANENT_FAILURES: Final = 3


@dataclass(frozen=True, slots=True)
class Burial:
    """The facts of a dead letter."""

    reason: str
    attempts: int
    first_failed_at: int
    fingerprint: str | None


@dataclass(frozen=True, slots=True)
class Ending:
    """What is left of the item: `item` (None: removed), what follows, and what is counted.

    `refresh`: a fresh review to be enqueued. `burial`: a dead letter to be written. `counters`: names to add
    one to, without their
    lane. `drift`: the terminal fact of a direct publication whose source moved on.
    """

    item: QueueItem | None
    requeued: bool
    refresh: Decision | None = None
    burial: Burial | None = None
    counters: tuple[str, ...] = ()
    drift: bool = False
    reason: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


def check_holder(item: QueueItem | None, request: Completion) -> QueueItem:
    """The held item, when `request` is its holder's.

    Raises LeaseNotClaimed, LeaseProtocolNotClaimed, LeaseAttemptNotClaimed.
    """
    if item is None or item.state != "leased" or item.batch_id is not None or item.claimed_run_id != request.run_id:
        raise LeaseNotClaimed
    if request.protocol == 2:
        tuple_held = (item.key, item.lease_revision, item.claim_generation)
        if tuple_held != (request.item_key, request.lease_revision, request.claim_generation):
            raise LeaseNotClaimed
    if item.claim_protocol_version != request.protocol:
        raise LeaseProtocolNotClaimed
    if item.claimed_run_attempt != request.run_attempt:
        raise LeaseAttemptNotClaimed
    return item


def complete(item: QueueItem, request: Completion, now: int, unit: float, dead_letter_room: bool) -> Ending:
    """What completion by the holder does. `unit`: a random number in [0, 1) for review delays.

    Raises CompletionKindOutsidePublication, FailureKindOutsidePublication, InvalidDirectLifecycleRequeue.
    """
    if item.lane == "review":
        if request.kind is not None:
            raise CompletionKindOutsidePublication
        if request.failure_kind is not None:
            raise FailureKindOutsidePublication
    if request.direct_lifecycle_requeue and direct_lifecycle_of(item) is None:
        raise InvalidDirectLifecycleRequeue
    if item.lane == "review":
        return _complete_review(item, request, now, unit)
    kind, reason = request.kind, request.reason
    if kind is None or reason is None:
        kind, reason = DEFAULT_KINDS[request.outcome]
        if request.failure_kind is not None:
            reason = request.failure_kind
            kind = "retryable_failure" if reason in KINDS["retryable_failure"].outcomes else "permanent_failure"
    return end_publication(
        item, kind, reason, request.fingerprint, now, request.retry_at, dead_letter_room, request.requeue_latest
    )


def direct_lifecycle_of(item: QueueItem) -> Any:
    """The plan and receipt that direct publication saved on the lease decision, or None."""
    decision = item.lease_decision
    if decision is None:
        return None
    if decision.direct_lifecycle is not UNSET:
        return decision.direct_lifecycle
    if decision.publication is not UNSET and decision.publication.direct_lifecycle is not UNSET:
        return decision.publication.direct_lifecycle
    return None


def again_at_once(item: QueueItem, now: int) -> QueueItem:
    """The newest revision, pending at once with fresh attempts."""
    return move(
        item,
        "give_back",
        now,
        next_attempt_at=now,
        backoff_reason=None,
        waiting_since=now,
        attempts=0,
        permanent_failures=0,
        first_failed_at=None,
    )


def _complete_review(item: QueueItem, request: Completion, now: int, unit: float) -> Ending:
    drift = request.direct_lifecycle_requeue
    if request.outcome == "success":
        if item.has_newer_revision or request.requeue_latest or drift:
            return Ending(again_at_once(item, now), requeued=True, drift=drift)
        return Ending(None, requeued=False, counters=("completed",))
    if item.has_newer_revision:
        return Ending(again_at_once(item, now), requeued=True)
    return fail_review(item, now, unit, request.retry_at)


def fail_review(item: QueueItem, now: int, unit: float, retry_at: int | None = None) -> Ending:
    """One more failure of a review: later, or parked after the eighth."""
    attempts = item.attempts + 1
    if attempts >= MAX_REVIEW_FAILURES:
        wait = parked_recovery(item.parked_recovery_attempts)
        parked = move(
            item,
            "park",
            now,
            attempts=attempts,
            parked_reason="review_retry_exhausted",
            parked_until=None if wait is None else now + wait,
        )
        return Ending(parked, requeued=False, counters=("parked",))
    at = max(retry_at, now) if retry_at is not None else now + review_delay(attempts, unit)
    waiting = move(
        item,
        "give_back",
        now,
        attempts=attempts,
        next_attempt_at=at,
        backoff_reason="review_retry",
        waiting_since=now,
    )
    return Ending(waiting, requeued=True, counters=("retried",))


def end_publication(
    item: QueueItem,
    kind: str,
    reason: str,
    fingerprint: str | None,
    now: int,
    retry_at: int | None,
    dead_letter_room: bool,
    requeue_latest: bool = False,
) -> Ending:
    """What a completion kind does to a publication (the table `KINDS`)."""
    row = KINDS[kind]
    if item.has_newer_revision or requeue_latest:
        return Ending(again_at_once(item, now), requeued=True)
    if row.effect == "end":
        return Ending(None, requeued=False, counters=(row.counter, "completed"))
    if row.effect == "refresh":
        return Ending(None, requeued=False, refresh=fresh_review(item), counters=(row.counter, "completed"))
    if row.effect == "defer" or row.outcomes[reason] == "success":
        at = max(retry_at, now) if retry_at is not None else now + DEFERRED_MS
        return Ending(_wait(item, now, at, item.attempts), requeued=True, counters=("deferred",))
    return _fail_publication(item, row.effect == "bury", reason, fingerprint, now, retry_at, dead_letter_room)


def _wait(item: QueueItem, now: int, at: int, attempts: int, **changes: Any) -> QueueItem:
    return move(
        item, "give_back", now, next_attempt_at=at, backoff_reason="publication_retry", attempts=attempts, **changes
    )


def _fail_publication(
    item: QueueItem,
    permanent: bool,
    reason: str,
    fingerprint: str | None,
    now: int,
    retry_at: int | None,
    dead_letter_room: bool,
) -> Ending:
    attempts, first = item.attempts + 1, item.first_failed_at or now
    lasting = item.permanent_failures + permanent
    exhausted = not permanent and attempts >= MAX_PUBLICATION_RETRIES
    if lasting >= MAX_PERMANENT_FAILURES or exhausted:
        if not dead_letter_room:
            parked = move(
                item,
                "park",
                now,
                attempts=attempts,
                permanent_failures=lasting,
                first_failed_at=first,
                parked_reason="dead_letter_capacity",
            )
            return Ending(parked, requeued=False, counters=("parked",))
        burial = Burial("retry_exhausted" if exhausted else reason, attempts, first, fingerprint)
        return Ending(None, requeued=False, burial=burial, counters=("dead_lettered",))
    at = max(retry_at, now) if retry_at is not None else now + publication_delay(item.key, attempts)
    waiting = _wait(item, now, at, attempts, permanent_failures=lasting, first_failed_at=first)
    return Ending(waiting, requeued=True, counters=("retried",), reason=reason)


def fresh_review(item: QueueItem) -> Decision | None:
    """The review that takes a publication's place: the producer's decision anew, superseding what is in progress."""
    decision = item.held_decision or item.decision
    if decision.publication is UNSET:
        return None
    return msgspec.structs.replace(
        decision.publication.producer_decision, source_action=RETENTION_RECOVERY, supersedes_in_progress=True
    )


def expire(item: QueueItem, now: int) -> Ending:
    """A lease that nobody claimed, or whose holder fell silent: back at once; a shard recovery's hand-out lapses,
    since its source asks again (`exact-review-lease/recovery-lease-lapses`).

    The holder's attempt is not counted as a failure.
    """
    if item.state == "dispatching" and item.decision.source_action == SHARD_RECOVERY and not item.has_newer_revision:
        return Ending(None, requeued=False, counters=("lapsed",))
    return Ending(
        move(item, "give_back", now, next_attempt_at=now, backoff_reason=None, waiting_since=now), requeued=True
    )


def recover(item: QueueItem, now: int) -> QueueItem:
    """A parked review whose time has come: pending with fresh attempts."""
    return move(
        item,
        "recover",
        now,
        next_attempt_at=now,
        backoff_reason=None,
        waiting_since=now,
        attempts=0,
        parked_recovery_attempts=item.parked_recovery_attempts + 1,
    )
