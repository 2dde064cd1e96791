"""Folds: fixtures by hand, and independence of order, repetition and source."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.clients.ledger.views import view_text
from moorage.protocols.ledger.canonical import canonical_digest
from moorage.protocols.ledger.events import Event, build_event, event_input
from moorage.protocols.ledger.filters import event_filter, parse_subject
from moorage.protocols.ledger.folds import (
    FOLDS,
    command_states,
    evidence_graph,
    notification_deliveries,
    review_histories,
    status_and_timing,
)
from moorage.protocols.ledger.parity import Difference, ReaderMode, differences, read_lane, reader_mode
from moorage.protocols.ledger.refusals import LedgerRefusal

from .support import an_action, an_event, event_sets, json_values


@pytest.mark.parametrize("name", sorted(FOLDS))
@settings(max_examples=30)
@given(events=event_sets(), seed=st.integers())
def test_order_and_repetition_do_not_matter(name: str, events: list[Event], seed: int) -> None:
    expected = view_text(FOLDS[name](events))
    shuffled = events + random.Random(seed).sample(events, len(events) // 2)
    random.Random(seed).shuffle(shuffled)
    assert view_text(FOLDS[name](iter(shuffled))) == expected


@pytest.mark.parametrize("name", sorted(FOLDS))
@settings(max_examples=30)
@given(events=event_sets(), seed=st.integers(), earlier=st.booleans())
def test_nor_does_it_matter_whose_clock_a_replay_has(
    name: str, events: list[Event], seed: int, earlier: bool
) -> None:
    clock = "2026-07-12T09:00:00.000Z" if earlier else "2026-07-12T11:00:00.000Z"
    both = [*events, *(_replayed(event, clock) for event in events)]
    expected = view_text(FOLDS[name](both))
    random.Random(seed).shuffle(both)
    assert view_text(FOLDS[name](both)) == expected


def _replayed(event: Event, clock: str) -> Event:
    given = event_input(event.record)
    if event.is_source_time:
        given["occurredAt"] = event.occurred_at
    again = build_event(given, recorded_at=clock)
    assert again.replay_text == event.replay_text
    return again


def _at(index: int, kind: str, status: str, second: int, **more: Any) -> Event:
    mutation = bool(more.pop("mutation", False))
    return an_event(
        index,
        type=kind,
        action=an_action(status, mutation=mutation),
        occurredAt=f"2026-07-12T10:00:{second:02}Z",
        **more,
    )


def test_review_histories_are_bounded_newest_first() -> None:
    events = [
        _at(index, "review.item", "completed", index, attributes={"finding_count": index}) for index in range(1, 6)
    ]
    events.append(_at(9, "command.received", "received", 9))
    history = review_histories(events, limit=2)["openclaw/openclaw#42"]
    assert [entry["finding_count"] for entry in history["entries"]] == [5, 4]
    assert (history["omitted"], history["attempts"]) == (3, 1)
    assert review_histories(events, limit=0)["openclaw/openclaw#42"]["entries"] == []


def test_a_commands_open_or_unknown_write_counts_as_a_mutation() -> None:
    start = _at(1, "command.received", "received", 1)
    attempt = _at(
        2, "command.mutation", "started", 2, mutation=True, attributes={"completion_reason": "mutation_attempted"}
    )
    key = attempt.record["idempotency_key_sha256"]
    operation = start.record["operation_id"]
    state = command_states([start, attempt])[operation]
    assert (state["writes"], state["mutated"], state["finished"]) == ({key: "open"}, True, False)
    rejected = _at(
        3,
        "command.mutation",
        "failed",
        3,
        idempotencyKeySha256=key,
        attributes={"completion_reason": "mutation_rejected"},
    )
    done = _at(4, "command.progress", "completed", 4)
    state = command_states([start, attempt, rejected, done])[operation]
    assert (state["writes"], state["mutated"], state["finished"]) == ({key: "rejected"}, False, True)
    assert state["last"]["event_id"] == done.event_id


def test_a_delivered_notification_stays_delivered() -> None:
    key = "d" * 64
    events = [
        _at(1, "notification.planned", "planned", 1, idempotencyKeySha256=key, attributes={"delivery_kind": "slack"}),
        _at(2, "notification.delivery", "failed", 2, idempotencyKeySha256=key),
        _at(3, "notification.delivery", "sent", 3, idempotencyKeySha256=key),
        _at(4, "notification.skipped", "skipped", 4, idempotencyKeySha256=key),
    ]
    delivery = notification_deliveries(events)[key]
    assert (delivery["tries"], delivery["delivered_at"], delivery["finished"]) == (2, "2026-07-12T10:00:03Z", True)
    assert delivery["delivery_kind"] == "slack"
    assert delivery["last"]["status"] == "skipped"


def test_claims_rest_on_evidence_and_follow_one_another() -> None:
    entry = {"kind": "snapshot", "snapshotId": "snap-1"}
    stored = {"kind": "snapshot", "snapshot_id": "snap-1"}
    review = _at(1, "review.item", "completed", 1, evidence=[entry])
    apply = _at(2, "apply.action", "executed", 2, parentEventId=review.event_id, evidence=[entry])
    graph = evidence_graph([apply, review, _at(3, "workflow.attempt", "started", 3)])
    name = canonical_digest(stored)
    assert graph["evidence"] == {name: stored}
    assert sorted(graph["claims"]) == sorted([review.event_id, apply.event_id])
    assert graph["edges"] == sorted(
        [
            [review.event_id, "rests_on", name],
            [apply.event_id, "rests_on", name],
            [apply.event_id, "follows", review.event_id],
        ]
    )


def test_timing_sums_what_an_operation_cost() -> None:
    events = [
        _at(1, "review.item", "started", 1),
        _at(2, "review.item", "completed", 4, attributes={"input_tokens": 10, "cost_usd_micros": 3}),
        _at(3, "review.retry", "failed", 9, attributes={"input_tokens": 5}),
    ]
    view = status_and_timing(events)
    (operation,) = view["operations"].values()
    assert (operation["elapsed_ms"], operation["events"], operation["running"]) == (8000, 3, False)
    assert operation["sums"] == {"input_tokens": 15, "cost_usd_micros": 3}
    assert view["totals"] == {"review.item": {"started": 1, "completed": 1}, "review.retry": {"failed": 1}}


def test_filters_read_subjects() -> None:
    assert parse_subject("O/r#7") == {"repository": "o/r", "number": 7}
    assert parse_subject("o/r:workflow:w-1") == {"repository": "o/r", "kind": "workflow", "subject_id": "w-1"}
    for bad in ("o", "o/r#x", "o/r:thing", "o/r#"):
        with pytest.raises(LedgerRefusal):
            parse_subject(bad)
    event = _at(1, "review.item", "completed", 5)
    assert event_filter(type="review", since="2026-07-12T10:00:05Z", until="2026-07-12T10:00:05.1Z").matches(event)
    assert not event_filter(until="2026-07-12T12:00:05+02:00").matches(event)


@given(json_values, json_values)
def test_parity_finds_exactly_the_differences(one: Any, two: Any) -> None:
    assert list(differences(one, one)) == []
    assert (list(differences(one, two)) == []) == (view_text(one) == view_text(two))


def test_a_lanes_switch_decides_what_is_read() -> None:
    reads: list[str] = []
    found: list[Difference] = []

    def legacy() -> dict[str, int]:
        reads.append("legacy")
        return {"a": 1, "b": 2}

    def events() -> dict[str, int]:
        reads.append("events")
        return {"a": 1, "b": 3, "c": 4}

    assert read_lane(ReaderMode.legacy, legacy, events, found.extend) == {"a": 1, "b": 2}
    assert reads == ["legacy"]
    assert read_lane(ReaderMode.events, legacy, events, found.extend)["c"] == 4
    assert reads == ["legacy", "events"]
    assert found == []
    assert read_lane(ReaderMode.both, legacy, events, found.extend) == {"a": 1, "b": 2}
    assert found == [Difference("/b", "2", "3"), Difference("/c", None, "4")]
    assert reader_mode(None) is ReaderMode.legacy
    with pytest.raises(LedgerRefusal, match="reader-mode"):
        reader_mode("neither")
