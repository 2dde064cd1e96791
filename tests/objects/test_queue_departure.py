"""Batch departure and the target gate."""

from collections.abc import Iterator
from typing import Any

import pytest

from moorage.durable_objects.objects.codehost.contract import CodeHostError
from moorage.durable_objects.objects.codehost.local import RecordingCodeHost
from tests.objects.queue_harness import QueueHarness, decision, publication
from tests.objects.test_command_stages import intake

BATCHING: dict[str, Any] = {
    "EXACT_REVIEW_PUBLICATION_BATCHING_ENABLED": "1",
    "EXACT_REVIEW_PUBLICATION_BATCH_SIZE": "2",
    "EXACT_REVIEW_PUBLICATION_BATCH_WAIT_MS": "60000",
}


@pytest.fixture
def harness() -> Iterator[QueueHarness]:
    harness = QueueHarness(**BATCHING)
    yield harness
    harness.close()


def enqueue(harness: QueueHarness, number: int) -> None:
    harness.ok("enqueue", {"delivery_id": f"p-{number}", "decision": publication(number, 900 + number)})
    harness.advance(1)


def runs(harness: QueueHarness) -> list[dict[str, Any]]:
    return [
        dispatch["client_payload"]
        for dispatch in harness.host.dispatches
        if dispatch["event_type"] == "clawsweeper_publication_batch"
    ]


def claim(harness: QueueHarness, run: dict[str, Any]) -> dict[str, Any]:
    asked = {"claim_id": f"c-{run['dispatch_id']}", "lease_owner": "r", "max_items": run["max_items"]}
    return harness.ok(
        "claim_batch", {**asked, "dispatch_id": run["dispatch_id"], "dispatched_at": run["dispatched_at"]}
    )


def publish(harness: QueueHarness, batch: dict[str, Any]) -> None:
    done = [{**item, "terminal_outcome": "published"} for item in batch["items"]]
    held = {"batch_id": batch["batch_id"], "lease_owner": "r", "items": done}
    assert harness.ok("complete_batch", held)["accepted"] == len(done)


def test_a_full_batch_leaves_at_once_and_a_part_of_one_after_its_wait(harness: QueueHarness) -> None:
    enqueue(harness, 1)
    assert runs(harness) == []
    harness.advance(59_000)
    assert runs(harness) == []
    harness.advance(1_000)
    assert len(runs(harness)) == 1
    publish(harness, claim(harness, runs(harness)[0])["batch"])
    harness.advance(10_000)
    enqueue(harness, 2)
    enqueue(harness, 3)
    assert len(runs(harness)) == 2


def test_only_so_many_runs_are_under_way(harness: QueueHarness) -> None:
    for number in range(1, 6):
        enqueue(harness, number)
    harness.advance(120_000)
    assert len(runs(harness)) == 1
    first = claim(harness, runs(harness)[0])["batch"]
    harness.advance(120_000)
    assert len(runs(harness)) == 1
    publish(harness, first)
    harness.advance(10_000)
    assert len(runs(harness)) == 2


@pytest.mark.parametrize("restart", [False, True])
def test_a_run_that_never_claims_is_replaced_when_its_reservation_lapses(
    harness: QueueHarness, restart: bool
) -> None:
    enqueue(harness, 1)
    harness.advance(60_000)
    assert len(runs(harness)) == 1
    if restart:
        harness.crash()
    harness.advance(10 * 60_000 - 1)
    assert len(runs(harness)) == 1
    harness.advance(60_000)
    assert len(runs(harness)) == 2


def test_a_refused_departure_is_tried_again_after_the_back_off() -> None:
    refused: list[int] = []

    def refuse_once(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "dispatch" and not refused:
            refused.append(1)
            raise CodeHostError("502", 502)

    harness = QueueHarness(refuse_once, **BATCHING)
    enqueue(harness, 1)
    enqueue(harness, 2)
    assert (len(refused), runs(harness)) == (1, [])
    harness.advance(60_000)
    assert len(runs(harness)) == 1
    harness.close()


class Gated(RecordingCodeHost):
    """A code host that says `answer` of every repository, and counts how often it is asked."""

    def __init__(self, answer: str) -> None:
        super().__init__()
        self.answer = answer
        self.asked = 0

    async def visibility(self, repository: str) -> Any:
        self.asked += 1
        if self.answer == "outage":
            raise CodeHostError("502", 502)
        return self.answer


def gated(answer: str, **variables: str) -> tuple[QueueHarness, Gated]:
    harness, host = QueueHarness(None, **variables), Gated(answer)
    harness.host = host
    harness.crash()
    return harness, host


@pytest.mark.parametrize("method", ["enqueue", "admit_command"])
@pytest.mark.parametrize(
    ("answer", "status", "value"),
    [
        ("private", 422, {"error": "private_target_unsupported"}),
        ("unknown", 503, {"error": "target_visibility_unverified", "retryable": True}),
        ("outage", 503, {"error": "target_visibility_unverified", "retryable": True}),
    ],
)
def test_targets_that_are_not_public_are_refused(method: str, answer: str, status: int, value: Any) -> None:
    harness, host = gated(answer)
    members = intake() if method == "admit_command" else {"delivery_id": "d-1", "decision": decision(7)}
    refused = harness.call(method, members)
    assert (refused["status"], refused["value"]) == (status, value)
    assert (status == 503) == ("retry-after" in refused.get("headers", {}))
    # the delivery is not used up
    host.answer = "public"
    harness.clock_ms += 60_000
    assert harness.ok(method, members).get("deduped") is not True
    harness.close()


def test_the_gate_remembers_and_can_be_switched_off() -> None:
    harness, host = gated("public")
    for number in range(5):
        harness.ok("enqueue", {"delivery_id": f"d-{number}", "decision": decision(7)})
    assert host.asked == 1
    harness.close()
    harness, host = gated("private", EXACT_REVIEW_CHECK_TARGET_VISIBILITY="0")
    assert harness.ok("enqueue", {"delivery_id": "d-1", "decision": decision(7)})["queued"] is True
    assert host.asked == 0
    harness.close()
