"""Bookmarks: points in time that an object's storage can be taken back to (semantics 14).

The platform's local runtime only counts them; here they restore. A bookmark that was asked for keeps a copy of the
storage as it was then, beside the object's file: `<id>.bookmarks/<bookmark>.sqlite`. At most `KEPT` copies are kept,
for at most `KEPT_DAYS` days; older ones are gone. `getBookmarkForTime` finds the newest kept bookmark at or before a
time: there is no copy of moments at which nobody asked.
"""

import asyncio
import logging
import os
import re
import shutil
import sqlite3
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .commitlog import sync_folder

if TYPE_CHECKING:
    import aiosqlite

KEPT: Final = 32
KEPT_DAYS: Final = 30
_SHAPE: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{8}-[0-9a-f]{32}\Z")
_RESTORE: Final = "restore"

_log = logging.getLogger("moorage.runtime.bookmarks")


def make(milliseconds: int, number: int, random: bytes) -> str:
    """Returns a bookmark: 8-8-8-32 hex digits that sort by time, then by `number`."""
    return f"{milliseconds >> 32:08x}-{milliseconds & 0xFFFFFFFF:08x}-{number & 0xFFFFFFFF:08x}-{random.hex()}"


def time_of(bookmark: str) -> int:
    """Returns the milliseconds a bookmark was made at. Raises ValueError when it is none."""
    if not _SHAPE.match(bookmark):
        raise ValueError(f"{bookmark!r} is no bookmark: 8-8-8-32 hex digits")
    high, low = bookmark.split("-")[:2]
    return (int(high, 16) << 32) | int(low, 16)


class BookmarkFolder:
    """The kept copies of one object on disk. All methods but `copy` block: call them in a thread."""

    def __init__(self, path: str) -> None:
        self._database = Path(path)
        self._folder = Path(path).with_suffix(".bookmarks")

    def kept(self) -> list[str]:
        """Returns the bookmarks that can be restored, oldest first."""
        if not self._folder.is_dir():
            return []
        return sorted(path.stem for path in self._folder.glob("*.sqlite") if _SHAPE.match(path.stem))

    async def copy(self, bookmark: str, source: "aiosqlite.Connection") -> None:
        """Copies what `source`, in its open snapshot, sees; durable when this returns."""
        target = self._folder / f"{bookmark}.sqlite"
        temporary = target.with_suffix(".new")
        await asyncio.to_thread(self._folder.mkdir, exist_ok=True)
        copy = await asyncio.to_thread(sqlite3.connect, temporary, check_same_thread=False)
        try:
            await source.backup(copy)
        finally:
            await asyncio.to_thread(copy.close)
        await asyncio.to_thread(self._publish, temporary, target)

    def _publish(self, temporary: Path, target: Path) -> None:
        _sync(temporary)
        os.replace(temporary, target)
        sync_folder(self._folder)
        sync_folder(self._database.parent)

    def prune(self, now: int, spare: str | None = None) -> None:
        """Drops copies beyond the retained number and age; the one that is to be restored stays, and `spare`."""
        for bookmark in _outdated(self.kept(), now, {self.pending(), spare}):
            (self._folder / f"{bookmark}.sqlite").unlink(missing_ok=True)

    def pending(self) -> str | None:
        """Returns the bookmark that the next session restores, or None."""
        try:
            return (self._folder / _RESTORE).read_text().strip() or None
        except FileNotFoundError:
            return None

    def request(self, bookmark: str) -> None:
        """Makes the next session restore `bookmark`; durable when this returns."""
        temporary = self._folder / f"{_RESTORE}.new"
        temporary.write_text(bookmark)
        _sync(temporary)
        os.replace(temporary, self._folder / _RESTORE)
        sync_folder(self._folder)

    def restore(self) -> str | None:
        """Before the file is opened: puts the requested copy in its place. Returns the bookmark, or None.

        A crash between the steps is made good by the next call: the request is withdrawn last. A request for a copy
        that is gone is withdrawn at once: the object goes on with what it has.
        """
        bookmark = self.pending()
        if bookmark is None:
            return None
        copy = self._folder / f"{bookmark}.sqlite"
        if not copy.exists():
            _log.error("bookmark %s of %s is gone and cannot be restored", bookmark, self._database)
            (self._folder / _RESTORE).unlink()
            return None
        if self._database.exists():
            # Old frames must not be taken for the restored file's: bring them in, so that closing removes the WAL.
            connection = sqlite3.connect(self._database, isolation_level=None)
            try:
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                connection.close()
        temporary = self._database.with_suffix(".restoring")
        shutil.copyfile(copy, temporary)
        _sync(temporary)
        os.replace(temporary, self._database)
        sync_folder(self._database.parent)
        (self._folder / _RESTORE).unlink()
        sync_folder(self._folder)
        return bookmark


def _outdated(kept: list[str], now: int, stay: Collection[str | None]) -> list[str]:
    """Those of the kept bookmarks, oldest first, that are beyond the retained number or age and not to stay."""
    oldest = now - KEPT_DAYS * 86_400_000
    return [name for name in kept if (name not in kept[-KEPT:] or time_of(name) < oldest) and name not in stay]


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class BookmarkImages:
    """The same for an object in memory."""

    def __init__(self) -> None:
        self._images: dict[str, bytes] = {}
        self._pending: str | None = None

    def kept(self) -> list[str]:
        """Returns the bookmarks that can be restored, oldest first."""
        return sorted(self._images)

    def keep(self, bookmark: str, image: bytes, now: int, spare: str | None = None) -> None:
        """Keeps an image, and drops what is beyond the retained number and age, but not `spare`."""
        self._images[bookmark] = image
        for name in _outdated(self.kept(), now, {self._pending, spare}):
            del self._images[name]

    def request(self, bookmark: str) -> None:
        """Makes the next session restore `bookmark`."""
        self._pending = bookmark

    def restore(self) -> bytes | None:
        """Returns the image to begin with, or None."""
        if self._pending is None:
            return None
        bookmark, self._pending = self._pending, None
        return self._images.get(bookmark)
