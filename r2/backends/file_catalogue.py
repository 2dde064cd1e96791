"""The catalogue of the `file` backend: one SQLite file, a thread that writes and a few that read.

It holds the metadata of every object, and the bytes of small ones. What is asked of one object is read at once, by
whoever asks, as long as that is answered from memory; everything else goes through the threads. Writes that wait at
the same time share one transaction, each in a savepoint of its own, and one sync: a result is handed out only after
the commit that holds it is durable (WAL with `synchronous=FULL`). A statement that fails rolls back its own
savepoint; a commit that fails fails every write in it, and the connection is opened anew from what is durable.
"""

import asyncio
import contextlib
import queue
import resource
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

T = TypeVar("T")

GROUP: Final = 128
"""Writes that share a commit at most."""
READERS: Final = 4
"""Threads that read, so that one cold page does not hold up every other reader."""
PAGE_BYTES: Final = 16_384
"""Of a new file. A small object is a handful of pages then, each of which is logged, written and read as one."""
AWAY_SECONDS: Final = 0.2
"""How long looks are left to the threads after one had to wait for the disk, which held up the event loop."""
CHECKPOINT_BYTES = 8 * 1024**2
"""About how much is logged before it is copied into the file."""
VERSION: Final = 2

_CONTENTS: Final = """
CREATE TABLE contents (id INTEGER PRIMARY KEY, data BLOB NOT NULL)
"""
SCHEMA: Final = (
    """
CREATE TABLE objects (
    key BLOB PRIMARY KEY,           -- UTF-8, so that the order is the API's
    blob TEXT,                      -- the file that holds the bytes, or
    upload TEXT,                    -- the upload whose parts are the bytes, or
    version TEXT NOT NULL,
    size INTEGER NOT NULL,
    etag TEXT NOT NULL,
    uploaded INTEGER NOT NULL,      -- ms since 1970
    checksums TEXT NOT NULL,        -- JSON, hex by option name
    http_metadata TEXT NOT NULL,    -- JSON
    custom_metadata TEXT NOT NULL,  -- JSON
    content INTEGER                 -- the row of `contents` that holds the bytes
) WITHOUT ROWID
""",
    _CONTENTS,
    """
CREATE TABLE uploads (
    upload TEXT PRIMARY KEY,
    key BLOB NOT NULL,
    http_metadata TEXT NOT NULL,
    custom_metadata TEXT NOT NULL,
    created INTEGER NOT NULL,
    open INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID
""",
    """
CREATE TABLE parts (
    upload TEXT NOT NULL,
    number INTEGER NOT NULL,
    blob TEXT NOT NULL,
    size INTEGER NOT NULL,
    etag TEXT NOT NULL,
    md5 TEXT NOT NULL,
    PRIMARY KEY (upload, number)
) WITHOUT ROWID
""",
    "CREATE TABLE garbage (blob TEXT PRIMARY KEY) WITHOUT ROWID",
    "CREATE INDEX objects_by_blob ON objects (blob) WHERE blob IS NOT NULL",
    "CREATE INDEX parts_by_blob ON parts (blob)",
)
MIGRATIONS: Final = {1: (_CONTENTS, "ALTER TABLE objects ADD COLUMN content INTEGER")}
"""What makes a catalogue of a version one of the next."""


def connect(path: Path) -> sqlite3.Connection:
    """A connection as every thread here uses it. sqlite3.DatabaseError for a file that is no SQLite database."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    try:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # of a file that is still to be made
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA busy_timeout = 30000")
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_BYTES // page}")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(connection: sqlite3.Connection, *, alone: bool) -> None:
    """Creates the tables in a new file, and brings those of an older version up to this one in one transaction.

    sqlite3.DatabaseError for a version that this program does not know, and for an older one while another process
    has the bucket open (`alone` is False): that process would not find what this one writes.
    """
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            _run(connection, SCHEMA)
        elif version not in {VERSION, *MIGRATIONS}:
            raise sqlite3.DatabaseError(
                f"the bucket's catalogue has version {version}; this program knows versions 1 to {VERSION}"
            )
        elif version < VERSION and not alone:
            raise sqlite3.DatabaseError(
                f"the bucket's catalogue has version {version} and must become version {VERSION}: "
                "close the other process that has the bucket open, and try again"
            )
        else:
            for older in range(version, VERSION):
                _run(connection, MIGRATIONS[older])
        if version != VERSION:
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _run(connection: sqlite3.Connection, statements: Sequence[str]) -> None:
    for statement in statements:
        connection.execute(statement)


class _Task:
    """A function on its way through a thread, and the future of whoever waits for it on an event loop."""

    __slots__ = ("error", "function", "future", "loop", "result", "settled")

    def __init__(self, function: Callable[[sqlite3.Connection], Any]) -> None:
        self.function = function
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.result: Any = None
        self.error: BaseException | None = None
        self.settled = False

    async def outcome(self) -> Any:
        """What the function returned; what it raised is raised. A cancellation waits for the function to end."""
        try:
            return await self.future
        except asyncio.CancelledError:
            if not self.settled:
                self.future = self.loop.create_future()
                await asyncio.wait([self.future])
            if not self.future.cancelled():
                self.future.exception()  # retrieved, so that asyncio does not report it as lost
            raise

    def settle(self) -> None:
        """On the loop: hands the outcome over."""
        self.settled = True
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


def _settle(tasks: Sequence[_Task]) -> None:
    for task in tasks:
        task.settle()


def _hand_over(tasks: Sequence[_Task]) -> None:
    """Settles `tasks` on their loops: one wake-up for as many as wait on the same."""
    by_loop: dict[asyncio.AbstractEventLoop, list[_Task]] = {}
    for task in tasks:
        by_loop.setdefault(task.loop, []).append(task)
    for loop, waiting in by_loop.items():
        with contextlib.suppress(RuntimeError):  # a loop that is closed has nobody who waits
            loop.call_soon_threadsafe(_settle, waiting)


_THREAD: Final[int | None] = getattr(resource, "RUSAGE_THREAD", None)
"""None where the system does not count by thread: everything goes through the threads there."""


def _blocks_read() -> int:
    """How much this thread had the disk read so far, in no unit; it grows unless everything was in memory."""
    return 0 if _THREAD is None else resource.getrusage(_THREAD).ru_inblock


class CommitFailed(sqlite3.OperationalError):
    """The commit or its sync failed: whether the write is durable is known only to the file."""


class Catalogue:
    """`read` and `write` take a function of a connection and return what it returned."""

    def __init__(
        self,
        path: Path,
        checkpoint: Callable[[str], None],
        *,
        alone: bool,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """Blocks. `alone`: nobody else has the bucket open. `timer`: seconds."""
        self.path = path
        self._checkpoint = checkpoint
        self._timer = timer
        self._away_until = 0.0
        self._looking = threading.Lock()
        self._writer = connect(path)
        self._readers: list[sqlite3.Connection] = []
        try:
            prepare(self._writer, alone=alone)
            for _ in range(1 + READERS):
                reader = connect(path)
                self._readers.append(reader)
                reader.execute("PRAGMA query_only = ON")
            self._onlooker = self._readers[0]
            self._onlooker.execute("PRAGMA busy_timeout = 0")
        except BaseException:
            self._close_connections()
            raise
        self._writes: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._write_all, name="r2-catalogue-writer", daemon=True),
            *(
                threading.Thread(target=self._read_all, args=(reader,), name="r2-catalogue-reader", daemon=True)
                for reader in self._readers[1:]
            ),
        ]
        self._closed = False
        for thread in self._threads:
            thread.start()

    async def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """The result of `function` over committed data."""
        return await self._submit(self._reads, function)

    async def look(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """As `read`, for what takes a handful of pages: without a thread, unless the disk was needed just now."""
        away = _THREAD is None or self._closed or self._timer() < self._away_until
        if away or not self._looking.acquire(blocking=False):
            return await self.read(function)
        try:
            before = _blocks_read()
            try:
                return function(self._onlooker)
            finally:
                if _blocks_read() != before:
                    self._away_until = self._timer() + AWAY_SECONDS
        except sqlite3.OperationalError:
            pass  # another process holds the file just now: the threads wait for it
        finally:
            self._looking.release()
        return await self.read(function)

    async def write(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """The result of `function`, once what it wrote is durable. What it raises undoes what it wrote and is raised.

        A cancellation waits for the outcome.
        """
        return await self._submit(self._writes, function)

    async def _submit(self, tasks: "queue.SimpleQueue[_Task | None]", function: Callable[..., T]) -> T:
        if self._closed:
            raise sqlite3.ProgrammingError("the bucket is closed")
        task = _Task(function)
        tasks.put(task)
        result: T = await task.outcome()
        return result

    def _read_all(self, connection: sqlite3.Connection) -> None:
        while (task := self._reads.get()) is not None:
            try:
                task.result = task.function(connection)
            except BaseException as error:
                task.error = error
            _hand_over([task])
            del task  # with the bytes that it may hold

    def _write_all(self) -> None:
        while (task := self._writes.get()) is not None:
            group, last = [task], False
            while len(group) < GROUP:
                try:
                    more = self._writes.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    last = True
                    break
                group.append(more)
            try:
                self._commit(group)
            except BaseException as error:
                failure = CommitFailed(f"a write to {self.path.name} could not be committed: {error}")
                failure.__cause__ = error
                for each in group:
                    each.error = failure
                self._reopen()
            _hand_over(group)
            group.clear()
            del task  # with the bytes that it may hold
            if last:
                return

    def _commit(self, group: list[_Task]) -> None:
        connection = self._writer
        connection.execute("BEGIN IMMEDIATE")
        for task in group:
            connection.execute("SAVEPOINT one")
            try:
                task.result = task.function(connection)
            except BaseException as error:
                task.error = error
                connection.execute("ROLLBACK TO one")
            connection.execute("RELEASE one")
        self._checkpoint("row written")
        connection.execute("COMMIT")
        self._checkpoint("committed")

    def _reopen(self) -> None:
        with contextlib.suppress(sqlite3.Error):
            self._writer.close()
        with contextlib.suppress(sqlite3.Error):
            self._writer = connect(self.path)

    def close(self) -> None:
        """Finishes what is queued, then closes both connections. Blocks; may be called twice."""
        if self._closed:
            return
        self._closed = True
        self._writes.put(None)
        for _ in self._readers[1:]:
            self._reads.put(None)
        for thread in self._threads:
            thread.join()
        self._close_connections()

    def _close_connections(self) -> None:
        with self._looking:
            for connection in (*self._readers, self._writer):
                with contextlib.suppress(sqlite3.Error):
                    connection.close()
