"""The live queue's admission: its bounds hold whatever happens, and nothing is lost or started twice."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from moorage.protocols.ledger import admission
from moorage.protocols.ledger.admission import Admission, RejectReason, Step


class AdmissionMachine(RuleBasedStateMachine):
    """Drives an `Admission` beside a plain model of who waits, who is active and who is over."""

    labels = Bundle("labels")

    def __init__(self) -> None:
        super().__init__()
        self.admission: Admission[str, int] = Admission()
        self.count = 0
        self.root: dict[int, str] = {}
        self.waiting: dict[int, None] = {}
        self.active: set[int] = set()
        self.late: set[int] = set()

    def apply(self, step: Step[int]) -> None:
        for label in step.started:
            assert label not in self.active
            assert not any(
                self.root[other] == self.root[label] and other < label for other in self.waiting if other != label
            ), "first come, first served within a root"
            self.waiting.pop(label, None)
            self.active.add(label)
        for label, _ in step.rejected:
            assert label not in self.active
            self.waiting.pop(label, None)

    @rule(target=labels, root=st.sampled_from("ABCDEFGH"))
    def enqueue(self, root: str) -> int:
        self.count += 1
        label = self.count
        self.root[label] = root
        step = self.admission.enqueue(root, label)
        if label not in step.started and not step.rejected:
            self.waiting[label] = None
        self.apply(step)
        return label

    @rule(label=consumes(labels))
    def settle(self, label: int) -> None:
        if label in self.active:
            self.active.discard(label)
            self.late.discard(label)
            self.apply(self.admission.settled(label))

    @rule(label=labels)
    def time_out(self, label: int) -> None:
        if label in self.active:
            self.late.add(label)
            self.apply(self.admission.timed_out(label))

    @rule(label=labels)
    def expire(self, label: int) -> None:
        step = self.admission.expired(label)
        assert step.rejected == (((label, RejectReason.expired),) if label in self.waiting else ())
        self.apply(step)

    @rule(root=st.sampled_from("ABCDEFGH"))
    def drain(self, root: str) -> None:
        others = {label for label in self.waiting if self.root[label] != root}
        self.apply(self.admission.drained(root))
        assert set(self.waiting) == others

    @invariant()
    def bounds_hold(self) -> None:
        assert len(self.active) <= admission.MAX_ACTIVE
        assert not self.waiting or len(self.active) == admission.MAX_ACTIVE
        for root in "ABCDEFGH":
            mine = [label for label in self.waiting if self.root[label] == root]
            assert self.admission.waiting(root) == len(mine) <= admission.MAX_ROOT_QUEUED
            assert self.admission.active(root) == sum(self.root[label] == root for label in self.active)
        assert self.admission.total_waiting == len(self.waiting)


AdmissionMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=60)
TestAdmission = AdmissionMachine.TestCase


def test_when_all_slots_are_late_their_roots_fail_and_others_wait() -> None:
    queue: Admission[str, str] = Admission()
    for label in ("a1", "a2", "a3", "a4"):
        assert queue.enqueue("A", label).started == (label,)
    queue.enqueue("A", "a5")
    queue.enqueue("B", "b1")
    for label in ("a1", "a2", "a3"):
        assert queue.timed_out(label) == Step()
    assert queue.timed_out("a4").rejected == (("a5", RejectReason.slots_unresolved),)
    assert queue.enqueue("A", "a6").rejected == (("a6", RejectReason.slots_unresolved),)
    assert queue.settled("a2").started == ("b1",)
    assert queue.enqueue("A", "a7") == Step()


def test_the_process_waits_for_at_most_256() -> None:
    queue: Admission[str, int] = Admission()
    rejected = [reason for label in range(4 + 257) for _, reason in queue.enqueue(f"R{label // 60}", label).rejected]
    assert rejected == [RejectReason.queue_full]
