"""Random lives of comment versions against a model of spec state-plane-protocol 6.

Admission in any order of edits, verification, deferral, stages, ends, weeks that pass, crashes. After every step
receipts, watermarks and waiting versions are those of the model: a version is worked off once, an older edit never
comes after a newer one, and what ended stays as it ended.
"""

from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import UNSET

from moorage.durable_objects.objects.intake import CommandIntakeStore
from moorage.protocols.intake.versions import CommandIntake, parse_intake
from tests.objects.sqlite_storage import Storage
from tests.objects.test_command_stages import intake

NOW = 1_796_048_000_000
MONTH = 30 * 24 * 60 * 60 * 1000
TIMES = ("2026-08-12T16:25:26Z", "2026-08-12T16:25:27Z", "2026-08-12T16:30:00Z")
VERSIONS = {
    (comment, time, digest): parse_intake(intake(comment, TIMES[time], digest * 64))
    for comment in (9001, 9002)
    for time in range(len(TIMES))
    for digest in "ab"
}
STAGES = ("verify_pending", "enqueue_pending", "effects_pending")


@dataclass
class Waiting:
    """A version that is being worked off."""

    intake: CommandIntake
    stage: str = STAGES[0]
    attempts: int = 0
    at: int = NOW


class IntakeMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.storage = Storage()
        self.store = CommandIntakeStore(self.storage)
        self.now = NOW
        self.receipts: dict[str, tuple[str, str | None, int]] = {}
        self.marks: dict[str, tuple[int, str]] = {}
        self.waiting: dict[str, Waiting] = {}

    def teardown(self) -> None:
        if hasattr(self, "storage"):
            self.storage.close()

    def _supersede(self, by: CommandIntake, detail: str) -> None:
        for version, held in list(self.waiting.items()):
            if held.intake.comment_key == by.comment_key and version != by.command_version_id:
                del self.waiting[version]
                self.receipts[version] = ("superseded", detail, self.now)

    @rule(which=st.sampled_from(sorted(VERSIONS)))
    def admit(self, which: tuple[int, int, str]) -> None:
        given = VERSIONS[which]
        version, key = given.command_version_id, given.comment_key
        receipt, mark = self.receipts.get(version), self.marks.get(key)
        expected: dict[str, Any] = {"accepted": True, "deduped": receipt is not None}
        if receipt is not None:
            if receipt[0] in {"rejected", "superseded"}:
                expected = {"accepted": False, "reason": receipt[1]}
        elif mark is not None and mark[0] > given.updated_at:
            expected = {"accepted": False, "reason": "older comment version"}
            self.receipts[version] = ("rejected", "older_comment_version", self.now)
        elif mark == (given.updated_at, version):
            expected = {"accepted": False, "reason": "semantic command version already observed"}
            self.receipts[version] = ("rejected", "already_observed", self.now)
        else:
            if mark is None or mark[0] < given.updated_at:
                self._supersede(given, "newer_comment_version")
                self.marks[key] = (given.updated_at, version)
            self.receipts[version] = ("pending", None, self.now)
            self.waiting[version] = Waiting(given, at=self.now)
        assert self.store.admit_intake(given, self.now) == {**expected, "commandVersionId": version}

    def _drawn(self, data: st.DataObject) -> tuple[str, Waiting]:
        version = data.draw(st.sampled_from(sorted(self.waiting)))
        return version, self.waiting[version]

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def verify(self, data: st.DataObject) -> None:
        version, held = self._drawn(data)
        record = self.store.get(version)
        assert record is not None
        current = self.marks[held.intake.comment_key][0] == held.intake.updated_at
        assert current, "an older edit waits beside a newer one"
        assert self.store.mark_verified(record, self.now) is True
        self._supersede(held.intake, "verified_sibling_version")
        self.marks[held.intake.comment_key] = (held.intake.updated_at, version)
        self.store.advance(version, "enqueue_pending", self.now, held.intake.decision)
        self.waiting[version] = Waiting(held.intake, "enqueue_pending", 0, self.now)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def enqueued(self, data: st.DataObject) -> None:
        version, held = self._drawn(data)
        if held.stage == "enqueue_pending":
            self.store.advance(version, "effects_pending", self.now, held.intake.decision)
            self.waiting[version] = Waiting(held.intake, "effects_pending", 0, self.now)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), back=st.booleans(), demanded=st.sampled_from([None, 0, 60_000, 10**9]))
    def fails(self, data: st.DataObject, back: bool, demanded: int | None) -> None:
        version, held = self._drawn(data)
        record = self.store.get(version)
        assert record is not None
        held.attempts += 1
        wait = min(15_000 * 2 ** (held.attempts - 1), 900_000)
        if back:
            self.store.retry_verification(record, self.now, "again")
            held.stage = STAGES[0]
        else:
            self.store.defer(record, self.now, "again", None if demanded is None else self.now + demanded)
            wait = min(max(wait, demanded or 0), 900_000)
        held.at = self.now + wait
        self.receipts[version] = ("pending", "again", self.receipts[version][2])

    @precondition(lambda self: self.waiting)
    @rule(data=st.data(), outcome=st.sampled_from(["completed", "rejected"]))
    def ends(self, data: st.DataObject, outcome: str) -> None:
        version, _ = self._drawn(data)
        del self.waiting[version]
        self.receipts[version] = (outcome, "d", self.now)
        self.store.finish(version, outcome, self.now, "d")  # type: ignore[arg-type]

    @rule(which=st.sampled_from(sorted(VERSIONS)))
    def ends_again(self, which: tuple[int, int, str]) -> None:
        version = VERSIONS[which].command_version_id
        if version not in self.waiting:
            # a late worker: a terminal receipt is never changed, an unknown one never made
            self.store.finish(version, "completed", self.now, "late")

    @rule(wait=st.sampled_from([1, 15_000, 900_000, MONTH - 1, MONTH]))
    def time_passes(self, wait: int) -> None:
        self.now += wait
        self.store.prune_terminal_receipts(self.now)
        for version, (outcome, _, at) in list(self.receipts.items()):
            if outcome != "pending" and at <= self.now - MONTH:
                del self.receipts[version]

    @rule()
    def crash(self) -> None:
        self.store = CommandIntakeStore(self.storage)

    @invariant()
    def receipts_are_those_of_the_model(self) -> None:
        if hasattr(self, "storage"):
            rows = self.storage.sql.exec(
                "SELECT command_version_id, outcome, detail, observed_at FROM exact_review_command_receipts"
            )
            found = {row["command_version_id"]: (row["outcome"], row["detail"], row["observed_at"]) for row in rows}
            assert found == self.receipts

    @invariant()
    def what_waits_is_what_the_model_has(self) -> None:
        if hasattr(self, "storage"):
            due = sorted((held.at, version) for version, held in self.waiting.items())
            assert self.store.next_attempt_at() == (due[0][0] if due else None)
            ready = [version for at, version in due if at <= self.now]
            records = self.store.due(self.now)
            assert [record.intake.command_version_id for record in records] == ready[:16]
            for version, held in self.waiting.items():
                record = self.store.get(version)
                assert record is not None
                assert (record.stage, record.attempts) == (held.stage, held.attempts)
                assert self.store.is_current(record)
                # a verified decision lasts as long as its verification
                assert (record.verified_decision is UNSET) is (held.stage == STAGES[0])

    @invariant()
    def watermarks_only_rise(self) -> None:
        if hasattr(self, "storage"):
            for key, mark in self.marks.items():
                found = self.store.watermark(key)
                assert found is not None
                assert (found.updated_at, found.version_id) == mark


TestIntake = IntakeMachine.TestCase
TestIntake.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
