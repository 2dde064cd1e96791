"""The object's side of bookmarks: what `ctx.storage` calls (semantics 14)."""

import asyncio
from typing import TYPE_CHECKING, Any

from . import gate as gates
from .bookmarks import BookmarkFolder, BookmarkImages, make, time_of
from .errors import DurableObjectError
from .reading import snapshot

if TYPE_CHECKING:
    from .instance import Instance


class Bookmarks:
    """Makes, finds and restores the bookmarks of one object."""

    def __init__(self, instance: "Instance") -> None:
        self._instance = instance
        self._number = 0

    async def current(self, spare: str | None = None) -> str:
        """Commits, keeps a copy of the storage, and returns its bookmark; `spare` is kept though it is old."""
        instance = self._instance
        database = instance.database
        if database.explicit:
            raise DurableObjectError("getCurrentBookmark() cannot be called within a transaction")
        database.commit_implicit()
        instance.check()
        self._number += 1
        now = instance.clock.now()
        bookmark = make(now, self._number, instance.namespace.runtime.random_bytes(16))
        if database.path is None:
            self._images().keep(bookmark, database.connection.serialize(), now, spare)
            return bookmark
        # No event of the object may come between the commit and the snapshot; the copy itself lets them go on.
        folder = BookmarkFolder(database.path)
        reading = snapshot(database.path)

        async def begin() -> Any:
            await database.materialise()
            return await reading.__aenter__()

        reader = await instance.critical_section(lambda: gates.run_outside(begin()), resets=False)
        try:
            await gates.run_outside(folder.copy(bookmark, reader))
        finally:
            await gates.run_outside(reading.__aexit__(None, None, None))
        await gates.run_outside(asyncio.to_thread(folder.prune, now, spare))
        return bookmark

    async def for_time(self, milliseconds: int) -> str:
        """Returns the newest kept bookmark at or before a time."""
        found = [bookmark for bookmark in await self._kept() if time_of(bookmark) <= milliseconds]
        if not found:
            raise DurableObjectError("No bookmark is kept from that time or before; getCurrentBookmark() makes them.")
        return found[-1]

    async def restore(self, bookmark: str) -> str:
        """Makes the next session restore `bookmark`; returns a bookmark of the present."""
        if not isinstance(bookmark, str) or bookmark not in await self._kept():
            raise DurableObjectError("That is not a bookmark of this object, or it is no longer kept.")
        undo = await self.current(spare=bookmark)
        path = self._instance.database.path
        if path is None:
            self._images().request(bookmark)
        else:
            await gates.run_outside(asyncio.to_thread(BookmarkFolder(path).request, bookmark))
        return undo

    async def _kept(self) -> list[str]:
        path = self._instance.database.path
        if path is None:
            return self._images().kept()
        kept: list[str] = await gates.run_outside(asyncio.to_thread(BookmarkFolder(path).kept))
        return kept

    def _images(self) -> BookmarkImages:
        return self._instance.namespace.bookmark_images.setdefault(str(self._instance.id), BookmarkImages())
