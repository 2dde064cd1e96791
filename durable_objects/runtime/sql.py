"""`ctx.storage.sql`: statements and cursors (semantics 9)."""

import re
import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from .authorizer import reserved
from .clone import Undefined
from .errors import SqlError
from .javascript import text_of, well_formed
from .sql_errors import describe as describe
from .statements import Statement, new_name, parameter_names, split

if TYPE_CHECKING:
    from .instance import Instance

MAX_TEXT_BYTES: Final = 100_000
NOT_AUTHORIZED: Final = "not authorized: SQLITE_AUTH"
_TEMPORARY: Final = 1  # SQLite's number for `temp`; `main` is 0
_NOT_A_DATABASE_NUMBER: Final = 2**53

TRANSACTION_HINT: Final = (
    "To execute a transaction, please use the state.storage.transaction() or state.storage.transactionSync() APIs "
    "instead of the SQL BEGIN TRANSACTION or SAVEPOINT statements. The JavaScript API is safer because it will "
    "automatically roll back on exceptions, and because it interacts correctly with Durable Objects' automatic "
    "atomic write coalescing."
)
NO_SQL: Final = (
    "SQL is not enabled for this Durable Object class. To enable it, change `new_classes` to `new_sqlite_classes` "
    "within the 'migrations' field in your wrangler.jsonc or wrangler.toml file. If using workerd directly,set "
    "`enableSql = true` in your workerd config for the class. Note that this change cannot be made after the class "
    "is already deployed to production."
)


class Row(dict[str, Any]):
    """A result row: `row["name"]` and `row.name`. Of two columns with one name the last wins."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the row has no column {name!r}; columns: {', '.join(self)}") from None

    def to_py(self) -> dict[str, Any]:
        """Returns a plain dict of the row."""
        return dict(self)


_OPENS_TRANSACTION: Final = re.compile(r"\b(?:optimize|defer_foreign_keys)\b", re.IGNORECASE)


class SqlStorage:
    """`ctx.storage.sql`. Statements run at once, in the object's implicit transaction when they write."""

    __slots__ = ("_instance", "_known")

    def __init__(self, instance: "Instance") -> None:
        self._instance = instance
        # What EXPLAIN said of a text: (writes, parameters). The answer does not depend on the schema.
        self._known: dict[str, tuple[bool, int]] = {}

    @property
    def databaseSize(self) -> int:
        """Bytes in use: 4,096 for an empty object; falls after a delete."""
        self._check()
        return self._instance.database.size()

    def exec(self, text: str, *bindings: Any) -> "SqlCursor":
        """Runs `text`, one or several statements, and returns the cursor of the last one.

        Only the last statement may have parameters. Numbers bind as REAL (an INTEGER column stores whole ones as
        integers by affinity) unless they need more than 53 bits; bytes bind as BLOB, None as NULL; bool, dates,
        dicts and lists become the text that JavaScript makes of them. Raises SqlError (semantics 9.1 to 9.15).
        """
        self._check()
        text = well_formed(text if isinstance(text, str) else text_of(text))
        if len(text) > MAX_TEXT_BYTES // 4 and len(text.encode("utf-8", "replace")) > MAX_TEXT_BYTES:
            raise SqlError("statement too long: SQLITE_TOOBIG")
        statements = split(text)
        cursor: SqlCursor | None = None
        for statement in statements:
            last = statement is statements[-1]
            cursor = self._run(statement, bindings if last else (), last=last)
        if cursor is None:
            raise SqlError("SQL code did not contain a statement.")
        return cursor

    def _check(self) -> None:
        self._instance.check()
        if not self._instance.namespace.sqlite:
            raise SqlError(NO_SQL)

    def _run(self, statement: Statement, bindings: tuple[Any, ...], *, last: bool) -> "SqlCursor":
        if not statement.keyword:
            raise SqlError("SQL code did not contain a statement.")
        if statement.controls_transaction:
            raise SqlError(TRANSACTION_HINT)
        if statement.keyword == "ALTER" and reserved(new_name(statement.sql)):
            raise SqlError(NOT_AUTHORIZED)  # SQLite's authorizer is not told the new name
        database = self._instance.database
        database.user_mode = True
        try:
            writes, parameters = self._known.get(statement.sql) or self._explain(statement)
            if parameters and not last:
                raise SqlError(
                    "When executing multiple SQL statements in a single call, only the last statement can have "
                    "parameters."
                )
            if parameters != len(bindings):
                raise SqlError("Wrong number of parameter bindings for SQL query.")
            if writes:
                database.user_mode = False
                database.write()
                database.user_mode = True
            values: Any = ()
            if bindings:
                bound = [value if type(value) in _BOUND_AS_IT_IS else _bind(value) for value in bindings]
                values = _by_name(statement.sql, bound)
            before = database.connection.total_changes
            # What is prepared already is not authorized again: a pragma of the runtime's own must be another text.
            sql = f"/**/{statement.sql}" if statement.keyword == "PRAGMA" else statement.sql
            try:
                raw = database.connection.execute(sql, values)
            except UnicodeEncodeError:
                bound = [_bind(value) for value in bindings]
                valid = [well_formed(value) if isinstance(value, str) else value for value in bound]
                raw = database.connection.execute(sql, _by_name(sql, valid))
            rows = _Buffered(raw) if writes and raw.description else raw
            return SqlCursor(self._instance, rows, raw.description, database.connection.total_changes - before)
        except sqlite3.Error as error:
            if database.lost:
                database.undone_by = error
            raise SqlError(describe(error, statement.before + statement.sql, self._message_of)) from None
        finally:
            database.user_mode = False

    def _explain(self, statement: Statement) -> tuple[bool, int]:
        known = (True, 0)
        if statement.keyword == "EXPLAIN":
            known = (False, self._parameters(statement.sql))
        elif statement.keyword == "PRAGMA":
            # A pragma opens no transaction, so that `foreign_keys` can be switched. But `optimize` may write
            # statistics, and `defer_foreign_keys` lasts only as long as a transaction.
            known = (_OPENS_TRANSACTION.search(statement.sql) is not None, 0)
        elif statement.keyword not in {"VACUUM", "ATTACH", "DETACH"}:
            known = self._compile(statement.sql)
        if len(self._known) >= 512:
            self._known.clear()
        self._known[statement.sql] = known
        return known

    def _compile(self, sql: str) -> tuple[bool, int]:
        connection = self._instance.database.connection
        names = parameter_names(sql)
        if names:
            return _writes(connection, sql, dict.fromkeys(names)), len(names)
        values: tuple[None, ...] = ()
        while True:
            try:
                return _writes(connection, sql, values), len(values)
            except sqlite3.ProgrammingError as error:
                match = re.search(r"uses (\d+)", str(error))
                if match is None or len(values) == int(match[1]):
                    raise
                values = (None,) * int(match[1])

    def _message_of(self, sql: str) -> str:
        """What SQLite says of a text, empty when it is one that could run."""
        try:
            _writes(self._instance.database.connection, sql, ())
        except (sqlite3.Error, SqlError) as error:
            return str(error)
        return ""

    def _parameters(self, sql: str) -> int:
        connection = self._instance.database.connection
        try:
            connection.execute(sql).close()
        except sqlite3.ProgrammingError as error:
            match = re.search(r"uses (\d+)", str(error))
            if match is None:
                raise
            return int(match[1])
        return 0


def _writes(connection: sqlite3.Connection, sql: str, values: Any) -> bool:
    """Whether a statement writes, by its program. Raises SqlError when it is the database of temporary tables.

    `CREATE TABLE temp.name` is no temporary table to the authorizer.
    """
    before, connection.text_factory = connection.text_factory, bytes  # constants in the program may be no UTF-8
    try:
        program = connection.execute(f"EXPLAIN {sql}", values).fetchall()
    finally:
        connection.text_factory = before
    databases = {row[2] for row in program if row[1] == b"Transaction" and row[3] != 0}
    if databases == {_TEMPORARY}:
        raise SqlError(NOT_AUTHORIZED)
    return bool(databases)


_BOUND_AS_IT_IS: Final = frozenset({str, bytes, float, type(None)})


def _bind(value: Any) -> Any:
    kind = type(value)
    if kind in _BOUND_AS_IT_IS:
        return value
    if kind is int:
        return float(value) if -_NOT_A_DATABASE_NUMBER <= value <= _NOT_A_DATABASE_NUMBER else _wide(value)
    if kind is bool:
        return "true" if value else "false"
    if isinstance(value, Undefined):
        return None
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return text_of(value)


def _wide(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise SqlError(f"integer {value} is too large for SQLite: it must fit in 64 bits")
    return value


def _by_name(sql: str, values: list[Any]) -> list[Any] | dict[str, Any]:
    """Named parameters are bound by name: newer versions of the standard module refuse a sequence for them."""
    names = parameter_names(sql)
    return dict(zip(names, values, strict=True)) if names else values


def _lenient(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _fetch(cursor: "sqlite3.Cursor | _Buffered") -> Any:
    """The next row, None at the end. Text that is no UTF-8 has U+FFFD in it."""
    try:
        return next(cursor, None)
    except sqlite3.OperationalError as error:
        if not _undecodable(cursor, error):
            raise
        return next(cursor, None)  # the module did not move on


def _fetch_all(cursor: "sqlite3.Cursor | _Buffered", rows: list[Any]) -> None:
    """Appends the rows that are left to `rows`; text as in `_fetch`."""
    try:
        rows.extend(cursor)
    except sqlite3.OperationalError as error:
        if not _undecodable(cursor, error):
            raise
        rows.extend(cursor)


def _undecodable(cursor: "sqlite3.Cursor | _Buffered", error: sqlite3.OperationalError) -> bool:
    """Whether a row has text that is no UTF-8; from now on the connection reads such text, too, at some cost."""
    if isinstance(cursor, _Buffered) or not str(error).startswith("Could not decode to UTF-8"):
        return False
    cursor.connection.text_factory = _lenient
    return True


class _Buffered:
    """The rows of a writing statement (RETURNING), all taken at once: nothing commits while one is open.

    SQLite has made every change when it gives the first row, and keeps the rows by itself until then.
    """

    __slots__ = ("_rows",)

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        rows: list[Any] = []
        _fetch_all(cursor, rows)
        self._rows = iter(rows)

    def __iter__(self) -> Iterator[Any]:
        return self._rows

    def __next__(self) -> Any:
        return next(self._rows)

    def close(self) -> None:
        """Gives up the rows that are left."""
        self._rows = iter(())


class SqlCursor:
    """The rows of one statement, read once, forwards: every way to read takes from the same sequence.

    `rowsWritten` counts rows that the statement and its triggers inserted, updated or deleted; index entries are not
    in it, and `rowsRead` counts rows that came out, not rows that were visited: the standard module shows neither.
    """

    __slots__ = ("__weakref__", "_ahead", "_changes", "_cursor", "_failure", "_given", "_instance", "_names")

    def __init__(
        self, instance: "Instance", cursor: "sqlite3.Cursor | _Buffered", description: Any, changes: int
    ) -> None:
        self._instance = instance
        self._cursor = cursor
        self._changes = changes
        self._given = 0
        self._names: tuple[str, ...] = tuple(column[0] for column in description) if description else ()
        self._failure: sqlite3.Error | None = None
        self._ahead: Any = _fetch(cursor) if description else None
        if self._ahead is not None:
            instance.database.cursors.add(self)

    @property
    def columnNames(self) -> list[str]:
        """Names of the result's columns, in order, repeated ones included; empty for a statement without rows."""
        return list(self._names)

    @property
    def rowsRead(self) -> int:
        """Rows that the statement has produced so far, the one that waits to be read included."""
        return self._given + (self._ahead is not None)

    @property
    def rowsWritten(self) -> int:
        """Rows inserted, updated or deleted."""
        return self._changes

    def _take(self) -> Any:
        row = self._ahead
        if row is None:
            self._fail()
            return None
        try:
            self._ahead = _fetch(self._cursor)
        except sqlite3.Error as error:
            # the row before is as good as ever
            self._ahead, self._failure = None, error
        self._given += 1
        return row

    def _fail(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise SqlError(describe(failure))

    def _rest(self) -> list[Any]:
        row = self._ahead
        if row is None:
            self._fail()
            return []
        self._ahead = None
        rows = [row]
        try:
            _fetch_all(self._cursor, rows)
        except sqlite3.Error as error:
            raise SqlError(describe(error)) from None
        self._given += len(rows)
        return rows

    def _row(self, values: tuple[Any, ...]) -> Row:
        return Row(zip(self._names, _numbers(values), strict=True))

    def toArray(self) -> list[Row]:
        """Returns the rows that are left."""
        names = self._names
        rows = self._rest()
        if any(float in set(map(type, row)) for row in rows):
            rows = [_numbers(row) for row in rows]
        return self._instance.namespace.listed([Row(zip(names, row, strict=True)) for row in rows])

    def one(self) -> Row:
        """Returns the only row. Raises SqlError when there is none or more than one."""
        row = self._take()
        if row is None:
            raise SqlError("Expected exactly one result from SQL query, but got no results.")
        if self._ahead is not None:
            self._rest()
            raise SqlError("Expected exactly one result from SQL query, but got multiple results.")
        return self._row(row)

    def next(self) -> dict[str, Any]:
        """Returns `{"done": False, "value": row}`, or `{"done": True}` at the end, as JavaScript iterators do."""
        row = self._take()
        return {"done": True} if row is None else {"done": False, "value": self._row(row)}

    def raw(self) -> "RawCursor":
        """Returns an iterator of lists of values that takes from the same sequence; it has `toArray()` too."""
        return RawCursor(self)

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        row = self._take()
        if row is None:
            raise StopIteration
        return self._row(row)

    def close(self) -> None:
        """Gives up the rows that are left; the tables they come from are free again."""
        self._ahead = None
        self._cursor.close()


class RawCursor:
    """Rows as lists of values, taken from the cursor they came from."""

    __slots__ = ("_cursor",)

    def __init__(self, cursor: SqlCursor) -> None:
        self._cursor = cursor

    @property
    def columnNames(self) -> list[str]:
        """As on the cursor."""
        return self._cursor.columnNames

    def toArray(self) -> list[list[Any]]:
        """Returns the rows that are left."""
        listed = self._cursor._instance.namespace.listed
        return listed([listed(list(_numbers(row))) for row in self._cursor._rest()])

    def next(self) -> dict[str, Any]:
        """Returns `{"done": False, "value": [...]}`, or `{"done": True}` at the end."""
        row = self._cursor._take()
        return {"done": True} if row is None else {"done": False, "value": list(_numbers(row))}

    def __iter__(self) -> Iterator[list[Any]]:
        return self

    def __next__(self) -> list[Any]:
        row = self._cursor._take()
        if row is None:
            raise StopIteration
        return list(_numbers(row))


def _numbers(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Whole REAL values within 53 bits come out as int: JavaScript has one kind of number, and binding makes
    REALs.
    """
    if float not in set(map(type, row)):
        return row
    return tuple(
        int(value) if type(value) is float and value.is_integer() and abs(value) <= _NOT_A_DATABASE_NUMBER else value
        for value in row
    )
