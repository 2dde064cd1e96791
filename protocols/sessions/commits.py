"""Remote commit and commit pointer: written in one way, read without leniency (spec session-manifest 9 to 11)."""

import hashlib
from collections.abc import Iterable
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from .documents import CommitIdentity, SessionManifest, Sha256, Size, Text, Value
from .errors import ReadRefused, ResultRefused
from .identities import MIGRATION, artifact_key, artifact_path, commit_key, pointer_key, segment_fault
from .pipeline import Pipeline
from .states import Status
from .strict_json import NotStrict, document, parse_object

COMMIT_VERSION: Final = "narratio.remote-commit.v1"
POINTER_VERSION: Final = "narratio.commit-pointer.v1"
MAX_DOCUMENT_BYTES: Final = 8 * 1024 * 1024

SourceType: TypeAlias = Literal["input", "stage_output", "analyze_artifact"]


class Source(Value, frozen=True):
    """Where a committed artifact came from."""

    type: SourceType
    id: Text


class CommittedArtifact(Value, frozen=True):
    """One immutable object of a commit."""

    source: Source
    key: Annotated[str, Meta(min_length=1, max_length=1024)]
    sha256: Sha256
    size: Size
    generation: Text


class RemoteCommit(Value, frozen=True):
    """One run's immutable set of artifacts."""

    schema_version: str
    campaign: str
    session_id: str
    run_id: str
    artifacts: tuple[CommittedArtifact, ...]


class CommitPointer(Value, frozen=True):
    """Selects exactly one remote commit, and binds its bytes."""

    schema_version: str
    campaign: str
    session_id: str
    run_id: str
    commit: CommitIdentity


class Place(Value, frozen=True):
    """Whose snapshot, and under which prefix of the bucket."""

    campaign: str
    session_id: str
    prefix: str

    @property
    def pointer_key(self) -> str:
        """The key of the pointer."""
        return pointer_key(self.prefix)

    def commit_key(self, run_id: str) -> str:
        """The key of a run's commit."""
        return commit_key(self.prefix, run_id)

    def artifact_key(self, run_id: str, path: str) -> str:
        """The key of an artifact of a run."""
        return artifact_key(self.prefix, run_id, path)

    def artifact_path(self, run_id: str, key: str) -> str | None:
        """The path of an artifact of a run by its key, or None."""
        return artifact_path(self.prefix, run_id, key)


D = TypeVar("D", RemoteCommit, CommitPointer)


def encode(value: RemoteCommit | CommitPointer) -> bytes:
    """The bytes of a document: deterministic JSON with one final line feed."""
    return document(msgspec.to_builtins(value))


def build(place: Place, run_id: str, artifacts: Iterable[CommittedArtifact]) -> RemoteCommit:
    """The commit of a run, sorted by key. Raises ReadRefused for what a reader would refuse."""
    ordered = tuple(sorted(artifacts, key=lambda artifact: artifact.key))
    commit = RemoteCommit(
        schema_version=COMMIT_VERSION,
        campaign=place.campaign,
        session_id=place.session_id,
        run_id=run_id,
        artifacts=ordered,
    )
    _check_commit(commit, place)
    return commit


def point(place: Place, run_id: str, commit: bytes, generation: str) -> CommitPointer:
    """The pointer that binds a run's commit, stored as `commit` under `generation`."""
    identity = CommitIdentity(
        key=place.commit_key(run_id), sha256=sha256(commit), size=len(commit), generation=generation
    )
    return CommitPointer(
        schema_version=POINTER_VERSION,
        campaign=place.campaign,
        session_id=place.session_id,
        run_id=run_id,
        commit=identity,
    )


def sha256(data: bytes) -> str:
    """The digest as 64 lower-case hex digits."""
    return hashlib.sha256(data).hexdigest()


def _parse(data: bytes, kind: type[D], version: str, what: str) -> D:
    if len(data) > MAX_DOCUMENT_BYTES:
        raise ReadRefused("malformed", f"the {what} is longer than {MAX_DOCUMENT_BYTES} bytes")
    try:
        value = parse_object(data)
    except NotStrict as error:
        raise ReadRefused("malformed", f"the {what}: {error}") from None
    found: Any = value.get("schema_version")
    if not isinstance(found, str):
        raise ReadRefused("malformed", f"the {what}: schema_version is no text")
    if found != version:
        raise ReadRefused("unsupported-version", f"the {what} has version {found[:80]!r}; {version!r} is read here")
    try:
        parsed: D = msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ReadRefused("malformed", f"the {what}: {error}") from None
    for name in ("campaign", "session_id", "run_id"):
        fault = segment_fault(getattr(parsed, name))
        if fault is not None:
            raise ReadRefused("malformed", f"the {what}: {name}: {fault}. To migrate: {MIGRATION}")
    return parsed


def read_pointer(data: bytes, place: Place) -> CommitPointer:
    """The pointer in `data`, of this campaign and session, naming a commit where it must lie. Raises ReadRefused."""
    pointer = _parse(data, CommitPointer, POINTER_VERSION, "commit pointer")
    _same("commit pointer", pointer, place.campaign, place.session_id)
    expected = place.commit_key(pointer.run_id)
    if pointer.commit.key != expected:
        raise ReadRefused("identity-mismatch", f"the pointer names {pointer.commit.key[:200]!r} and not {expected!r}")
    return pointer


def read_commit(data: bytes, generation: str, pointer: CommitPointer, place: Place) -> RemoteCommit:
    """The commit in `data`, stored under `generation`, when the pointer binds it. Raises ReadRefused."""
    bound = pointer.commit
    check_binding(bound.key, bound.size, bound.generation, len(data), generation)
    if sha256(data) != bound.sha256:
        raise ReadRefused("binding-mismatch", f"{bound.key}: its SHA-256 is not what the pointer says")
    commit = _parse(data, RemoteCommit, COMMIT_VERSION, "remote commit")
    _same("remote commit", commit, place.campaign, place.session_id)
    if commit.run_id != pointer.run_id:
        raise ReadRefused(
            "identity-mismatch", f"the commit is of run {commit.run_id!r}, the pointer of {pointer.run_id!r}"
        )
    _check_commit(commit, place)
    return commit


def read_unbound_commit(data: bytes, run_id: str, place: Place) -> RemoteCommit:
    """A commit that no pointer binds yet, checked as far as it can be alone. Raises ReadRefused."""
    commit = _parse(data, RemoteCommit, COMMIT_VERSION, "remote commit")
    _same("remote commit", commit, place.campaign, place.session_id)
    if commit.run_id != run_id:
        raise ReadRefused("identity-mismatch", f"the commit is of run {commit.run_id!r} and not {run_id!r}")
    _check_commit(commit, place)
    return commit


def _same(what: str, value: RemoteCommit | CommitPointer, campaign: str, session_id: str) -> None:
    for name, wanted in (("campaign", campaign), ("session_id", session_id)):
        found = getattr(value, name)
        if found != wanted:
            raise ReadRefused("identity-mismatch", f"the {what} has {name} {found!r}, asked for was {wanted!r}")


def _check_commit(commit: RemoteCommit, place: Place) -> None:
    paths: list[str] = []
    for artifact in commit.artifacts:
        path = place.artifact_path(commit.run_id, artifact.key)
        if path is None:
            raise ReadRefused("identity-mismatch", f"{artifact.key[:200]!r} is no artifact of run {commit.run_id!r}")
        paths.append(path)
    keys = [artifact.key for artifact in commit.artifacts]
    if keys != sorted(set(keys)):
        raise ReadRefused("malformed", "the commit's keys are not sorted, or one is there twice")
    files = set(paths)
    for path in paths:
        parts = path.split("/")
        for end in range(1, len(parts)):
            if "/".join(parts[:end]) in files:
                raise ReadRefused("malformed", f"{'/'.join(parts[:end])!r} is a file and a folder at once")


def check_binding(key: str, size: int, generation: str, found_size: int, found_generation: str) -> None:
    """Raises ReadRefused `binding-mismatch` when an object's size or generation is not as declared."""
    if found_size != size:
        raise ReadRefused("binding-mismatch", f"{key}: it has {found_size} bytes, declared are {size}")
    if found_generation != generation:
        raise ReadRefused("binding-mismatch", f"{key}: its generation is not the declared one")


class Candidate(Value, frozen=True):
    """A file to publish: its source, its path below the session's folder, and what is recorded of its bytes."""

    source: Source
    path: str
    sha256: str
    size: int


def candidates(
    manifest: SessionManifest, pipeline: Pipeline, *, include_inputs: bool = False
) -> tuple[Candidate, ...]:
    """What a publication of the session consists of, in canonical order.

    Outputs of succeeded stages, current artifacts of the artifact stage, and, on request, inputs that have a path and
    a size; not the durable `artifacts`, which are history of what a restored snapshot proved. Raises ResultRefused
    when two of them claim one path with different bytes.
    """
    found: dict[str, Candidate] = {}

    def add(kind: SourceType, source_id: str, path: str, digest: str, size: int) -> None:
        new = Candidate(source=Source(type=kind, id=source_id), path=path, sha256=digest, size=size)
        known = found.setdefault(path, new)
        if (known.sha256, known.size) != (digest, size):
            raise ResultRefused(
                f"{path}: {known.source.id!r} and {source_id!r} recorded different bytes under this path; "
                "give each output a path of its own"
            )

    if include_inputs:
        for entry in manifest.inputs:
            if isinstance(entry.path, str) and isinstance(entry.size, int):
                add("input", entry.id, entry.path, entry.sha256, entry.size)
    for name in pipeline.order:
        record = manifest.stages.get(name)
        if record is None or record.status is not Status.SUCCEEDED:
            continue
        if isinstance(record.analyze_artifacts, dict):
            for key, made in record.analyze_artifacts.items():
                if not isinstance(made.output, msgspec.UnsetType) and isinstance(made.output_size, int):
                    add("analyze_artifact", key, made.output.path, made.output.sha256, made.output_size)
            continue
        for output in record.outputs:
            add("stage_output", f"{name}/{output.id}", output.path, output.sha256, output.size)
    return tuple(found.values())
