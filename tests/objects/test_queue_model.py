"""Random lives of the review queue against a small model of what must hold.

Events, hand-outs, claims, heartbeats, completions, direct publication, silence and crashes in any order. After
every step: at
most one live lease of an item; revisions only grow; nothing accepted disappears without a terminal fact;
receipts never
change; a holder whose work was withdrawn never completes.
"""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moorage.protocols.queue.endings import plans_of
from moorage.protocols.queue.items import HELD
from tests.objects.queue_harness import QueueHarness, decision, plan, publication

NUMBERS = st.integers(1, 3)
WAITS = st.sampled_from([1, 5_000, 61_000, 7 * 60_000, 21 * 60_000, 131 * 60_000])


class Crash(BaseException):
    """The process dies in the middle of a call to the code host."""


@dataclass
class Claimed:
    """A claim that was granted."""

    lease_id: str
    key: str
    revision: int
    run: str
    generation: int
    withdrawn: bool = False


@dataclass
class Model:
    """What was promised to the outside."""

    open_keys: set[str] = field(default_factory=set)
    ended: dict[str, str] = field(default_factory=dict)
    revisions: dict[str, int] = field(default_factory=dict)
    claims: list[Claimed] = field(default_factory=list)
    receipts: dict[tuple[str, int], str] = field(default_factory=dict)


class ReviewQueueMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.crash_on: str | None = None
        self.harness = QueueHarness(self._on_call, EXACT_REVIEW_DEAD_LETTER_LIMIT="2")
        self.model = Model()
        self.deliveries = 0
        self.runs = 0

    def _on_call(self, name: str, arguments: tuple[Any, ...]) -> Any:
        if self.crash_on == name:
            self.crash_on = None
            raise Crash
        return None

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.harness.close()

    def _enqueue(self, value: dict[str, Any]) -> dict[str, Any]:
        self.deliveries += 1
        return self.harness.ok("enqueue", {"delivery_id": f"d-{self.deliveries}", "decision": value})

    @rule(number=NUMBERS, supersedes=st.booleans(), action=st.sampled_from(["opened", "edited", "re_review"]))
    def event(self, number: int, supersedes: bool, action: str) -> None:
        key = f"acme/widgets#{number}"
        before = self.harness.queue.items.get(key)
        answer = self._enqueue(decision(number, action, supersedes))
        assert answer["queued"] is True
        self.model.open_keys.add(key)
        after = self.harness.queue.items.get(key)
        assert after is not None
        if before is not None and before.state in HELD and supersedes:
            assert after.state == "pending"
            for claimed in self.model.claims:
                claimed.withdrawn |= claimed.lease_id == before.lease_id

    @rule(number=NUMBERS)
    def recovery_event(self, number: int) -> None:
        before = self.harness.queue.items.get(f"acme/widgets#{number}")
        self._enqueue(decision(number, "artifact_retention_recovery"))
        after = self.harness.queue.items.get(f"acme/widgets#{number}")
        assert after is not None
        assert before is None or before == after
        self.model.open_keys.add(after.key)

    @rule(number=NUMBERS, run=st.integers(900, 902), revision=st.integers(1, 3))
    def publication_event(self, number: int, run: int, revision: int) -> None:
        answer = self._enqueue(publication(number, run, revision))
        if answer.get("queued"):
            self.model.open_keys.add(answer["item_key"])
            for key in list(self.model.open_keys):
                if key.startswith(f"acme/widgets#{number}@") and self.harness.queue.items.get(key) is None:
                    self.model.open_keys.discard(key)
                    self.model.ended[key] = "superseded"

    @rule(wait=WAITS)
    def time_passes(self, wait: int) -> None:
        self.harness.advance(wait)

    @rule(at=st.sampled_from(["dispatch", "target", "workflow_state"]), wait=WAITS)
    def crash_while_handing_out(self, at: str, wait: int) -> None:
        self.crash_on = at
        try:
            self.harness.advance(wait)
        except Crash:
            self.harness.crash()
            # the platform tries a failed alarm again
            self.harness.storage.alarm = self.harness.clock_ms
        self.crash_on = None

    @rule()
    def crash(self) -> None:
        self.harness.crash()

    @precondition(lambda self: self.harness.host.dispatches)
    @rule(data=st.data(), again=st.booleans())
    def claim(self, data: st.DataObject, again: bool) -> None:
        payload = data.draw(st.sampled_from(self.harness.host.dispatches[-6:]))["client_payload"]
        if not again or self.runs == 0:
            self.runs += 1
        request = {
            "lease_id": payload["queue_lease_id"],
            "item_key": payload["queue_claim"]["item_key"],
            "lease_revision": payload["queue_claim"]["lease_revision"],
            "run_id": str(self.runs),
            "run_attempt": 1,
        }
        answer = self.harness.call("claim_lease", request)
        if answer["status"] == 200:
            value = answer["value"]
            self.model.claims.append(
                Claimed(
                    request["lease_id"],
                    value["item_key"],
                    value["lease_revision"],
                    request["run_id"],
                    value["claim_generation"],
                )
            )

    def _tuple(self, claimed: Claimed) -> dict[str, Any]:
        return {
            "lease_id": claimed.lease_id,
            "item_key": claimed.key,
            "lease_revision": claimed.revision,
            "claim_generation": claimed.generation,
            "run_id": claimed.run,
            "run_attempt": 1,
        }

    @precondition(lambda self: self.model.claims)
    @rule(data=st.data(), phase=st.sampled_from(["review", "finalizing"]))
    def heartbeat(self, data: st.DataObject, phase: str) -> None:
        claimed = data.draw(st.sampled_from(self.model.claims[-6:]))
        answer = self.harness.call("heartbeat_lease", {**self._tuple(claimed), "phase": phase})
        assert not (claimed.withdrawn and answer["status"] == 200)

    @precondition(lambda self: self.model.claims)
    @rule(data=st.data(), outcome=st.sampled_from(["success", "failure", "permanent"]), requeue=st.booleans())
    def complete(self, data: st.DataObject, outcome: str, requeue: bool) -> None:
        claimed = data.draw(st.sampled_from(self.model.claims[-6:]))
        request: dict[str, Any] = {
            **self._tuple(claimed),
            "outcome": "success" if outcome == "success" else "failure",
        }
        if "@publish:" in claimed.key and outcome == "permanent":
            request |= {"completion_kind": "permanent_failure", "reason_code": "invalid_artifact"}
        if outcome == "success" and requeue and "@publish:" not in claimed.key:
            request["requeue_latest"] = True
        answer = self.harness.call("complete_lease", request)
        assert not (claimed.withdrawn and answer["status"] == 200)
        if answer["status"] != 200:
            assert answer["status"] == 409
            return
        if not answer["value"]["requeued"]:
            if self.harness.queue.items.get(claimed.key) is None:
                self.model.open_keys.discard(claimed.key)
                self.model.ended[claimed.key] = outcome
            if outcome == "permanent" and "@publish:" in claimed.key:
                parked = self.harness.queue.items.get(claimed.key)
                letters = self.harness.queue.dead_letters.open_ids()
                assert parked is not None or any(letter.startswith(claimed.key) for letter in letters)
        # not idempotent: the lease is gone
        assert self.harness.call("complete_lease", request)["status"] == 409

    @precondition(lambda self: self.model.claims)
    @rule(data=st.data(), text=st.sampled_from(["# one\n", "# two\n"]))
    def publish_directly(self, data: st.DataObject, text: str) -> None:
        claimed = data.draw(st.sampled_from(self.model.claims[-6:]))
        number = int(claimed.key.partition("#")[2].partition("@")[0])
        request = plan(number, claimed.key, claimed.revision, claimed.generation, text)
        answer = self.harness.call("publish_directly", request)
        if answer["status"] != 202:
            return
        receipt = (claimed.key, claimed.revision)
        commit = answer["value"]["state_commit_sha"]
        assert not (claimed.withdrawn and answer["value"]["accepted"])
        assert self.model.receipts.setdefault(receipt, commit) == commit

    @rule(key=st.sampled_from(["k-1", "k-2"]))
    def replay_dead_letters(self, key: str) -> None:
        ids = self.harness.queue.dead_letters.open_ids()[:3]
        if ids:
            self.harness.ok("replay_dead_letters", {"ids": ids, "idempotency_key": key})
            for found in ids:
                item = found.rpartition("@revision:")[0]
                if self.harness.queue.items.get(item) is not None:
                    self.model.open_keys.add(item)

    @rule()
    def resolve_dead_letters(self) -> None:
        ids = self.harness.queue.dead_letters.open_ids()[:1]
        if ids:
            self.harness.ok("resolve_dead_letters", {"ids": ids, "note": "n"})

    @invariant()
    def nothing_accepted_disappears(self) -> None:
        if not hasattr(self, "harness"):
            return
        queue = self.harness.queue
        for key in self.model.open_keys:
            letters = queue.dead_letters.open_ids()
            assert queue.items.get(key) is not None or any(letter.startswith(f"{key}@revision") for letter in letters)

    @invariant()
    def revisions_only_grow(self) -> None:
        if not hasattr(self, "harness"):
            return
        for number in (1, 2, 3):
            item = self.harness.queue.items.get(f"acme/widgets#{number}")
            if item is not None:
                assert item.revision >= self.model.revisions.get(item.key, 0)
                self.model.revisions[item.key] = item.revision

    @invariant()
    def an_item_has_one_live_holder_at_most(self) -> None:
        if not hasattr(self, "harness"):
            return
        live: dict[str, Claimed] = {}
        for claimed in self.model.claims:
            item = self.harness.queue.items.by_lease(claimed.lease_id)
            held = item is not None and item.claim_generation == claimed.generation and item.state == "leased"
            if held and item is not None and item.claimed_run_id == claimed.run:
                assert not claimed.withdrawn
                other = live.setdefault(claimed.key, claimed)
                assert (other.lease_id, other.generation) == (claimed.lease_id, claimed.generation)

    @invariant()
    def counts_are_true(self) -> None:
        if not hasattr(self, "harness"):
            return
        rows = self.harness.storage.sql.exec(
            "SELECT lane, state, count(*) AS n FROM exact_review_queue_items GROUP BY lane, state"
        )
        counted = {(row["lane"], row["state"]): row["n"] for row in rows}
        assert {key: n for key, n in self.harness.queue.items.counts().items() if n} == counted

    @invariant()
    def repositories_show_their_true_counts_and_heads(self) -> None:
        if not hasattr(self, "harness"):
            return
        sql = self.harness.storage.sql
        kept = sql.exec(
            "SELECT lane, target_repo, pending, dispatching, leased, parked, head_due_at, head_created_at"
            " FROM exact_review_queue_targets ORDER BY lane, target_repo"
        ).toArray()
        true = sql.exec(
            "SELECT lane, target_repo, count(*) FILTER (WHERE state = 'pending') AS pending,"
            " count(*) FILTER (WHERE state = 'dispatching') AS dispatching,"
            " count(*) FILTER (WHERE state = 'leased') AS leased, count(*) FILTER (WHERE state = 'parked') AS parked"
            " FROM exact_review_queue_items GROUP BY lane, target_repo ORDER BY lane, target_repo"
        ).toArray()
        for row in true:
            head = sql.exec(
                "SELECT due_at, created_at FROM exact_review_queue_items WHERE lane = ? AND target_repo = ?"
                " AND state = 'pending' ORDER BY due_at, created_at LIMIT 1",
                row["lane"],
                row["target_repo"],
            ).toArray()
            row["head_due_at"] = head[0]["due_at"] if head else None
            row["head_created_at"] = head[0]["created_at"] if head else None
        assert kept == true

    @invariant()
    def an_open_plan_is_somebodys(self) -> None:
        if not hasattr(self, "harness"):
            return
        rows = self.harness.storage.sql.exec(
            "SELECT fence_key, revision FROM exact_review_lifecycle_projection_v1 WHERE terminal_at IS NULL"
        ).toArray()
        for row in rows:
            item = self.harness.queue.items.get(row["fence_key"])
            carried = [] if item is None else [(found.fence_key, found.revision) for found in plans_of(item)]
            assert (row["fence_key"], row["revision"]) in carried

    @invariant()
    def receipts_never_change(self) -> None:
        if not hasattr(self, "harness"):
            return
        rows = self.harness.storage.sql.exec(
            "SELECT item_key, revision, commit_sha FROM exact_review_direct_publication_plans"
            " WHERE state = 'published'"
        )
        for row in rows:
            known = self.model.receipts.get((row["item_key"], row["revision"]))
            assert known is None or known == row["commit_sha"]


TestReviewQueue = ReviewQueueMachine.TestCase
TestReviewQueue.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
