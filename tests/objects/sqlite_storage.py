"""The synchronous part of `ctx.storage` over a plain sqlite3 connection: what a store class needs, and nothing
else.
"""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class Cursor:
    """Rows as dictionaries, as the platform's cursor gives them."""

    def __init__(self, names: list[str], rows: list[tuple[Any, ...]], written: int) -> None:
        self.columnNames = names
        self._rows = rows
        self.rowsWritten = written

    def toArray(self) -> list[dict[str, Any]]:
        return [dict(zip(self.columnNames, row, strict=True)) for row in self._rows]

    def one(self) -> dict[str, Any]:
        (row,) = self.toArray()
        return row

    def raw(self) -> Iterator[list[Any]]:
        return iter([list(row) for row in self._rows])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.toArray())


class Sql:
    def __init__(self, path: str = ":memory:") -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        # the platform's bound
        self.connection.setlimit(sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 5)

    def exec(self, text: str, *bindings: Any) -> Cursor:
        statements = [text] if bindings else list(_statements(text))
        for statement in statements[:-1]:
            self.connection.execute(statement)
        cursor = self.connection.execute(statements[-1], bindings)
        names = [column[0] for column in cursor.description or ()]
        return Cursor(names, cursor.fetchall(), max(cursor.rowcount, 0))


def _statements(text: str) -> Iterator[str]:
    begun = ""
    for line in text.splitlines(keepends=True):
        begun += line
        if sqlite3.complete_statement(begun):
            yield begun
            begun = ""
    if begun.strip():
        yield begun


class Kv:
    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def put(self, key: str, value: Any) -> None:
        self.values[key] = value

    def delete(self, key: str) -> bool:
        return self.values.pop(key, None) is not None

    def list(self, **options: Any) -> Iterator[tuple[str, Any]]:
        found = sorted(item for item in self.values.items() if item[0].startswith(options.get("prefix", "")))
        return iter(found[: options.get("limit", len(found))])


class Storage:
    """`sql`, `kv` and `transactionSync`; a transaction that raises undoes its statements."""

    def __init__(self, path: str = ":memory:") -> None:
        self.sql = Sql(path)
        self.kv = Kv()

    def transactionSync(self, work: Callable[[], T]) -> T:
        outer = not self.sql.connection.in_transaction
        self.sql.connection.execute("BEGIN" if outer else "SAVEPOINT inner_")
        kept = dict(self.kv.values)
        try:
            result = work()
        except BaseException:
            self.sql.connection.execute("ROLLBACK" if outer else "ROLLBACK TO inner_")
            self.kv.values = kept
            raise
        self.sql.connection.execute("COMMIT" if outer else "RELEASE inner_")
        return result

    def close(self) -> None:
        self.sql.connection.close()
