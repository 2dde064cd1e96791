"""From a resolved configuration to stages, and to the store of commits."""

import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, cast

from msgspec.structs import replace

from moorage.protocols.sessions import SessionManifest
from moorage.protocols.sessions.artifacts import Configuration, Configured, normalized_key
from moorage.protocols.sessions.documents import Fingerprint
from moorage.protocols.sessions.fingerprints import fingerprint
from moorage.protocols.sessions.lifecycle import Result, Skip

from ..errors import ConfigurationError
from .analyze import ArtifactStage, Make
from .commands import CommandStage, arguments, run_command
from .errors import CommandFailed, SessionFailure
from .files import digest, inside, measured
from .objects import BucketObjects, Objects
from .publish_stage import PublishStage
from .settings import ArtifactTable, RemoteTable, Session, StageTable
from .stages import Returned, Stage, StageContext, outputs_intact
from .store import MANIFEST_NAME, LocalStore

OUTPUTS = "outputs"
"""As `validate`: every recorded output is on disk, byte for byte."""
NOTHING = "none"
"""As `validate`: nothing is checked."""
VALIDATOR_SECONDS = 300.0


def store_of(session: Session, **options: Any) -> LocalStore:
    """The manifest's file in the session's folder."""
    return LocalStore(session.folder / MANIFEST_NAME, session.pipeline, **options)


def holder_name() -> str:
    """A name that no other publisher has: host, process and four random bytes."""
    return f"{socket.gethostname()[:100]}-{os.getpid()}-{secrets.token_hex(4)}"


def opener(session: Session) -> Callable[[], Awaitable[Objects]]:
    """What opens the store of commits. ConfigurationError without `[remote]`."""
    remote = session.settings.remote
    if remote is None:
        raise ConfigurationError("there is no [remote] table, which says where this session is published")
    if remote.kind == "worker":
        return lambda: _open_worker(session, remote)
    folder = None if remote.state_folder is None else session.folder / remote.state_folder
    if remote.kind == "file" and folder is None:
        raise ConfigurationError("remote.state_folder: the folder that holds the bucket is needed")
    return lambda: BucketObjects.open(remote.kind, str(remote.bucket), folder)


async def _open_worker(session: Session, remote: RemoteTable) -> Objects:
    from .. import connection
    from ..http import AsyncHttp
    from .remote import WorkerObjects

    url = remote.url or os.environ.get(connection.URL_VARIABLE)
    if not url:
        raise ConfigurationError(f"no address of the state plane: set remote.url or {connection.URL_VARIABLE}")
    http = AsyncHttp(url, connection.secret_of(os.environ))
    return WorkerObjects(http, session.place, ttl_seconds=remote.lease_seconds)


def stages_of(
    session: Session,
    store: LocalStore,
    *,
    artifacts: tuple[str, ...] | None = None,
    open_objects: Callable[[], Awaitable[Objects]] | None = None,
    step: Callable[[str], None] = lambda name: None,
) -> list[Stage]:
    """Every stage that the configuration says how to run. `artifacts`: the selected keys, None for all."""
    pipeline, tables = session.pipeline, session.settings.stages
    if artifacts is not None and not tables.get(str(pipeline.artifact_stage), StageTable()).artifacts:
        raise ConfigurationError("artifacts are selected, and none are configured")
    found = []
    for spec in pipeline.stages:
        table = tables.get(spec.name, StageTable())
        if spec.name == pipeline.artifact_stage and table.artifacts:
            found.append(_artifact_stage(session, table, artifacts))
        elif table.skip is not None:
            found.append(Stage(spec.name, _skipping(table.skip), _evidence(session, spec.name, table)))
        elif table.command is not None or table.call is not None:
            run = _run_of(session, table)
            how = table.validate if table.validate is not None else (OUTPUTS if spec.validates else NOTHING)
            validator = _validator(session, spec.name, how)
            found.append(Stage(spec.name, run, _evidence(session, spec.name, table), validator))
        elif spec.name == pipeline.publish_stage and session.settings.remote is not None:
            found.append(_publish_stage(session, store, table, open_objects or opener(session), step))
    return found


def _run_of(session: Session, table: StageTable) -> Callable[[StageContext], Returned]:
    if table.command is not None:
        return CommandStage(table.command, table.outputs, table.timeout, table.environ)
    module, _, name = str(table.call).rpartition(":")

    def run(context: StageContext) -> Returned:
        import sys
        from importlib import import_module

        # the session's folder is where its own modules are
        sys.path.insert(0, str(session.folder))
        try:
            function = getattr(import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise SessionFailure(f"{table.call} cannot be loaded: {error}") from error
        finally:
            sys.path.remove(str(session.folder))
        returned: Returned = function(context)
        if table.outputs and not isinstance(returned, Skip):
            declared = tuple(
                measured(session.folder, entry.id, entry.path, entry.contract, entry.provenance)
                for entry in table.outputs
            )
            known = Result() if returned is None else returned
            return Result((*known.outputs, *declared), known.logs, known.generated_configs, known.metadata)
        return returned

    return run


def _skipping(reason: str) -> Callable[[StageContext], Returned]:
    return lambda context: Skip(reason)


def _validator(session: Session, name: str, how: str | tuple[str, ...]) -> Callable[[SessionManifest], bool] | None:
    if how == NOTHING:
        return None
    if how == OUTPUTS:
        return outputs_intact(session.folder, name)

    def ask(manifest: SessionManifest) -> bool:
        import subprocess

        try:
            done = subprocess.run(
                arguments(how),
                cwd=session.folder,
                env={**os.environ, "MOORAGE_SESSION_FOLDER": str(session.folder), "MOORAGE_SESSION_STAGE": name},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=VALIDATOR_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CommandFailed(f"the resume validator of {name}: {error}") from None
        if done.returncode not in (0, 1):
            raise CommandFailed(f"the resume validator of {name} ended with {done.returncode}; 0 accepts, 1 rejects")
        return done.returncode == 0

    return ask


def _evidence(session: Session, name: str, table: StageTable) -> Callable[[], Fingerprint | None]:
    """The fingerprint of the stage's semantics; of the inputs stage, also of its inputs' bytes."""

    def evidence() -> Fingerprint | None:
        inputs = _inputs(session) if name == session.pipeline.inputs_stage else {}
        if table.semantics is None and not inputs:
            return None
        semantics: dict[str, Any] = {"stage": name, "semantics": table.semantics or {}}
        if inputs:
            semantics["inputs"] = inputs
        return fingerprint(table.semantics_version, semantics)

    return evidence


def _inputs(session: Session) -> dict[str, Any]:
    found = {}
    for entry in session.prepared:
        if session.settings.inputs[entry.id].derived_from_party:
            continue  # the stage makes it
        try:
            found[entry.id] = {"source": entry.source, "sha256": digest(inside(session.folder, entry.path))[0]}
        except FileNotFoundError:
            raise SessionFailure(f"input {entry.id!r}: there is no file {entry.path}") from None
    return found


def _publish_stage(
    session: Session,
    store: LocalStore,
    table: StageTable,
    open_objects: Callable[[], Awaitable[Objects]],
    step: Callable[[str], None],
) -> Stage:
    name, place, remote = str(session.pipeline.publish_stage), session.place, session.settings.remote
    targets = []
    for text in table.cleanup:
        root, _, path = text.partition("/")
        targets.append((cast(Literal["workdir", "spool"], root), path))
    run = PublishStage(
        name=name,
        folder=session.folder,
        store=store,
        place=place,
        open_objects=open_objects,
        holder=holder_name(),
        cleanup=targets,
        roots=session.roots,
        include_inputs=table.include_inputs,
        step=step,
    )
    semantics = {
        "stage": name,
        "semantics": table.semantics or {},
        "destination": [remote.kind, remote.bucket, remote.url, place.prefix] if remote is not None else [],
        "include_inputs": table.include_inputs,
    }
    return Stage(name, run, lambda: fingerprint(table.semantics_version, semantics), run.validate)


def _artifact_stage(session: Session, table: StageTable, selected: tuple[str, ...] | None) -> Stage:
    name = str(session.pipeline.artifact_stage)
    tables: dict[str, ArtifactTable] = {}
    for given, artifact in table.artifacts.items():
        key = normalized_key(given)
        if key in tables:
            raise ConfigurationError(f"stages.{name}.artifacts: two keys are {key!r} once normalised")
        tables[key] = artifact

    def configure(manifest: SessionManifest) -> Configuration:
        read = _predecessor_outputs(session, manifest, name)
        return Configuration(_configured(key, artifact, read) for key, artifact in tables.items())

    chosen = None if selected is None else tuple(normalized_key(key) for key in selected)
    # what is wrong whatever earlier stages leave is refused before anything runs
    Configuration(_configured(key, replace(artifact, reads=()), {}) for key, artifact in tables.items()).closure(
        chosen
    )
    run = ArtifactStage(
        name=name,
        folder=session.folder,
        configure=configure,
        makes={key: _make(artifact) for key, artifact in tables.items()},
        selected=chosen,
    )
    # no aggregate fingerprint: the records of the artifacts are the authority
    return Stage(name, run, None, run.validate)


def _predecessor_outputs(session: Session, manifest: SessionManifest, name: str) -> dict[str, str]:
    """SHA-256 of every recorded output before the stage, by `stage/id`; those of direct predecessors first."""
    spec = next(spec for spec in session.pipeline.stages if spec.name == name)
    order = [*spec.depends_on, *(stage for stage in session.pipeline.prefix(name) if stage not in spec.depends_on)]
    found = {}
    for stage in order:
        record = manifest.stages.get(stage)
        for output in () if record is None else record.outputs:
            found[f"{stage}/{output.id}"] = output.sha256
    return found


def _configured(key: str, table: ArtifactTable, outputs: Mapping[str, str]) -> Configured:
    if table.reads is None:
        read = dict(outputs)
    else:
        missing = [name for name in table.reads if name not in outputs]
        if missing:
            raise SessionFailure(f"artifact {key}: it reads {missing[0]!r}, and no earlier stage left such an output")
        read = {name: outputs[name] for name in table.reads}
    depends_on = tuple(normalized_key(name) for name in table.depends_on)
    semantics = {
        "artifact": key,
        "semantics": table.semantics,
        "contract": table.contract,
        "depends_on": sorted(depends_on),
        "reads": read,
    }
    return Configured(
        key=key,
        depends_on=depends_on,
        source_id=table.source_id or key,
        path=table.output,
        contract=table.contract,
        fingerprint=fingerprint(table.semantics_version, semantics),
        family=table.family,
        character_id=table.character_id,
    )


def _make(table: ArtifactTable) -> Make:
    def make(context: StageContext, configured: Configured) -> Mapping[str, Any]:
        output = inside(context.folder, configured.path)
        output.parent.mkdir(parents=True, exist_ok=True)
        environ = {"MOORAGE_SESSION_ARTIFACT": configured.key, "MOORAGE_SESSION_OUTPUT": str(output)}
        said = run_command(table.command, context, name=configured.key, environ=environ, timeout=table.timeout)
        if said.skipped is not None or said.outputs:
            raise CommandFailed("an artifact's command says neither `skipped` nor `outputs`: it makes its one file")
        return said.provenance

    return make


__all__ = ["holder_name", "opener", "stages_of", "store_of"]
