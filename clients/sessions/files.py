"""Files of a session: hashing, and paths that do not leave their root."""

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import UNSET

from moorage.protocols.sessions.documents import Artifact
from moorage.protocols.sessions.identities import path_fault

from .errors import SessionFailure

MANIFEST_NAME = "session-manifest.json"
CHUNK_BYTES = 1024 * 1024


def inside(root: Path, path: str) -> Path:
    """`path` below `root`. SessionFailure when it is no relative path of plain parts, or a link leads out of `root`.

    The last part itself is not followed.
    """
    fault = path_fault(path)
    if fault is not None:
        raise SessionFailure(f"path {path[:120]!r}: {fault}")
    base = Path(os.path.realpath(root))
    found = base.joinpath(*path.split("/"))
    parent = Path(os.path.realpath(found.parent))
    if parent != base and base not in parent.parents:
        raise SessionFailure(f"path {path[:120]!r}: a link leads out of {root}")
    return parent / found.name


def digest(path: Path) -> tuple[str, int]:
    """SHA-256 in hex and size in bytes of a regular file. SessionFailure for anything else; OSError."""
    # a pipe without a writer would otherwise be waited for
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise SessionFailure(f"{path} is no regular file")
    with open(descriptor, "rb") as file:
        hasher, size = hashlib.sha256(), 0
        while chunk := file.read(CHUNK_BYTES):
            hasher.update(chunk)
            size += len(chunk)
    return hasher.hexdigest(), size


def measured(
    root: Path,
    identifier: str,
    path: str,
    contract: Mapping[str, Any] | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Artifact:
    """The record of a file that a stage made. SessionFailure when it is not there or leaves `root`."""
    place = inside(root, path)
    if path == MANIFEST_NAME:
        raise SessionFailure(f"output {identifier!r}: {path} is the session's manifest")
    if place.is_symlink():
        raise SessionFailure(f"output {path!r} is a link, and must be a file")
    try:
        sha256, size = digest(place)
    except FileNotFoundError:
        raise SessionFailure(f"output {identifier!r}: there is no file {path}") from None
    return Artifact(
        id=identifier,
        path=path,
        sha256=sha256,
        size=size,
        contract=UNSET if contract is None else dict(contract),
        provenance=UNSET if provenance is None else dict(provenance),
    )


def is_intact(root: Path, path: str, sha256: str, size: int) -> bool:
    """Whether the file below `root` has exactly these bytes."""
    try:
        place = inside(root, path)
        if place.is_symlink() or place.stat().st_size != size:
            return False
        return digest(place) == (sha256, size)
    except (OSError, SessionFailure):
        return False
