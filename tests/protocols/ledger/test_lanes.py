"""Lanes: what goes into an identity, what stays out, and when a dispatch stays closed."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.ledger.canonical import canonical_text
from moorage.protocols.ledger.events import Event
from moorage.protocols.ledger.identity import idempotency_key
from moorage.protocols.ledger.lanes import (
    MAX_REQUEUE_DEPTH,
    RECONCILED_ABSENT,
    RECONCILED_PRESENT,
    ApplyLane,
    CommandLane,
    Decision,
    DispatchState,
    FailedReviewDispatch,
    Item,
    RepairRequeue,
    ReviewLane,
    command_attempt_id,
)
from moorage.protocols.ledger.refusals import LedgerRefusal

from .support import an_action, an_event

ITEM = Item("openclaw/openclaw", "issue", 42, "2026-07-12T09:00:00Z")
DECISION = Decision(ITEM, "a" * 64, "b" * 64)
DISPATCH = FailedReviewDispatch(DECISION)


def _receipt(index: int, reason: str, parent: Event | None = None, decision: Decision = DECISION) -> Event:
    attempted = reason == "dispatch_attempted"
    return an_event(
        index,
        type="review.retry",
        subject=decision.item.subject(),
        action=an_action("started" if attempted else "completed", mutation=True),
        attributes={"completion_reason": reason},
        idempotencyKeySha256=idempotency_key(FailedReviewDispatch(decision).effect_identity()),
        parentEventId=None if parent is None else parent.event_id,
    )


def test_identities_are_plain_trees_without_credentials() -> None:
    command = CommandLane("OpenClaw/openclaw", "1", "v2", "close", command_attempt_id("o/r", "sweep.yml", "100"))
    requeue = RepairRequeue("100", "jobs/a.json", "c" * 64)
    for identity in (
        command.operation_identity(),
        command.attempt_identity("100", 1),
        command.effect_identity("close_issue"),
        ReviewLane(ITEM).operation_identity(),
        ReviewLane(ITEM).effect_identity("comment", "d" * 64),
        requeue.effect_identity(),
        ApplyLane(DECISION, "cp-1").operation_identity(),
        ApplyLane(DECISION).effect_identity("close"),
        DISPATCH.effect_identity(),
    ):
        canonical_text(identity, identity=True)


def test_an_apply_effect_does_not_know_its_batch() -> None:
    one, two = ApplyLane(DECISION, "cp-1", "batch-1"), ApplyLane(DECISION, "cp-2", "batch-9")
    assert one.operation_identity() != two.operation_identity()
    assert one.effect_identity("close") == two.effect_identity("close")
    assert one.effect_identity("close") != one.effect_identity("comment")
    changed = ApplyLane(Decision(ITEM, "a" * 64, "c" * 64))
    assert changed.effect_identity("close") != one.effect_identity("close")


def test_a_replay_scopes_everything_and_survives_retries() -> None:
    plain = CommandLane("o/r", "1", "v1", "close")
    replay = CommandLane("o/r", "1", "v1", "close", command_attempt_id("o/r", "sweep.yml", "100"))
    other = CommandLane("o/r", "1", "v1", "close", command_attempt_id("o/r", "sweep.yml", "101"))
    for name, arguments in (
        ("operation_identity", ()),
        ("effect_identity", ("close",)),
        ("dispatch_claim", ("worker.yml",)),
        ("receipt_key", ("worker",)),
    ):
        values = [canonical_text(getattr(lane, name)(*arguments)) for lane in (plain, replay, other)]
        assert len(set(values)) == 3, name
    assert replay.attempt_identity("100", 1) == replay.attempt_identity("100", 2)
    assert plain.attempt_identity("100", 1) != plain.attempt_identity("100", 2)


def test_a_requeue_is_bounded_and_keeps_its_source_path() -> None:
    requeue = RepairRequeue("100", "jobs/a.json", "c" * 64)
    for run in range(MAX_REQUEUE_DEPTH):
        requeue = requeue.next(str(101 + run))
    assert requeue.effect_identity() == {
        "sourceRunId": str(100 + MAX_REQUEUE_DEPTH),
        "jobPath": "jobs/a.json",
        "authorizationSha256": "c" * 64,
        "requeueDepth": MAX_REQUEUE_DEPTH,
    }
    with pytest.raises(LedgerRefusal, match="requeue-depth"):
        requeue.next("200")
    with pytest.raises(LedgerRefusal, match="requeue-depth"):
        RepairRequeue("100", "jobs/a.json", "c" * 64).next("101", limit=0)


@pytest.mark.parametrize(
    ("chain", "state", "retries"),
    [
        ([], DispatchState.open, 0),
        (["dispatch_attempted"], DispatchState.unknown, 0),
        (["dispatch_attempted", "dispatch_accepted"], DispatchState.dispatched, 1),
        (["dispatch_attempted", "dispatch_rejected"], DispatchState.open, 0),
        (["dispatch_attempted", "dispatch_outcome_unknown"], DispatchState.unknown, 0),
        (["dispatch_attempted", "dispatch_outcome_unknown", RECONCILED_ABSENT], DispatchState.open, 0),
        (["dispatch_attempted", "dispatch_outcome_unknown", RECONCILED_PRESENT], DispatchState.dispatched, 1),
        (["dispatch_attempted", RECONCILED_ABSENT], DispatchState.open, 0),
    ],
)
def test_a_dispatch_of_unknown_outcome_stays_closed(chain: list[str], state: DispatchState, retries: int) -> None:
    events: list[Event] = []
    for index, reason in enumerate(chain, 1):
        events.append(_receipt(index, reason, events[-1] if events else None))
    decision = DISPATCH.decide(events)
    assert decision.state is state
    assert decision.may_dispatch is (state is DispatchState.open)
    assert decision.event_id == (events[-1].event_id if events else None)
    assert DISPATCH.retry_count(events) == retries


def test_an_unknown_outcome_closes_the_revision_for_every_decision() -> None:
    changed = FailedReviewDispatch(Decision(ITEM, "e" * 64, "f" * 64))
    later = FailedReviewDispatch(Decision(Item("openclaw/openclaw", "issue", 42, "r2"), "a" * 64, "b" * 64))
    attempt = _receipt(1, "dispatch_attempted")
    assert changed.decide([attempt]).state is DispatchState.unknown
    assert later.decide([attempt]).state is DispatchState.open
    accepted = [attempt, _receipt(2, "dispatch_accepted", attempt)]
    assert changed.decide(accepted).state is DispatchState.open
    assert DISPATCH.decide(accepted).state is DispatchState.dispatched


@pytest.mark.parametrize(
    ("words", "state"),
    [
        (("dispatch_accepted", RECONCILED_ABSENT), DispatchState.dispatched),
        (("dispatch_rejected", RECONCILED_PRESENT), DispatchState.dispatched),
        (("dispatch_outcome_unknown", RECONCILED_ABSENT), DispatchState.unknown),
        (("dispatch_outcome_unknown", RECONCILED_PRESENT), DispatchState.dispatched),
        (("dispatch_rejected", RECONCILED_ABSENT), DispatchState.open),
    ],
)
def test_of_two_words_on_one_attempt_the_closer_one_counts(words: tuple[str, str], state: DispatchState) -> None:
    """An operator may speak before the dispatcher has ended; ids, which are random, decide nothing."""
    attempt = _receipt(1, "dispatch_attempted")
    for indexes in ((2, 3), (3, 2), (4, 9), (9, 4), (5, 6), (6, 5)):
        events = [attempt, *(_receipt(at, word, attempt) for at, word in zip(indexes, words, strict=True))]
        assert DISPATCH.decide(events).state is state
        assert DISPATCH.decide(events[::-1]).state is state
    accepted = _receipt(2, "dispatch_accepted", attempt)
    assert DISPATCH.decide([attempt, accepted, _receipt(3, RECONCILED_ABSENT, accepted)]).may_dispatch is False


@given(st.lists(st.sampled_from(["accepted", "rejected", "outcome_unknown", None]), max_size=4), st.integers())
def test_receipt_order_does_not_matter(outcomes: list[str | None], seed: int) -> None:
    events: list[Event] = []
    for number, outcome in enumerate(outcomes):
        attempt = _receipt(2 * number + 1, "dispatch_attempted")
        events.append(attempt)
        if outcome is not None:
            events.append(_receipt(2 * number + 2, f"dispatch_{outcome}", attempt))
    expected = DISPATCH.decide(events).state
    random.Random(seed).shuffle(events)
    assert DISPATCH.decide(events).state is expected
    if None in outcomes or "outcome_unknown" in outcomes:
        assert expected is DispatchState.unknown
    elif "accepted" in outcomes:
        assert expected is DispatchState.dispatched
    else:
        assert expected is DispatchState.open


@pytest.mark.parametrize(
    "make",
    [
        lambda: Item("x", "issue", 1, "r"),
        lambda: Item("o/r", "thing", 1, "r"),
        lambda: Item("o/r", "issue", 0, "r"),
        lambda: Item("o/r", "issue", 1, "/home/x/y"),
        lambda: Decision(ITEM, "a", "b" * 64),
        lambda: CommandLane("o/r", "", "v", "c"),
        lambda: CommandLane("o/r", "1", "v", "c", "no digest"),
        lambda: RepairRequeue("1", "../jobs/a.json", "c" * 64),
        lambda: RepairRequeue("1", "jobs/a.json", "c" * 64, -1),
    ],
)
def test_bad_parts_are_refused_by_name(make: Any) -> None:
    with pytest.raises(LedgerRefusal):
        make()
