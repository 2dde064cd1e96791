"""The queue's longer stories: what no single recorded answer shows."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from moorage.durable_objects.objects.codehost.contract import CodeHostError, Run, Target
from moorage.durable_objects.objects.exact_review_queue import ExactReviewQueue
from moorage.protocols.queue.decisions import Decision
from tests.objects.queue_harness import QueueHarness, decision, plan, publication

KEY = "acme/widgets#7"
RUN_501 = {
    "run_id": "501",
    "run_attempt": 1,
    "claimed_run_attempt": 1,
    "claim_generation": 1,
    "outcome": "success",
}


@pytest.fixture
def harness() -> Iterator[QueueHarness]:
    harness = QueueHarness()
    yield harness
    harness.close()


def enqueue(harness: QueueHarness, delivery: str, value: dict[str, Any]) -> dict[str, Any]:
    answer = harness.ok("enqueue", {"delivery_id": delivery, "decision": value})
    harness.advance(10_000)
    return answer


def claim(harness: QueueHarness, run: str = "501", attempt: int = 1) -> dict[str, Any]:
    """Claims the newest hand-out; the tuple that its holder uses from then on."""
    payload = harness.host.dispatches[-1]["client_payload"]
    held = {
        "lease_id": payload["queue_lease_id"],
        "item_key": payload["queue_claim"]["item_key"],
        "lease_revision": payload["queue_claim"]["lease_revision"],
        "run_id": run,
        "run_attempt": attempt,
    }
    return {**held, "claim_generation": harness.ok("claim_lease", held)["claim_generation"]}


def lifecycle(harness: QueueHarness) -> list[dict[str, Any]]:
    return harness.queue.direct.lifecycle(KEY)


def test_no_subject_hides_a_method_of_another() -> None:
    owners: Counter[str] = Counter()
    for part in ExactReviewQueue.__mro__:
        if part.__module__.startswith("moorage.durable_objects.objects.queue") and part.__name__ != "QueueBase":
            owners.update(name for name in vars(part) if not name.startswith("__"))
    assert {name for name, count in owners.items() if count > 1} == set()


@pytest.mark.parametrize("crash", [False, True])
def test_drift_requeue_keeps_the_old_target_fence_and_terminal_fact(harness: QueueHarness, crash: bool) -> None:
    enqueue(harness, "d-1", decision(7))
    held = claim(harness)
    receipt = harness.ok("publish_directly", plan(7, KEY, 1, 1))
    assert receipt["state_commit_sha"] == "do-revision:1"
    # ingress replaces the current decision while the holder still works on its own
    enqueue(harness, "d-2", decision(7, "edited"))
    if crash:
        harness.crash()
    before = lifecycle(harness)
    plans = harness.storage.sql.exec("SELECT * FROM exact_review_direct_publication_plans").toArray()
    answer = harness.ok("complete_lease", {**held, "outcome": "success", "direct_lifecycle_requeue": True})
    assert answer == {"ok": True, "requeued": True}
    (fact,) = lifecycle(harness)
    assert (fact["canonical_target_key"], fact["fence_key"], fact["revision"]) == (KEY, KEY, 1)
    assert (fact["terminal_disposition"], fact["terminal_reason"]) == ("requeue", "source_drift_requeue")
    # nothing but the terminal fact was added: the receipt is the one that publication left
    receipt_columns = ("plan_kind", "receipt_outcome", "created_at")
    assert [fact[name] for name in receipt_columns] == [before[0][name] for name in receipt_columns]
    assert harness.storage.sql.exec("SELECT * FROM exact_review_direct_publication_plans").toArray() == plans
    # the run's end changes nothing any more
    ended = [
        {"run_id": "501", "run_attempt": 1, "claimed_run_attempt": 1, "claim_generation": 1, "outcome": "success"}
    ]
    assert harness.ok("reconcile", {"terminal_runs": ended})["reconciled"] == 0
    assert lifecycle(harness) == [fact]
    harness.advance(10_000)
    assert harness.host.dispatches[-1]["client_payload"]["queue_claim"]["lease_revision"] == 2
    assert harness.host.dispatches[-1]["client_payload"]["source_action"] == "edited"


def test_reconcile_ends_a_lease_by_its_own_decision_after_ingress_replaced_it(harness: QueueHarness) -> None:
    enqueue(harness, "d-1", decision(7))
    claim(harness)
    harness.ok("publish_directly", plan(7, KEY, 1, 1))
    enqueue(harness, "d-2", decision(7, "edited"))
    ended = [
        {"run_id": "501", "run_attempt": 1, "claimed_run_attempt": 1, "claim_generation": 1, "outcome": "success"}
    ]
    assert harness.ok("reconcile", {"terminal_runs": ended}) == {
        "ok": True,
        "reconciled": 1,
        "requeued": 1,
        "completed": 0,
    }
    (fact,) = lifecycle(harness)
    assert (fact["revision"], fact["terminal_reason"]) == (1, "newer_revision")


def test_drift_requeue_needs_a_direct_publication(harness: QueueHarness) -> None:
    enqueue(harness, "d-1", decision(7))
    held = claim(harness)
    answer = harness.call("complete_lease", {**held, "outcome": "success", "direct_lifecycle_requeue": True})
    assert (answer["status"], answer["value"]) == (400, {"error": "invalid_direct_lifecycle_requeue"})


def test_direct_publication_writes_record_plan_and_lease_together(harness: QueueHarness) -> None:
    """A failure at any of the three leaves none of them."""
    enqueue(harness, "d-1", decision(7))
    claim(harness)
    item = harness.queue.items.get(KEY)
    for part, method in (("direct", "add"), ("direct", "add_lifecycle"), ("items", "put"), ("heads", "advance")):
        store = getattr(harness.queue, part)

        def fail(*arguments: Any) -> None:
            raise RuntimeError("power cut")

        setattr(store, method, fail)
        with pytest.raises(RuntimeError):
            harness.call("publish_directly", plan(7, KEY, 1, 1))
        harness.crash()
        assert harness.queue.items.get(KEY) == item
        assert harness.queue.records.read("acme-widgets", "items", 7) is None
        assert harness.queue.records.current_revision() == 0
        assert lifecycle(harness) == []
    assert harness.ok("publish_directly", plan(7, KEY, 1, 1))["accepted"] is True
    record = harness.queue.records.read("acme-widgets", "items", 7)
    assert record is not None
    assert record.content == "# Report\n"


def test_direct_publication_is_idempotent_fenced_and_superseded(harness: QueueHarness) -> None:
    enqueue(harness, "d-1", decision(7))
    held = claim(harness)
    first = harness.ok("publish_directly", plan(7, KEY, 1, 1))
    again = harness.ok("publish_directly", plan(7, KEY, 1, 1))
    assert (again["deduped"], again["state_commit_sha"]) == (True, first["state_commit_sha"])
    other = harness.call("publish_directly", plan(7, KEY, 1, 1, "# Other\n"))
    assert (other["status"], other["value"]["error"]) == (409, "direct_publication_conflict")
    harness.ok("complete_lease", {**held, "outcome": "success"})
    late = harness.call("publish_directly", plan(7, KEY, 2, 1))
    assert (late["status"], late["value"]["error"]) == (409, "direct_publication_fence_not_owned")
    # the receipt outlives the lease
    assert harness.ok("publish_directly", plan(7, KEY, 1, 1))["deduped"] is True


def test_old_artifacts_are_not_published_over_a_direct_publication(harness: QueueHarness) -> None:
    enqueue(harness, "d-1", decision(7))
    enqueue(harness, "d-2", decision(7, "edited", supersedes=True))
    claim(harness)
    assert harness.ok("publish_directly", plan(7, KEY, 2, 1))["accepted"] is True
    answer = enqueue(harness, "d-3", publication(7, 900, lease_revision=1))
    assert answer["superseded"] is True


def test_direct_publications_compare_by_their_reviews(harness: QueueHarness) -> None:
    """A publication counts revisions of its own: its first is newer than the third review, if it is of the fourth."""
    enqueue(harness, "d-1", decision(7))
    enqueue(harness, "d-2", decision(7, "edited", supersedes=True))
    enqueue(harness, "d-3", decision(7, "edited", supersedes=True))
    held = claim(harness)
    assert harness.ok("publish_directly", plan(7, KEY, 3, 1))["accepted"] is True
    harness.ok("complete_lease", {**held, "outcome": "success"})
    enqueue(harness, "d-4", publication(7, 900, lease_revision=4))
    harness.advance(10 * 60_000)
    held = claim(harness, "777")
    assert (held["item_key"], held["lease_revision"]) == (f"{KEY}@publish:900:1", 1)
    answer = harness.ok("publish_directly", plan(7, held["item_key"], 1, 1, "# Fourth\n"))
    assert (answer["accepted"], answer["superseded"]) == (True, False)
    record = harness.queue.records.read("acme-widgets", "items", 7)
    assert record is not None
    assert record.content == "# Fourth\n"
    # and the head is the review's revision: what comes late from the third has been overtaken
    assert enqueue(harness, "d-5", publication(7, 901, lease_revision=3))["superseded"] is True


def test_an_older_review_is_not_published_over_a_newer_one(harness: QueueHarness) -> None:
    enqueue(harness, "d-1", publication(7, 900, lease_revision=1))
    old = claim(harness, "777")
    enqueue(harness, "d-2", decision(7))
    enqueue(harness, "d-3", decision(7, "edited", supersedes=True))
    claim(harness)
    assert harness.ok("publish_directly", plan(7, KEY, 2, 1, "# Second\n"))["accepted"] is True
    answer = harness.ok("publish_directly", plan(7, old["item_key"], 1, 1, "# First\n"))
    assert (answer["superseded"], answer["superseded_revisions"]) == (True, [2])
    record = harness.queue.records.read("acme-widgets", "items", 7)
    assert record is not None
    assert record.content == "# Second\n"


def test_a_dispatch_without_an_answer_is_not_repeated_while_it_may_be_claimed() -> None:
    lost: list[str] = []

    def lose(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "dispatch" and not lost:
            lost.append(arguments[1]["queue_lease_id"])
            raise CodeHostError("no answer", perhaps_done=True)

    harness = QueueHarness(lose)
    enqueue(harness, "d-1", decision(7))
    assert (len(lost), harness.host.dispatches) == (1, [])
    harness.advance(2 * 60_000)
    assert harness.host.dispatches == []
    # it had arrived after all
    held = {"lease_id": lost[0], "item_key": KEY, "lease_revision": 1, "run_id": "501", "run_attempt": 1}
    assert harness.ok("claim_lease", held)["claimed"] is True
    harness.close()


def test_a_lost_dispatch_is_handed_out_again_once_its_lease_lapsed() -> None:
    lost: list[int] = []

    def lose(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "dispatch" and not lost:
            lost.append(1)
            raise CodeHostError("no answer", perhaps_done=True)

    harness = QueueHarness(lose)
    enqueue(harness, "d-1", decision(7))
    harness.advance(7 * 60_000)
    assert len(harness.host.dispatches) == 1
    harness.close()


def test_expired_batches_give_their_publications_back(harness: QueueHarness) -> None:
    harness.close()
    batching = QueueHarness(EXACT_REVIEW_PUBLICATION_BATCHING_ENABLED="1")
    for number in (1, 2):
        enqueue(batching, f"d-{number}", publication(number, 900 + number))
    asked = {"claim_id": "c-1", "lease_owner": "runner-1", "max_items": 8}
    batch = batching.ok("claim_batch", asked)["batch"]
    assert [item["claim_generation"] for item in batch["items"]] == [1, 1]
    # nobody else takes what is in a batch, one by one or in another batch
    assert batching.host.dispatches == []
    assert batching.ok("claim_batch", {**asked, "claim_id": "c-2"})["claimed"] is False
    batching.advance(31 * 60_000)
    late = [{"item_key": item["item_key"], "revision": 1, "claim_generation": 1} for item in batch["items"]]
    done = [{**item, "terminal_outcome": "published"} for item in late]
    held = {"batch_id": "c-1", "lease_owner": "runner-1", "items": done}
    assert batching.call("complete_batch", held)["value"] == {"error": "batch_lease_not_active"}
    again = batching.ok("claim_batch", {**asked, "claim_id": "c-3"})["batch"]
    assert [item["claim_generation"] for item in again["items"]] == [2, 2]
    # a completion of the first lease never matches the second one
    wrong = {**held, "batch_id": "c-3"}
    assert batching.ok("complete_batch", wrong)["accepted"] == 0
    batching.close()


def test_a_batch_ends_what_a_newer_revision_has_overtaken(harness: QueueHarness) -> None:
    harness.close()
    batching = QueueHarness(EXACT_REVIEW_PUBLICATION_BATCHING_ENABLED="1")
    enqueue(batching, "d-1", publication(7, 900, lease_revision=1))
    held = {"batch_id": "c-1", "lease_owner": "r"}
    batching.ok("claim_batch", {"claim_id": "c-1", "lease_owner": "r", "max_items": 8})
    enqueue(batching, "d-2", publication(7, 901, lease_revision=2))
    fetched = batching.ok("fetch_batch", held)
    assert (fetched["superseded"], fetched["items"]) == (1, [])
    assert fetched["batch"]["items"][0]["terminal_outcome"] == "superseded"
    batching.close()


def test_reconcile_asks_for_the_attempt_that_holds_the_lease() -> None:
    asked: list[tuple[str, int | None]] = []

    def runs(name: str, arguments: tuple[Any, ...]) -> Run | None:
        if name != "run":
            return None
        asked.append((arguments[0], arguments[1]))
        return Run(
            2 if arguments[1] is None else arguments[1], True, "success" if arguments[1] is None else "failure"
        )

    harness = QueueHarness(runs)
    enqueue(harness, "d-1", decision(7))
    claim(harness)
    answer = harness.ok("reconcile", {"runs": ["501"]})
    assert asked == [("501", None), ("501", 1)]
    assert (answer["terminal"], answer["requeued"]) == (1, 1)
    harness.close()


def test_dead_letters_at_their_limit_park_the_publication_until_one_is_resolved() -> None:
    harness = QueueHarness(EXACT_REVIEW_DEAD_LETTER_LIMIT="1")
    for number in (1, 2):
        enqueue(harness, f"d-{number}", publication(number, 900 + number))
        for run in range(3):
            harness.advance(2 * 60 * 60_000)
            held = claim(harness, str(1000 * number + run))
            answer = harness.ok(
                "complete_lease",
                {
                    **held,
                    "outcome": "failure",
                    "completion_kind": "permanent_failure",
                    "reason_code": "invalid_artifact",
                },
            )
        assert answer["requeued"] is False
    parked = harness.queue.items.get("acme/widgets#2@publish:902:1")
    assert parked is not None
    assert parked.parked_reason == "dead_letter_capacity"
    ids = harness.queue.dead_letters.open_ids()
    assert ids == ["acme/widgets#1@publish:901:1@revision:1"]
    assert harness.ok("resolve_dead_letters", {"ids": ids, "note": "n"})["unparked"] == 1
    woken = harness.queue.items.get("acme/widgets#2@publish:902:1")
    assert woken is not None
    assert woken.state == "pending"
    harness.advance(31 * 24 * 60 * 60_000)
    harness.queue.prune()
    assert harness.queue.dead_letters.get(ids[0]) is None
    harness.close()


def test_a_holder_that_falls_silent_late_is_noticed_by_the_alarm(harness: QueueHarness) -> None:
    enqueue(harness, "d-1", decision(7))
    held = claim(harness)
    # the alarm of the hand-out has long been and gone
    harness.advance(60 * 60_000)
    harness.ok("heartbeat_lease", held)
    harness.advance(20 * 60_000 - 1)
    assert len(harness.host.dispatches) == 1
    harness.advance(1)
    harness.advance(5_000)
    assert len(harness.host.dispatches) == 2


def test_a_broken_step_of_the_alarm_does_not_stop_the_others(harness: QueueHarness) -> None:
    async def broken() -> None:
        raise RuntimeError("a defect")

    harness.queue.run_intakes = broken  # type: ignore[method-assign]
    harness.ok("enqueue", {"delivery_id": "d-1", "decision": decision(7)})
    harness.advance(1)
    assert len(harness.host.dispatches) == 1
    # it comes again, and not at once
    assert harness.storage.alarm == harness.clock_ms + 30_000


def test_a_reservation_that_meets_a_defect_holds_no_other_back(harness: QueueHarness) -> None:
    for delivery, number in (("d-1", 7), ("d-2", 8)):
        event = decision(number, "opened", itemKind="pull_request", sourceEvent="pull_request")
        harness.ok("reserve_source_authority", {"delivery_id": delivery, "decision": event, "installation_id": 1})
    healthy = harness.host.target

    async def defect(decision: Decision) -> Target:
        if decision.item_number == 7:
            raise RuntimeError("a defect")
        return await healthy(decision)

    harness.host.target = defect  # type: ignore[method-assign]
    harness.advance(61_000)
    assert harness.queue.items.get("acme/widgets#8") is not None
    assert harness.queue.items.get("acme/widgets#7") is None
    harness.host.target = healthy  # type: ignore[method-assign]
    harness.advance(61_000)
    assert harness.queue.items.get("acme/widgets#7") is not None


def test_an_item_that_meets_a_defect_holds_no_other_back(harness: QueueHarness) -> None:
    healthy = harness.host.target

    async def defect(decision: Decision) -> Target:
        if decision.item_number == 7:
            raise RuntimeError("a defect")
        return await healthy(decision)

    harness.host.target = defect  # type: ignore[method-assign]
    for number in (7, 8):
        harness.ok("enqueue", {"delivery_id": f"d-{number}", "decision": decision(number)})
    harness.advance(1)
    handed_out = [dispatch["client_payload"]["item_number"] for dispatch in harness.host.dispatches]
    assert handed_out == [8]
    waiting = harness.queue.items.get(KEY)
    assert waiting is not None
    assert (waiting.state, waiting.backoff_reason, waiting.attempts) == ("pending", "admission_retry", 1)


def test_a_clock_that_is_set_back_does_not_stop_the_passes(harness: QueueHarness) -> None:
    enqueue(harness, "d-1", decision(7))
    assert len(harness.host.dispatches) == 1
    harness.clock_ms -= 60 * 60_000
    harness.ok("enqueue", {"delivery_id": "d-2", "decision": decision(8)})
    harness.advance(5_000)
    assert len(harness.host.dispatches) == 2


@pytest.mark.parametrize("demanded", [None, 0, 10**15, 2**70])
def test_a_code_host_that_demands_years_is_asked_again_within_two_hours(demanded: int | None) -> None:
    def refuse(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "workflow_state":
            raise CodeHostError("rate limit", 429, retry_at=demanded)

    harness = QueueHarness(refuse)
    harness.ok("enqueue", {"delivery_id": "d-1", "decision": decision(7)})
    harness.advance(1)
    retry_at = harness.queue.dispatcher().retry_at
    assert retry_at is not None
    assert harness.clock_ms < retry_at <= harness.clock_ms + 2 * 60 * 60_000
    harness.close()


def test_a_fresh_review_is_never_behind_the_publications_of_its_target(harness: QueueHarness) -> None:
    """A publication whose producer ran elsewhere brings a revision that this queue never gave out."""
    harness.ok("enqueue", {"delivery_id": "d-1", "decision": publication(7, 900, 5)})
    harness.advance(1)
    held = claim(harness)
    expired = {"outcome": "success", "completion_kind": "refresh_required", "reason_code": "artifact_expired"}
    harness.ok("complete_lease", {**held, **expired})
    harness.advance(10_000)
    revision = harness.host.dispatches[-1]["client_payload"]["queue_claim"]["lease_revision"]
    assert revision == 5
    answer = harness.ok("enqueue", {"delivery_id": "d-2", "decision": publication(7, 901, revision)})
    assert answer.get("queued") is True, answer


@pytest.mark.parametrize("cursor", ["a|b|\u00b2", "a|b|" + "9" * 30, "a|b|-1", "a|b|c"])
def test_an_inventory_cursor_that_is_none(harness: QueueHarness, cursor: str) -> None:
    answer = harness.call("lifecycle_inventory", {"cursor": cursor})
    assert (answer["status"], answer["value"]) == (400, {"error": "invalid_cursor"})


class TestProtocolOne:
    """Claims by the lease id alone, as the first clients made them."""

    def claimed(self, harness: QueueHarness) -> dict[str, Any]:
        enqueue(harness, "d-1", decision(7))
        lease = harness.host.dispatches[-1]["client_payload"]["queue_lease_id"]
        held = {"lease_id": lease, "run_id": "501", "run_attempt": 1}
        answer = harness.ok("claim_lease", held)
        assert (answer["protocol_version"], answer["claim_generation"]) == (1, 1)
        return held

    def test_it_is_completed_by_the_lease_id_alone(self, harness: QueueHarness) -> None:
        held = self.claimed(harness)
        assert harness.ok("claim_lease", held)["claim_generation"] == 1
        assert harness.ok("complete_lease", {**held, "outcome": "success"})["requeued"] is False
        assert harness.call("complete_lease", held)["value"] == {"error": "lease_not_claimed"}

    def test_the_two_protocols_do_not_mix(self, harness: QueueHarness) -> None:
        held = self.claimed(harness)
        newer = {**held, "item_key": KEY, "lease_revision": 1}
        assert harness.call("claim_lease", newer)["value"] == {"error": "claim_protocol_mismatch"}
        ended = harness.call("complete_lease", {**newer, "claim_generation": 1})
        assert ended["value"] == {"error": "lease_protocol_not_claimed"}

    def test_a_withdrawn_holder_is_told(self, harness: QueueHarness) -> None:
        held = self.claimed(harness)
        enqueue(harness, "d-2", decision(7, "edited", supersedes=True))
        answer = harness.call("complete_lease", held)
        assert answer["value"] == {"error": "lease_superseded", "superseded_by_revision": 2}


def test_an_old_lease_without_a_decision_is_not_claimed_for_a_newer_revision(harness: QueueHarness) -> None:
    import msgspec

    enqueue(harness, "d-1", decision(7))
    payload = harness.host.dispatches[-1]["client_payload"]
    enqueue(harness, "d-2", decision(7, "edited"))
    item = harness.queue.items.get(KEY)
    assert item is not None
    harness.queue.items.put(msgspec.structs.replace(item, lease_decision=None), item)
    held = {"lease_id": payload["queue_lease_id"], "item_key": KEY, "lease_revision": 1, "run_id": "501"}
    assert harness.call("claim_lease", held)["value"] == {"error": "lease_decision_unavailable"}
