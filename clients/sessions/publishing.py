"""Publishing a run in steps, each of which may be the last one and may be made again (spec session-manifest 12).

The pointer is written on a condition and never without. Whoever loses the race is told, and changes nothing.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from moorage.protocols.sessions import ReadRefused
from moorage.protocols.sessions import commits as rules
from moorage.protocols.sessions.commits import Candidate, CommittedArtifact, Place
from moorage.protocols.sessions.documents import CommitIdentity

from .errors import PublishRefused
from .files import digest, inside
from .objects import Head, LeaseProof, Objects
from .reading import Snapshot, read_current

Step = Callable[[str], None]
"""Called after each step with its name; tests stop the process there."""


@dataclass(frozen=True, slots=True)
class Published:
    """A verified publication. `unchanged`: the pointer bound this very commit already."""

    snapshot: Snapshot
    unchanged: bool

    @property
    def identity(self) -> CommitIdentity:
        """What a clean-up obligation carries."""
        return self.snapshot.pointer.commit


async def publish(
    objects: Objects,
    place: Place,
    run_id: str,
    folder: Path,
    candidates: Sequence[Candidate],
    *,
    holder: str,
    step: Step = lambda name: None,
) -> Published:
    """Publishes the files of `candidates` below `folder` as run `run_id`.

    Raises PublishRefused: `changed` when a file is not what was recorded, `binding-mismatch` when other bytes lie
    under a key of this run, `lost-race` when another publisher moved the pointer; ReadRefused when what is published
    now, or what was just written, cannot be read strictly.
    """
    async with objects.lease(holder) as lease:
        before = await read_current(objects, place)
        step("pointer-read")
        artifacts = []
        for candidate in candidates:
            artifacts.append(await _put_artifact(objects, place, run_id, folder, candidate))
            step(f"artifact:{candidate.path}")
        data, generation = await _put_commit(objects, place, run_id, artifacts)
        step("commit")
        unchanged = await _move(objects, place, run_id, data, generation, before, lease)
        step("pointer")
        after = await read_current(objects, place)
        if after is None or after.pointer.commit.sha256 != rules.sha256(data) or after.commit.run_id != run_id:
            raise PublishRefused("lost-race", "another publisher moved the pointer right after this one")
        step("verified")
        return Published(after, unchanged)


async def _put_artifact(
    objects: Objects, place: Place, run_id: str, folder: Path, candidate: Candidate
) -> CommittedArtifact:
    path = inside(folder, candidate.path)
    try:
        # in a thread: the lease is lengthened meanwhile
        found = await asyncio.to_thread(digest, path)
    except FileNotFoundError:
        raise PublishRefused("changed", f"{candidate.path} was recorded and is gone") from None
    if found != (candidate.sha256, candidate.size):
        raise PublishRefused("changed", f"{candidate.path} is not what was recorded: run its stage again")
    key = place.artifact_key(run_id, candidate.path)
    head = await objects.create(run_id, key, path, candidate.sha256)
    if head is None:
        head = await _taken_over(objects, key, candidate.sha256, candidate.size)
    if head.size != candidate.size:
        raise PublishRefused("binding-mismatch", f"{key}: {head.size} bytes were stored, not {candidate.size}")
    return CommittedArtifact(
        source=candidate.source,
        key=key,
        sha256=candidate.sha256,
        size=candidate.size,
        generation=head.generation,
    )


async def _taken_over(objects: Objects, key: str, sha256: str, size: int) -> Head:
    """What an earlier attempt of this run stored under `key`, read back and compared."""
    import tempfile

    with tempfile.TemporaryFile() as scratch:
        found = await objects.fetch(key, scratch)
    if found is None:
        raise PublishRefused("binding-mismatch", f"{key}: it was refused as existing, and is not there")
    head, digest_found = found
    if (digest_found, head.size) != (sha256, size):
        raise PublishRefused(
            "binding-mismatch", f"{key}: other bytes lie there; keys are never overwritten, so use another run id"
        )
    return head


async def _put_commit(
    objects: Objects, place: Place, run_id: str, artifacts: Sequence[CommittedArtifact]
) -> tuple[bytes, str]:
    data = rules.encode(rules.build(place, run_id, artifacts))
    key, sha256 = place.commit_key(run_id), rules.sha256(data)
    head = await objects.create(run_id, key, data, sha256)
    if head is None:
        head = await _taken_over(objects, key, sha256, len(data))
    return data, head.generation


async def _move(
    objects: Objects,
    place: Place,
    run_id: str,
    data: bytes,
    generation: str,
    before: Snapshot | None,
    lease: LeaseProof | None,
) -> bool:
    """Moves the pointer to the commit `data`. True when it was there already."""
    pointer = rules.point(place, run_id, data, generation)
    if before is not None and before.pointer == pointer:
        return True
    written = await objects.move_pointer(
        place.pointer_key, rules.encode(pointer), before.etag if before is not None else None, lease
    )
    if written is not None:
        return False
    now = await read_current(objects, place)
    if now is not None and now.pointer == pointer:
        # a repeated request: the first one had arrived
        return True
    winner = "nobody" if now is None else f"run {now.commit.run_id}"
    raise PublishRefused(
        "lost-race",
        f"the pointer moved since it was read, and now selects {winner}; run publish again if yours is newer",
    )


__all__ = ["Published", "ReadRefused", "publish"]
