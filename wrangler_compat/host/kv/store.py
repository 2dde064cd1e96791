"""Where a namespace's keys are kept: one object, so one SQLite file, with the runtime's commits and output gate.

A value is kept in pieces, since a row of an object's database holds at most 2 MB and a value 25 MiB.
"""

from typing import Any, Final

from moorage.durable_objects.runtime.base import DurableObject

from .rules import MAX_VALUE, after_prefix

NAMESPACE: Final = "~kv"
"""Folder of the namespaces' files; no Worker's name has that character."""

PIECE: Final = 1024 * 1024
EXPIRED_AT_ONCE: Final = 100
"""How many expired keys a write takes along. They are invisible from their moment on, whenever they are removed."""


class KvStore(DurableObject):
    """Times are seconds since 1970; a key is gone from its expiration on."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self._sql = ctx.storage.sql
        self._sql.exec(
            "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, expiration INTEGER, metadata TEXT);"
            "CREATE INDEX IF NOT EXISTS expirations ON entries (expiration) WHERE expiration IS NOT NULL;"
            "CREATE TABLE IF NOT EXISTS pieces (key TEXT, place INTEGER, data BLOB, UNIQUE (key, place))"
        )

    def put(self, key: str, value: bytes, expiration: int | None, metadata: str | None, now: int) -> None:
        """Writes one key, and removes a few that have expired."""
        run = self._sql.exec
        run("DELETE FROM pieces WHERE key = ?", key)
        run("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", key, expiration, metadata)
        for place, start in enumerate(range(0, len(value), PIECE)):
            run("INSERT INTO pieces VALUES (?, ?, ?)", key, place, value[start : start + PIECE])
        gone = run("SELECT key FROM entries WHERE expiration <= ? LIMIT ?", now, EXPIRED_AT_ONCE).raw().toArray()
        self.remove([row[0] for row in gone])

    def read(self, keys: list[str], now: int) -> list[list[Any] | None] | None:
        """For each key its value and its metadata as JSON text, or None when there is no such key.

        None altogether when the values are beyond 25 MiB together, which no single one can be.
        """
        found, size = [], 0
        for key in keys:
            entry = self._one(key, now)
            size += 0 if entry is None else len(entry[0])
            if size > MAX_VALUE:
                return None
            found.append(entry)
        return found

    def _one(self, key: str, now: int) -> list[Any] | None:
        found = self._sql.exec(
            "SELECT metadata FROM entries WHERE key = ? AND (expiration IS NULL OR expiration > ?)", key, now
        ).raw()
        rows = found.toArray()
        if not rows:
            return None
        pieces = self._sql.exec("SELECT data FROM pieces WHERE key = ? ORDER BY place", key).raw().toArray()
        return [b"".join(piece[0] for piece in pieces), rows[0][0]]

    def remove(self, keys: list[str]) -> None:
        """Removes keys; missing ones are no error."""
        for key in keys:
            self._sql.exec("DELETE FROM pieces WHERE key = ?", key)
            self._sql.exec("DELETE FROM entries WHERE key = ?", key)

    def page(self, prefix: str, after: str | None, limit: int, now: int) -> list[list[Any]]:
        """Up to `limit` rows of key, expiration and metadata, in the order of the keys' UTF-8 bytes."""
        conditions, values = ["(expiration IS NULL OR expiration > ?)"], [now]
        bounds = (("key >= ?", prefix or None), ("key < ?", after_prefix(prefix)), ("key > ?", after))
        for condition, bound in bounds:
            if bound is not None:
                conditions.append(condition)
                values.append(bound)  # type: ignore[arg-type]
        where = " AND ".join(conditions)
        rows: list[list[Any]] = (
            self._sql.exec(
                f"SELECT key, expiration, metadata FROM entries WHERE {where} ORDER BY key LIMIT ?", *values, limit
            )
            .raw()
            .toArray()
        )
        return rows
