"""What happens to a session manifest: projection, stage events with their clearing, invalidation, decisions applied.

Every function takes a manifest and gives a new one (spec session-manifest 2, 6 and 7; seed, "Execution Semantics").
Times are handed in as texts.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from .decisions import Decision, Evidence, Stales, Validation, asks_validator, decide
from .documents import (
    ANALYZE_STATE_VERSION,
    MAX_METADATA_BYTES,
    MAX_REASON,
    SCHEMA_VERSION,
    AnalyzeArtifact,
    Artifact,
    Configuration,
    Fingerprint,
    Input,
    SessionManifest,
    StageRecord,
)
from .errors import IdentityDisagrees, ResultRefused
from .fingerprints import compare, stored
from .identities import check_segment, path_fault, run_prefix
from .pipeline import Pipeline
from .states import Event, Status, after
from .strict_json import canonical


@dataclass(frozen=True, slots=True)
class Projection:
    """What one invocation derives from its resolved configuration, all at once. UNSET where there is none."""

    campaign: str
    session_id: str
    run_id: str
    local_workdir: str | UnsetType = UNSET
    local_spool_dir: str | UnsetType = UNSET
    s3_bucket: str | UnsetType = UNSET
    s3_session_prefix: str | UnsetType = UNSET
    configuration: Configuration | UnsetType = UNSET

    def __post_init__(self) -> None:
        for name in ("campaign", "session_id", "run_id"):
            check_segment(name, getattr(self, name))

    @property
    def s3_run_prefix(self) -> str | UnsetType:
        """The run's prefix below the session's."""
        prefix = self.s3_session_prefix
        return UNSET if isinstance(prefix, UnsetType) else run_prefix(prefix, self.run_id)


@dataclass(frozen=True, slots=True)
class Result:
    """What a successful stage returns."""

    outputs: tuple[Artifact, ...] = ()
    logs: tuple[str, ...] = ()
    generated_configs: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Skip:
    """A self-skip with a stable reason. It has no outputs."""

    reason: str
    logs: tuple[str, ...] = ()
    generated_configs: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)


CUT: Final = " …"


def bounded(text: str, limit: int = MAX_REASON) -> str:
    """`text` cut to `limit` characters, control characters and what is no Unicode replaced."""
    clean = "".join(" " if ord(letter) < 32 or ord(letter) == 127 else letter for letter in text)
    clean = clean.encode("utf-8", "replace").decode("utf-8").strip()
    return clean if len(clean) <= limit else clean[: limit - len(CUT)] + CUT


def check_agrees(manifest: SessionManifest, projection: Projection) -> None:
    """Raises IdentityDisagrees when the manifest belongs to another campaign or session."""
    for name in ("campaign", "session_id"):
        stored_name, wanted = getattr(manifest, name), getattr(projection, name)
        if stored_name != wanted:
            raise IdentityDisagrees(
                f"the stored manifest has {name} {stored_name!r}, the configuration {wanted!r}: "
                "use the folder of that session, or another folder for this one"
            )


def started(
    manifest: SessionManifest | None, projection: Projection, pipeline: Pipeline, now: str
) -> SessionManifest:
    """The manifest of an invocation: the stored one, freshly projected, or a new one with every stage pending."""
    fresh: dict[str, Any] = {
        "run_id": projection.run_id,
        "local_workdir": projection.local_workdir,
        "local_spool_dir": projection.local_spool_dir,
        "s3_bucket": projection.s3_bucket,
        "s3_session_prefix": projection.s3_session_prefix,
        "s3_run_prefix": projection.s3_run_prefix,
        "configuration": projection.configuration,
    }
    if manifest is not None:
        check_agrees(manifest, projection)
        return replace(manifest, **fresh)
    stages = {name: _blank(name, Status.PENDING, pipeline, None) for name in pipeline.order}
    return SessionManifest(
        schema_version=SCHEMA_VERSION,
        campaign=projection.campaign,
        session_id=projection.session_id,
        stages=stages,
        created_at=now,
        updated_at=now,
        **fresh,
    )


def _blank(name: str, status: Status, pipeline: Pipeline, former: StageRecord | None) -> StageRecord:
    """A record without any result; per-artifact state survives."""
    record = StageRecord(name=name, status=status)
    if name != pipeline.artifact_stage:
        return record
    kept: dict[str, AnalyzeArtifact] = {}
    if former is not None and isinstance(former.analyze_artifacts, dict):
        kept = former.analyze_artifacts
    return replace(record, analyze_state_version=ANALYZE_STATE_VERSION, analyze_artifacts=kept)


def _moved(manifest: SessionManifest, pipeline: Pipeline, stage: str, event: Event, **fields: Any) -> SessionManifest:
    """The stage's record after `event`: cleared, but for when its attempt began and `fields`."""
    former = manifest.stages.get(pipeline.check(stage))
    status = after(event, None if former is None else former.status, stage)
    record = replace(_blank(stage, status, pipeline, former), **fields)
    if former is not None and event is not Event.BEGIN:
        record = replace(record, started_at=former.started_at)
    return with_record(manifest, record)


def with_record(manifest: SessionManifest, record: StageRecord) -> SessionManifest:
    """The manifest with one record replaced."""
    return replace(manifest, stages={**manifest.stages, record.name: record})


def begin(manifest: SessionManifest, pipeline: Pipeline, stage: str, now: str) -> SessionManifest:
    """An attempt begins: running, outputs, logs, configuration references, metadata and fingerprint cleared."""
    return _moved(manifest, pipeline, stage, Event.BEGIN, started_at=now)


def succeed(
    manifest: SessionManifest,
    pipeline: Pipeline,
    stage: str,
    result: Result,
    now: str,
    *,
    evidence: Fingerprint | None = None,
    stale_dependents: bool = True,
) -> SessionManifest:
    """Success: only what this result returned, with the present fingerprint; succeeded dependents become stale.

    Raises ResultRefused for a result that cannot be recorded.
    """
    check_details(result)
    check_outputs(result.outputs)
    moved = _moved(
        manifest,
        pipeline,
        stage,
        Event.SUCCEED,
        finished_at=now,
        outputs=result.outputs,
        **_details(result, evidence),
    )
    return invalidate(moved, pipeline.dependents(stage)) if stale_dependents else moved


def fail(manifest: SessionManifest, pipeline: Pipeline, stage: str, reason: str, now: str) -> SessionManifest:
    """Failure: cleared, the bounded reason kept. A failed artifact stage makes its succeeded dependents stale."""
    moved = _moved(manifest, pipeline, stage, Event.FAIL, finished_at=now, reason=bounded(reason))
    return invalidate(moved, pipeline.dependents(stage)) if stage == pipeline.artifact_stage else moved


def skip(
    manifest: SessionManifest,
    pipeline: Pipeline,
    stage: str,
    skipped: Skip,
    now: str,
    *,
    evidence: Fingerprint | None = None,
) -> SessionManifest:
    """A self-skip: cleared, its details, and the present fingerprint since it is a completed result."""
    check_details(skipped)
    if not skipped.reason.strip():
        raise ResultRefused("a self-skip gives a stable reason")
    return _moved(
        manifest,
        pipeline,
        stage,
        Event.SKIP,
        finished_at=now,
        reason=bounded(skipped.reason),
        **_details(skipped, evidence),
    )


def interrupt(manifest: SessionManifest, pipeline: Pipeline, stage: str, reason: str, now: str) -> SessionManifest:
    """A cancellation that was handled: cleared, no fingerprint."""
    return _moved(manifest, pipeline, stage, Event.INTERRUPT, finished_at=now, reason=bounded(reason))


def _details(result: Result | Skip, evidence: Fingerprint | None) -> dict[str, Any]:
    return {
        "logs": result.logs,
        "generated_configs": result.generated_configs,
        "metadata": result.metadata or UNSET,
        "semantic_fingerprint": UNSET if evidence is None else stored(evidence),
    }


def check_details(result: Result | Skip) -> None:
    """Raises ResultRefused for metadata that is too large or no JSON, and for paths that leave the session."""
    try:
        size = len(canonical(result.metadata))
    except (TypeError, ValueError) as error:
        raise ResultRefused(f"metadata: it cannot be written as JSON: {error}") from None
    if size > MAX_METADATA_BYTES:
        raise ResultRefused(f"metadata: {size} bytes as JSON; at most {MAX_METADATA_BYTES}")
    for member, paths in (("logs", result.logs), ("generated_configs", result.generated_configs)):
        for path in paths:
            fault = path_fault(path)
            if fault is not None:
                raise ResultRefused(f"{member}: {path[:80]!r}: {fault}")


def check_outputs(outputs: Iterable[Artifact]) -> None:
    """Raises ResultRefused for an id or path that is there twice, and for paths that leave the session."""
    ids: set[str] = set()
    paths: set[str] = set()
    for output in outputs:
        fault = path_fault(output.path)
        if fault is not None:
            raise ResultRefused(f"outputs: {output.path[:80]!r}: {fault}")
        if output.id in ids or output.path in paths:
            raise ResultRefused(f"outputs: {output.id!r} or its path {output.path!r} is there twice")
        ids.add(output.id)
        paths.add(output.path)


def invalidate(manifest: SessionManifest, stages: Iterable[str]) -> SessionManifest:
    """Makes those of `stages` that are succeeded stale, and no others; their details stay until the next attempt."""
    changed = {
        name: replace(record, status=after(Event.INVALIDATE, record.status, name))
        for name in stages
        if (record := manifest.stages.get(name)) is not None and record.status is Status.SUCCEEDED
    }
    return replace(manifest, stages={**manifest.stages, **changed}) if changed else manifest


def with_inputs(manifest: SessionManifest, inputs: Iterable[Input]) -> SessionManifest:
    """The manifest with the inputs that the inputs stage read."""
    return replace(manifest, inputs=tuple(inputs))


Validator = Callable[[SessionManifest], bool]
"""A resume validator: whether what a succeeded stage left may be used."""


def consider(
    manifest: SessionManifest,
    pipeline: Pipeline,
    stage: str,
    *,
    force: bool,
    evidence: Fingerprint | None,
    validator: Validator | None,
) -> tuple[Decision, SessionManifest]:
    """The decision before `stage` and the manifest with what it invalidates: the same for planning and execution.

    The validator is asked only where the evidence allows reuse.
    """
    record = manifest.stages.get(pipeline.check(stage))
    status = None if record is None else record.status
    seen = Evidence.NONE if record is None else compare(record.semantic_fingerprint, evidence)
    validation = Validation.NONE
    if validator is not None and asks_validator(status, force=force, evidence=seen):
        validation = Validation.ACCEPT if validator(manifest) else Validation.REJECT
    decision = decide(status, force=force, evidence=seen, validation=validation)
    if decision.stales is Stales.SELF:
        manifest = invalidate(manifest, (stage,))
    elif decision.stales is Stales.SELF_AND_DEPENDENTS:
        manifest = invalidate(manifest, (stage, *pipeline.dependents(stage)))
    return decision, manifest
