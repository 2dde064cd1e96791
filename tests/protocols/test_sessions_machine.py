"""The stage machine: no sequence of operations leaves the table, and terminal means terminal."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import UNSET
from msgspec.structs import replace

from moorage.protocols.sessions import (
    NARRATIO,
    Event,
    Pipeline,
    PrefixRefused,
    Projection,
    Result,
    ResultRefused,
    SessionError,
    SessionManifest,
    Skip,
    StageSpec,
    Status,
    TransitionRefused,
    encode,
    parse,
)
from moorage.protocols.sessions import lifecycle as rules
from moorage.protocols.sessions.decisions import (
    Action,
    Evidence,
    Stales,
    Validation,
    asks_validator,
    check_prefix,
    decide,
)
from moorage.protocols.sessions.documents import Artifact, check
from moorage.protocols.sessions.fingerprints import fingerprint
from moorage.protocols.sessions.states import TERMINAL, TRANSITIONS, after

NOW = "2026-11-30T12:00:00.000Z"
PRINT = fingerprint(1, {"a": 1})
OUTPUT = Artifact(id="o", path="o.txt", sha256="0" * 64, size=1)
RESULT = Result((OUTPUT,), ("l.log",), ("c.toml",), {"m": 1})
STAGES = st.sampled_from(NARRATIO.order)


def fresh() -> SessionManifest:
    return rules.started(None, Projection("north", "s01", "r1"), NARRATIO, NOW)


def with_status(manifest: SessionManifest, stage: str, status: Status) -> SessionManifest:
    return rules.with_record(manifest, replace(manifest.stages[stage], status=status))


EVENTS: dict[Event, Any] = {
    Event.BEGIN: lambda m, s: rules.begin(m, NARRATIO, s, NOW),
    Event.SUCCEED: lambda m, s: rules.succeed(m, NARRATIO, s, RESULT, NOW, evidence=PRINT),
    Event.FAIL: lambda m, s: rules.fail(m, NARRATIO, s, "broke", NOW),
    Event.SKIP: lambda m, s: rules.skip(m, NARRATIO, s, Skip("no need", metadata={"k": 1}), NOW, evidence=PRINT),
    Event.INTERRUPT: lambda m, s: rules.interrupt(m, NARRATIO, s, "stopped", NOW),
}


class Machine(RuleBasedStateMachine):
    """Every operation on every stage, in any order; refused ones change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.manifest = fresh()

    @rule(stage=STAGES, event=st.sampled_from(sorted(EVENTS, key=lambda event: event.name)))
    def happens(self, stage: str, event: Event) -> None:
        before = self.manifest
        allowed = TRANSITIONS.get((event, before.stages[stage].status))
        if allowed is None:
            with pytest.raises(TransitionRefused):
                EVENTS[event](before, stage)
            return
        self.manifest = EVENTS[event](before, stage)
        assert self.manifest.stages[stage].status is allowed
        self._others(before, stage, event)

    def _others(self, before: SessionManifest, stage: str, event: Event) -> None:
        dependents = NARRATIO.dependents(stage)
        stales = event is Event.SUCCEED or (event is Event.FAIL and stage == "analyze")
        for name, record in before.stages.items():
            if name == stage:
                continue
            found = self.manifest.stages[name]
            if stales and name in dependents and record.status is Status.SUCCEEDED:
                # nothing but the state changes: details stay for validation and diagnosis
                assert found == replace(record, status=Status.STALE)
            else:
                assert found == record

    @rule(stages=st.lists(STAGES))
    def invalidated(self, stages: list[str]) -> None:
        before = self.manifest
        self.manifest = rules.invalidate(before, stages)
        for name, record in before.stages.items():
            if name in stages and record.status is Status.SUCCEEDED:
                assert self.manifest.stages[name] == replace(record, status=Status.STALE)
            else:
                assert self.manifest.stages[name] == record

    @rule(stage=STAGES, force=st.booleans(), evidence=st.sampled_from([None, PRINT, fingerprint(2, {})]))
    def considered(self, stage: str, force: bool, evidence: Any) -> None:
        before, data = self.manifest, encode(self.manifest)
        first = rules.consider(
            before, NARRATIO, stage, force=force, evidence=evidence, validator=lambda manifest: True
        )
        again = rules.consider(
            before, NARRATIO, stage, force=force, evidence=evidence, validator=lambda manifest: True
        )
        assert first == again
        assert encode(before) == data, "considering changes nothing"
        self.manifest = first[1]

    @precondition(lambda self: any(r.status in TERMINAL for r in self.manifest.stages.values()))
    @rule()
    def terminal_is_terminal(self) -> None:
        for name, record in self.manifest.stages.items():
            if record.status in TERMINAL:
                for event in (Event.SUCCEED, Event.FAIL, Event.SKIP, Event.INTERRUPT):
                    with pytest.raises(TransitionRefused):
                        EVENTS[event](self.manifest, name)

    @invariant()
    def is_whole(self) -> None:
        check(self.manifest, NARRATIO)
        assert parse(encode(self.manifest)) == self.manifest

    @invariant()
    def payloads_belong_to_success(self) -> None:
        for record in self.manifest.stages.values():
            if record.status in (Status.RUNNING, Status.FAILED, Status.INTERRUPTED):
                assert record.outputs == ()
                assert record.semantic_fingerprint is UNSET
                assert record.metadata is UNSET
                assert record.logs == record.generated_configs == ()
            if record.status is Status.SKIPPED:
                assert record.outputs == ()
                assert record.semantic_fingerprint is not UNSET


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


def test_the_table_of_transitions_has_every_way_and_no_other() -> None:
    allowed = {(event, status) for event, status in TRANSITIONS}
    for event in Event:
        for status in (None, *Status):
            if (event, status) in allowed:
                assert after(event, status) in Status
            else:
                with pytest.raises(TransitionRefused):
                    after(event, status)
    assert {status for event, status in allowed if event is Event.INVALIDATE} == {Status.SUCCEEDED}
    assert {status for event, status in allowed if event is Event.SUCCEED} == {Status.RUNNING}


@pytest.mark.parametrize("status", [None, *Status])
@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("evidence", list(Evidence))
@pytest.mark.parametrize("validation", list(Validation))
def test_the_decision(status: Status | None, force: bool, evidence: Evidence, validation: Validation) -> None:
    """Spec session-manifest 7, row by row."""
    found = decide(status, force=force, evidence=evidence, validation=validation)
    if status is not Status.SUCCEEDED:
        assert (found.action, found.stales) == (Action.RUN, Stales.NOTHING)
        assert not asks_validator(status, force=force, evidence=evidence)
    elif force:
        assert (found.action, found.stales, found.dependents_on_success) == (Action.RUN, Stales.NOTHING, True)
        assert not asks_validator(status, force=force, evidence=evidence)
    elif evidence is Evidence.MISMATCH:
        assert (found.action, found.stales) == (Action.RUN, Stales.SELF_AND_DEPENDENTS)
        assert not asks_validator(status, force=force, evidence=evidence)
    else:
        assert asks_validator(status, force=force, evidence=evidence)
        rejected = validation is Validation.REJECT
        assert found.action is (Action.RUN if rejected else Action.REUSE)
        assert found.stales is (Stales.SELF if rejected else Stales.NOTHING)
    assert found.reason


@given(st.dictionaries(STAGES, st.sampled_from(list(Status))), STAGES)
def test_the_prefix(statuses: dict[str, Status], first: str) -> None:
    wrong = [
        name
        for name in NARRATIO.order[: NARRATIO.order.index(first)]
        if statuses.get(name) not in (Status.SUCCEEDED, Status.SKIPPED)
    ]
    if not wrong:
        check_prefix(NARRATIO, first, statuses)
        return
    with pytest.raises(PrefixRefused) as refused:
        check_prefix(NARRATIO, first, statuses)
    status = statuses.get(wrong[0])
    assert (refused.value.stage, refused.value.status) == (wrong[0], None if status is None else status.value)


DELIVERY = ("analyze", "publish", "notify")


def test_dependents_are_those_of_the_table_in_canonical_order() -> None:
    order = ["prepare", "transcribe", "merge", "polish", "normalize", "trim", "render", "extract", *DELIVERY]
    assert list(NARRATIO.order) == order
    for name in order[:6]:
        assert list(NARRATIO.dependents(name)) == order[order.index(name) + 1 :]
    assert NARRATIO.dependents("render") == NARRATIO.dependents("extract") == DELIVERY
    assert NARRATIO.dependents("analyze") == ("publish", "notify")
    assert NARRATIO.dependents("publish") == ("notify",)
    assert NARRATIO.dependents("notify") == ()


def test_force_of_render_and_extract_never_stales_the_other() -> None:
    done = fresh()
    for name in NARRATIO.order:
        done = with_status(done, name, Status.SUCCEEDED)
    for name, other in (("render", "extract"), ("extract", "render")):
        rerun = rules.succeed(rules.begin(done, NARRATIO, name, NOW), NARRATIO, name, Result(), NOW)
        assert rerun.stages[other].status is Status.SUCCEEDED
        assert [n for n, r in rerun.stages.items() if r.status is Status.STALE] == list(DELIVERY)


def test_only_succeeded_dependents_become_stale() -> None:
    manifest = fresh()
    states = [Status.SUCCEEDED, Status.FAILED, Status.SKIPPED, Status.INTERRUPTED, Status.STALE, Status.PENDING]
    for name, status in zip(NARRATIO.order[1:], states, strict=False):
        manifest = with_status(manifest, name, status)
    rerun = rules.succeed(rules.begin(manifest, NARRATIO, "prepare", NOW), NARRATIO, "prepare", Result(), NOW)
    found = [rerun.stages[name].status for name in NARRATIO.order[1:7]]
    assert found == [Status.STALE, *states[1:]]


def test_a_pipeline_of_ones_own() -> None:
    own = Pipeline([StageSpec("a"), StageSpec("b", ("a",)), StageSpec("c", ("a",))], artifact_stage="c")
    assert own.dependents("a") == ("b", "c")
    assert own.dependents("b") == ()
    manifest = rules.started(None, Projection("n", "s", "r"), own, NOW)
    assert manifest.stages["c"].analyze_artifacts == {}
    assert parse(encode(manifest), own) == manifest
    for rows in ([StageSpec("b", ("a",)), StageSpec("a")], [StageSpec("a"), StageSpec("a")], []):
        with pytest.raises(SessionError):
            Pipeline(rows)
    with pytest.raises(SessionError, match="no stage"):
        Pipeline([StageSpec("a")], publish_stage="x")
    with pytest.raises(SessionError, match="before"):
        NARRATIO.between("trim", "merge")
    assert NARRATIO.between("trim", "render") == ("trim", "render")


def test_results_that_cannot_be_recorded_are_refused() -> None:
    running = rules.begin(fresh(), NARRATIO, "merge", NOW)
    for result in (
        Result((OUTPUT, replace(OUTPUT, id="p"))),
        Result((OUTPUT, replace(OUTPUT, path="p.txt"))),
        Result((replace(OUTPUT, path="../o"),)),
        Result(logs=("/abs",)),
        Result(metadata={"x": "y" * 70_000}),
        Result(metadata={"x": float("nan")}),
        Result(metadata={"x": object()}),
    ):
        with pytest.raises(ResultRefused):
            rules.succeed(running, NARRATIO, "merge", result, NOW)
    with pytest.raises(ResultRefused, match="reason"):
        rules.skip(running, NARRATIO, "merge", Skip("  "), NOW)


@given(st.text(max_size=3000))
def test_a_reason_is_bounded_and_can_be_saved(text: str) -> None:
    running = rules.begin(fresh(), NARRATIO, "merge", NOW)
    failed = rules.fail(running, NARRATIO, "merge", text, NOW)
    assert len(str(failed.stages["merge"].reason)) <= 2000
    assert parse(encode(failed)) == failed


def test_identity_must_agree_and_the_projection_is_refreshed() -> None:
    manifest = fresh()
    for other in (Projection("south", "s01", "r2"), Projection("north", "S01", "r2")):
        with pytest.raises(SessionError, match="folder"):
            rules.started(manifest, other, NARRATIO, NOW)
    projection = Projection("north", "s01", "r2", local_workdir="/w", s3_bucket="b", s3_session_prefix="p/q")
    again = rules.started(manifest, projection, NARRATIO, "2027-01-01T00:00:00Z")
    assert (again.run_id, again.local_workdir, again.s3_run_prefix) == ("r2", "/w", "p/q/runs/r2")
    assert (again.stages, again.created_at) == (manifest.stages, NOW)
    # what is not configured any more is not kept
    assert rules.started(again, Projection("north", "s01", "r3"), NARRATIO, NOW).s3_bucket is UNSET
