"""`moorage.session.toml`: which session a folder holds, its stages as commands, and where it is published.

Unknown members are refused. Nothing of the file but names, and the digest of the whole, enters a manifest.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct

from moorage.protocols.sessions import NARRATIO, Pipeline, Projection, SessionError, StageSpec
from moorage.protocols.sessions.commits import Place, sha256
from moorage.protocols.sessions.documents import DERIVED_FROM_PARTY, Configuration
from moorage.protocols.sessions.identities import check_segment, path_fault, prefix_fault, shared_prefix
from moorage.protocols.sessions.shared import DEFAULT_TTL_SECONDS, MAX_TTL_SECONDS
from moorage.protocols.sessions.strict_json import canonical

from ..errors import ConfigurationError
from .commands import Declared
from .stages import Prepared
from .store import MANIFEST_NAME, PUBLISH_LOCK_NAME

CONFIG_NAME = "moorage.session.toml"
LEDGER_FILES = frozenset({CONFIG_NAME, MANIFEST_NAME, f"{MANIFEST_NAME}.lock", PUBLISH_LOCK_NAME})
"""Files of a session's folder that no clean-up may name: its configuration, its ledger, and their locks."""

Positive = Annotated[int, Meta(ge=1)]


class Table(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Base: an unknown member is an error."""


class ArtifactTable(Table, frozen=True):
    """`[stages.analyze.artifacts.KEY]`. `reads`: outputs `stage/id` that its result depends on; all of the direct
    predecessors unless given.
    """

    command: str | tuple[str, ...]
    output: str
    depends_on: tuple[str, ...] = ()
    reads: tuple[str, ...] | None = None
    source_id: str | None = None
    contract: dict[str, Any] = {}
    semantics: dict[str, Any] = {}
    semantics_version: Positive = 1
    family: str | None = None
    character_id: str | None = None
    timeout: float | None = None


class StageTable(Table, frozen=True):
    """`[stages.NAME]`. `semantics`: what the result depends on and nothing else; without it there is no evidence."""

    command: str | tuple[str, ...] | None = None
    call: str | None = None
    skip: str | None = None
    outputs: tuple[Declared, ...] = ()
    semantics: dict[str, Any] | None = None
    semantics_version: Positive = 1
    validate: str | tuple[str, ...] | None = None
    timeout: float | None = None
    environ: dict[str, str] = {}
    artifacts: dict[str, ArtifactTable] = {}
    cleanup: tuple[str, ...] = ()
    include_inputs: bool = False


class InputTable(Table, frozen=True):
    """`[inputs.ID]`. `derived_from_party`: for `players`, made by the inputs stage from the party."""

    path: str
    source: str | None = None
    derived_from_party: bool = False


class RemoteTable(Table, frozen=True):
    """`[remote]`: a bucket (`file`, `s3`, `moto`, `memory`), or a state plane (`worker`)."""

    kind: Literal["file", "s3", "memory", "moto", "worker"]
    bucket: str | None = None
    state_folder: str | None = None
    prefix: str | None = None
    url: str | None = None
    lease_seconds: Annotated[int, Meta(ge=1, le=MAX_TTL_SECONDS)] = DEFAULT_TTL_SECONDS


class StageSpecTable(Table, frozen=True):
    """One row of `[[pipeline.stages]]`."""

    name: str
    depends_on: tuple[str, ...] = ()
    reuse: str = "aggregate semantic fingerprint"
    owners: tuple[str, ...] = ()
    validates: bool = False


class PipelineTable(Table, frozen=True):
    """`[pipeline]`: other stages than the default ones."""

    stages: tuple[StageSpecTable, ...]
    inputs_stage: str | None = None
    artifact_stage: str | None = None
    publish_stage: str | None = None


class Settings(Table, frozen=True):
    """The whole file."""

    campaign: str
    session_id: str
    spool: str | None = None
    stages: dict[str, StageTable] = {}
    inputs: dict[str, InputTable] = {}
    remote: RemoteTable | None = None
    pipeline: PipelineTable | None = None
    profiles: dict[str, dict[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class Session:
    """A resolved configuration: the session in `folder`, configured by the file at `path`."""

    folder: Path
    settings: Settings
    pipeline: Pipeline
    configuration: Configuration
    path: Path

    @property
    def place(self) -> Place:
        """Where it is published, by name; the prefix is the state plane's unless another is configured."""
        settings, remote = self.settings, self.settings.remote
        prefix = remote.prefix if remote is not None and remote.prefix is not None else None
        return Place(
            campaign=settings.campaign,
            session_id=settings.session_id,
            prefix=prefix or shared_prefix(settings.campaign, settings.session_id),
        )

    @property
    def roots(self) -> dict[str, Path]:
        """The roots that clean-up may work below."""
        found = {"workdir": self.folder}
        if self.settings.spool is not None:
            found["spool"] = self.folder / self.settings.spool
        return found

    def projection(self, run_id: str) -> Projection:
        """Identity, paths and prefixes of one invocation, all from the resolved configuration."""
        settings, remote = self.settings, self.settings.remote
        spool = self.roots.get("spool")
        return Projection(
            campaign=settings.campaign,
            session_id=settings.session_id,
            run_id=run_id,
            local_workdir=str(self.folder),
            local_spool_dir=UNSET if spool is None else str(spool),
            s3_bucket=UNSET if remote is None or remote.bucket is None else remote.bucket,
            s3_session_prefix=UNSET if remote is None else self.place.prefix,
            configuration=self.configuration,
        )

    @property
    def prepared(self) -> list[Prepared]:
        """The inputs that the inputs stage records."""
        return [
            Prepared(name, DERIVED_FROM_PARTY if entry.derived_from_party else entry.source or name, entry.path)
            for name, entry in self.settings.inputs.items()
        ]


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with the members of `over`; tables are merged, everything else is replaced."""
    value = dict(base)
    for name, entry in over.items():
        known = value.get(name)
        value[name] = merged(known, entry) if isinstance(known, dict) and isinstance(entry, dict) else entry
    return value


def load(folder: Path, path: Path | None = None, profile: str | None = None) -> Session:
    """The session in `folder`, configured by `path` (`moorage.session.toml` in it unless given).

    `profile`: the table `[profiles.NAME]` is laid over the rest. Raises ConfigurationError that names the member.
    """
    path = path or folder / CONFIG_NAME
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigurationError(f"there is no {path}: a session is configured there") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    profiles = raw.get("profiles", {})
    if profile is not None:
        if not isinstance(profiles, dict) or not isinstance(profiles.get(profile), dict):
            raise ConfigurationError(f"{path}: there is no profile {profile!r}")
        raw = merged({name: entry for name, entry in raw.items() if name != "profiles"}, profiles[profile])
    try:
        settings = msgspec.convert(raw, Settings)
        digest = sha256(canonical({name: entry for name, entry in raw.items() if name != "profiles"}))
        configuration = Configuration(
            profile=profile, profile_source="default" if profile is None else "cli", digest=digest
        )
        pipeline = _pipeline(settings.pipeline)
        _check(settings, pipeline)
    except (msgspec.ValidationError, SessionError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{path}: {error}") from None
    return Session(Path(folder).absolute(), settings, pipeline, configuration, path)


def _pipeline(table: PipelineTable | None) -> Pipeline:
    if table is None:
        return NARRATIO
    rows = [StageSpec(row.name, row.depends_on, row.reuse, row.owners, row.validates) for row in table.stages]
    return Pipeline(
        rows,
        inputs_stage=table.inputs_stage,
        artifact_stage=table.artifact_stage,
        publish_stage=table.publish_stage,
    )


def _check(settings: Settings, pipeline: Pipeline) -> None:
    check_segment("campaign", settings.campaign)
    check_segment("session_id", settings.session_id)
    for name, stage in settings.stages.items():
        pipeline.check(name)
        where = f"stages.{name}"
        if stage.artifacts and name != pipeline.artifact_stage:
            raise ConfigurationError(f"{where}.artifacts: only the artifact stage has them")
        if (stage.cleanup or stage.include_inputs) and (name != pipeline.publish_stage or stage.command is not None):
            raise ConfigurationError(f"{where}: cleanup and include_inputs belong to the built-in publish stage")
        if stage.call is not None and not _is_callable_name(stage.call):
            raise ConfigurationError(f"{where}.call: {stage.call!r} is not module:function")
        if stage.command is None and (stage.timeout is not None or stage.environ):
            raise ConfigurationError(f"{where}: timeout and environ belong to a command")
        given = [what for what, there in _ways(stage) if there]
        if len(given) > 1:
            raise ConfigurationError(f"{where}: {' and '.join(given)} exclude each other")
        for target in stage.cleanup:
            root, _, path = target.partition("/")
            fault = path_fault(path)
            if root not in ("workdir", "spool") or fault is not None:
                raise ConfigurationError(f"{where}.cleanup: {target!r} is not workdir/<path> or spool/<path>")
            if root == "spool" and settings.spool is None:
                raise ConfigurationError(f"{where}.cleanup: {target!r} needs `spool`, the folder")
            if root == "workdir" and path in LEDGER_FILES:
                raise ConfigurationError(f"{where}.cleanup: {target!r} belongs to the session itself and stays")
    for name, entry in settings.inputs.items():
        fault = path_fault(entry.path)
        if fault is not None:
            raise ConfigurationError(f"inputs.{name}.path: {fault}")
        derived = entry.derived_from_party or entry.source == DERIVED_FROM_PARTY
        if derived and (name != "players" or "party" not in settings.inputs):
            raise ConfigurationError(f"inputs.{name}: only `players` is derived from the party, which must be there")
        if entry.derived_from_party and entry.source is not None:
            raise ConfigurationError(f"inputs.{name}: source and derived_from_party exclude each other")
    _check_remote(settings.remote)


def _is_callable_name(text: str) -> bool:
    module, colon, name = text.rpartition(":")
    return bool(colon) and name.isidentifier() and all(part.isidentifier() for part in module.split("."))


def _ways(stage: StageTable) -> tuple[tuple[str, bool], ...]:
    return (
        ("command", stage.command is not None),
        ("call", stage.call is not None),
        ("skip", stage.skip is not None),
        ("artifacts", bool(stage.artifacts)),
    )


def _check_remote(remote: RemoteTable | None) -> None:
    if remote is None:
        return
    if remote.kind == "worker":
        if remote.prefix is not None or remote.bucket is not None:
            raise ConfigurationError("remote: a state plane has its own bucket and prefix")
        return
    if remote.bucket is None:
        raise ConfigurationError("remote.bucket: the name of the bucket is needed")
    if remote.prefix is not None and (fault := prefix_fault(remote.prefix)) is not None:
        raise ConfigurationError(f"remote.prefix: {fault}")
