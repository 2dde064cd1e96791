"""The binding `env.DB`: databases, prepared statements, sessions."""

import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

from moorage.durable_objects.runtime.errors import SqlError

from ...workers.bindings import Binding
from ...workers.js.errors import JsException
from ..values import Presentation, options_of
from .conversion import bound, shown

_numbers = itertools.count(1)
_CONSTRAINTS = ("first-primary", "first-unconstrained")


class _Queries:
    """What a database and a session share: where statements go, and in what form results come back."""

    def __init__(self, store: Any, now: Callable[[], int], form: Presentation) -> None:
        self.store = store
        self.now = now
        self.form = form
        self.bookmark: str | None = None

    async def run(self, statements: list["D1PreparedStatement"]) -> list[dict[str, Any]]:
        sent = [[statement._text, list(statement._values)] for statement in statements]
        try:
            results: list[dict[str, Any]] = await self.store.query(sent)
        except SqlError as error:
            raise _failure(str(error)) from None
        self.bookmark = f"{self.now():016x}-{next(_numbers):08x}"
        return results

    def result(self, found: dict[str, Any]) -> Any:
        columns = found["columns"]
        rows = [dict(zip(columns, map(shown, row), strict=True)) for row in found["rows"]]
        return self.form.value({"success": True, "meta": found["meta"], "results": rows})


def _failure(text: str, code: str = "D1_ERROR") -> JsException:
    error = JsException(f"{code}: {text}")
    error.cause = JsException(text)  # type: ignore[attr-defined]
    return error


class D1PreparedStatement(Binding):
    """One statement with its values. `bind` gives another one; `all`, `run`, `first` and `raw` send it."""

    __slots__ = ("_queries", "_text", "_values")

    def __init__(self, queries: _Queries, text: str, values: tuple[Any, ...] = ()) -> None:
        self._queries = queries
        self._text = text
        self._values = values

    def bind(self, *values: Any) -> "D1PreparedStatement":
        """The statement with these values. Raises JsException `D1_TYPE_ERROR`."""
        return D1PreparedStatement(self._queries, self._text, tuple(map(bound, values)))

    async def all(self) -> Any:
        """`results` (a list of rows), `meta` and `success`. Raises JsException `D1_ERROR: …`.

        `meta` has `duration` (milliseconds), `changes`, `last_row_id`, `changed_db`, `size_after` (bytes),
        `rows_read` and `rows_written` (as an object's cursor counts them), `served_by`.
        """
        return self._queries.result((await self._queries.run([self]))[0])

    run = all

    async def first(self, column: str | None = None) -> Any:
        """The first row, or one column of it; None when there is no row. Raises JsException for an unknown column."""
        found = (await self._queries.run([self]))[0]
        if not found["rows"]:
            return None
        row = dict(zip(found["columns"], map(shown, found["rows"][0]), strict=True))
        if column is None:
            return self._queries.form.value(row)
        if column not in row:
            raise _failure(f"Column not found ({column})", "D1_COLUMN_NOTFOUND")
        return self._queries.form.value(row[column])

    async def raw(self, options: Any = None, **keywords: Any) -> Any:
        """Rows as lists of values; with `columnNames` the first list has the names."""
        given = options_of(options, keywords, ("columnNames",), "raw")
        found = (await self._queries.run([self]))[0]
        rows = [list(map(shown, row)) for row in found["rows"]]
        if given.get("columnNames"):
            rows.insert(0, list(found["columns"]))
        return self._queries.form.value(rows)


class _Preparing(Binding):
    __slots__ = ("_queries",)

    def __init__(self, queries: _Queries) -> None:
        self._queries = queries

    def prepare(self, text: str) -> D1PreparedStatement:
        """A statement; nothing is looked at before it is sent."""
        if not isinstance(text, str):
            raise TypeError(f"prepare() takes the text of a statement, not {type(text).__name__}")
        return D1PreparedStatement(self._queries, text)

    async def batch(self, statements: Iterable[Any]) -> Any:
        """Runs statements in order in one transaction, all or none; a list of results as `all` gives them."""
        given = list(statements)
        for statement in given:
            if not isinstance(statement, D1PreparedStatement):
                raise TypeError(f"batch() takes prepared statements, not {type(statement).__name__}")
        found = await self._queries.run(given) if given else []
        return self._queries.form.value([self._queries.result(result) for result in found])


class D1DatabaseSession(_Preparing):
    """Queries that follow each other. There is one copy of the database, so they always do."""

    __slots__ = ()

    def getBookmark(self) -> str | None:
        """A text that grows with every query of the session; None before the first, unless one was handed in."""
        return self._queries.bookmark


class D1Database(_Preparing):
    """One database (spec python-workers-api 5). `store` is a stub of a `D1Store`, `now` the clock in milliseconds."""

    __slots__ = ()

    def __init__(self, store: Any, now: Callable[[], int], form: Presentation) -> None:
        super().__init__(_Queries(store, now, form))

    async def exec(self, text: str) -> Any:
        """Runs statements without values, one after another; `count` and `duration` in milliseconds.

        A statement ends at its semicolon, on the platform at the end of its line. Those before a failed one stay.
        Raises JsException `D1_EXEC_ERROR: Error in line N: …`.
        """
        if not isinstance(text, str):
            raise TypeError(f"exec() takes the text of statements, not {type(text).__name__}")
        started = time.perf_counter()
        answer = await self._queries.store.script(text)
        if answer["failed"] is not None:
            line, statement, why = answer["failed"]
            raise _failure(f"Error in line {line}: {statement}: {why}", "D1_EXEC_ERROR")
        if not answer["count"]:
            raise _failure("SQL code did not contain a statement.", "D1_EXEC_ERROR")
        duration = round((time.perf_counter() - started) * 1000, 3)
        return self._queries.form.value({"count": answer["count"], "duration": duration})

    def withSession(self, start: Any = None) -> D1DatabaseSession:
        """A session. `start` is `first-primary`, `first-unconstrained` or the bookmark of another session."""
        if start is not None and not isinstance(start, str):
            raise TypeError(f"withSession() takes a constraint or a bookmark, not {type(start).__name__}")
        queries = _Queries(self._queries.store, self._queries.now, self._queries.form)
        if start and start not in _CONSTRAINTS:
            queries.bookmark = start
        return D1DatabaseSession(queries)
