"""Plans and runs the stages of a session (seed, "Execution Semantics"; spec session-manifest 5 to 7).

The rules are `moorage.protocols.sessions`; here is their order: semantic evidence, resume validation, the shared
decision, its invalidations saved, the attempt recorded, the stage called, its end recorded, and only then the next.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from moorage.protocols.sessions import PrefixRefused, Projection, SessionError, SessionManifest, Status
from moorage.protocols.sessions import lifecycle as rules
from moorage.protocols.sessions.artifacts import check_collection
from moorage.protocols.sessions.decisions import Action, Decision, check_prefix
from moorage.protocols.sessions.documents import AnalyzeArtifact, Fingerprint, Input
from moorage.protocols.sessions.identities import segment_fault
from moorage.protocols.sessions.lifecycle import Result, Skip

from .errors import Interrupted, Refused, SaveFailed, SessionFailure, StageFailed, describe
from .files import digest, inside
from .signals import held_back
from .stages import Prepared, Report, Returned, Stage, StageContext
from .store import LocalStore

RUNS = "runs"


@dataclass(frozen=True, slots=True)
class Planned:
    """What would be done with one stage: the shared decision."""

    stage: str
    decision: Decision


class Runner:
    """One session in `folder`.

    `stages`: what to call, by name; every selected stage must be there. `projection`: derived from the configuration
    for this invocation. `inputs`: recorded when the inputs stage succeeds. `say` hears of progress, line by line.
    """

    def __init__(
        self,
        folder: Path,
        store: LocalStore,
        stages: Iterable[Stage],
        projection: Projection,
        *,
        inputs: Sequence[Prepared] = (),
        say: Callable[[str], None] = lambda line: None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = folder
        self.store = store
        self.pipeline = store.pipeline
        self.stages = {stage.name: stage for stage in stages}
        self.projection = projection
        self.inputs = inputs
        self._say = say
        self._monotonic = monotonic
        self._now = store.now
        self._live: SessionManifest | None = None
        self._retry: Mapping[str, AnalyzeArtifact] | None = None
        self.reports: list[Report] = []

    @property
    def manifest(self) -> SessionManifest:
        """The live manifest of the invocation."""
        if self._live is None:
            raise RuntimeError("no invocation has begun")
        return self._live

    def _selected(self, first: str | None, last: str | None) -> tuple[str, ...]:
        """The stages of a request, each with something to call. Raises before anything is made."""
        with _refusals():
            names = self.pipeline.between(first, last)
        missing = [name for name in names if name not in self.stages]
        if missing:
            raise SessionFailure(f"stage {missing[0]} is selected and nothing is configured to run it")
        return names

    def _begin_with(self, names: Sequence[str], *, bounded: bool) -> SessionManifest | None:
        """The stored manifest, when it agrees on identity and its excluded prefix is complete. Writes nothing."""
        with _refusals():
            stored = self.store.load()
            if stored is not None:
                rules.check_agrees(stored, self.projection)
            if bounded:
                check_prefix(self.pipeline, names[0], {} if stored is None else stored.statuses())
        return stored

    def plan(
        self, first: str | None = None, last: str | None = None, *, force: Collection[str] = ()
    ) -> list[Planned]:
        """The decision for each selected stage, on a clone, if every stage that runs succeeds, or skips as before.

        Saves nothing.

        Raises Refused as `run` does.
        """
        names = self._selected(first, last)
        stored = self._begin_with(names, bounded=True)
        with _refusals():
            clone = rules.started(stored, self.projection, self.pipeline, self._now())
        found = []
        for name in names:
            stage = self.stages[name]
            try:
                evidence = stage.evidence() if stage.evidence is not None else None
                decision, clone = self._consider(clone, stage, name in force, evidence)
            except (SessionError, OSError) as error:
                raise Refused(f"stage {name}: {describe(error)}") from error
            found.append(Planned(name, decision))
            if decision.action is Action.RUN:
                clone = self._foreseen(clone, name, decision)
        return found

    def _foreseen(self, manifest: SessionManifest, name: str, decision: Decision) -> SessionManifest:
        """What planning takes for granted of a stage that runs, so that later decisions are those of a run: that it
        succeeds, or skips itself as it did before.
        """
        record = manifest.stages.get(name)
        if record is None or record.status is Status.SKIPPED:
            return manifest
        manifest = rules.with_record(manifest, replace(record, status=Status.SUCCEEDED))
        return (
            rules.invalidate(manifest, self.pipeline.dependents(name)) if decision.dependents_on_success else manifest
        )

    def _consider(
        self, manifest: SessionManifest, stage: Stage, force: bool, evidence: Fingerprint | None
    ) -> tuple[Decision, SessionManifest]:
        return rules.consider(
            manifest, self.pipeline, stage.name, force=force, evidence=evidence, validator=stage.validator
        )

    def run(self, first: str | None = None, last: str | None = None, *, force: Collection[str] = ()) -> list[Report]:
        """Runs the selected stages, from `first` to `last`, those in `force` whatever is recorded.

        Raises Refused before anything is made, Busy, StageFailed, Interrupted, SaveFailed.
        """
        self.reports = []
        names = self._selected(first, last)
        self._begin_with(names, bounded=True)
        with self.store.invocation():
            # another invocation may have ended since
            stored = self._begin_with(names, bounded=True)
            with _refusals():
                self._live = rules.started(stored, self.projection, self.pipeline, self._now())
            self._save(self._live)
            run_folder = self.folder / RUNS / self.projection.run_id
            try:
                (run_folder / "logs").mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SessionFailure(f"the folder of the run cannot be made: {error}") from error
            for number, name in enumerate(names, 1):
                self._stage(name, f"[{number}/{len(names)}] {name}", name in force, run_folder)
        return self.reports

    def _save(self, manifest: SessionManifest) -> SessionManifest:
        self._live = self.store.save(manifest)
        return self._live

    def _stage(self, name: str, title: str, force: bool, run_folder: Path) -> None:
        """One stage, from its evidence to its saved end."""
        stage = self.stages[name]
        began = self._monotonic()
        self._retry = None
        try:
            evidence = stage.evidence() if stage.evidence is not None else None
            decision, considered = self._consider(self.manifest, stage, force, evidence)
            if considered is not self.manifest:
                self._save(considered)
            if decision.action is Action.REUSE:
                self._report(Report(name, "reused", decision.reason), title)
                return
            self._say(f"{title}: {decision.reason}")
            self._save(rules.begin(self.manifest, self.pipeline, name, self._now()))
            returned = stage.run(self._context(name, run_folder))
            self._finish(name, returned, evidence, decision)
        except KeyboardInterrupt as error:
            interrupted = self._interrupted(name, error)
            if interrupted.stage is not None and interrupted.saving is None:
                self._report(Report(name, "interrupted", seconds=self._monotonic() - began), title)
            raise interrupted from None
        except Exception as error:
            self._report(Report(name, "failed", describe(error), self._monotonic() - began), title)
            raise self._failed(name, error) from error
        record = self.manifest.stages[name]
        reason = record.reason if isinstance(record.reason, str) else ""
        self._report(Report(name, record.status.value, reason, self._monotonic() - began), title)

    def _report(self, report: Report, title: str) -> None:
        self.reports.append(report)
        took = "" if report.action == "reused" else f" in {report.seconds:.1f} s"
        self._say(f"{title} {report.action}{took}{f': {report.reason}' if report.reason else ''}")

    def _context(self, name: str, run_folder: Path) -> StageContext:
        log_path = f"{RUNS}/{self.projection.run_id}/logs/{name}.log"
        (self.folder / log_path).touch()
        return StageContext(
            stage=name,
            run_id=self.projection.run_id,
            folder=self.folder,
            run_folder=run_folder,
            log_path=log_path,
            manifest=self.manifest,
            now=self._now,
            say=lambda line: self._say(f"  {line}"),
            checkpoint=lambda records: self._checkpoint(name, records),
            install=self._install,
            save=self._save,
        )

    def _checkpoint(self, name: str, records: Mapping[str, AnalyzeArtifact]) -> SessionManifest:
        """Saves a detached manifest with the candidate collection; the live one changes only when that succeeded."""
        if name != self.pipeline.artifact_stage:
            raise SessionFailure(f"stage {name} owns no artifact records")
        check_collection(records)
        record = replace(self.manifest.stages[name], analyze_artifacts=dict(records))
        return self._save(rules.with_record(self.manifest, record))

    def _install(self, records: Mapping[str, AnalyzeArtifact]) -> None:
        check_collection(records)
        self._retry = dict(records)

    def _finish(self, name: str, returned: Returned, evidence: Fingerprint | None, decision: Decision) -> None:
        log_path = f"{RUNS}/{self.projection.run_id}/logs/{name}.log"
        outcome: Result | Skip = Result() if returned is None else returned
        if not isinstance(outcome, Result | Skip):
            raise SessionFailure(f"a stage returns a Result, a Skip or None, not {type(outcome).__name__}")
        logs = tuple(dict.fromkeys((*outcome.logs, log_path)))
        now, manifest = self._now(), self.manifest
        if isinstance(outcome, Skip):
            skipped = Skip(outcome.reason, logs, outcome.generated_configs, outcome.metadata)
            self._save(rules.skip(manifest, self.pipeline, name, skipped, now, evidence=evidence))
            return
        if name == self.pipeline.inputs_stage and self.inputs:
            manifest = rules.with_inputs(manifest, self._read_inputs())
        result = Result(outcome.outputs, logs, outcome.generated_configs, outcome.metadata)
        moved = rules.succeed(
            manifest,
            self.pipeline,
            name,
            result,
            now,
            evidence=evidence,
            stale_dependents=decision.dependents_on_success,
        )
        self._save(moved)

    def _read_inputs(self) -> Iterator[Input]:
        for entry in self.inputs:
            try:
                sha256, size = digest(inside(self.folder, entry.path))
            except FileNotFoundError:
                raise SessionFailure(f"input {entry.id!r}: there is no file {entry.path}") from None
            yield Input(id=entry.id, source=entry.source, sha256=sha256, size=size, path=entry.path)

    def _running(self, name: str) -> SessionManifest:
        """The manifest on which an attempt's end is recorded: read again after a failed save."""
        manifest: SessionManifest | None = self.manifest
        if self.store.needs_reload:
            manifest = self.store.load()
            if manifest is None:
                raise SaveFailed(f"{self.store.path} is gone")
        assert manifest is not None
        record = manifest.stages.get(name)
        if record is None or record.status is not Status.RUNNING:
            manifest = rules.begin(manifest, self.pipeline, name, self._now())
        if self._retry is not None:
            record = replace(manifest.stages[name], analyze_artifacts=dict(self._retry))
            manifest = rules.with_record(manifest, record)
        return manifest

    def _failed(self, name: str, error: Exception) -> StageFailed:
        try:
            with held_back():
                manifest = self._running(name)
                self._save(rules.fail(manifest, self.pipeline, name, describe(error), self._now()))
        except Exception as saving:
            return StageFailed(name, error, saving)
        return StageFailed(name, error)

    def _interrupted(self, name: str, error: KeyboardInterrupt) -> Interrupted:
        """Records the cancellation, unless the stage had not begun or had already ended."""
        try:
            with held_back():
                if self.store.needs_reload:
                    self._live = self.store.load()
                record = self.manifest.stages.get(name)
                if record is None or record.status is not Status.RUNNING:
                    return Interrupted(None)
                reason = str(error) or "interrupted"
                self._save(rules.interrupt(self._running(name), self.pipeline, name, reason, self._now()))
        except Exception as saving:
            return Interrupted(name, saving)
        return Interrupted(name)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except SessionError as error:
        raise Refused(str(error)) from error
    except OSError as error:
        raise Refused(f"the session manifest cannot be read: {error}") from error


def new_run_id(now: str) -> str:
    """A run's identity: its instant and four random bytes, such as `20261130T173000Z-1f2e3d4c`."""
    digits = now.split(".")[0].rstrip("Z").replace("-", "").replace(":", "")
    run_id = f"{digits}Z-{os.urandom(4).hex()}"
    fault = segment_fault(run_id)
    if fault is not None:
        raise ValueError(f"run id {run_id!r}: {fault}")
    return run_id


__all__ = ["Planned", "PrefixRefused", "Runner", "new_run_id"]
