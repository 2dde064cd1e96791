"""No sequence of verbs leads a job outside the table of transitions, and terminal means terminal."""

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from moorage.protocols.jobs.errors import Refused
from moorage.protocols.jobs.states import ACTIVE, TERMINAL, TRANSITIONS, Status, Trigger

from ..support.jobs_memory import EXTENSIONS, MemoryQueue

CLEAN = {"confidence": 0.5, "safety": {"injectionDetected": False, "contentQuality": "clean"}}
FLAGGED = {"confidence": 0.5, "safety": {"injectionDetected": True, "contentQuality": "malformed"}}
FINDING = {"type": "vague", "severity": "warn", "message": "m"}
REPORTS = st.sampled_from(
    [
        json.dumps(CLEAN),
        json.dumps({**FLAGGED, "findings": [FINDING, FINDING]}),
        json.dumps({**CLEAN, "findings": [FINDING]}),
        json.dumps({**CLEAN, "whatItCovers": "x"}),
        json.dumps({**CLEAN, "tags": ["one"]}),
        json.dumps({**CLEAN, "resolved": [{"id": 1, "state": "fixed", "by": "fixer", "note": "n"}]}),
        "{}",
        "no json",
    ]
)
NAMES = st.sampled_from([extension.id for extension in EXTENSIONS])
NODES = st.sampled_from(["a.md", "b.md", None])

# Claim and the missing content happen in one call, so their composition is seen from outside as well.
STEPS = {(source, rule.to, rule.reason) for rule in TRANSITIONS.values() for source in rule.sources} | {
    (Status.QUEUED, Status.FAILED, TRANSITIONS[Trigger.CONTENT_MISSING].reason)
}


class Queue(RuleBasedStateMachine):
    """Verbs in any order, right and wrong, on a clock that moves."""

    jobs: Bundle[dict[str, Any]] = Bundle("jobs")
    claimed: Bundle[dict[str, Any]] = Bundle("claimed")

    def __init__(self) -> None:
        super().__init__()
        self.queue = MemoryQueue()
        self.seen: dict[str, dict[str, Any]] = {}
        self.executions: list[dict[str, Any]] = []
        self.pruning = False

    def teardown(self) -> None:
        self.queue.close()

    def snapshot(self) -> list[Any]:
        return [self.queue.rows(table) for table in ("state_jobs", "state_executions", "state_findings")]

    def call(self, verb: str, body: dict[str, Any]) -> Any:
        """The answer, None for a refusal. A refusal changed nothing, but for the two that close a job as failed."""
        before = self.snapshot()
        refused = None
        try:
            return self.queue.call(verb, body)
        except Refused as error:
            refused = error.code
        if refused not in ("report-invalid", "job-file-missing"):
            assert self.snapshot() == before, f"{verb} refused with {refused} and changed something"
        return None

    @initialize(target=claimed)
    def begin(self) -> Any:
        """Every kind of job is running, with its fixer's finding in place, so that all rules have something to do."""
        self.queue.call("submit", {"extension": "fx/probe", "node": "a.md"})
        first = self.queue.call("claim", {})["job"]
        report = json.dumps({**CLEAN, "findings": [FINDING, FINDING]})
        self.queue.call("record", {**first, "status": "completed", "report": report})
        for name in ("fx/brief", "fx/digest", "fx/tagger", "fx/mend", "fx/probe"):
            self.queue.call("submit", {"extension": name, "node": "a.md", "ttl": 60, "autoFix": True})
        return multiple(*(self.queue.call("claim", {})["job"] for _ in range(5)))

    @rule(
        target=jobs,
        name=st.sampled_from(["fx/brief", "fx/digest", "fx/probe"]),
        node=st.sampled_from(["a.md", "b.md"]),
        ttl=st.sampled_from([None, 1, 60]),
    )
    def submit_plain(self, name: str, node: str, ttl: int | None) -> Any:
        answer = self.call("submit", {"extension": name, "node": node, "ttl": ttl, "autoFix": True})
        return multiple() if answer is None else answer["job"]

    @rule(
        target=jobs,
        name=NAMES,
        node=NODES,
        ttl=st.sampled_from([None, 0, 1, 60]),
        priority=st.integers(-2, 2),
        force=st.booleans(),
        chain=st.booleans(),
        findings=st.sampled_from([None, [1], [2, 1], [9]]),
    )
    def submit(self, name: str, node: str | None, **flags: Any) -> Any:
        body = {"extension": name, "node": node, "ttl": flags["ttl"], "priority": flags["priority"]}
        body |= {"force": flags["force"], "autoFix": flags["chain"], "findingIds": flags["findings"]}
        answer = self.call("submit", body)
        return multiple() if answer is None else answer["job"]

    @rule(name=NAMES)
    def submit_all(self, name: str) -> None:
        self.call("submit", {"extension": name, "all": True})

    @rule(target=claimed, name=st.none() | st.none() | NAMES)
    def claim(self, name: str | None) -> Any:
        queued = [row for row in self.queue.rows("state_jobs") if row["status"] == "queued"]
        wanted = [row for row in queued if name is None or row["extension_id"] == name]
        answer = self.call("claim", {"filter": name})
        if answer is not None and answer["job"] is not None:
            best = min(wanted, key=lambda row: (-row["priority"], row["created_at"], row["id"]))
            assert answer["job"]["id"] == best["id"]
            return answer["job"]
        if answer is not None:
            assert wanted == []
        return multiple()

    @rule(job=claimed, report=REPORTS, status=st.sampled_from(["completed", "completed", "failed"]))
    def record(self, job: dict[str, Any], report: str, status: str) -> None:
        self.call("record", {"id": job["id"], "nonce": job["nonce"], "status": status, "report": report})

    @rule(job=claimed, verb=st.sampled_from(["cancel", "fail"]))
    def close_claimed(self, job: dict[str, Any], verb: str) -> None:
        self.call(verb, {"id": job["id"]})

    @rule(job=jobs | claimed, report=REPORTS, status=st.sampled_from(["completed", "failed"]))
    def record_wrongly(self, job: dict[str, Any], report: str, status: str) -> None:
        body = {"id": job["id"], "nonce": "0" * 32, "status": status, "report": report}
        assert self.call("record", body) is None

    @rule(job=jobs, verb=st.sampled_from(["cancel", "fail"]))
    def close(self, job: dict[str, Any], verb: str) -> None:
        self.call(verb, {"id": job["id"]})

    @rule(verb=st.sampled_from(["cancel", "fail"]))
    def close_all(self, verb: str) -> None:
        self.call(verb, {"all": True})
        assert not [row for row in self.queue.rows("state_jobs") if row["status"] in ACTIVE]

    @rule(key=st.sampled_from(["fx", "fx/brief", "fx/probe"]), verb=st.sampled_from(["disable", "enable"]))
    def toggle(self, key: str, verb: str) -> None:
        self.call(verb, {"key": key})

    @rule(milliseconds=st.sampled_from([0, 1, 999, 1_001, 61_000, 3_000_000_000]))
    def wait(self, milliseconds: int) -> None:
        self.queue.now += milliseconds

    @rule(job=consumes(jobs))
    def lose_the_content(self, job: dict[str, Any]) -> None:
        self.queue.connection.execute("DELETE FROM state_job_contents WHERE content_hash = ?", (job["contentHash"],))

    @rule(
        path=st.sampled_from(["a.md", "b.md"]), text=st.sampled_from(["Body a.", "Other.", None]), scan=st.booleans()
    )
    def edit(self, path: str, text: str | None, scan: bool) -> None:
        if text is None:
            self.queue.bodies.pop(path, None)
        else:
            self.queue.bodies[path] = text
        if scan:
            self.queue.scan()

    @rule()
    def prune(self) -> None:
        self.pruning = True
        self.call("prune", {})

    @invariant()
    def every_move_is_in_the_table(self) -> None:
        now = {row["id"]: row for row in self.queue.rows("state_jobs")}
        for identifier, old in self.seen.items():
            new = now.get(identifier)
            if new is None:
                assert self.pruning
                assert old["status"] in TERMINAL
                continue
            if old["status"] in TERMINAL:
                assert new == old
                continue
            assert new["status"] == old["status"] or self.reachable(old["status"], new)
            frozen = ("extension_id", "extension_version", "extension_kind", "node_id", "content_hash", "nonce")
            assert [new[name] for name in frozen] == [old[name] for name in frozen]
            assert (new["priority"], new["ttl_seconds"], new["created_at"]) == (
                old["priority"], old["ttl_seconds"], old["created_at"],
            )  # fmt: skip
        self.seen = now
        self.pruning = False

    @staticmethod
    def reachable(old: str, new: dict[str, Any]) -> bool:
        return (Status(old), Status(new["status"]), new["failure_reason"]) in STEPS

    @invariant()
    def rows_are_possible(self) -> None:
        live: set[tuple[str, str, str]] = set()
        for row in self.queue.rows("state_jobs"):
            assert (row["failure_reason"] is not None) == (row["status"] == "failed")
            assert (row["finished_at"] is not None) == (row["status"] in TERMINAL)
            claimed = row["claimed_at"] is not None
            assert (row["runner"] is not None) == claimed
            if row["status"] == "running":
                assert claimed
                armed = row["ttl_seconds"] is not None
                assert row["expires_at"] == (row["claimed_at"] + row["ttl_seconds"] * 1000 if armed else None)
            if row["status"] in ACTIVE:
                key = (row["extension_id"], row["node_id"], row["content_hash"])
                assert key not in live
                live.add(key)

    @invariant()
    def history_only_grows(self) -> None:
        rows = self.queue.execute_all("state_executions")
        assert rows[: len(self.executions)] == self.executions
        self.executions = rows

    @invariant()
    def nobody_else_sees_a_nonce(self) -> None:
        public = [self.queue.call("list", {}), self.queue.call("history", {"report": True}), self.queue.log]
        public += [row["envelope_json"] for row in self.queue.rows("state_events")]
        text = json.dumps(public)
        for row in self.queue.rows("state_jobs"):
            assert row["nonce"] not in text


Queue.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestQueue = Queue.TestCase
