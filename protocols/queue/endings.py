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
    RetryKindOutsideRegularReview,
)
from .backoff import fnv1a, parked_recovery, publication_delay, review_delay, spread
from .budgets import budget_of, needs_fresh_review
from .completions import DEFAULT_KINDS, KINDS, Completion, RetryKind
from .decisions import RETENTION_RECOVERY, SHARD_RECOVERY, Decision, DirectLifecycle
from .items import QueueItem, move

MAX_REVIEW_FAILURES: Final = 8
_PUBLISHED: Final = frozenset({"published", "superseded"})


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

    Raises LeaseNotClaimed, LeaseProtocolNotClaimed. The attempt is `complete`'s to compare, after the kinds.
    """
    if item is None or item.state != "leased" or item.batch_id is not None or item.claimed_run_id != request.run_id:
        raise LeaseNotClaimed
    if request.protocol == 2:
        tuple_held = (item.key, item.lease_revision, item.claim_generation)
        if tuple_held != (request.item_key, request.lease_revision, request.claim_generation):
            raise LeaseNotClaimed
    if item.claim_protocol_version != request.protocol:
        raise LeaseProtocolNotClaimed
    return item


def complete(item: QueueItem, request: Completion, now: int, unit: float, dead_letter_room: bool) -> Ending:
    """What completion by the holder does. `unit`: a random number in [0, 1) for review delays.

    A claim that named no attempt is completed by any. Raises FailureKindOutsidePublication,
    RetryKindOutsideRegularReview, CompletionKindOutsidePublication, InvalidDirectLifecycleRequeue,
    LeaseAttemptNotClaimed, in this order.
    """
    published = direct_lifecycle_of(item) is not None
    if request.failure_kind is not None and item.lane == "review":
        raise FailureKindOutsidePublication
    if request.retry_kind is not None and item.lane == "publication":
        raise RetryKindOutsideRegularReview
    if request.kind is not None and item.lane == "review" and not (published and request.kind in _PUBLISHED):
        raise CompletionKindOutsidePublication
    drift = request.direct_lifecycle_requeue
    if drift and (not published or request.outcome != "success" or request.requeue_latest):
        raise InvalidDirectLifecycleRequeue
    if item.claimed_run_attempt not in {None, request.run_attempt}:
        raise LeaseAttemptNotClaimed
    if drift:
        return Ending(again_at_once(as_review(item), now), requeued=True, drift=True)
    if item.lane == "review" and request.kind is None:
        return _complete_review(item, request, now, unit)
    kind, reason = request.kind, request.reason
    if kind is None or reason is None:
        kind, reason = DEFAULT_KINDS[request.outcome]
        reason = request.failure_kind or reason
    return end_publication(
        item, kind, reason, request.fingerprint, now, request.retry_at, dead_letter_room, request.requeue_latest
    )


def direct_lifecycle_of(item: QueueItem) -> DirectLifecycle | None:
    """The plan and receipt that direct publication saved on the lease decision, or None."""
    decision = item.lease_decision
    if decision is None or decision.publication is UNSET or decision.publication.direct_lifecycle is UNSET:
        return None
    return decision.publication.direct_lifecycle


def plans_of(item: QueueItem) -> list[DirectLifecycle]:
    """The plans that the item carries: its lease's, and the one that a next holder is to follow up."""
    publications = [
        decision.publication
        for decision in (item.lease_decision, item.decision)
        if decision is not None and decision.publication is not UNSET
    ]
    return [one.direct_lifecycle for one in publications if one.direct_lifecycle is not UNSET]


def as_review(item: QueueItem) -> QueueItem:
    """What is to be reviewed again: the newest decision, or that of the producer where it is a publication."""
    publication = item.decision.publication
    return item if publication is UNSET else msgspec.structs.replace(item, decision=publication.producer_decision)


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
        first_failed_at=None,
    )


def _complete_review(item: QueueItem, request: Completion, now: int, unit: float) -> Ending:
    if item.has_newer_revision or request.requeue_latest:
        counters = () if request.outcome == "success" else ("retried",)
        return Ending(again_at_once(item, now), requeued=True, counters=counters)
    if request.outcome == "success":
        return Ending(None, requeued=False, counters=("completed",))
    if request.retry_kind is not None and request.retry_at is not None:
        return _put_off(item, request.retry_kind, request.retry_at, now, unit)
    if _is_recovery(item):
        return Ending(None, requeued=False, counters=("lapsed",))
    return fail_review(item, now, unit, request.retry_at)


def _put_off(item: QueueItem, kind: RetryKind, retry_at: int, now: int, unit: float) -> Ending:
    """No failure of the review: it waits for others (`coordination`), or for a rate (`throttle`, spread)."""
    at = max(retry_at, now) if kind == "coordination" else now + spread(max(0, retry_at - now), unit)
    after = move(item, "give_back", now, next_attempt_at=at, backoff_reason=f"{kind}_retry", waiting_since=now)
    return Ending(after, requeued=True, counters=("retried",))


def _is_recovery(item: QueueItem) -> bool:
    """Whether the lease is a shard's recovery: its one attempt more, and its source asks again."""
    return (item.held_decision or item.decision).source_action == SHARD_RECOVERY


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
    at = max(retry_at or 0, now + review_delay(attempts, unit))
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
    """What a completion kind does to a publication (the table `KINDS`). Times in milliseconds."""
    row = KINDS[kind]
    if item.has_newer_revision or requeue_latest:
        after = again_at_once(item, now)
        later = msgspec.structs.replace(after, next_attempt_at=max(retry_at or 0, now))
        return Ending(later, requeued=True)
    if row.effect == "end":
        return Ending(None, requeued=False, counters=(row.counter, "completed"))
    failures = item.attempts + 1
    if row.effect == "refresh" or needs_fresh_review(reason, failures):
        return Ending(None, requeued=False, refresh=fresh_review(item), counters=("refreshed", "completed"))
    first = item.first_failed_at or now
    budget = budget_of(kind, reason)
    if budget is not None and budget.is_spent(failures, first, now):
        why = "retry_exhausted" if reason == "unknown_failure" else reason
        return _give_up(item, Burial(why, failures, first, fingerprint), now, dead_letter_room)
    at = max(retry_at or 0, now + publication_delay(item.key, failures, kind, reason))
    return Ending(_wait(item, now, at, failures, first), requeued=True, counters=("retried",), reason=reason)


def put_off_publication(item: QueueItem, retry_at: int, now: int) -> Ending:
    """A publication that its publisher did not even try, for the code host's rate limit: no failure of its own."""
    at = max(retry_at, now) + fnv1a(item.key) % 30_001
    return Ending(_wait(item, now, at, item.attempts, item.first_failed_at), requeued=True)


def _wait(item: QueueItem, now: int, at: int, attempts: int, first_failed_at: int | None) -> QueueItem:
    return move(
        item,
        "give_back",
        now,
        next_attempt_at=at,
        backoff_reason="publication_retry",
        attempts=attempts,
        first_failed_at=first_failed_at,
    )


def _give_up(item: QueueItem, burial: Burial, now: int, dead_letter_room: bool) -> Ending:
    if dead_letter_room:
        return Ending(None, requeued=False, burial=burial, counters=("dead_lettered", "completed"))
    parked = move(
        item,
        "park",
        now,
        attempts=burial.attempts,
        first_failed_at=burial.first_failed_at,
        parked_reason="dead_letter_capacity",
    )
    return Ending(parked, requeued=False, counters=("parked",))


def fresh_review(item: QueueItem) -> Decision | None:
    """The review that takes a publication's place: the producer's decision anew, superseding what is in progress.

    A shard's recovery stays one.
    """
    decision = item.held_decision or item.decision
    if decision.publication is UNSET:
        return None
    producer = decision.publication.producer_decision
    action = SHARD_RECOVERY if producer.source_action == SHARD_RECOVERY else RETENTION_RECOVERY
    return msgspec.structs.replace(producer, source_action=action, supersedes_in_progress=True)


def expire(item: QueueItem, now: int) -> Ending:
    """A lease that nobody claimed, or whose holder fell silent: back at once; a shard recovery's lapses, since its
    source asks again (`exact-review-lease/recovery-lease-lapses`).

    The holder's attempt is not counted as a failure; behind a newer revision nothing of it is left.
    """
    if item.has_newer_revision:
        return Ending(again_at_once(item, now), requeued=True)
    if _is_recovery(item):
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
