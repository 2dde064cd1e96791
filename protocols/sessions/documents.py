"""The session manifest as frozen values, and how it is read and written (spec session-manifest 4 and 5).

Names of fields, but for those that the seed gives, and the bounds are inferences of the specification.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from .errors import UnsupportedState
from .identities import check_segment, path_fault, prefix_fault
from .pipeline import NARRATIO, Pipeline
from .states import Status
from .strict_json import NotStrict, parse_object

SCHEMA_VERSION: Final = "narratio.session-manifest.v1"
ANALYZE_STATE_VERSION: Final = 1
MAX_REASON: Final = 2000
MAX_DIAGNOSTIC_PATHS: Final = 16
MAX_METADATA_BYTES: Final = 64 * 1024
DERIVED_FROM_PARTY: Final = "derived_from_party"

Sha256: TypeAlias = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$(?!\n)")]
Instant: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$(?!\n)"
    ),
]
Size: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Reason: TypeAlias = Annotated[str, Meta(max_length=MAX_REASON)]
Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=512)]


class Value(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Base: immutable, no unknown member; what is absent stays absent."""


class Configuration(Value, frozen=True):
    """Provenance of the configuration last resolved; information only. `digest`: of the effective configuration."""

    profile: str | None
    profile_source: Literal["default", "cli"]
    digest: Sha256


class Input(Value, frozen=True):
    """One input of the first stage. `source`: where it comes from, by name, or `derived_from_party`."""

    id: Text
    source: Text
    sha256: Sha256
    size: Size | UnsetType = UNSET
    path: str | UnsetType = UNSET


class Artifact(Value, frozen=True):
    """A file below the session's folder that a stage made."""

    id: Text
    path: str
    sha256: Sha256
    size: Size
    contract: dict[str, Any] | UnsetType = UNSET
    provenance: dict[str, Any] | UnsetType = UNSET


class Fingerprint(Value, frozen=True):
    """A versioned semantic fingerprint."""

    version: Positive
    sha256: Sha256


class Output(Value, frozen=True):
    """The output of a current analyze artifact; its size stands beside it."""

    source_id: Text
    path: str
    contract: dict[str, Any]
    sha256: Sha256


Disposition: TypeAlias = Literal["current", "stale", "missing", "failed", "unselected"]


class AnalyzeArtifact(Value, frozen=True):
    """One configured artifact of the artifact stage (spec session-manifest 8)."""

    key: Text
    disposition: Disposition
    depends_on: tuple[str, ...]
    run_id: str
    updated_at: Instant
    fingerprint: Fingerprint | UnsetType = UNSET
    output: Output | UnsetType = UNSET
    output_size: Positive | UnsetType = UNSET
    diagnostic: Reason | UnsetType = UNSET
    diagnostic_paths: Annotated[tuple[str, ...], Meta(max_length=MAX_DIAGNOSTIC_PATHS)] | UnsetType = UNSET
    provenance: dict[str, Any] | UnsetType = UNSET
    family: str | UnsetType = UNSET
    character_id: str | UnsetType = UNSET


class StageRecord(Value, frozen=True):
    """What is known of one stage."""

    name: str
    status: Status
    started_at: Instant | UnsetType = UNSET
    finished_at: Instant | UnsetType = UNSET
    reason: Reason | UnsetType = UNSET
    outputs: tuple[Artifact, ...] = ()
    logs: tuple[str, ...] = ()
    generated_configs: tuple[str, ...] = ()
    metadata: dict[str, Any] | UnsetType = UNSET
    semantic_fingerprint: Any = UNSET
    """As stored: malformed evidence is no evidence, but no reason to refuse the file (seed, execution semantics)."""
    analyze_state_version: int | UnsetType = UNSET
    analyze_artifacts: dict[str, AnalyzeArtifact] | UnsetType = UNSET


class CommitIdentity(Value, frozen=True):
    """One remote commit object."""

    key: str
    sha256: Sha256
    size: Positive
    generation: Text


class CleanupTarget(Value, frozen=True):
    """One file or folder that may go after a publication."""

    root: Literal["workdir", "spool"]
    path: str
    completed: bool
    completed_at: Instant | UnsetType = UNSET
    evidence: Literal["deleted", "absent"] | UnsetType = UNSET


class Cleanup(Value, frozen=True):
    """The obligation to clean up after the publication that it names."""

    run_id: str
    commit: CommitIdentity
    targets: tuple[CleanupTarget, ...]


class SessionManifest(Value, frozen=True):
    """The durable local ledger of a session's progress. Transitions give a new value; nothing is changed in place."""

    schema_version: Literal["narratio.session-manifest.v1"]
    campaign: str
    session_id: str
    run_id: str
    stages: dict[str, StageRecord]
    updated_at: Instant
    inputs: tuple[Input, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    local_workdir: str | UnsetType = UNSET
    local_spool_dir: str | UnsetType = UNSET
    s3_bucket: str | UnsetType = UNSET
    s3_session_prefix: str | UnsetType = UNSET
    s3_run_prefix: str | UnsetType = UNSET
    configuration: Configuration | UnsetType = UNSET
    post_publish_cleanup: Cleanup | UnsetType = UNSET
    created_at: Instant | UnsetType = UNSET

    def statuses(self) -> dict[str, Status]:
        """The state of every stage that has a record."""
        return {name: record.status for name, record in self.stages.items()}


def builtins(value: Any) -> Any:
    """A value as plain JSON data; the lists and maps of a manifest that may not be missing are there when empty."""
    plain = msgspec.to_builtins(value)
    if isinstance(value, SessionManifest):
        plain.setdefault("inputs", [])
        plain.setdefault("artifacts", [])
    return plain


def encode(manifest: SessionManifest) -> bytes:
    """The file: JSON with an indent of two, members in the order of the schema, one final line feed."""
    plain = builtins(manifest)
    ordered = {name: plain[name] for name in _ORDER if name in plain}
    return msgspec.json.format(msgspec.json.encode(ordered), indent=2) + b"\n"


_ORDER: Final = (
    "schema_version", "campaign", "session_id", "run_id", "local_workdir", "local_spool_dir", "s3_bucket",
    "s3_session_prefix", "s3_run_prefix", "configuration", "inputs", "artifacts", "stages", "post_publish_cleanup",
    "created_at", "updated_at",
)  # fmt: skip
_LISTS: Final = ("outputs", "logs", "generated_configs")


def parse(data: bytes, pipeline: Pipeline = NARRATIO) -> SessionManifest:
    """The manifest in `data`. Raises UnsupportedState, or IdentityRefused for an unsafe identity.

    Nothing is invented: the one normalisation is that an absent or null list becomes an empty one.
    """
    try:
        value = parse_object(data)
    except NotStrict as error:
        raise UnsupportedState("the file", str(error)) from None
    version = value.get("schema_version")
    if version != SCHEMA_VERSION:
        found = "it is missing" if version is None else f"it is {str(version)[:80]!r}"
        raise UnsupportedState("schema_version", f"{found}; this program knows {SCHEMA_VERSION!r} alone")
    for name in ("campaign", "session_id", "run_id"):
        if not isinstance(value.get(name), str):
            raise UnsupportedState(name, "it must be a text")
        check_segment(name, value[name])
    _check_stage_map(value.get("stages"), pipeline)
    for name in ("inputs", "artifacts"):
        if value.get(name) is None:
            value[name] = []
    try:
        manifest = msgspec.convert(value, SessionManifest)
    except msgspec.ValidationError as error:
        raise UnsupportedState("a member", str(error)) from None
    check(manifest, pipeline)
    return manifest


def _check_stage_map(stages: Any, pipeline: Pipeline) -> None:
    if not isinstance(stages, dict):
        raise UnsupportedState("stages", "it is missing, null or no map")
    for name, record in stages.items():
        where = f"stages.{name[:80]}"
        if name not in pipeline.order:
            raise UnsupportedState(where, f"there is no such stage; there are {', '.join(pipeline.order)}")
        if not isinstance(record, dict):
            raise UnsupportedState(where, "it is null or no map")
        if record.get("name") != name:
            raise UnsupportedState(f"{where}.name", f"it is {str(record.get('name'))[:80]!r} and not {name!r}")
        for member in _LISTS:
            if member in record and record[member] is None:
                record[member] = []
        _check_marker(where, record, name == pipeline.artifact_stage)


def _check_marker(where: str, record: Mapping[str, Any], owns: bool) -> None:
    for member in ("analyze_state_version", "analyze_artifacts"):
        if not owns and member in record:
            raise UnsupportedState(f"{where}.{member}", "only the artifact stage carries it")
    if not owns:
        return
    version = record.get("analyze_state_version")
    if type(version) is not int or version != ANALYZE_STATE_VERSION:
        raise UnsupportedState(
            f"{where}.analyze_state_version", f"it is {version!r} and must be {ANALYZE_STATE_VERSION}"
        )
    if not isinstance(record.get("analyze_artifacts"), dict):
        raise UnsupportedState(f"{where}.analyze_artifacts", "it is missing, null or no map")


def check(manifest: SessionManifest, pipeline: Pipeline) -> None:
    """What types alone cannot say. Raises UnsupportedState or IdentityRefused; used on load and before every save."""
    from .artifacts import check_collection
    from .errors import CollectionRefused

    for name in ("campaign", "session_id", "run_id"):
        check_segment(name, getattr(manifest, name))
    for name in ("s3_session_prefix", "s3_run_prefix"):
        prefix = getattr(manifest, name)
        if prefix is not UNSET:
            _path(name, prefix, prefix_fault)
    _check_inputs(manifest.inputs)
    for index, artifact in enumerate(manifest.artifacts):
        _path(f"artifacts[{index}].path", artifact.path)
    if set(manifest.stages) - set(pipeline.order):
        raise UnsupportedState("stages", "there is an unknown stage")
    for name, record in manifest.stages.items():
        where = f"stages.{name}"
        if record.name != name:
            raise UnsupportedState(f"{where}.name", f"it is {record.name!r}")
        owns = name == pipeline.artifact_stage
        if owns != (record.analyze_artifacts is not UNSET) or owns != (record.analyze_state_version is not UNSET):
            raise UnsupportedState(where, "per-artifact state belongs to the artifact stage, which always carries it")
        for index, output in enumerate(record.outputs):
            _path(f"{where}.outputs[{index}].path", output.path)
        for member in ("logs", "generated_configs"):
            for path in getattr(record, member):
                _path(f"{where}.{member}", path)
        if record.analyze_artifacts is not UNSET:
            try:
                check_collection(record.analyze_artifacts)
            except CollectionRefused as error:
                raise UnsupportedState(f"{where}.analyze_artifacts", str(error)) from None
    if manifest.post_publish_cleanup is not UNSET:
        _check_cleanup(manifest.post_publish_cleanup)


def _path(where: str, text: str, fault_of: Callable[[str], str | None] = path_fault) -> None:
    fault = fault_of(text)
    if fault is not None:
        raise UnsupportedState(where, f"{text[:80]!r}: {fault}")


def _check_inputs(inputs: tuple[Input, ...]) -> None:
    ids = [record.id for record in inputs]
    if len(set(ids)) != len(ids):
        raise UnsupportedState("inputs", "an id is there twice")
    for record in inputs:
        if record.path is not UNSET:
            _path(f"inputs.{record.id}.path", record.path)
        if record.source == DERIVED_FROM_PARTY and (record.id != "players" or "party" not in ids):
            raise UnsupportedState(
                f"inputs.{record.id}.source", f"{DERIVED_FROM_PARTY!r} is for `players` beside a `party` record"
            )


def _check_cleanup(cleanup: Cleanup) -> None:
    where = "post_publish_cleanup"
    check_segment(f"{where}.run_id", cleanup.run_id)
    _path(f"{where}.commit.key", cleanup.commit.key)
    for index, target in enumerate(cleanup.targets):
        at = f"{where}.targets[{index}]"
        _path(f"{at}.path", target.path)
        given = (target.evidence is not UNSET, target.completed_at is not UNSET)
        if given != (target.completed, target.completed):
            raise UnsupportedState(at, "a completed target carries evidence and its time, another one neither")
