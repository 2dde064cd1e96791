"""What a stage is to the runner: something to call, its semantic evidence, and its resume validator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from moorage.protocols.sessions.documents import AnalyzeArtifact, Artifact, Fingerprint, SessionManifest
from moorage.protocols.sessions.lifecycle import Result, Skip

from .files import is_intact, measured

Returned: TypeAlias = Result | Skip | None


@dataclass(slots=True)
class StageContext:
    """What a stage is given.

    `folder`: the session's. `run_folder`: this run's own, below it. `log_path`: the stage's log, below `folder`.
    `manifest`: the live manifest. `say` reports progress to a person.
    """

    stage: str
    run_id: str
    folder: Path
    run_folder: Path
    log_path: str
    manifest: SessionManifest
    now: Callable[[], str]
    say: Callable[[str], None]
    checkpoint: Callable[[Mapping[str, AnalyzeArtifact]], SessionManifest]
    """Saves a candidate collection, and only then makes it the live one (artifact stage only). Raises SaveFailed."""
    install: Callable[[Mapping[str, AnalyzeArtifact]], None]
    """Hands over the retry collection before an artifact stage raises."""
    save: Callable[[SessionManifest], SessionManifest]
    """Saves a manifest and makes it the live one (clean-up obligations). Raises SaveFailed."""

    def log(self, text: str) -> None:
        """Adds lines to the stage's log."""
        with open(self.folder / self.log_path, "a", encoding="utf-8") as file:
            file.write(text.rstrip("\n") + "\n")

    def output(self, identifier: str, path: str, contract: Mapping[str, Any] | None = None) -> Artifact:
        """The record of a file below the session's folder. SessionFailure when it is not there."""
        return measured(self.folder, identifier, path, contract)


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage.

    `run` returns a Result, a Skip, or None for a result without details; whatever it raises is its failure.
    `evidence` gives the fingerprint of its resolved semantics. `validator` says whether what it left may be reused.
    """

    name: str
    run: Callable[[StageContext], Returned]
    evidence: Callable[[], Fingerprint | None] | None = None
    validator: Callable[[SessionManifest], bool] | None = None


def outputs_intact(folder: Path, stage: str) -> Callable[[SessionManifest], bool]:
    """A validator: every recorded output of the stage is on disk, byte for byte."""

    def validate(manifest: SessionManifest) -> bool:
        record = manifest.stages.get(stage)
        return record is not None and all(
            is_intact(folder, output.path, output.sha256, output.size) for output in record.outputs
        )

    return validate


@dataclass(frozen=True, slots=True)
class Prepared:
    """An input that the inputs stage records on success.

    `path` below the session's folder; its bytes are hashed, never kept. `source`: the name of where it comes from.
    """

    id: str
    source: str
    path: str


@dataclass(frozen=True, slots=True)
class Report:
    """What an invocation did with one stage: `action` is `reused`, or the state that its attempt ended in."""

    stage: str
    action: str
    reason: str = ""
    seconds: float = field(default=0.0, compare=False)
