"""Random lives of a session: whatever failed on the way, a run without faults leaves no outdated result."""

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.clients.sessions.errors import SessionFailure
from moorage.clients.sessions.runner import Runner
from moorage.clients.sessions.stages import Stage, StageContext, outputs_intact
from moorage.clients.sessions.store import LocalStore
from moorage.protocols.sessions import Pipeline, PrefixRefused, Projection, Result, Skip, StageSpec, Status, parse
from moorage.protocols.sessions.fingerprints import fingerprint

PIPELINE = Pipeline(
    [
        StageSpec("a"),
        StageSpec("b", ("a",)),
        StageSpec("c", ("a",)),
        StageSpec("d", ("b", "c")),
        StageSpec("e", ("d",)),
    ]
)
NAMES = PIPELINE.order
DEPENDS = {spec.name: spec.depends_on for spec in PIPELINE.stages}


@dataclass(frozen=True)
class Step:
    """One invocation: what was changed before it, what goes wrong in it, and how it was asked."""

    changed: tuple[str, ...]
    removed: tuple[str, ...]
    outcomes: dict[str, str]
    broken_save: int
    first: str
    last: str
    force: tuple[str, ...]


def some(names: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(names, max_size=2, unique=True).map(tuple)


STEPS = st.builds(
    Step,
    changed=some(st.sampled_from(NAMES)),
    removed=some(st.sampled_from(NAMES)),
    outcomes=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["fail", "skip", "interrupt"]), max_size=2),
    broken_save=st.sampled_from([0, 0, 0, 1, 2, 3, 4, 5, 7]),
    first=st.sampled_from(["a", "a", "a", *NAMES]),
    last=st.sampled_from(["e", "e", *NAMES]),
    force=some(st.sampled_from(NAMES)),
)


class Life:
    """A session with five stages, whose results are made of their versions and of what they depend on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.versions = dict.fromkeys(NAMES, 0)
        self.runs = 0

    def expected(self, name: str) -> str:
        """The result of a stage, were everything made from scratch now."""
        parts = [name, str(self.versions[name]), *(self.expected(other) for other in DEPENDS[name])]
        return hashlib.sha256("/".join(parts).encode()).hexdigest()

    def _stage(self, name: str, outcomes: dict[str, str]) -> Stage:
        def run(context: StageContext) -> Result | Skip:
            how = outcomes.get(name)
            if how == "fail":
                raise SessionFailure("on purpose")
            if how == "interrupt":
                raise KeyboardInterrupt
            if how == "skip":
                return Skip("on purpose")
            parts = [name, str(self.versions[name])]
            for other in DEPENDS[name]:
                path = self.folder / other
                parts.append(path.read_text() if path.exists() else "nothing")
            (self.folder / name).write_text(hashlib.sha256("/".join(parts).encode()).hexdigest())
            return Result((context.output(name, name),))

        return Stage(name, run, lambda: fingerprint(1, self.versions[name]), outputs_intact(self.folder, name))

    def runner(self, outcomes: dict[str, str], broken_save: int = 0) -> Runner:
        self.runs += 1
        left = broken_save

        def write(path: Path, data: bytes) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise OSError(28, "No space left on device")
            path.write_bytes(data)

        store = LocalStore(self.folder / "m.json", PIPELINE, write=write)
        projection = Projection("n", "s", f"r{self.runs}")
        return Runner(self.folder, store, [self._stage(name, outcomes) for name in NAMES], projection)

    def take(self, step: Step) -> None:
        """One invocation; whatever it raises, the manifest can be read."""
        for name in step.changed:
            self.versions[name] += 1
        for name in step.removed:
            (self.folder / name).unlink(missing_ok=True)
        first, last = sorted((step.first, step.last))
        selected = PIPELINE.between(first, last)
        force = [name for name in step.force if name in selected]
        plan = self._try(lambda: self.runner({}).plan(first, last, force=force))
        before = self._bytes()
        runner = self.runner(step.outcomes, step.broken_save)
        refused = self._try(lambda: runner.run(first, last, force=force))
        if isinstance(plan, PrefixRefused):
            assert isinstance(refused, PrefixRefused)
            assert self._bytes() == before
            return
        data = self._bytes()
        if data is not None:
            manifest = parse(data, PIPELINE)
            assert all(record.status in Status for record in manifest.stages.values())
        if not step.outcomes and not step.broken_save:
            assert refused is None
            assert isinstance(plan, list)
            planned = [row.decision.action.value for row in plan]
            done = ["reuse" if report.action == "reused" else "run" for report in runner.reports]
            assert self._foreseen(planned, done), (planned, done)

    @staticmethod
    def _foreseen(planned: list[str], done: list[str]) -> bool:
        """A plan is what happened, unless a stage that skipped itself before succeeded now and made others run."""
        return all(one == other or (one, other) == ("reuse", "run") for one, other in zip(planned, done, strict=True))

    def _bytes(self) -> bytes | None:
        path = self.folder / "m.json"
        return path.read_bytes() if path.exists() else None

    @staticmethod
    def _try(work: Callable[[], object]) -> object:
        """What `work` gives when that is a plan; the refusal behind its failure, or None."""
        try:
            found = work()
        except SessionFailure as error:
            return error.__cause__ or error
        is_plan = isinstance(found, list) and found and hasattr(found[0], "decision")
        return found if is_plan else None


@given(st.lists(STEPS, max_size=6))
@settings(max_examples=40, deadline=None)
def test_a_run_without_faults_ends_up_to_date(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder))
        for step in steps:
            life.take(step)
        life.runner({}).run()
        for name in NAMES:
            assert (life.folder / name).read_text() == life.expected(name), name
        # and again: nothing is left to do
        runner = life.runner({})
        runner.run()
        assert {report.action for report in runner.reports} == {"reused"}


def test_the_model_notices_outdated_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself can fail: without the staleness of dependents a result is outdated."""
    from moorage.protocols.sessions import lifecycle

    life = Life(tmp_path)
    life.runner({}).run()
    life.versions["a"] += 1
    with monkeypatch.context() as patch:
        patch.setattr(lifecycle, "invalidate", lambda manifest, stages: manifest)
        life.runner({}).run()
    assert (tmp_path / "a").read_text() == life.expected("a")
    assert (tmp_path / "e").read_text() != life.expected("e")
