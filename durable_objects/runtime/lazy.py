"""A database whose file comes into being with the first thing that is kept in it.

An object exists by its name alone, so a read of a name that nobody ever wrote must leave no file behind. Until then
the object works on an empty database in memory. Its first commit that leaves a table starts a thread that creates the
file; what was committed meanwhile is copied over in one transaction, and acknowledged once that is durable.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from .commitlog import CommitLog, WalFile
from .connecting import connect
from .database import Database
from .gate import outside

File = tuple[sqlite3.Connection, WalFile]
Submit = Callable[..., "Future[Any]"]


class _Memory(sqlite3.Connection):
    """Goes with the last cursor that reads from it."""

    def __del__(self) -> None:
        self.close()


def _create(path: str) -> File:
    connection = connect(path)
    try:
        return connection, WalFile(f"{path}-wal")
    except OSError:
        connection.close()
        raise


def _carry_rowid(before: sqlite3.Connection, after: sqlite3.Connection) -> None:
    # `last_insert_rowid()` belongs to the connection: code that asks for it after an await must not see another.
    (rowid,) = before.execute("SELECT last_insert_rowid()").fetchone()
    if rowid:
        after.execute("CREATE TEMP TABLE moorage_rowid (id INTEGER PRIMARY KEY)")
        after.execute("INSERT INTO temp.moorage_rowid VALUES (?)", (rowid,))
        after.execute("DROP TABLE temp.moorage_rowid")


class LazyDatabase(Database):
    """See the module. With a file that is there already, or without a path, it is a plain `Database`.

    `submit` starts work in a thread.
    """

    def __init__(self, submit: Submit, path: str | None, log: CommitLog, image: bytes | None = None) -> None:
        super().__init__(path, log, image)
        self._submit = submit
        self._creating: asyncio.Future[File] | None = None
        self._file: File | None = None
        self._unborn = False
        # what must be durable before the first commit: alarm indexes
        self._before: tuple[WalFile, ...] = ()

    def _open(self) -> None:
        if self.path is None or os.path.exists(self.path):
            super()._open()
        else:
            self._unborn = True
            self.connection = connect(None, _Memory)
            self.connection.execute("PRAGMA user_version=1")  # it goes over with the copy
            self.guard(self.connection)

    def _commit(self) -> None:
        if not self._unborn:
            super()._commit()
            return
        self._before += self._end_transaction()
        if self._creating is None:
            if self.connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
                self._durable(self.committed, None)
                return
            self._start()
        self._move()

    def _start(self) -> None:
        if self._creating is None and self.path is not None:
            self._creating = outside(asyncio.wrap_future, self._submit(_create, self.path))
            self._creating.add_done_callback(self._created)

    def _created(self, future: asyncio.Future[File]) -> None:
        if future.cancelled():
            return
        error = future.exception()
        if error is None:
            self._file = future.result()
            self._move()
            return
        error.add_note(f"object storage: {self.path}")
        self._durable(self.committed, error)

    def _move(self) -> None:
        """Goes over to the file, between two transactions, when it is there."""
        if self._file is None or self.in_transaction or self.failure is not None:
            return
        (connection, wal), self._file = self._file, None
        try:
            self.connection.backup(connection)
            _carry_rowid(self.connection, connection)
        except sqlite3.Error as error:
            self._file = connection, wal
            self._durable(self.committed, error)
            return
        # Open cursors go on in the copy in memory, and keep it.
        self.guard(connection)
        self.connection, self.wal, self._unborn = connection, wal, False
        before, self._before = self._before, ()
        sequence = self.committed
        self._commits += 1
        self.log.commit((*before, wal), lambda error: self._durable(sequence, error))

    def _rolled_back(self) -> None:
        super()._rolled_back()
        self._move()

    async def moved(self) -> None:
        """Returns once what was committed is in the file, if that is being created.

        A transaction waits for it before it begins: the copy is made between two transactions, so code of one that
        waits for earlier writes to be durable would otherwise wait for its own end.
        """
        self.commit_implicit()
        while self._unborn and self._creating is not None and self.failure is None:
            if not self._creating.done():
                await asyncio.wait([self._creating])
            else:
                self.commit_implicit()
                self._move()
                await asyncio.sleep(0)

    async def materialise(self) -> None:
        """Creates the file though nothing is kept yet. Raises what creating it raised."""
        while self._unborn:
            self._start()
            if self._creating is not None and not self._creating.done():
                await asyncio.wait([self._creating])
            elif self.failure is not None:
                raise self.failure
            else:
                self._move()
                await asyncio.sleep(0)

    async def close(self) -> None:
        """See `Database.close`; a file that is being created is finished first."""
        if self.connection is None:
            return
        if self._unborn:
            self.rollback_all(ConnectionError("the object's storage was closed"))
            if self._creating is not None:
                await asyncio.wait([self._creating])
                self._move()
        if self._unborn:
            # nothing was kept, or there is nothing to keep it in
            if self._file is not None:
                connection, wal = self._file
                self._file = None
                with contextlib.suppress(sqlite3.Error):
                    connection.close()
                os.close(wal.descriptor)
            self.connection.close()
            self.closed = True
            return
        await super().close()
