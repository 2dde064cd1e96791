"""The key-value table `_cf_KV`, below the asynchronous and the synchronous API (semantics 6 and 7)."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from moorage.protocols.javascript import to_number

from .clone import DataCloneError, Undefined, dumps, loads
from .errors import DurableObjectError
from .javascript import text_of, well_formed

if TYPE_CHECKING:
    from .database import Database

TABLE: Final = "_cf_KV"
MAX_VALUE_BYTES: Final = 2_200_000
# Pairs that `kv.list()` reads at once: more after a page of few bytes, fewer after one of many.
FIRST_PAGE: Final = 8
MAX_PAGE: Final = 256
PAGE_BYTES: Final = 256 * 1024

_GET: Final = "SELECT value FROM _cf_KV WHERE key=?"
_PUT: Final = "INSERT INTO _cf_KV(key,value) VALUES(?,?) ON CONFLICT(key) DO UPDATE SET value=excluded.value"
_DELETE: Final = "DELETE FROM _cf_KV WHERE key=?"
_CREATE: Final = "CREATE TABLE _cf_KV(key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID"


def key_text(key: Any) -> str:
    """Returns the key as JavaScript would spell it: 5 is "5", None is "null"; a lone surrogate is three U+FFFD."""
    return well_formed(key if type(key) is str else text_of(key))


@dataclass(frozen=True, slots=True)
class Range:
    """What `list()` selects: keys from `start` (or after `after`) up to and without `end`, with `prefix`."""

    start: str | None = None
    after: str | None = None
    end: str | None = None
    prefix: str | None = None
    limit: int | None = None
    reverse: bool = False


def list_range(options: Mapping[str, Any] | None) -> Range:
    """Checks the options of `list()` and returns them.

    Raises TypeError for `start` with `startAfter`, and for a limit below 1 (semantics 6.6) or of more than 32 bits.
    """
    if options is None or isinstance(options, Undefined):
        return Range()
    if not isinstance(options, Mapping):
        raise TypeError(f"list() takes an object of options, not {type(options).__name__}")

    def text(name: str) -> str | None:
        value = options.get(name)
        return None if value is None or isinstance(value, Undefined) else key_text(value)

    start, after = text("start"), text("startAfter")
    if start is not None and after is not None:
        raise TypeError("list() cannot be called with both start and startAfter values.")
    limit = options.get("limit")
    limit = None if limit is None or isinstance(limit, Undefined) else _limit(limit)
    return Range(start, after, text("end"), text("prefix"), limit, bool(options.get("reverse")))


def _limit(value: Any) -> int:
    number = value if isinstance(value, int | float) else to_number(value)
    whole = math.trunc(number) if math.isfinite(number) else 0
    if not -(2**31) <= whole < 2**31:
        raise TypeError("Value out of range. Must be between -2147483648 and 2147483647 (inclusive).")
    if whole < 1:
        raise TypeError("List limit must be positive.")
    return whole


def _after_prefix(prefix: str) -> str | None:
    """The smallest text above every text that starts with `prefix`, or None when there is none."""
    while prefix:
        point = ord(prefix[-1]) + 1
        if point == 0xD800:
            point = 0xE000
        if point <= 0x10FFFF:
            return prefix[:-1] + chr(point)
        prefix = prefix[:-1]
    return None


def select(selection: Range) -> tuple[str, list[Any]]:
    """Returns the SQL and its parameters for a range; keys come in the order of their UTF-8 bytes."""
    conditions: list[str] = []
    values: list[Any] = []
    for text, bound in (("key>=?", selection.start), ("key>?", selection.after), ("key<?", selection.end)):
        if bound is not None:
            conditions.append(text)
            values.append(bound)
    if selection.prefix:
        conditions.append("key>=?")
        values.append(selection.prefix)
        above = _after_prefix(selection.prefix)
        if above is not None:
            conditions.append("key<?")
            values.append(above)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    order = " DESC" if selection.reverse else ""
    sql = f"SELECT key,value FROM _cf_KV{where} ORDER BY key{order}"
    if selection.limit is not None:
        sql += " LIMIT ?"
        values.append(selection.limit)
    return sql, values


def serialize(value: Any) -> bytes:
    """Returns the stored form of a value. Raises DataCloneError, and DurableObjectError when it is too big."""
    if isinstance(value, Undefined):
        return dumps(value)
    if callable(value) and not isinstance(value, Mapping):
        raise DataCloneError(f"{getattr(value, '__qualname__', type(value).__qualname__)} could not be cloned.")
    data = dumps(value)
    if len(data) > MAX_VALUE_BYTES:
        raise DurableObjectError("string or blob too big: SQLITE_TOOBIG")
    return data


class KeyValueTable:
    """Reads and writes of `_cf_KV`; the table is created by the first write."""

    __slots__ = ("_database",)

    def __init__(self, database: "Database") -> None:
        self._database = database

    def get(self, key: str, default: Any = None) -> Any:
        """Returns the value of `key`, else `default`."""
        database = self._database
        if not database.has_table(TABLE):
            return default
        row = database.connection.execute(_GET, (key,)).fetchone()
        return default if row is None else loads(row[0])

    def put(self, key: str, data: bytes, *, confirmed: bool = True) -> None:
        """Stores serialised `data` under `key`."""
        database = self._database
        database.write(confirmed=confirmed)
        if not database.has_table(TABLE):
            database.connection.execute(_CREATE)
            database.tables[TABLE] = True
        database.connection.execute(_PUT, (key, data))

    def delete(self, key: str, *, confirmed: bool = True) -> bool:
        """Deletes `key`; returns whether it existed."""
        database = self._database
        if not database.has_table(TABLE):
            return False
        database.write(confirmed=confirmed)
        return database.connection.execute(_DELETE, (key,)).rowcount > 0

    def list(self, selection: Range) -> list[tuple[str, Any]]:
        """Returns the pairs of a range."""
        if not self._database.has_table(TABLE):
            return []
        rows = self._database.connection.execute(*select(selection)).fetchall()
        return [(key, loads(data)) for key, data in rows]

    def iterate(self, selection: Range) -> Iterator[tuple[str, Any]]:
        """Yields the pairs of a range while they are read; what is written meanwhile shows, `deleteAll` ends it.

        Pairs are read by the page and anew after a write: a statement that stays open would keep the -wal from ever
        being restarted, and the table from being dropped.
        """
        database = self._database
        deletions = database.deletions
        left = selection.limit
        page = FIRST_PAGE
        while database.has_table(TABLE):
            count = page if left is None else min(left, page)
            rows = database.connection.execute(*select(replace(selection, limit=count))).fetchall()
            read = self._changes()
            small = sum(len(data) for _, data in rows) < PAGE_BYTES
            page = min(page * 2, MAX_PAGE) if small else max(page // 2, 1)
            given = 0
            for key, data in rows:
                given += 1
                yield key, loads(data)
                if deletions != database.deletions:
                    return
                if self._changes() != read:
                    break
            else:
                if len(rows) < count:
                    return
            left = None if left is None else left - given
            if left == 0:
                return
            if selection.reverse:
                selection = replace(selection, end=key)
            else:
                selection = replace(selection, start=None, after=key)

    def _changes(self) -> tuple[int, int]:
        """Another value after every write and every rollback."""
        return self._database.connection.total_changes, self._database.generation
