"""Rebuilds a session's folder from the current verified commit, and swaps it in (spec session-manifest 11)."""

import ctypes
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from moorage.protocols.sessions import Pipeline, Projection, SessionManifest
from moorage.protocols.sessions.commits import Place
from moorage.protocols.sessions.documents import Artifact, encode
from moorage.protocols.sessions.lifecycle import started

from ..sweep.replacing import make_folder, sync_folder
from .errors import SessionFailure
from .objects import Objects
from .reading import Snapshot, fetch_artifact, read_current, relative_path
from .store import MANIFEST_NAME, exclusive, invocation_lock

_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


@dataclass(frozen=True, slots=True)
class Restored:
    """What was restored; `former`: where the folder that was there before is now, None when there was none."""

    snapshot: Snapshot
    former: Path | None


async def restore(
    objects: Objects,
    place: Place,
    target: Path,
    pipeline: Pipeline,
    now: Callable[[], str],
    *,
    replace_existing: bool = False,
    keep: Mapping[str, Path] | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Restored:
    """Builds the folder beside `target` and takes its place in one step; on any failure `target` is as it was.

    It holds every artifact under its path, and a manifest of the commit's run with the artifacts as durable records
    and every stage pending: a commit proves files, and no progress. Files of `keep` are copied in, by name.
    SessionFailure when nothing is published, or `target` is not empty and may not be replaced; Busy when an
    invocation runs in it; ReadRefused.
    """
    target = Path(os.path.abspath(target))
    occupied = target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir())))
    if occupied and (target.is_symlink() or not target.is_dir() or not replace_existing):
        raise SessionFailure(f"{target} is not an empty folder; --replace takes its place and keeps it beside")
    snapshot = await read_current(objects, place)
    if snapshot is None:
        raise SessionFailure("nothing is published for this session, so there is nothing to restore")
    make_folder(target.parent)
    staging = target.parent / f".{target.name}.restoring-{secrets.token_hex(4)}"
    staging.mkdir()
    try:
        await _fill(objects, place, snapshot, staging, say)
        (staging / MANIFEST_NAME).write_bytes(encode(_manifest(snapshot, place, target, pipeline, now())))
        for name, path in (keep or {}).items():
            if path.is_file() and not (staging / name).exists():
                shutil.copy2(path, staging / name)
        _sync_tree(staging)
        with ExitStack() as held:
            if occupied:
                lock = invocation_lock(target / MANIFEST_NAME)
                held.enter_context(exclusive(lock, "an invocation is running in the folder to replace"))
            former = _swap(staging, target, snapshot.commit.run_id, occupied=occupied)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise
    return Restored(snapshot, former)


async def _fill(
    objects: Objects, place: Place, snapshot: Snapshot, staging: Path, say: Callable[[str], None]
) -> None:
    for artifact in snapshot.commit.artifacts:
        relative = relative_path(snapshot, place, artifact)
        if relative.as_posix() == MANIFEST_NAME:
            raise SessionFailure(f"the commit has an artifact at {MANIFEST_NAME}, where the manifest lies")
        say(relative.as_posix())
        path = staging / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        # exclusive: on a file system that ignores case two paths may be one
        with open(path, "xb") as file:  # noqa: ASYNC230 - nothing else runs on this loop
            await fetch_artifact(objects, artifact, file)
            file.flush()
            os.fsync(file.fileno())


def _manifest(snapshot: Snapshot, place: Place, target: Path, pipeline: Pipeline, now: str) -> SessionManifest:
    commit = snapshot.commit
    projection = Projection(
        campaign=commit.campaign,
        session_id=commit.session_id,
        run_id=commit.run_id,
        local_workdir=str(target),
        s3_session_prefix=place.prefix,
    )
    artifacts = tuple(
        Artifact(
            id=artifact.source.id,
            path=relative_path(snapshot, place, artifact).as_posix(),
            sha256=artifact.sha256,
            size=artifact.size,
            provenance={"source_type": artifact.source.type, "generation": artifact.generation},
        )
        for artifact in commit.artifacts
    )
    return replace(started(None, projection, pipeline, now), artifacts=artifacts)


def _sync_tree(folder: Path) -> None:
    for path, _, names in os.walk(folder, topdown=False):
        for name in names:
            descriptor = os.open(os.path.join(path, name), os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        sync_folder(Path(path))


def _swap(staging: Path, target: Path, run_id: str, *, occupied: bool) -> Path | None:
    """Puts `staging` in the place of `target`; returns where the former folder is now.

    One step where the kernel can exchange two names; elsewhere two, between which the former folder has its new name.
    """
    former: Path | None = None
    if not occupied:
        os.replace(staging, target)
    else:
        former = _free(target.parent / f"{target.name}.before-{run_id}")
        if _exchange(staging, target):
            os.rename(staging, former)
        else:
            os.rename(target, former)
            try:
                os.rename(staging, target)
            except BaseException:
                os.rename(former, target)
                raise
    sync_folder(target.parent)
    return former


def _free(path: Path) -> Path:
    number, found = 1, path
    while os.path.lexists(found):
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two names with `renameat2`; False where that does not exist."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    result: int = renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE)
    return result == 0
