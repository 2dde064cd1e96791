"""Recording: replay, conflicts, receipts, recovery."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from moorage.clients.ledger.finalise import finalise
from moorage.clients.ledger.interrupt import interrupt_open_attempts
from moorage.clients.ledger.reconcile import reconcile_dispatch
from moorage.clients.ledger.recorder import record_action_event, record_phase_event
from moorage.clients.ledger.spool import read_spool
from moorage.protocols.ledger.lanes import Decision, FailedReviewDispatch, Item
from moorage.protocols.ledger.receipts import Outcome
from moorage.protocols.ledger.refusals import LedgerConflict, LedgerRefusal
from moorage.protocols.ledger.vocabulary import Phase, Reason, Status, SubjectKind

from .support import ENVIRONMENT, ISSUE, NOW_MS, Crash, real, record_item, recorder_in, tree

WRITE: dict[str, Any] = {
    "phase": Phase.apply_action,
    "identity": {"write": 1},
    "idempotency_identity": {"number": 42, "write": "close"},
    "component": "apply_lane",
    "subject": ISSUE,
}


def test_the_first_writers_clock_wins_on_replay(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path, clock=iter([NOW_MS, NOW_MS + 5000]))
    first, again = record_item(recorder, 1), record_item(recorder, 1)
    assert first == again
    assert len(read_spool(recorder.root)) == 1


def test_the_same_key_for_other_content_is_a_conflict(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    record_item(recorder, 1, retryable=False)
    before = tree(tmp_path)
    with pytest.raises(LedgerConflict, match="event-conflict"):
        record_item(recorder, 1, retryable=True)
    assert tree(tmp_path) == before


def test_enums_and_texts_are_the_same(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    one = record_item(recorder, 1, reason_code=Reason.completed, subject={**ISSUE, "kind": SubjectKind.issue})
    two = record_item(recorder, 1, reason_code="completed", phase="review.item", status="completed")
    assert one == two


def test_the_functions_record_for_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    one = record_phase_event(
        real(tmp_path),
        phase=Phase.review_item,
        status=Status.started,
        identity={"n": 1},
        component="c",
        subject=ISSUE,
        retryable=False,
        mutation=False,
    )
    two = record_action_event(
        real(tmp_path),
        scope="review.started",
        identity={"n": 1},
        type="review.started",
        component="c",
        subject=ISSUE,
        action={"name": "review", "status": Status.started, "retryable": False, "mutation": False},
    )
    assert one is not None
    assert two is not None
    assert {event.event_id for event in read_spool(recorder_in(tmp_path).root)} == {one.event_id, two.event_id}


def test_an_accepted_write_has_two_receipts(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    with recorder.mutation(**WRITE, phase_seq=3) as write:
        assert write.attempt is not None
        assert [event.event_id for event in read_spool(recorder.root)] == [write.attempt.event_id]
        write.accepted(result_count=1)
    outcome = write.recorded
    assert outcome is not None
    assert outcome.parent == write.attempt.event_id
    assert outcome.record["idempotency_key_sha256"] == write.attempt.record["idempotency_key_sha256"]
    assert outcome.record["action"] == {
        "name": "apply.action",
        "status": "completed",
        "mutation": True,
        "retryable": False,
    }
    assert outcome.record["attributes"] == {"completion_reason": "mutation_accepted", "result_count": 1}
    assert recorder.mutated


@pytest.mark.parametrize(
    ("error", "outcome", "mutation"),
    [
        (ValueError, Outcome.rejected, False),
        (TimeoutError, Outcome.unknown, True),
        (KeyboardInterrupt, Outcome.unknown, True),
    ],
)
def test_an_error_is_a_rejection_only_where_the_caller_knows(
    tmp_path: Path, error: type[BaseException], outcome: Outcome, mutation: bool
) -> None:
    recorder = recorder_in(tmp_path)
    with pytest.raises(error), recorder.mutation(**WRITE, rejected_on=(ValueError,)) as write:
        raise error
    assert write.outcome is outcome
    assert write.recorded is not None
    assert write.recorded.record["action"]["mutation"] is mutation
    assert recorder.mutated is mutation


def test_retries_share_the_effect_and_have_receipts_of_their_own(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    for number in (1, 2):
        with recorder.mutation(**{**WRITE, "identity": {"write": 1, "try": number}}, phase_seq=2 * number):
            pass
    events = read_spool(recorder.root)
    assert len(events) == 4
    assert len({event.record["idempotency_key_sha256"] for event in events}) == 1


def test_a_mutation_names_its_effect(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    with pytest.raises(LedgerRefusal, match="missing-idempotency"):
        recorder.mutation(phase=Phase.apply_action, identity={}, component="c", subject=ISSUE)


def test_a_crash_inside_a_write_is_recovered_as_a_possible_mutation(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path, clock=itertools.count(NOW_MS))
    start = record_item(recorder, 1, phase=Phase.apply_action, status=Status.started, component="apply_lane")
    context = recorder.mutation(**WRITE, phase_seq=2, parent_event_id=start.event_id)
    context.__enter__()
    # The process stops here; another one recovers.
    (receipt, item) = interrupt_open_attempts(recorder_in(tmp_path), "cancelled")
    for event in (receipt, item):
        assert event.record["action"]["mutation"] is True
        assert event.record["action"]["status"] == "cancelled"
        assert event.record["attributes"]["completion_reason"] == "mutation_outcome_unknown"
    assert interrupt_open_attempts(recorder_in(tmp_path), "cancelled") == []


def test_a_finalised_producer_takes_replays_and_nothing_new(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    recorder = recorder_in(tmp_path)
    first = record_item(recorder, 1)
    paths = finalise(recorder, real(tmp_path / "out"))
    assert record_item(recorder, 1) == first
    with pytest.raises(LedgerRefusal, match="sealed"):
        record_item(recorder, 2)
    other = recorder_in(tmp_path, CLAWSWEEPER_ACTION_LEDGER_INVOCATION="second")
    record_item(other, 2)
    assert set(paths) < set(finalise(other, real(tmp_path / "out")))


def test_nothing_is_recorded_when_it_is_off(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path, CLAWSWEEPER_ACTION_LEDGER_FORCE=None)
    with recorder.mutation(**WRITE) as write:
        pass
    assert write.attempt is None
    assert finalise(recorder, "/nowhere") == []
    assert interrupt_open_attempts(recorder) == []
    assert tree(tmp_path) == {}


def test_a_crash_exception_passes_through(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)
    with pytest.raises(Crash), recorder.mutation(**WRITE):
        raise Crash


def test_an_operators_word_opens_or_settles_a_dispatch(tmp_path: Path) -> None:
    item = Item("openclaw/openclaw", "issue", 42, "2026-07-12T09:00:00Z")
    dispatch = FailedReviewDispatch(Decision(item, "a" * 64, "b" * 64))
    recorder = recorder_in(tmp_path)
    with (
        pytest.raises(TimeoutError),
        recorder.mutation(
            phase=Phase.review_retry,
            identity={"try": 1},
            idempotency_identity=dispatch.effect_identity(),
            component="retry_lane",
            subject=item.subject(),
            dispatch=True,
        ) as write,
    ):
        raise TimeoutError
    assert write.recorded is not None
    assert not dispatch.decide(read_spool(recorder.root)).may_dispatch
    assert write.attempt is not None
    with pytest.raises(LedgerRefusal, match="not-a-receipt"):
        reconcile_dispatch(recorder, record_item(recorder, 9), present=True)
    settled = reconcile_dispatch(recorder, write.recorded, present=False)
    assert settled == reconcile_dispatch(recorder, write.recorded, present=False)
    assert dispatch.decide(read_spool(recorder.root)).may_dispatch
    with pytest.raises(LedgerConflict, match="event-conflict"):
        reconcile_dispatch(recorder, write.recorded, present=True)
