"""What lies in a folder here, seen without following a link: a tree made by hydrate holds plain files alone.

A link in it is never read, reused or written through: what it leads to is not the tree's, and may change with it.
"""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import ClientError


class CannotBeFiles(ClientError):
    """The service has names that this folder cannot hold side by side."""


def is_plain(path: Path) -> bool:
    """Tells whether `path` is a regular file itself; False for links to one."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def is_absent(path: Path) -> bool:
    """Tells whether nothing is at `path`, no link that leads nowhere either."""
    return not os.path.lexists(path)


def digest_here(path: Path) -> str | None:
    """Returns the SHA-256 of a regular file in hex; None for anything else. Raises OSError."""
    if not is_plain(path):
        return None
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def is_plain_folder(path: Path) -> bool:
    """Tells whether `path` is a folder itself; False for links to one."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def entries(folder: Path) -> list[Path]:
    """Returns what is directly in a folder, by name; nothing where there is none, or a link in its place."""
    return sorted(folder.iterdir()) if is_plain_folder(folder) else []


def below(folder: Path) -> Iterator[Path]:
    """Yields everything below a folder that is no folder itself, in order: files, links, special files."""
    for path in entries(folder):
        if is_plain_folder(path):
            yield from below(path)
        else:
            yield path


def plain_below(root: Path, folder: str) -> set[Path]:
    """Returns the regular files below `root/folder` that no link leads to on the way."""
    at = root
    for part in folder.split("/"):
        at = at / part
        if not is_plain_folder(at):
            return set()
    return {path for path in below(at) if is_plain(path)}


def remove(path: Path) -> None:
    """Removes a file, a link, or a folder with all below it; nothing there is no error."""
    import shutil

    if is_plain_folder(path):
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def folds_case(folder: Path) -> bool:
    """Tells whether the file system takes names for one that differ in case alone; makes and removes a file."""
    probe = folder / f"case-probe-{os.getpid()}"
    probe.touch()
    try:
        return probe.with_name(probe.name.upper()).exists()
    finally:
        probe.unlink()


def check_names(names: Iterable[str], *, folding: bool) -> None:
    """Raises CannotBeFiles when a name is a folder of another, or, with `folding`, differs from it in case alone."""
    listed = list(names)
    every = set(listed)
    for name in listed:
        folder = name.rpartition("/")[0]
        while folder:
            if folder in every:
                raise CannotBeFiles(f"the service has both {folder} and {name}: no folder can hold the two")
            folder = folder.rpartition("/")[0]
    if not folding:
        return
    seen: dict[str, str] = {}
    for name in listed:
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise CannotBeFiles(f"the service has both {other} and {name}: this file system takes them for one")
