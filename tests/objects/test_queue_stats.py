"""What the queue says of itself: the recorded sample's members, and words that operators' tools decide by."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.protocols.queue import health
from tests.objects.queue_harness import QueueHarness, decision, publication
from tests.objects.test_queue_scenarios import KEY, claim, harness

__all__ = ["harness"]

CAPTURED = Path(__file__).parents[1] / "vectors" / "captured" / "queue.json"
SAMPLE: dict[str, Any] = json.loads(CAPTURED.read_text())["exchanges"][-1]["response"]["json"]
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
# what only the reference's own dashboard shows
NOT_BUILT = {
    "bay_projection",
    "lanes.publication.backoff_reasons",
    "lanes.publication.batches.active_items",
    "lanes.publication.batches.cleanup",
    "lanes.publication.batches.completed",
    "lanes.publication.batches.dispatch_pending_until",
    "lanes.publication.batches.expired",
    "lanes.publication.batches.fresh_lane",
    "lanes.publication.batches.last_dispatch_at",
    "lanes.publication.batches.last_dispatch_succeeded",
    "lanes.publication.batches.max_wait_seconds",
    "lanes.publication.batches.oldest_active_age_seconds",
    "lanes.publication.batches.oldest_active_at",
    "lanes.publication.batches.reclaimed_items_retained",
    "lanes.publication.capacity_control",
    "lanes.publication.direct.retained_receipts",
    "lanes.publication.flow.last_15_minutes.retry_amplification",
    "lanes.publication.flow.last_60_minutes.retry_amplification",
    "lanes.publication.parked_reasons",
    "lanes.review.backoff_reasons",
    "lanes.review.flow.last_15_minutes.retry_amplification",
    "lanes.review.parked_reasons",
    "reservation_claim_observability",
    "review_telemetry_health",
    "state_writer.collection",
    "state_writer.diagnostics",
    "state_writer.last_15_minutes",
    "state_writer.last_60_minutes",
    "state_writer.last_successful_materialization_at",
    "state_writer.live",
    "state_writer.mode",
    "state_writer.schema_version",
}


def missing(sample: dict[str, Any], found: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, value in sample.items():
        if name not in found:
            yield path + name
        elif isinstance(value, dict):
            yield from missing(value, found[name], f"{path}{name}.")


def enqueue(harness: QueueHarness, delivery: str, value: dict[str, Any]) -> None:
    """Takes it in; it is ready at once, and the alarm has not run yet."""
    harness.ok("enqueue", {"delivery_id": delivery, "decision": value})


@pytest.fixture
def one_waits(harness: QueueHarness) -> dict[str, Any]:
    enqueue(harness, "d-1", decision(7))
    return stats(harness)


def stats(harness: QueueHarness) -> dict[str, Any]:
    return harness.ok("queue_stats")


def test_the_samples_members_are_there(one_waits: dict[str, Any]) -> None:
    assert set(missing(SAMPLE, one_waits)) == NOT_BUILT


@pytest.mark.parametrize("part", ["handoff_health", "pressure"])
def test_one_ready_review_is_reported_as_in_the_sample(one_waits: dict[str, Any], part: str) -> None:
    times = ("observed_at", "phases")
    shown, sample = ({k: v for k, v in one[part].items() if k not in times} for one in (one_waits, SAMPLE))
    assert shown == sample
    assert one_waits["lanes"]["publication"]["health"] == SAMPLE["lanes"]["publication"]["health"]


def test_each_phase_counts_from_when_it_began(harness: QueueHarness) -> None:
    enqueue(harness, "d-1", decision(7))
    harness.advance(5 * SECOND)
    harness.clock_ms += 100 * SECOND
    handed_out = stats(harness)
    assert (handed_out["oldest_dispatching_age_seconds"], handed_out["oldest_pending_at"]) == (100, None)
    assert handed_out["handoff_health"]["phases"]["dispatching"]["oldest_key"] == KEY
    claim(harness)
    harness.clock_ms += 7 * SECOND
    claimed = stats(harness)
    assert (claimed["oldest_leased_age_seconds"], claimed["oldest_dispatching_at"]) == (7, None)
    assert claimed["handoff_health"]["phases"]["leased"] == {
        "count": 1,
        "oldest_at": claimed["oldest_leased_at"],
        "oldest_age_seconds": 7,
        "oldest_key": KEY,
    }


def test_late_claims_are_degraded_and_then_stalled(harness: QueueHarness) -> None:
    assert stats(harness)["handoff_health"]["reason"] == "queue_empty"
    enqueue(harness, "d-1", decision(7))
    harness.advance(5 * SECOND)
    seen = []
    for wait in (119, 1, 119, 1):
        harness.clock_ms += wait * SECOND
        found = stats(harness)["handoff_health"]
        seen.append((found["status"], found["reason"]))
    late, stuck = ("degraded", "claim_delayed"), ("stalled", "claim_stalled")
    assert seen == [("healthy", "handoff_current"), late, late, stuck]


def test_pressure_is_idle_while_there_is_room_and_reviews_run(harness: QueueHarness) -> None:
    enqueue(harness, "d-1", decision(7))
    harness.advance(5 * SECOND)
    claim(harness)
    found = stats(harness)["pressure"]
    assert (found["status"], found["reason"], found["active"]) == ("idle", "no_ready_backlog", 1)


@pytest.mark.parametrize(("waiting", "status"), [(1, "congested"), (2, "saturated")])
def test_pressure_rises_when_ready_reviews_find_no_room(waiting: int, status: str) -> None:
    harness = QueueHarness(EXACT_REVIEW_QUEUE_MAX_CONCURRENT="2", EXACT_REVIEW_TARGET_MAX_CONCURRENT="8")
    for number in range(1, 3 + waiting):
        enqueue(harness, f"d-{number}", decision(number))
    harness.advance(10 * SECOND)
    found = stats(harness)
    assert found["pressure"] == {
        "status": status,
        "reason": "capacity_full_with_backlog",
        "capacity": 2,
        "active": 2,
        "pending": waiting,
        "ready_pending": waiting,
        "admissible_pending": waiting,
    }
    assert found["admissible_pending"] == waiting
    harness.close()


def test_reviews_of_a_full_repository_are_not_admissible() -> None:
    harness = QueueHarness(EXACT_REVIEW_TARGET_MAX_CONCURRENT="2")
    for number in range(1, 6):
        enqueue(harness, f"d-{number}", decision(number))
    assert stats(harness)["admissible_pending"] == 2
    harness.advance(0)
    found = stats(harness)["pressure"]
    assert (found["status"], found["reason"]) == ("idle", "no_admissible_backlog")
    assert (found["ready_pending"], found["admissible_pending"]) == (3, 0)
    enqueue(harness, "d-9", decision(9, targetRepo="acme/other"))
    assert stats(harness)["admissible_pending"] == 1
    harness.close()


@pytest.mark.parametrize(
    ("state", "ending"),
    [("blocked", ("stalled", "dispatcher_blocked")), ("paused", ("degraded", "dispatcher_paused"))],
)
def test_a_dispatcher_that_does_not_hand_out_is_reported(
    state: health.DispatcherState, ending: tuple[str, str]
) -> None:
    waits = health.Phases(health.Phase(1, 0, KEY), health.Phase(0), health.Phase(0))
    found = health.handoff(waits, 1, state, 0, 6 * MINUTE)
    assert (found["status"], found["reason"]) == ending
    assert health.pressure(health.Load(1, 1, 1, 0, 8), state) == {
        "status": "unknown",
        "reason": "dispatcher_inactive",
    }
    assert health.pressure(health.Load(0, 0, 0, 8, 8), state)["status"] == "idle"


@pytest.mark.parametrize(
    ("lease", "limits"),
    [(6 * MINUTE, (120, 240)), (MINUTE, (30, 40)), (30 * SECOND, (30, 31)), (HOUR, (120, 300))],
)
def test_limits_follow_the_lease(lease: int, limits: tuple[int, int]) -> None:
    late, stuck = health.handoff_limits(lease)
    assert (late // SECOND, stuck // SECOND) == limits


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ((0, 0, 0, 0, -100), ("idle", None)),
        ((1, 0, 0, HOUR - 1, -1), ("healthy", None)),
        ((100, 0, 0, 0, 0), ("degraded", "not_draining")),
        ((100, 0, 0, 0, 1), ("healthy", None)),
        ((1, 0, 0, HOUR, 10), ("degraded", "oldest_pending_over_1h")),
        ((1, 0, 0, 6 * HOUR, 10), ("critical", "oldest_pending_over_6h")),
        ((0, 0, 1, 0, 0), ("critical", "dead_letter_capacity")),
    ],
)
def test_publications_are_judged_by_their_age_and_drain(
    numbers: tuple[int, int, int, int, int], found: tuple[str, str | None]
) -> None:
    assert tuple(health.publication_health(*numbers).values()) == found


def test_lanes_tell_ready_from_backed_off(harness: QueueHarness) -> None:
    enqueue(harness, "d-1", publication(7, 900))
    harness.advance(1)
    failed = {"outcome": "failure", "completion_kind": "retryable_failure", "reason_code": "github_transient"}
    harness.ok("complete_lease", {**claim(harness), **failed})
    lane = stats(harness)["lanes"]["publication"]
    assert (lane["backoff"], lane["oldest_ready_at"]) == (1, None)
    assert lane["oldest_backoff_at"] == lane["oldest_pending_at"] is not None
    flow = lane["flow"]["last_15_minutes"]
    assert (flow["retried"], flow["arrival_rate_per_hour"], flow["net_drain_rate_per_hour"]) == (1, 4, -4)
