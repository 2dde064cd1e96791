"""The metadata of the `file` backend: one SQLite file, a thread that writes and a thread that reads.

Writes that wait at the same time share one transaction, each in a savepoint of its own, and one sync: a result is
handed out only after the commit that holds it is durable (WAL with `synchronous=FULL`). A statement that fails
rolls back its own savepoint; a commit that fails fails every write in it, and the connection is opened anew from
what is durable.
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, TypeVar

T = TypeVar("T")

GROUP: Final = 128
"""Writes that share a commit at most."""

SCHEMA: Final = """
CREATE TABLE objects (
    key BLOB PRIMARY KEY,           -- UTF-8, so that the order is the API's
    blob TEXT,                      -- NULL: the parts of `upload` are the bytes
    upload TEXT,
    version TEXT NOT NULL,
    size INTEGER NOT NULL,
    etag TEXT NOT NULL,
    uploaded INTEGER NOT NULL,      -- ms since 1970
    checksums TEXT NOT NULL,        -- JSON, hex by option name
    http_metadata TEXT NOT NULL,    -- JSON
    custom_metadata TEXT NOT NULL   -- JSON
) WITHOUT ROWID;
CREATE TABLE uploads (
    upload TEXT PRIMARY KEY,
    key BLOB NOT NULL,
    http_metadata TEXT NOT NULL,
    custom_metadata TEXT NOT NULL,
    created INTEGER NOT NULL,
    open INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;
CREATE TABLE parts (
    upload TEXT NOT NULL,
    number INTEGER NOT NULL,
    blob TEXT NOT NULL,
    size INTEGER NOT NULL,
    etag TEXT NOT NULL,
    md5 TEXT NOT NULL,
    PRIMARY KEY (upload, number)
) WITHOUT ROWID;
CREATE TABLE garbage (blob TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE INDEX objects_by_blob ON objects (blob) WHERE blob IS NOT NULL;
CREATE INDEX parts_by_blob ON parts (blob);
PRAGMA user_version = 1;
"""


def connect(path: Path) -> sqlite3.Connection:
    """A connection as every thread here uses it. sqlite3.DatabaseError for a file that is no catalogue of this
    version.
    """
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA busy_timeout = 30000")
    except BaseException:
        connection.close()
        raise
    return connection


def prepare(connection: sqlite3.Connection) -> None:
    """Creates the tables in a new file."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in SCHEMA.split(";\n"):
                if statement.strip():
                    connection.execute(statement)
        elif version != 1:
            raise sqlite3.DatabaseError(f"the bucket's catalogue has version {version}; this program knows version 1")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


class _Task:
    __slots__ = ("error", "function", "future", "result")

    def __init__(self, function: Callable[[sqlite3.Connection], Any]) -> None:
        self.function = function
        self.future: Future[Any] = Future()
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self) -> None:
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class CommitFailed(sqlite3.OperationalError):
    """The commit or its sync failed: whether the write is durable is known only to the file."""


class Catalogue:
    """`read` and `write` take a function of a connection and return what it returned."""

    def __init__(self, path: Path, checkpoint: Callable[[str], None]) -> None:
        self.path = path
        self._checkpoint = checkpoint
        self._writer = connect(path)
        try:
            prepare(self._writer)
            self._reader = connect(path)
        except BaseException:
            self._writer.close()
            raise
        self._reader.execute("PRAGMA query_only = ON")
        self._writes: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._write_all, name="r2-catalogue-writer", daemon=True),
            threading.Thread(target=self._read_all, name="r2-catalogue-reader", daemon=True),
        ]
        self._closed = False
        for thread in self._threads:
            thread.start()

    async def read(self, function: Callable[[sqlite3.Connection], T]) -> T:
        """The result of `function` over committed data."""
        return await self._submit(self._reads, function)

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
        future = asyncio.wrap_future(task.future)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait([future])
            if not future.cancelled():
                future.exception()
            raise

    def _read_all(self) -> None:
        while (task := self._reads.get()) is not None:
            try:
                task.result = task.function(self._reader)
            except BaseException as error:
                task.error = error
            task.settle()

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
            for each in group:
                each.settle()
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
        self._reads.put(None)
        for thread in self._threads:
            thread.join()
        for connection in (self._reader, self._writer):
            with contextlib.suppress(sqlite3.Error):
                connection.close()
