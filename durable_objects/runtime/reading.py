"""Large readers: a consistent snapshot of an object's file, read off the loop while the object goes on.

Exports, bookmarks and the console read through `aiosqlite`: every statement runs in a thread of the connection's own.
WAL keeps the snapshot; a long reader keeps the WAL from being restarted, so readers should end soon.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import quote

import aiosqlite


@asynccontextmanager
async def snapshot(path: str | Path) -> AsyncIterator[aiosqlite.Connection]:
    """A read-only connection whose every read sees the file as it was when the block began.

    Raises sqlite3.OperationalError when there is no such file, sqlite3.DatabaseError when it is no database.
    """
    connection = aiosqlite.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None, timeout=5)
    async with connection as reader:
        await reader.execute("BEGIN")
        # BEGIN alone takes no snapshot: the first read does.
        async with reader.execute("SELECT count(*) FROM sqlite_master") as cursor:
            await cursor.fetchone()
        yield reader
