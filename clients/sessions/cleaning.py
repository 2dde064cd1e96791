"""Cleaning up after a publication: nothing goes before the obligation is saved (spec session-manifest 13)."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal

from msgspec import UNSET

from moorage.protocols.sessions import SessionManifest
from moorage.protocols.sessions import cleanup as rules

from .errors import SessionFailure, describe
from .files import inside


def clean(
    manifest: SessionManifest,
    roots: Mapping[str, Path],
    save: Callable[[SessionManifest], SessionManifest],
    now: Callable[[], str],
    step: Callable[[str], None] = lambda name: None,
) -> tuple[SessionManifest, list[str]]:
    """Works off the saved obligation of `manifest`: each target deleted, or seen absent, then saved as completed.

    Returns the manifest and, for each target that stays incomplete, why. Raises SaveFailed.
    """
    cleanup = manifest.post_publish_cleanup
    left: list[str] = []
    if cleanup is UNSET:
        return manifest, left
    for index, target in enumerate(cleanup.targets):
        if target.completed:
            continue
        try:
            evidence = _remove(roots, target.root, target.path)
        except (OSError, SessionFailure) as error:
            left.append(f"{target.root}/{target.path}: {describe(error)}")
            continue
        step(f"deleted:{target.root}/{target.path}")
        manifest = save(rules.complete(manifest, index, evidence, now()))
        step(f"completed:{target.root}/{target.path}")
    return manifest, left


def _remove(roots: Mapping[str, Path], root: str, path: str) -> Literal["deleted", "absent"]:
    if root not in roots:
        raise SessionFailure(f"no {root} folder is configured")
    base = roots[root]
    try:
        place = inside(base, path)
    except FileNotFoundError:
        return "absent"
    if not os.path.lexists(place):
        return "absent"
    if place.is_symlink():
        raise SessionFailure("it is a link, and links are not followed")
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink()
    return "deleted"
