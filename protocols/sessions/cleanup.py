"""The obligation to clean up after a publication (spec session-manifest 13)."""

from collections.abc import Iterable
from typing import Literal

from msgspec import UNSET
from msgspec.structs import replace

from .documents import Cleanup, CleanupTarget, CommitIdentity, SessionManifest
from .errors import SessionError
from .identities import path_fault

Root = Literal["workdir", "spool"]


def incomplete(manifest: SessionManifest) -> bool:
    """Whether there is an obligation with a target that is not completed."""
    cleanup = manifest.post_publish_cleanup
    return cleanup is not UNSET and not all(target.completed for target in cleanup.targets)


def record(
    manifest: SessionManifest, run_id: str, commit: CommitIdentity, targets: Iterable[tuple[Root, str]]
) -> SessionManifest:
    """The manifest with an obligation that the verified `commit` authorises.

    An incomplete one keeps its run and commit: SessionError. Without targets a completed one is dropped.
    """
    if incomplete(manifest):
        raise SessionError("an earlier clean-up is not complete, and keeps the run that authorised it")
    rows = []
    for root, path in dict.fromkeys(targets):
        fault = path_fault(path)
        if fault is not None:
            raise SessionError(f"clean-up target {path[:80]!r}: {fault}")
        rows.append(CleanupTarget(root=root, path=path, completed=False))
    if not rows:
        return replace(manifest, post_publish_cleanup=UNSET)
    return replace(manifest, post_publish_cleanup=Cleanup(run_id=run_id, commit=commit, targets=tuple(rows)))


def complete(
    manifest: SessionManifest, index: int, evidence: Literal["deleted", "absent"], now: str
) -> SessionManifest:
    """The manifest with one target completed; save it before the next. SessionError when it was already."""
    cleanup = manifest.post_publish_cleanup
    if cleanup is UNSET or cleanup.targets[index].completed:
        raise SessionError("there is no such target to complete")
    targets = list(cleanup.targets)
    targets[index] = replace(targets[index], completed=True, completed_at=now, evidence=evidence)
    return replace(manifest, post_publish_cleanup=replace(cleanup, targets=tuple(targets)))
