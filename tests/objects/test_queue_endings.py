"""What ends a lease, and what that leaves: reasons and their budgets, direct publications, recoveries, deferrals."""

from typing import Any

import pytest

from moorage.protocols.javascript import iso_time
from tests.objects.queue_harness import QueueHarness, decision, plan, publication
from tests.objects.test_queue_scenarios import KEY, claim, enqueue, harness

__all__ = ["harness"]

PUBLICATION = f"{KEY}@publish:900:1"
MINUTE, HOUR = 60_000, 60 * 60_000


def failing(kind: str, reason: str) -> dict[str, Any]:
    outcome = "success" if reason == "review_lease_active" else "failure"
    return {"outcome": outcome, "completion_kind": kind, "reason_code": reason}


def failures(harness: QueueHarness, kind: str, reason: str, times: int, wait: int) -> list[bool]:
    """Ends a publication `times` times alike, `wait` ms apart at least; whether each was tried again."""
    enqueue(harness, "d-1", publication(7, 900))
    again = []
    for number in range(1, times + 1):
        harness.advance(wait if number > 1 else 1)
        held = claim(harness, str(number))
        again.append(harness.ok("complete_lease", {**held, **failing(kind, reason)})["requeued"])
    return again


@pytest.mark.parametrize(
    ("kind", "reason", "most", "wait", "why"),
    [
        ("retryable_failure", "github_transient", 48, 6 * MINUTE, "github_transient"),
        ("retryable_failure", "review_lease_active", 48, 6 * MINUTE, "review_lease_active"),
        ("retryable_failure", "github_transient", 4, 9 * HOUR, "github_transient"),
        ("retryable_failure", "unknown_failure", 11, 6 * MINUTE, "retry_exhausted"),
        ("permanent_failure", "unknown_failure", 2, HOUR, "retry_exhausted"),
        ("permanent_failure", "policy_invariant", 3, 9 * HOUR, "policy_invariant"),
    ],
)
def test_a_publication_is_given_up_when_its_reasons_budget_is_spent(
    harness: QueueHarness, kind: str, reason: str, most: int, wait: int, why: str
) -> None:
    assert failures(harness, kind, reason, most, wait) == [True] * (most - 1) + [False]
    (letter,) = harness.ok("list_dead_letters", {})["dead_letters"]
    assert (letter["reason_code"], letter["attempts"], letter["item_key"]) == (why, most, PUBLICATION)


def test_failures_of_all_kinds_count_together(harness: QueueHarness) -> None:
    assert failures(harness, "retryable_failure", "github_transient", 2, 6 * MINUTE) == [True, True]
    harness.advance(6 * MINUTE)
    answer = harness.ok("complete_lease", {**claim(harness), **failing("permanent_failure", "invalid_artifact")})
    assert answer["requeued"] is False
    assert harness.ok("list_dead_letters", {})["dead_letters"][0]["attempts"] == 3


def test_a_missing_artifact_is_made_anew_after_the_third_time(harness: QueueHarness) -> None:
    assert failures(harness, "retryable_failure", "artifact_unavailable", 3, 6 * MINUTE) == [True, True, False]
    assert harness.queue.items.get(PUBLICATION) is None
    fresh = harness.queue.items.get(KEY)
    assert fresh is not None
    assert fresh.decision.source_action == "artifact_retention_recovery"
    assert harness.ok("list_dead_letters", {})["dead_letters"] == []


@pytest.mark.parametrize(
    ("kind", "reason", "fresh"),
    [
        ("published", "publication_applied", False),
        ("superseded", "remote_closed", False),
        ("deferred", "close_coverage_deferred", False),
        ("refresh_required", "artifact_unavailable", True),
    ],
)
def test_what_ends_a_publication(harness: QueueHarness, kind: str, reason: str, fresh: bool) -> None:
    enqueue(harness, "d-1", publication(7, 900))
    request = {"outcome": "success", "completion_kind": kind, "reason_code": reason, "error_fingerprint": ""}
    assert harness.ok("complete_lease", {**claim(harness), **request})["requeued"] is False
    assert harness.queue.items.get(PUBLICATION) is None
    assert (harness.queue.items.get(KEY) is not None) == fresh


def test_a_retry_time_never_shortens_the_wait(harness: QueueHarness) -> None:
    enqueue(harness, "d-1", publication(7, 900))
    soon = {"retry_at": "2020-01-01T00:00:00Z", **failing("retryable_failure", "github_transient")}
    harness.ok("complete_lease", {**claim(harness), **soon})
    item = harness.queue.items.get(PUBLICATION)
    assert item is not None
    assert item.next_attempt_at is not None
    assert item.next_attempt_at >= harness.clock_ms + MINUTE


class TestDirectPublication:
    """A review that wrote its record itself is a publication from then on: only what follows the record is left."""

    def published(self, harness: QueueHarness) -> dict[str, Any]:
        enqueue(harness, "d-1", decision(7))
        held = claim(harness)
        assert harness.ok("publish_directly", plan(7, KEY, 1, 1))["accepted"] is True
        return held

    @pytest.mark.parametrize(
        ("kind", "reason"), [("published", "publication_applied"), ("superseded", "remote_newer_tuple")]
    )
    def test_its_publisher_says_so(self, harness: QueueHarness, kind: str, reason: str) -> None:
        held = self.published(harness)
        ended = {"outcome": "success", "completion_kind": kind, "reason_code": reason}
        assert harness.ok("complete_lease", {**held, **ended}) == {"ok": True, "requeued": False}
        assert harness.queue.items.get(KEY) is None

    def test_a_newer_event_does_not_take_that_away(self, harness: QueueHarness) -> None:
        held = self.published(harness)
        enqueue(harness, "d-2", decision(7, "edited"))
        ended = {"outcome": "success", "completion_kind": "published", "reason_code": "publication_applied"}
        assert harness.ok("complete_lease", {**held, **ended})["requeued"] is True
        harness.advance(10_000)
        assert harness.host.dispatches[-1]["client_payload"]["source_action"] == "edited"

    def test_counts_follow_it_to_the_other_lane(self, harness: QueueHarness) -> None:
        held = self.published(harness)
        assert (
            harness.queue.items.count("review", "leased"),
            harness.queue.items.count("publication", "leased"),
        ) == (
            0,
            1,
        )
        totals = harness.queue.metrics.totals()
        assert (totals["review.completed"], totals["publication.enqueued"]) == (1, 1)
        harness.ok("complete_lease", {**held, "outcome": "success"})
        assert harness.queue.items.count("publication", "leased") == 0

    def test_a_holder_that_falls_silent_leaves_the_publication(self, harness: QueueHarness) -> None:
        self.published(harness)
        harness.advance(3 * HOUR)
        payload = harness.host.dispatches[-1]["client_payload"]
        assert payload["source_action"] == "exact_review_artifact_publish"
        assert payload["queue_claim"]["item_key"] == KEY
        answer = harness.ok("claim_lease", {**claim_request(payload), "run_id": "777"})
        saved = answer["decision"]["publication"]
        assert saved["artifactName"] == "exact-review-501-1"
        assert saved["directLifecycle"] == {"plan": {"kind": "router"}, "receiptOutcome": "accepted"}
        assert saved["producerDecision"]["sourceAction"] == "opened"

    def test_a_source_that_moved_on_is_reviewed_again_as_another_revision(self, harness: QueueHarness) -> None:
        held = self.published(harness)
        moved = {
            "outcome": "success",
            "direct_lifecycle_requeue": True,
            "completion_kind": "published",
            "reason_code": "publication_applied",
            "lifecycle_terminal_disposition": "requeue",
        }
        assert harness.ok("complete_lease", {**held, **moved})["requeued"] is True
        harness.advance(10_000)
        payload = harness.host.dispatches[-1]["client_payload"]
        assert (payload["source_action"], payload["queue_claim"]["lease_revision"]) == ("opened", 2)
        harness.ok("claim_lease", {**claim_request(payload), "run_id": "502"})
        assert harness.ok("publish_directly", plan(7, KEY, 2, 1, "# Other\n"))["accepted"] is True


def claim_request(payload: dict[str, Any]) -> dict[str, Any]:
    return {
        "lease_id": payload["queue_lease_id"],
        "item_key": payload["queue_claim"]["item_key"],
        "lease_revision": payload["queue_claim"]["lease_revision"],
        "run_attempt": 1,
    }


@pytest.mark.parametrize(
    ("lifecycle", "told", "ended", "fact"),
    [
        ("router", None, {}, "review_completed_routed"),
        ("router_deferred_coverage", None, {}, "review_completed_routed"),
        ("policy_noop", None, {}, "policy_noop"),
        ("target_closed", None, {}, "target_closed"),
        ("guarded_open", "policy_noop", {}, "policy_noop"),
        ("requeue", None, {"outcome": "success", "direct_lifecycle_requeue": True}, "requeue"),
    ],
)
def test_the_terminal_fact_of_every_plan(
    harness: QueueHarness, lifecycle: str, told: str | None, ended: dict[str, Any], fact: str
) -> None:
    enqueue(harness, "d-1", decision(7))
    held = claim(harness)
    harness.ok("publish_directly", {**plan(7, KEY, 1, 1), "lifecycle": {"kind": lifecycle}})
    disposition = {} if told is None else {"lifecycle_terminal_disposition": told}
    harness.ok("complete_lease", {**held, "outcome": "success", **disposition, **ended})
    (row,) = harness.queue.direct.lifecycle(KEY)
    assert (row["plan_kind"], row["terminal_disposition"]) == (lifecycle, fact)


class TestOvertaken:
    """A plan that nobody follows up, since something newer came, is no open fact for ever."""

    @pytest.fixture
    def held(self, harness: QueueHarness) -> dict[str, Any]:
        enqueue(harness, "d-1", decision(7))
        held = claim(harness)
        harness.ok("publish_directly", plan(7, KEY, 1, 1))
        return held

    def fact(self, harness: QueueHarness) -> Any:
        (row,) = harness.queue.direct.lifecycle(KEY)
        return row["terminal_disposition"]

    def test_its_lease_was_withdrawn(self, harness: QueueHarness, held: dict[str, Any]) -> None:
        enqueue(harness, "d-2", decision(7, "edited", supersedes=True))
        assert self.fact(harness) == "superseded"

    def test_its_holder_fell_silent_before_a_newer_one(self, harness: QueueHarness, held: dict[str, Any]) -> None:
        enqueue(harness, "d-2", decision(7, "edited"))
        assert self.fact(harness) is None
        harness.advance(3 * HOUR)
        assert self.fact(harness) == "superseded"

    def test_its_holder_failed_before_a_newer_revision(self, harness: QueueHarness, held: dict[str, Any]) -> None:
        enqueue(harness, "d-2", decision(7, "edited"))
        harness.ok("complete_lease", {**held, "outcome": "failure"})
        assert self.fact(harness) == "requeue"

    def test_it_waited_when_a_newer_event_came(self, harness: QueueHarness, held: dict[str, Any]) -> None:
        harness.ok("complete_lease", {**held, "outcome": "failure"})
        assert self.fact(harness) is None
        enqueue(harness, "d-2", decision(7, "edited"))
        assert self.fact(harness) == "superseded"

    def test_it_waited_when_a_newer_publication_came(self, harness: QueueHarness, held: dict[str, Any]) -> None:
        harness.ok("complete_lease", {**held, "outcome": "failure"})
        enqueue(harness, "d-2", publication(7, 900, lease_revision=2))
        assert self.fact(harness) == "superseded"

    def test_another_holder_follows_it_up(self, harness: QueueHarness, held: dict[str, Any]) -> None:
        harness.advance(3 * HOUR)
        assert self.fact(harness) is None
        again = claim(harness, "502")
        harness.ok("complete_lease", {**again, "outcome": "success"})
        assert self.fact(harness) == "review_completed_routed"


class TestRecovery:
    """A failed shard's one attempt more."""

    def leased(self, harness: QueueHarness) -> dict[str, Any]:
        enqueue(harness, "d-1", decision(7, "failed_review_shard_recovery"))
        return claim(harness)

    @pytest.mark.parametrize("outcome", ["failure", "cancelled"])
    def test_its_failure_ends_it(self, harness: QueueHarness, outcome: str) -> None:
        held = self.leased(harness)
        assert harness.ok("complete_lease", {**held, "outcome": outcome})["requeued"] is False
        assert harness.queue.items.get(KEY) is None

    def test_its_silence_ends_it(self, harness: QueueHarness) -> None:
        self.leased(harness)
        harness.advance(3 * HOUR)
        assert harness.queue.items.get(KEY) is None

    def test_a_newer_event_goes_on(self, harness: QueueHarness) -> None:
        held = self.leased(harness)
        enqueue(harness, "d-2", decision(7, "edited"))
        assert harness.ok("complete_lease", {**held, "outcome": "failure"})["requeued"] is True


class TestPuttingOff:
    """A review that waits for others, or for a rate, has not failed."""

    @pytest.mark.parametrize(("kind", "most"), [("coordination", 1.0), ("throttle", 1.5)])
    def test_it_waits_and_counts_no_failure(self, harness: QueueHarness, kind: str, most: float) -> None:
        enqueue(harness, "d-1", decision(7))
        for number in range(9):
            later = {"outcome": "failure", "retry_kind": kind, "retry_at": iso_in(harness, 10 * MINUTE)}
            answer = harness.ok("complete_lease", {**claim(harness, str(600 + number)), **later})
            assert answer["requeued"] is True
            item = harness.queue.items.get(KEY)
            assert item is not None
            assert (item.state, item.attempts, item.backoff_reason) == ("pending", 0, f"{kind}_retry")
            assert item.next_attempt_at is not None
            waits = item.next_attempt_at - harness.clock_ms
            assert 0.75 * 10 * MINUTE <= waits <= most * 10 * MINUTE
            harness.advance(15 * MINUTE)

    @pytest.mark.parametrize(
        ("members", "code"),
        [
            ({"retry_kind": "x", "outcome": "failure"}, "invalid_retry_kind"),
            ({"retry_kind": None, "outcome": "failure"}, "invalid_retry_kind"),
            ({"retry_kind": "throttle"}, "retry_kind_without_failure"),
            ({"retry_kind": "throttle", "outcome": "failure"}, "retry_kind_without_retry_at"),
        ],
    )
    def test_its_form(self, harness: QueueHarness, members: dict[str, Any], code: str) -> None:
        enqueue(harness, "d-1", decision(7))
        answer = harness.call("complete_lease", {**claim(harness), **members})
        assert (answer["status"], answer["value"]) == (400, {"error": code})

    def test_publications_say_it_otherwise(self, harness: QueueHarness) -> None:
        enqueue(harness, "d-1", publication(7, 900))
        later = {"outcome": "failure", "retry_kind": "throttle", "retry_at": iso_in(harness, MINUTE)}
        answer = harness.call("complete_lease", {**claim(harness), **later})
        assert (answer["status"], answer["value"]) == (400, {"error": "retry_kind_outside_regular_review"})


def iso_in(harness: QueueHarness, ms: int) -> str:
    return iso_time(harness.clock_ms + ms)


@pytest.mark.parametrize(
    ("members", "code"),
    [
        ({"outcome": "failure", "failure_kind": "state_contention"}, "invalid_failure_kind"),
        ({"outcome": "failure", "failure_kind": None}, "invalid_failure_kind"),
        ({"completion_kind": None}, "invalid_publication_completion"),
        ({"error_fingerprint": "f"}, "invalid_publication_completion"),
        ({"retry_at": None}, "invalid_retry_at"),
        ({"lifecycle_terminal_disposition": "published"}, "invalid_lifecycle_terminal_disposition"),
        (
            {
                "outcome": "failure",
                "failure_kind": "github_transient",
                "completion_kind": "permanent_failure",
                "reason_code": "unknown_failure",
            },
            "failure_kind_mismatch",
        ),
        # the first fault counts, and faults of form come before the holder's
        ({"failure_kind": "x", "requeue_latest": 1}, "invalid_failure_kind"),
        ({"requeue_latest": True, "outcome": "failure", "retry_at": "x"}, "invalid_requeue_latest_outcome"),
        (
            {
                "outcome": "failure",
                "failure_kind": "github_transient",
                "completion_kind": "retryable_failure",
                "reason_code": "github_transient",
                "run_attempt": 2,
            },
            "failure_kind_outside_publication",
        ),
        (
            {"completion_kind": "published", "reason_code": "publication_applied", "run_attempt": 2},
            "completion_kind_outside_publication",
        ),
        ({"item_key": "", "lease_revision": None}, "invalid_lease_revision"),
    ],
)
def test_refusals_of_a_reviews_completion(harness: QueueHarness, members: dict[str, Any], code: str) -> None:
    enqueue(harness, "d-1", decision(7))
    answer = harness.call("complete_lease", {**claim(harness), **members})
    assert (answer["status"], answer["value"]) == (400, {"error": code})


@pytest.mark.parametrize("outcome", [None, ""])
def test_no_outcome_is_success(harness: QueueHarness, outcome: str | None) -> None:
    enqueue(harness, "d-1", decision(7))
    assert harness.ok("complete_lease", {**claim(harness), "outcome": outcome})["requeued"] is False


class TestClaimWithoutAttempt:
    """As the first clients claim: listed with a null attempt, completed by any, reconciled by null."""

    def held(self, harness: QueueHarness) -> dict[str, Any]:
        enqueue(harness, "d-1", decision(7))
        request = claim_request(harness.host.dispatches[-1]["client_payload"])
        del request["run_attempt"]
        assert harness.ok("claim_lease", {**request, "run_id": "501"})["claim_generation"] == 1
        return {**request, "run_id": "501", "claim_generation": 1}

    def test_it_is_completed_by_any_attempt(self, harness: QueueHarness) -> None:
        held = self.held(harness)
        assert harness.ok("complete_lease", {**held, "run_attempt": 3})["requeued"] is False

    @pytest.mark.parametrize("claimed", [{}, {"claimed_run_attempt": None}])
    def test_it_is_reconciled(self, harness: QueueHarness, claimed: dict[str, Any]) -> None:
        self.held(harness)
        (run,) = harness.ok("claimed_runs", {"runs": ["501"]})["runs"]
        assert run == {"run_id": "501", "run_attempt": None, "claim_generation": 1}
        ended = {"run_id": "501", "run_attempt": 1, "claim_generation": 1, "outcome": "success", **claimed}
        assert harness.ok("reconcile", {"terminal_runs": [{**ended, "claimed_run_attempt": 1}]})["reconciled"] == 0
        counts = {"reconciled": 1, "requeued": 0, "completed": 1}
        assert harness.ok("reconcile", {"terminal_runs": [ended]}) == {"ok": True, **counts}


def test_claimed_runs_are_found_by_their_run_whatever_the_attempt(harness: QueueHarness) -> None:
    enqueue(harness, "d-1", decision(7))
    claim(harness)
    asked = {"runs": [{"run_id": "501", "run_attempt": 2}]}
    assert [run["run_attempt"] for run in harness.ok("claimed_runs", asked)["runs"]] == [1]


def test_a_lease_parked_by_its_runs_end_is_neither_requeued_nor_completed(harness: QueueHarness) -> None:
    enqueue(harness, "d-1", decision(7))
    for number in range(1, 9):
        claim(harness, str(number))
        ended = {"run_id": str(number), "run_attempt": 1, "claimed_run_attempt": 1, "claim_generation": 1}
        counts = harness.ok("reconcile", {"terminal_runs": [{**ended, "outcome": "failure"}]})
        assert counts == {"ok": True, "reconciled": 1, "requeued": int(number < 8), "completed": 0}
        harness.advance(8 * MINUTE)


def test_stale_publications_are_shown_as_maintenance_reads_them(harness: QueueHarness) -> None:
    asked = publication(7, 901, 1)
    marker = "<!-- clawsweeper-command-status:7 -->"
    asked["publication"]["producerDecision"]["commandStatusMarker"] = marker
    for number, value in enumerate((publication(7, 900, 1), asked)):
        harness.ok("enqueue", {"delivery_id": f"d-{number}", "decision": value})
    harness.queue.heads.advance(KEY, 2, harness.clock_ms)
    before = harness.ok("reconcile_publications", {"apply": False, "max_items": 10})
    assert [row["supersede_safe"] for row in before["sample"]] == [True, False]
    assert before["sample"][0] == {
        "item_key": PUBLICATION,
        "queue_revision": 1,
        "reason": "stale_revision",
        "target_key": KEY,
        "publication_revision": 1,
        "superseded_by_revision": 2,
        "lineage_claim_generation": None,
        "retained_item_key": None,
        "command_context": False,
        "acknowledgement_state": "not_required",
        "acknowledgement_unavailable_reason": None,
        "successor_fence_state": None,
        "supersede_safe": True,
        "producer_run_id": "900",
        "producer_run_attempt": 1,
    }
    applied = harness.ok("reconcile_publications", {"apply": True, "max_items": 10})
    assert (applied["eligible"], applied["changed"], applied["eligible_remaining"]) == (2, 1, 1)
    assert harness.queue.items.get(PUBLICATION) is None
    assert harness.queue.items.get(f"{KEY}@publish:901:1") is not None
