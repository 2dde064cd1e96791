"""One object's SQLite file: opening, implicit and explicit transactions, durability, checkpoints.

The connection lives on the event loop's thread: a storage call finishes at once, so awaiting it never lets another
event in. Opening, closing and checkpoints, which sync, happen in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import weakref
from collections.abc import Callable
from typing import Any, Final, NoReturn

from .authorizer import LIMITS, allowed
from .awaitables import wake
from .commitlog import CommitLog, WalFile
from .connecting import PAGE_SIZE, connect

CHECKPOINT_BYTES = 4 * 1024 * 1024
CHECKPOINT_COMMITS = 500
UNDONE: Final = "SQLite undid the whole transaction: a write failed in the middle of it, or a conflict asked for it"


class Database:
    """The open database of one instance.

    `on_dirty` is called at the first write of an implicit transaction; the owner schedules `commit_implicit` then.
    `on_failure` gets the error of a failed commit or sync; the owner resets the instance.

    Sequence numbers order transactions: `begun` counts those that were opened, `synced` is the newest that is
    durable. An answer may leave when `synced` has reached `hold`, the newest transaction with a confirmed write.
    """

    def __init__(self, path: str | None, log: CommitLog, image: bytes | None = None) -> None:
        self.path = path
        self.log = log
        self.image = image
        self.connection: sqlite3.Connection = None  # type: ignore[assignment]
        self.wal: WalFile | None = None
        self.user_mode = False
        self.begun = self.committed = self.synced = self.hold = 0
        self.implicit = False
        self.explicit = 0
        # Open savepoints by name; the first may stand for the whole implicit transaction.
        self._savepoints: list[str] = []
        self._whole: str | None = None
        self._commit_wanted = False
        self.on_dirty: Callable[[], None] = lambda: None
        self.on_failure: Callable[[BaseException], None] = lambda error: None
        self.on_synced: Callable[[], None] = lambda: None
        # Files that must be durable before this object's next commit is (the alarm index), and what to do then.
        self.before_commit: Callable[[], tuple[WalFile, ...]] = tuple
        self.after_commit: Callable[[], None] = lambda: None
        self.cursors: weakref.WeakSet[Any] = weakref.WeakSet()
        # How often everything was deleted: a reader that began before has nothing left to read.
        self.deletions = 0
        self.tables: dict[str, bool] = {}
        self.generation = 0
        self._commits = 0
        self._wal_size = 0
        self._checkpoint: asyncio.Future[Any] | None = None
        self._waiting: list[tuple[int, Callable[[BaseException | None], None]]] = []
        self.failure: BaseException | None = None
        self.undone_by: sqlite3.Error | None = None
        self.closed = False

    # Opening and closing. `open` and `close_connection` run in a thread.

    def open(self) -> None:
        """Opens or creates the file. Raises OSError or sqlite3.Error with the path in its notes."""
        try:
            self._open()
        except (OSError, sqlite3.Error) as error:
            if self.connection is not None:
                self.connection.close()
            error.add_note(f"object storage: {self.path}")
            raise

    def _open(self) -> None:
        self.connection = connect(self.path)
        if self.path is None:
            if self.image is not None:
                self.connection.deserialize(self.image)
            else:
                self.connection.execute("PRAGMA user_version=1")  # an image of no pages cannot be made
        else:
            self.wal = WalFile(f"{self.path}-wal")
        self.guard(self.connection)

    def guard(self, connection: sqlite3.Connection) -> None:
        """Sets the limits and the authorizer that user code runs under."""
        for limit, value in LIMITS.items():
            connection.setlimit(limit, value)
        connection.set_authorizer(self._authorize)

    def _authorize(self, action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if not self.user_mode or allowed(action, first, second):
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    async def materialise(self) -> None:
        """Makes sure that there is a file others can read what was committed from."""

    async def close(self) -> None:
        """Rolls back what is open, waits for queued syncs and a running checkpoint, and closes the file."""
        if self.connection is None:
            return
        self.rollback_all(ConnectionError("the object's storage was closed"))
        if self._checkpoint is not None:
            await asyncio.wait([self._checkpoint])
        if self.wal is not None:
            released = asyncio.get_running_loop().create_future()
            self.log.release(self.wal, lambda _: wake(released))
            self.wal = None
            await released
        if self.path is None:
            self.image = self.connection.serialize()
            self.connection.close()
        else:
            await asyncio.to_thread(self._close_file)

    def _close_file(self) -> None:
        # Closing the last connection checkpoints and removes the -wal. After a failed sync nothing in the WAL may be
        # taken for durable: the checkpoint writes the pages again and syncs the database; without it, no reopening.
        if self.failure is not None and self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise sqlite3.OperationalError("the checkpoint after a failed sync was blocked")
        self.connection.close()
        self.closed = True

    async def close_again(self) -> None:
        """Tries the last step of a `close()` that failed once more. Raises sqlite3.Error or OSError."""
        if not self.closed:
            await asyncio.to_thread(self._close_file)

    # Transactions.

    @property
    def in_transaction(self) -> bool:
        """Whether any transaction, implicit or explicit, is open."""
        return self.implicit or self.explicit > 0

    @property
    def nested(self) -> bool:
        """Whether code runs inside `transaction()` or `transactionSync()`."""
        return self.explicit > 0 or bool(self._savepoints)

    def write(self, *, confirmed: bool = True) -> None:
        """Opens the implicit transaction if none is open; called before every write."""
        if not self.implicit and not self.explicit:
            self.connection.execute("BEGIN IMMEDIATE")
            self.implicit = True
            self.begun += 1
            self.on_dirty()
        elif not self.connection.in_transaction:
            self.lose()
        # An explicit transaction holds the gate only once it has committed: calls made inside it may leave.
        if confirmed and not self.explicit:
            self.hold = self.begun

    @property
    def lost(self) -> bool:
        """Whether SQLite undid the open transaction by itself: a failing disk, `ON CONFLICT ROLLBACK`."""
        return self.in_transaction and not self.connection.in_transaction

    def lose(self) -> NoReturn:
        """Reports that the open transaction is lost: what followed would be kept without it. Raises sqlite3.Error."""
        error = self.undone_by or sqlite3.OperationalError(UNDONE)
        self._forget_transactions()
        self._rolled_back()
        self.failure_of_commit(error)
        raise error

    def commit_implicit(self) -> None:
        """Commits the implicit transaction, if one is open, and hands it to the commit log.

        A refused commit rolls back and reports to `on_failure`; it does not raise. While a savepoint is open nothing
        is committed: its `release` asks for the commit again.
        """
        if self._savepoints:
            self._commit_wanted = self.implicit
            return
        if not self.implicit:
            return
        self.implicit = False
        try:
            self._commit()
        except (sqlite3.Error, OSError) as error:
            self._rolled_back()
            self.failure_of_commit(error)

    def _end_transaction(self) -> tuple[WalFile, ...]:
        if not self.connection.in_transaction:
            raise self.undone_by or sqlite3.OperationalError(UNDONE)
        try:
            before = self.before_commit()
            self.connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
            raise
        self.committed = self.begun
        self.generation += 1
        return before

    def _commit(self) -> None:
        before = self._end_transaction()
        sequence = self.committed
        if self.wal is None:
            self._durable(sequence, None)
            return
        self._commits += 1
        self.log.commit((*before, self.wal), lambda error: self._durable(sequence, error))

    def _durable(self, sequence: int, error: BaseException | None) -> None:
        if error is not None:
            if self.failure is None:
                self.failure = error
                self.on_failure(error)
                self._fail_waiting(error)
            return
        if self.failure is not None:
            return
        self.synced = max(self.synced, sequence)
        self.after_commit()
        waiting, self._waiting = self._waiting, []
        for needed, callback in waiting:
            if needed <= self.synced:
                callback(None)
            else:
                self._waiting.append((needed, callback))
        if self._commits >= CHECKPOINT_COMMITS:
            self._maybe_checkpoint()
        self.on_synced()

    def autocommitted(self) -> None:
        """Counts a statement that committed by itself (the alarm index), so that checkpoints come in time."""
        self._commits += 1
        if self._commits >= CHECKPOINT_COMMITS:
            self._maybe_checkpoint()

    def failure_of_commit(self, error: BaseException) -> None:
        """Reports a commit that SQLite refused: nothing of it was kept."""
        self.on_failure(error)
        self._fail_waiting(error)

    def _fail_waiting(self, error: BaseException) -> None:
        waiting, self._waiting = self._waiting, []
        for _, callback in waiting:
            callback(error)

    def when_durable(self, sequence: int, callback: Callable[[BaseException | None], None]) -> None:
        """Calls back once transaction `sequence` is durable, or with the error that broke it. At once when it is."""
        if self.failure is not None:
            callback(self.failure)
        elif sequence <= self.synced:
            callback(None)
        else:
            self._waiting.append((sequence, callback))

    @property
    def clean(self) -> bool:
        """Whether everything that holds the output gate is durable."""
        return self.hold <= self.synced

    def begin_explicit(self) -> None:
        """Starts an explicit transaction, or a savepoint inside one. The implicit one is committed first."""
        if self.explicit:
            self.connection.execute(f"SAVEPOINT moorage_{self.explicit}")
        else:
            self.commit_implicit()
            self.connection.execute("BEGIN IMMEDIATE")
            self.begun += 1
        self.explicit += 1

    def commit_explicit(self) -> None:
        """Ends the innermost explicit transaction and keeps it. Raises sqlite3.Error when SQLite refuses the
        commit.
        """
        self.explicit -= 1
        if self.explicit:
            self.connection.execute(f"RELEASE moorage_{self.explicit}")
            return
        self.hold = self.begun
        try:
            self._commit()
        except sqlite3.Error:
            self._rolled_back()
            raise

    def rollback_explicit(self) -> None:
        """Ends the innermost explicit transaction and undoes it."""
        if self.lost:
            self.lose()
        self.explicit -= 1
        if self.explicit:
            self.connection.execute(f"ROLLBACK TO moorage_{self.explicit}")
            self.connection.execute(f"RELEASE moorage_{self.explicit}")
        else:
            self.connection.execute("ROLLBACK")
            self._skip()
        self._rolled_back()

    def savepoint(self, name: str) -> None:
        """Opens a savepoint inside whatever transaction is open (opening the implicit one if none is).

        One at the very beginning of the implicit transaction is that transaction: a savepoint of its own would make
        SQLite keep a copy of every page that is changed.
        """
        fresh = not self.in_transaction
        self.write()
        if fresh:
            self._whole = name
        else:
            self.connection.execute(f"SAVEPOINT {name}")
        self._savepoints.append(name)

    def release(self, name: str) -> None:
        """Keeps what was done since `savepoint(name)`."""
        if name == self._whole:
            self._whole = None
        else:
            self.connection.execute(f"RELEASE {name}")
        self._close_savepoint(name)

    def rollback_to(self, name: str) -> None:
        """Undoes what was done since `savepoint(name)` and ends it."""
        if self.lost:
            self.lose()
        if name == self._whole:
            self._whole = None
            self.implicit = False
            self.connection.execute("ROLLBACK")
            self._skip()
        else:
            self.connection.execute(f"ROLLBACK TO {name}")
            self.connection.execute(f"RELEASE {name}")
        self._close_savepoint(name)
        self._rolled_back()

    def _close_savepoint(self, name: str) -> None:
        del self._savepoints[self._savepoints.index(name) :]
        if self._commit_wanted and not self._savepoints:
            self._commit_wanted = False
            if self.implicit:
                self.on_dirty()

    def rollback_all(self, error: BaseException) -> None:
        """Undoes every open transaction; whoever waits for durability gets `error`."""
        if self.in_transaction:
            self._forget_transactions()
            with contextlib.suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
            self._rolled_back()
        self._fail_waiting(error)

    def _skip(self) -> None:
        # A transaction that was undone holds no answer back: give its number to the newest one that was committed.
        self.begun = self.committed
        self.hold = min(self.hold, self.committed)
        waiting, self._waiting = self._waiting, []
        for needed, callback in waiting:
            self.when_durable(min(needed, self.committed), callback)

    def _forget_transactions(self) -> None:
        self.implicit, self.explicit, self._whole = False, 0, None
        self._savepoints.clear()

    def _rolled_back(self) -> None:
        self.tables.clear()
        self.generation += 1

    def delete_all(self, keep: Callable[[], None]) -> None:
        """Drops every table, view, index and trigger in a transaction of its own; `keep()` writes what is to stay.

        Open cursors are given up first: SQLite locks the tables they read.
        """
        self.commit_implicit()
        for cursor in list(self.cursors):
            cursor.close()
        self.cursors.clear()
        self.deletions += 1
        execute = self.connection.execute
        execute("PRAGMA foreign_keys=OFF")
        try:
            self.write()
            # Virtual tables first: dropping one drops its shadow tables.
            found = execute(
                "SELECT type, name FROM sqlite_master WHERE type IN ('table','view') AND name NOT LIKE 'sqlite!_%' "
                "ESCAPE '!' ORDER BY sql LIKE 'CREATE VIRTUAL%' DESC"
            ).fetchall()
            for kind, name in found:
                quoted = name.replace('"', '""')
                execute(f'DROP {kind} IF EXISTS "{quoted}"')
            self._rolled_back()
            keep()
            self.commit_implicit()
        finally:
            execute("PRAGMA foreign_keys=ON")

    # Facts.

    def has_table(self, name: str) -> bool:
        """Whether table `name` exists now; remembered until a transaction is undone or everything is deleted."""
        known = self.tables.get(name)
        if known is None:
            row = self.connection.execute("SELECT 1 FROM sqlite_master WHERE name=?", (name,)).fetchone()
            known = self.tables[name] = row is not None
        return known

    def size(self) -> int:
        """Pages in use times the page size, in bytes; what the open transaction wrote counts (semantics 9.16)."""
        pages = self.connection.execute("PRAGMA page_count").fetchone()[0]
        free = self.connection.execute("PRAGMA freelist_count").fetchone()[0]
        return int(max(pages - free, 1)) * PAGE_SIZE

    # Checkpoints: PASSIVE in a thread on a connection of its own; the other modes would stall the loop.

    def _maybe_checkpoint(self) -> None:
        self._commits = 0
        if self.wal is None or (self._checkpoint is not None and not self._checkpoint.done()):
            return
        size = os.fstat(self.wal.descriptor).st_size
        if size < CHECKPOINT_BYTES:
            return
        path = self.wal.path.removesuffix("-wal")
        self._checkpoint = asyncio.get_running_loop().run_in_executor(None, passive_checkpoint, path)
        self._checkpoint.add_done_callback(_log_failure)


def passive_checkpoint(path: str) -> tuple[int, int]:
    """Copies what it can from the WAL into the database; returns (pages in the WAL, pages copied)."""
    connection = sqlite3.connect(path, timeout=0)
    try:
        _, pages, copied = connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return pages, copied
    finally:
        connection.close()


def _log_failure(future: asyncio.Future[Any]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        import logging

        logging.getLogger("moorage.runtime").warning("checkpoint failed, will be tried again: %s", error)
