"""Parked items: listed, let out and closed by an operator, and nobody loses one by it."""

from collections.abc import Iterator
from typing import Any

import pytest

from moorage.durable_objects.objects.queue.parked import ParkedActions
from moorage.protocols.javascript import iso_time
from moorage.protocols.parked import MAX_RECOVERED, RETENTION_MS, cursor_of, parse_chosen, parse_page, recovered
from moorage.protocols.queue.items import ImpossibleTransition, move
from moorage.protocols.wire import WireError
from moorage.protocols.wire.queue import InvalidCursor, InvalidLane, InvalidLimit, InvalidParkedReviewItems
from tests.objects.queue_harness import QueueHarness, decision

FAILURES = 8


@pytest.fixture
def harness() -> Iterator[QueueHarness]:
    harness = QueueHarness()
    yield harness
    harness.close()


def claim(harness: QueueHarness) -> dict[str, Any]:
    payload = harness.host.dispatches[-1]["client_payload"]
    held = {
        "lease_id": payload["queue_lease_id"],
        "item_key": payload["queue_claim"]["item_key"],
        "lease_revision": payload["queue_claim"]["lease_revision"],
        "run_id": "501",
        "run_attempt": 1,
    }
    return {**held, "claim_generation": harness.ok("claim_lease", held)["claim_generation"]}


def park(harness: QueueHarness, number: int, **more: Any) -> str:
    """Lets a review fail until it is parked; its key."""
    key = f"acme/widgets#{number}"
    harness.ok("enqueue", {"delivery_id": f"d-{number}", "decision": decision(number, **more)}, "0" * 64)
    for _ in range(FAILURES):
        handed_out = len(harness.host.dispatches)
        while len(harness.host.dispatches) == handed_out:
            harness.advance(5_000)
        harness.ok("complete_lease", {**claim(harness), "outcome": "failure"})
    assert harness.queue.items.get(key).state == "parked"  # type: ignore[union-attr]
    return key


def test_a_parked_review_is_let_out_once_a_call_and_handed_out_again(harness: QueueHarness) -> None:
    key = park(harness, 7)
    [row] = harness.ok("list_parked", {})["parked_reviews"]
    assert (row["item_key"], row["parked_reason"], row["lane"]) == (key, "review_retry_exhausted", "review")
    handed_out = len(harness.host.dispatches)
    call = {"ids": [key, "acme/widgets#8"], "idempotency_key": "operator-1"}
    assert harness.ok("recover_parked", call) == {"ok": True, "recovered": 1, "deduped": 0, "skipped": 1}
    assert harness.ok("recover_parked", call) == {"ok": True, "recovered": 0, "deduped": 1, "skipped": 1}
    item = harness.queue.items.get(key)
    assert item is not None
    assert (item.attempts, item.parked_recovery_attempts, item.parked_reason) == (0, 0, None)
    harness.advance(5_000)
    assert len(harness.host.dispatches) == handed_out + 1
    assert harness.ok("complete_lease", {**claim(harness), "outcome": "success"})["requeued"] is False


def test_a_call_that_was_made_does_not_let_the_item_out_when_it_is_parked_again(harness: QueueHarness) -> None:
    key = park(harness, 7)
    call = {"ids": [key], "idempotency_key": "operator-1"}
    harness.ok("recover_parked", call)
    for _ in range(FAILURES):
        handed_out = len(harness.host.dispatches)
        while len(harness.host.dispatches) == handed_out:
            harness.advance(5_000)
        harness.ok("complete_lease", {**claim(harness), "outcome": "failure"})
    assert harness.ok("recover_parked", call)["deduped"] == 1
    assert harness.queue.items.get(key).state == "parked"  # type: ignore[union-attr]


def test_a_resolved_review_leaves_with_a_note_that_is_kept(harness: QueueHarness) -> None:
    key = park(harness, 7)
    call = {"ids": [key], "note": "done by hand"}
    assert harness.ok("resolve_parked", call) == {"ok": True, "resolved": 1, "skipped": 0}
    assert harness.ok("resolve_parked", call) == {"ok": True, "resolved": 0, "skipped": 1}
    assert harness.queue.items.get(key) is None
    assert harness.queue.items.count("review", "parked") == 0
    rows = harness.storage.sql.exec("SELECT * FROM exact_review_queue_parked_actions").toArray()
    assert [(row["item_key"], row["action"], row["note"]) for row in rows] == [(key, "resolved", "done by hand")]
    # the next event starts a newer revision
    harness.ok("enqueue", {"delivery_id": "d-9", "decision": decision(7)}, "0" * 64)
    assert harness.queue.items.get(key).revision == 2  # type: ignore[union-attr]


def test_what_is_not_parked_is_left_alone(harness: QueueHarness) -> None:
    harness.ok("enqueue", {"delivery_id": "d-1", "decision": decision(7)}, "0" * 64)
    ids = ["acme/widgets#7"]
    assert harness.ok("resolve_parked", {"ids": ids, "note": "no"})["skipped"] == 1
    assert harness.ok("recover_parked", {"ids": ids, "idempotency_key": "k"})["skipped"] == 1
    item = harness.queue.items.get(ids[0])
    assert item is not None
    assert item.state == "pending"
    with pytest.raises(ImpossibleTransition):
        recovered(item, 0)


def test_pages_by_age(harness: QueueHarness) -> None:
    for number in (9, 7, 8):
        harness.ok("enqueue", {"delivery_id": f"d-{number}", "decision": decision(number)}, "0" * 64)
        item = harness.queue.items.get(f"acme/widgets#{number}")
        assert item is not None
        harness.queue.items.put(move(item, "park", harness.clock_ms, created_at=100 - number // 9), item)
    listed, cursor = [], None
    while True:
        page = harness.ok("list_parked", {"limit": 1, **({"cursor": cursor} if cursor else {})})
        listed += [row["item_key"] for row in page["parked_reviews"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert listed == [f"acme/widgets#{number}" for number in (9, 7, 8)]
    assert harness.ok("list_parked", {"lane": "publication"})["parked_reviews"] == []


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({"lane": "both"}, InvalidLane),
        ({"lane": None}, InvalidLane),
        ({"limit": 51}, InvalidLimit),
        ({"limit": 0}, InvalidLimit),
        ({"cursor": "acme/widgets#7"}, InvalidCursor),
        ({"cursor": "-1|acme/widgets#7"}, InvalidCursor),
        ({"cursor": 7}, InvalidCursor),
        ({"cursor": "1|" + "x" * 500}, InvalidCursor),
    ],
)
def test_refused_pages(members: dict[str, Any], error: type[WireError]) -> None:
    with pytest.raises(error):
        parse_page(members)


def chosen(row: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """What the reference's operator sends of a row it was shown."""
    return {name: row[name] for name in ("item_key", "revision", "updated_at_ms")} | changes


def test_a_row_is_what_the_references_operator_reads_and_sends_back(harness: QueueHarness) -> None:
    key = park(harness, 7)
    [row] = harness.ok("list_parked", {"limit": 50})["parked_reviews"]
    item = harness.queue.items.get(key)
    assert item is not None
    assert {name: row[name] for name in ("item_key", "revision", "target_repo", "item_number", "item_kind")} == {
        "item_key": key,
        "revision": item.revision,
        "target_repo": "acme/widgets",
        "item_number": 7,
        "item_kind": "issue",
    }
    assert (row["updated_at"], row["updated_at_ms"]) == (iso_time(item.updated_at), item.updated_at)
    assert row["last_failure_reason"] == "review_retry_exhausted"
    assert "excluded_reason" not in row
    call = {"items": [chosen(row)], "idempotency_key": "parked-reconcile:" + "a" * 64}
    assert harness.ok("recover_parked", call) == {"ok": True, "recovered": 1, "deduped": 0, "skipped": 0}
    assert harness.ok("recover_parked", call) == {"ok": True, "recovered": 0, "deduped": 1, "skipped": 0}


def test_what_changed_since_it_was_shown_is_skipped(harness: QueueHarness) -> None:
    key = park(harness, 7)
    [row] = harness.ok("list_parked", {})["parked_reviews"]
    stale = [chosen(row, revision=row["revision"] + 1), chosen(row, item_key="acme/widgets#8")]
    assert harness.ok("resolve_parked", {"items": stale, "note": "gone"}) == {"ok": True, "resolved": 0, "skipped": 2}
    call = {"items": stale, "idempotency_key": "k"}
    assert harness.ok("recover_parked", call) == {"ok": True, "recovered": 0, "deduped": 0, "skipped": 2}
    assert harness.ok("resolve_parked", {"items": [chosen(row)], "note": "gone"})["resolved"] == 1
    assert harness.queue.items.get(key) is None


def test_a_commands_review_is_shown_as_excluded_and_left_to_its_answer(harness: QueueHarness) -> None:
    key = park(harness, 7, commandStatusMarker="<!-- clawsweeper-command-status:7 -->")
    [row] = harness.ok("list_parked", {})["parked_reviews"]
    assert row["excluded_reason"] == "command_context"
    assert harness.ok("resolve_parked", {"items": [chosen(row)], "note": "no"})["skipped"] == 1
    assert harness.ok("recover_parked", {"items": [chosen(row)], "idempotency_key": "k"})["skipped"] == 1
    # somebody who names it all the same knows what he does
    assert harness.ok("recover_parked", {"ids": [key], "idempotency_key": "k"})["recovered"] == 1


def test_rows_are_not_recovered_while_no_review_has_room() -> None:
    harness = QueueHarness(EXACT_REVIEW_QUEUE_MAX_CONCURRENT="1")
    park(harness, 7)
    [row] = harness.ok("list_parked", {})["parked_reviews"]
    harness.ok("enqueue", {"delivery_id": "d-8", "decision": decision(8)}, "0" * 64)
    harness.advance(5_000)
    call = {"items": [chosen(row)], "idempotency_key": "k"}
    assert harness.ok("recover_parked", call)["skipped"] == 1
    harness.ok("complete_lease", {**claim(harness), "outcome": "success"})
    assert harness.ok("recover_parked", call)["recovered"] == 1
    harness.close()


ROW = {"item_key": "acme/widgets#7", "revision": 1, "updated_at_ms": 1}


@pytest.mark.parametrize(
    "items",
    [
        None,
        [],
        "acme/widgets#7",
        ["acme/widgets#7"],
        [ROW, ROW],
        [{**ROW, "item_key": ""}],
        [{**ROW, "revision": 0}],
        [{**ROW, "updated_at_ms": None}],
        [{"item_key": "acme/widgets#7", "revision": 1}],
        [{**ROW, "item_key": f"acme/widgets#{number}"} for number in range(1, MAX_RECOVERED + 2)],
    ],
)
def test_refused_rows(items: Any) -> None:
    with pytest.raises(InvalidParkedReviewItems):
        parse_chosen({"items": items, "ids": ["acme/widgets#7"]}, MAX_RECOVERED)


def test_a_cursor_is_what_the_next_page_takes(harness: QueueHarness) -> None:
    key = park(harness, 7)
    item = harness.queue.items.get(key)
    assert item is not None
    assert parse_page({"cursor": cursor_of(item)}).after == (item.created_at, key)


def test_actions_are_kept_for_thirty_days(harness: QueueHarness) -> None:
    key = park(harness, 7)
    harness.ok("recover_parked", {"ids": [key], "idempotency_key": "k"})
    actions: ParkedActions = harness.queue.parked_actions
    actions.prune(harness.clock_ms + RETENTION_MS - 1)
    assert actions.was_recovered(key, "k")
    actions.prune(harness.clock_ms + RETENTION_MS)
    assert not actions.was_recovered(key, "k")
