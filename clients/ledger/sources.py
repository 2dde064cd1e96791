"""Where a ledger tree can be read from: a folder, or R2 through the Worker's blob routes.

A source lists names below a folder, sorted, and reads whole objects and ranges. `trees` reads shards through it.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from moorage.protocols.ledger.refusals import LedgerRefusal

from .files import Entry, TrustedRoot

# A day's folder of a busy repository; a listing of this many names is held in memory, nothing larger is.
MAX_FOLDER_ENTRIES = 262_144


class Source(Protocol):
    """A readable ledger tree."""

    def list(self, folder: str) -> Iterator[Entry]:
        """Names directly below `folder`, sorted; nothing when it is missing."""
        ...

    def names(self, folder: str) -> Iterator[Entry]:
        """`list` in no particular order and of any length: no more than one name is held."""
        ...

    def walk(self, folder: str) -> Iterator[str]:
        """Paths of every object below `folder`, at any depth; nothing when it is missing."""
        ...

    def read(self, path: str, limit: int) -> bytes | None:
        """A whole object, None when missing. Raises byte-limit beyond `limit`."""
        ...

    def read_range(self, path: str, offset: int, size: int) -> bytes | None:
        """`size` bytes from `offset`, fewer at the end; None when missing."""
        ...

    def where(self, path: str) -> str:
        """The path as messages name it."""
        ...


class FolderSource:
    """A ledger tree below a trusted root."""

    def __init__(self, root: TrustedRoot | str) -> None:
        self.root = TrustedRoot(root) if isinstance(root, str) else root

    def list(self, folder: str) -> Iterator[Entry]:
        """Names directly below `folder`; staging files are left out, links and special files refused."""
        where = self.root.where(folder)
        detail = f"a folder holds at most {MAX_FOLDER_ENTRIES} entries"
        try:
            entries = self.root.entries(folder, MAX_FOLDER_ENTRIES, lambda: LedgerRefusal("entries", detail, where))
        except FileNotFoundError:
            return
        yield from self._plain(folder, entries)

    def names(self, folder: str) -> Iterator[Entry]:
        """Names directly below `folder` as the system gives them; the same left out and refused as in `list`."""
        with suppress(FileNotFoundError):
            yield from self._plain(folder, self.root.scan(folder))

    def _plain(self, folder: str, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if entry.kind == "other":
                where = f"{self.root.where(folder)}/{entry.name}"
                raise LedgerRefusal("unsafe-entry", "must be a regular file or a folder", where)
            if not entry.name.endswith(".tmp"):
                yield entry

    def walk(self, folder: str) -> Iterator[str]:
        """Paths of every file below `folder`, a folder at a time."""
        for entry in self.list(folder):
            path = f"{folder}/{entry.name}"
            if entry.kind == "folder":
                yield from self.walk(path)
            else:
                yield path

    def read(self, path: str, limit: int) -> bytes | None:
        """A whole file."""
        content = self.root.read(path, limit)
        return None if content is None else content.data

    def read_range(self, path: str, offset: int, size: int) -> bytes | None:
        """A part of a file, read without holding the rest."""
        head, _, name = path.rpartition("/")
        try:
            with self.root.folder(head) as parent:
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
        except FileNotFoundError:
            return None
        except OSError:
            raise LedgerRefusal("unsafe-entry", "must be a regular file", self.root.where(path)) from None
        with os.fdopen(descriptor, "rb") as file:
            file.seek(offset)
            return file.read(size)

    def where(self, path: str) -> str:
        """Absolute path."""
        return self.root.where(path)


def folder_source(path: str | Path) -> FolderSource:
    """A source over a folder given in any spelling, its real path taken: for readers, who own nothing there."""
    return FolderSource(TrustedRoot(os.path.realpath(path)))
