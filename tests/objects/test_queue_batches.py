"""Random lives of publication batches: every publication ends once, and a batch never outlives its last one.

Claims, fetches, heartbeats, completions, newer revisions, silence and crashes in any order.
"""

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.objects.queue_harness import QueueHarness, publication

OWNERS = st.sampled_from(["one", "two"])
ENDS = st.sampled_from(["published", "superseded", "deferred", "retryable_failure", "permanent_failure"])
REASONS = {
    "deferred": "close_coverage_deferred",
    "retryable_failure": "github_transient",
    "permanent_failure": "invalid_artifact",
}
WAITS = st.sampled_from([1, 61_000, 31 * 60_000, 8 * 24 * 60 * 60_000])


class BatchMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.harness = QueueHarness(
            EXACT_REVIEW_PUBLICATION_BATCHING_ENABLED="1",
            EXACT_REVIEW_PUBLICATION_BATCH_SIZE="3",
            EXACT_REVIEW_PUBLICATION_BATCH_MAX_CONCURRENT="2",
        )
        self.deliveries = self.claims = 0
        self.batches: list[dict[str, Any]] = []
        self.newest: dict[int, int] = {}

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.harness.close()

    @rule(number=st.integers(1, 2), run=st.integers(900, 902), newer=st.sampled_from([-1, 0, 0, 1]))
    def event(self, number: int, run: int, newer: int) -> None:
        self.deliveries += 1
        revision = max(1, self.newest.get(number, 1) + newer)
        self.newest[number] = max(revision, self.newest.get(number, 1))
        given = {"delivery_id": f"d-{self.deliveries}", "decision": publication(number, run, revision)}
        self.harness.ok("enqueue", given)

    @rule(owner=OWNERS, size=st.integers(1, 4), again=st.booleans())
    def claim(self, owner: str, size: int, again: bool) -> None:
        if not again or not self.claims:
            self.claims += 1
        given = {"claim_id": f"b-{self.claims}", "lease_owner": owner, "max_items": size}
        answer = self.harness.ok("claim_batch", given)
        if answer["claimed"]:
            # a claim id that was forgotten after its week makes another batch
            others = [batch for batch in self.batches if batch["batch_id"] != answer["batch"]["batch_id"]]
            self.batches = [*others, answer["batch"]]

    def _named(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"batch_id": batch["batch_id"], "lease_owner": batch["lease_owner"]}

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def fetch(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.batches[-4:]))
        answer = self.harness.call("fetch_batch", self._named(batch))
        assert answer["status"] in {200, 409}
        if answer["status"] == 200:
            assert len(answer["value"]["items"]) + answer["value"]["superseded"] <= len(batch["items"])

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def heartbeat(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.batches[-4:]))
        answer = self.harness.call("heartbeat_batch", {**self._named(batch), "items": batch["items"]})
        assert answer["status"] in {200, 409}

    @precondition(lambda self: self.batches)
    @rule(data=st.data(), kind=ENDS)
    def complete(self, data: st.DataObject, kind: str) -> None:
        batch = data.draw(st.sampled_from(self.batches[-4:]))
        items = data.draw(
            st.lists(st.sampled_from(batch["items"]), min_size=1, unique_by=lambda item: item["item_key"])
        )
        ends = [{**item, "terminal_outcome": kind, "reason_code": REASONS.get(kind)} for item in items]
        answer = self.harness.call("complete_batch", {**self._named(batch), "items": ends})
        assert answer["status"] in {200, 409}
        if answer["status"] == 200:
            assert answer["value"]["accepted"] + answer["value"]["skipped"] == len(ends)
            # exactly once: the same completion again does nothing
            again = self.harness.call("complete_batch", {**self._named(batch), "items": ends})
            assert (again["status"], again["value"]["accepted"]) == (200, 0)

    @rule(wait=WAITS)
    def time_passes(self, wait: int) -> None:
        self.harness.advance(wait)

    @rule()
    def crash(self) -> None:
        self.harness.crash()

    def _rows(self, query: str) -> list[dict[str, Any]]:
        return self.harness.storage.sql.exec(query).toArray()

    @invariant()
    def a_batch_that_is_held_has_something_to_do(self) -> None:
        if hasattr(self, "harness"):
            idle = self._rows(
                "SELECT batch_id FROM exact_review_publication_batches b WHERE state = 'leased' AND NOT EXISTS"
                " (SELECT 1 FROM exact_review_publication_batch_items i WHERE i.batch_id = b.batch_id"
                " AND terminal_outcome IS NULL)"
            )
            assert idle == []

    @invariant()
    def what_a_batch_holds_is_held_by_it(self) -> None:
        if hasattr(self, "harness"):
            for row in self._rows(
                "SELECT batch_id, item_key, claim_generation FROM exact_review_publication_batch_items"
                " WHERE terminal_outcome IS NULL"
            ):
                item = self.harness.queue.items.get(row["item_key"])
                assert item is not None
                assert (item.batch_id, item.claim_generation) == (row["batch_id"], row["claim_generation"])

    @invariant()
    def what_is_held_is_of_a_batch(self) -> None:
        if hasattr(self, "harness"):
            held = self._rows(
                "SELECT item_key, batch_id FROM exact_review_queue_items WHERE lane = 'publication'"
                " AND state = 'leased'"
            )
            open_rows = self._rows(
                "SELECT item_key, batch_id FROM exact_review_publication_batch_items WHERE terminal_outcome IS NULL"
            )
            assert sorted(map(str, held)) == sorted(map(str, open_rows))


TestBatches = BatchMachine.TestCase
TestBatches.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_a_batch_whose_publications_are_all_overtaken_is_over() -> None:
    harness = QueueHarness(EXACT_REVIEW_PUBLICATION_BATCHING_ENABLED="1")
    owner = {"batch_id": "b-1", "lease_owner": "one"}
    harness.ok("enqueue", {"delivery_id": "d-1", "decision": publication(1, 900, 1)})
    harness.ok("claim_batch", {"claim_id": "b-1", "lease_owner": "one", "max_items": 8})
    harness.ok("enqueue", {"delivery_id": "d-2", "decision": publication(1, 901, 2)})
    fetched = harness.ok("fetch_batch", owner)
    assert (fetched["items"], fetched["superseded"], fetched["batch"]["state"]) == ([], 1, "completed")
    # one batch at a time is allowed: the newer publication does not wait for a lease that nobody needs
    assert harness.ok("claim_batch", {"claim_id": "b-2", "lease_owner": "two", "max_items": 8})["claimed"] is True
    assert harness.call("fetch_batch", owner)["status"] == 409
    harness.close()


def test_a_publication_that_names_no_review_is_not_overtaken() -> None:
    harness = QueueHarness(EXACT_REVIEW_PUBLICATION_BATCHING_ENABLED="1")
    harness.ok("enqueue", {"delivery_id": "d-1", "decision": publication(1, 900, 3)})
    old = publication(1, 901)
    old["publication"] |= {"protocolVersion": 1, "leaseRevision": None, "claimGeneration": None}
    assert harness.ok("enqueue", {"delivery_id": "d-2", "decision": old})["queued"] is True
    harness.ok("claim_batch", {"claim_id": "b-1", "lease_owner": "one", "max_items": 8})
    fetched = harness.ok("fetch_batch", {"batch_id": "b-1", "lease_owner": "one"})
    assert (len(fetched["items"]), fetched["superseded"]) == (2, 0)
    harness.close()
