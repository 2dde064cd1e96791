"""The strict reader of what is published (spec session-manifest 11). It guesses nothing and tries no older commit."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from moorage.protocols.sessions import ReadRefused
from moorage.protocols.sessions import commits as rules
from moorage.protocols.sessions.commits import CommitPointer, CommittedArtifact, Place, RemoteCommit

from .objects import Objects, Whole


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A verified pointer with its commit; `etag` is the pointer's."""

    pointer: CommitPointer
    commit: RemoteCommit
    etag: str


async def read_current(objects: Objects, place: Place) -> Snapshot | None:
    """The current commit; None when nothing is published. Its artifacts are not looked at. Raises ReadRefused."""
    found = await _document(objects, place.pointer_key)
    if found is None:
        return None
    pointer = rules.read_pointer(found.data, place)
    stored = await _document(objects, pointer.commit.key)
    if stored is None:
        raise ReadRefused("missing-object", f"{pointer.commit.key}: the pointer names it and it is not there")
    if stored.size != len(stored.data):
        raise ReadRefused("binding-mismatch", f"{pointer.commit.key}: fewer bytes came than the store declared")
    commit = rules.read_commit(stored.data, stored.generation, pointer, place)
    return Snapshot(pointer, commit, found.etag)


async def _document(objects: Objects, key: str) -> Whole | None:
    try:
        return await objects.get(key, rules.MAX_DOCUMENT_BYTES)
    except ValueError as error:
        raise ReadRefused("malformed", str(error)) from None


async def fetch_artifact(objects: Objects, artifact: CommittedArtifact, to: IO[bytes]) -> None:
    """Writes a committed artifact to a file; size, generation and SHA-256 must be as declared. Raises ReadRefused."""
    found = await objects.fetch(artifact.key, to)
    if found is None:
        raise ReadRefused("missing-object", f"{artifact.key}: the commit declares it and it is not there")
    head, sha256 = found
    rules.check_binding(artifact.key, artifact.size, artifact.generation, head.size, head.generation)
    if sha256 != artifact.sha256:
        raise ReadRefused("binding-mismatch", f"{artifact.key}: its SHA-256 is not what the commit says")


async def check_head(objects: Objects, artifact: CommittedArtifact) -> None:
    """Compares size and generation alone: no byte is read, so altered bytes under the same generation would pass.

    Raises ReadRefused.
    """
    head = await objects.head(artifact.key)
    if head is None:
        raise ReadRefused("missing-object", f"{artifact.key}: the commit declares it and it is not there")
    rules.check_binding(artifact.key, artifact.size, artifact.generation, head.size, head.generation)


async def verify_current(
    objects: Objects, place: Place, *, heads_only: bool = False, say: Callable[[str], None] = lambda line: None
) -> Snapshot | None:
    """The current commit with every artifact compared; with `heads_only` by size and generation alone.

    Raises ReadRefused.
    """
    snapshot = await read_current(objects, place)
    if snapshot is None:
        return None
    for artifact in snapshot.commit.artifacts:
        say(artifact.key)
        if heads_only:
            await check_head(objects, artifact)
            continue
        with tempfile.TemporaryFile() as scratch:
            await fetch_artifact(objects, artifact, scratch)
    return snapshot


def relative_path(snapshot: Snapshot, place: Place, artifact: CommittedArtifact) -> Path:
    """Where an artifact lies below a session's folder."""
    path = place.artifact_path(snapshot.commit.run_id, artifact.key)
    if path is None:
        raise ReadRefused("identity-mismatch", f"{artifact.key[:200]!r} is no artifact of this run")
    return Path(*path.split("/"))
