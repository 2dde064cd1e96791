"""Putting a finished tree on the disk and in the place of another, in one step where the kernel can."""

import ctypes
import os
import shutil
import sys
from pathlib import Path
from typing import Final

_EXCHANGE: Final = 2
_AT_FDCWD: Final = -100


def sync_folder(path: Path) -> None:
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file_system(path: Path) -> None:
    """Waits until all of a tree is on the disk: one call for the file system, not one for each file."""
    libc = _libc() if sys.platform.startswith("linux") else None
    if libc is None or not hasattr(libc, "syncfs"):
        if hasattr(os, "sync"):
            os.sync()
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if libc.syncfs(descriptor):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), str(path))
    finally:
        os.close(descriptor)


def _libc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None, use_errno=True)
    except OSError:
        return None


def swap(tree: Path, target: Path, previous: Path) -> None:
    """Puts `tree` in the place of `target`; what was there is removed.

    One step where the kernel can exchange two names; elsewhere two, between which `previous` holds the old tree and a
    later run brings it back.
    """
    if not target.exists():
        tree.rename(target)
    elif _exchange(tree, target):
        shutil.rmtree(tree)
    else:
        target.rename(previous)
        try:
            tree.rename(target)
        except BaseException:
            previous.rename(target)
            raise
        shutil.rmtree(previous)
    sync_folder(target.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two names with `renameat2`; False where that does not exist."""
    libc = _libc() if sys.platform.startswith("linux") else None
    if libc is None or not hasattr(libc, "renameat2"):
        return False
    renameat2 = libc.renameat2
    result: int = renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE)
    return result == 0
