"""Where a database is kept: one object, so one SQLite file, under the same authorizer and limits as an object's SQL,
with the runtime's commits and output gate. The platform does the same.
"""

import time
from typing import Any, Final

from moorage.durable_objects.runtime.base import DurableObject
from moorage.durable_objects.runtime.errors import SqlError
from moorage.durable_objects.runtime.statements import split

NAMESPACE: Final = "~d1"
"""Folder of the databases' files; no Worker's name has that character."""

SERVED_BY: Final = "moorage"


class D1Store(DurableObject):
    """Runs statements. A result is `{"columns", "rows", "meta"}`; a BLOB in a row is bytes."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self._sql = ctx.storage.sql

    def query(self, statements: list[Any]) -> list[dict[str, Any]]:
        """Runs `[text, values]` pairs in order, all or none of them. Raises SqlError."""
        if len(statements) == 1 and len(split(statements[0][0])) == 1:
            # One statement is all or nothing by itself, and one that only reads needs no transaction to be synced.
            return [self._one(*statements[0])]
        results: list[dict[str, Any]] = self.ctx.storage.transactionSync(
            lambda: [self._one(*statement) for statement in statements]
        )
        return results

    def script(self, text: str) -> dict[str, Any]:
        """Runs the statements of a text one after another; those before a failed one stay.

        Returns `{"count", "failed"}`; `failed` is None or `[line, statement, text of the error]`.
        """
        count = 0
        for statement in split(text):
            if not statement.keyword:
                continue
            try:
                self._one(statement.sql, [])
            except SqlError as error:
                line = text.count("\n", 0, statement.offset) + 1
                return {"count": count, "failed": [line, statement.sql, str(error)]}
            count += 1
        return {"count": count, "failed": None}

    def _one(self, text: str, values: list[Any]) -> dict[str, Any]:
        size, before, row_id = self._sql.databaseSize, *self._counters()
        started = time.perf_counter()
        cursor = self._sql.exec(text, *values)
        rows = cursor.raw().toArray()
        duration = (time.perf_counter() - started) * 1000
        after, new_row_id = self._counters()
        new_size = self._sql.databaseSize
        meta = {
            "served_by": SERVED_BY,
            "duration": round(duration, 3),
            "changes": after - before,
            "last_row_id": new_row_id,
            "changed_db": after != before or new_row_id != row_id or new_size != size,
            "size_after": new_size,
            "rows_read": cursor.rowsRead,
            "rows_written": cursor.rowsWritten,
        }
        return {"columns": cursor.columnNames, "rows": rows, "meta": meta}

    def _counters(self) -> list[int]:
        found: list[int] = next(self._sql.exec("SELECT total_changes(), last_insert_rowid()").raw())
        return found
