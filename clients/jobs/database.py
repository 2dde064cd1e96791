"""The queue's SQLite file: opened by many processes at once, one transaction for one operation."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from moorage.protocols.jobs import sql
from moorage.protocols.jobs.errors import Refused
from moorage.protocols.jobs.steps import Row, Statement, Steps, run_steps

if TYPE_CHECKING:
    import sqlite3

T = TypeVar("T")
VERSION = 1
BUSY_SECONDS = 60.0


class QueueDatabase:
    """A connection to a queue. Not for sharing between threads; open one for each.

    Commits are synced (`synchronous=FULL` under WAL): a handover that was printed is never forgotten by a power cut,
    which would hand the job out a second time.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """Opens the file. Raises `Refused("no-database")` when there is none and `create` is off."""
        import sqlite3

        if not create and not path.is_file():
            raise Refused("no-database", f"there is no queue at {path}; `moorage jobs scan` makes one")
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            # nonces are in it: other users of the machine have no business there
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        self.path = path
        self._connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, cached_statements=256)
        try:
            self._connection.row_factory = _row
            self._connection.execute("PRAGMA synchronous = FULL")
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        version = self._connection.execute("PRAGMA user_version").fetchone()["user_version"]
        if version > VERSION:
            raise Refused("usage", f"{self.path} was made by a newer version of Moorage (format {version})")
        if version == VERSION:
            return
        self._connection.execute("PRAGMA journal_mode = WAL")
        with self._transaction("BEGIN IMMEDIATE"):
            for statement in sql.SCHEMA:
                self._connection.execute(statement)
            self._connection.execute(f"PRAGMA user_version = {VERSION}")

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[None]:
        self._connection.execute(begin)
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            # a full disk makes SQLite undo it by itself
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def execute(self, statement: Statement) -> list[Row]:
        """The rows of one statement."""
        rows: list[Row] = self._connection.execute(statement.sql, statement.bindings).fetchall()
        return rows

    def transact(self, steps: Steps[T]) -> T:
        """Runs an operation that writes. The write lock is taken first, so it never fails half way for being late."""
        with self._transaction("BEGIN IMMEDIATE"):
            return run_steps(steps, self.execute)

    def query(self, steps: Steps[T]) -> T:
        """Runs an operation that only reads, on one snapshot; writers go on meanwhile.

        Asked from within an operation (a target looked up while findings are), it reads what that one sees.
        """
        if self._connection.in_transaction:
            return run_steps(steps, self.execute)
        with self._transaction("BEGIN"):
            return run_steps(steps, self.execute)

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()


def _row(cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> Row:
    return {column[0]: value for column, value in zip(cursor.description, values, strict=True)}
