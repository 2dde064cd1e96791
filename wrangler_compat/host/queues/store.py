"""Where a queue's messages are kept: one object, so one SQLite file, with the runtime's commits and output gate.

A message is either waiting until it is due, or taken: handed to a consumer that has not said yet what becomes of it.
Only one consumer reads a queue, so what is taken when it starts was taken by a process that is gone.
"""

import secrets
from typing import Any

from moorage.durable_objects.runtime.base import DurableObject

from .rules import RETENTION


class QueueStore(DurableObject):
    """Times are milliseconds since 1970. A message is a list: id, body, content type, timestamp, attempts."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self._sql = ctx.storage.sql
        self._sql.exec(
            "CREATE TABLE IF NOT EXISTS messages (number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT UNIQUE, "
            "body BLOB, content_type TEXT, timestamp INTEGER, due INTEGER, attempts INTEGER, taken INTEGER);"
            "CREATE INDEX IF NOT EXISTS waiting ON messages (taken, due, number);"
            "CREATE INDEX IF NOT EXISTS arrivals ON messages (timestamp)"
        )

    def add(self, messages: list[Any]) -> None:
        """Adds messages, each a list of body, content type, timestamp and due time: all of them or none."""
        for body, content_type, timestamp, due in messages:
            self._sql.exec(
                "INSERT INTO messages (id, body, content_type, timestamp, due, attempts, taken) "
                "VALUES (?, ?, ?, ?, ?, 0, 0)",
                secrets.token_hex(16),
                body,
                content_type,
                timestamp,
                due,
            )

    def recover(self) -> None:
        """Messages that a process before this one had taken wait again, at their old places."""
        self._sql.exec("UPDATE messages SET taken = 0 WHERE taken = 1")

    def state(self, enough: int, now: int) -> dict[str, int | None]:
        """How many messages are due (counted up to `enough`), since when the oldest is, and when the next one is."""
        expired = now - RETENTION
        if self._sql.exec("SELECT 1 FROM messages WHERE timestamp <= ? LIMIT 1", expired).raw().toArray():
            self._sql.exec("DELETE FROM messages WHERE taken = 0 AND timestamp <= ?", expired)
        due, since = next(
            self._sql.exec(
                "SELECT count(*), min(due) FROM "
                "(SELECT due FROM messages WHERE taken = 0 AND due <= ? ORDER BY due, number LIMIT ?)",
                now,
                enough,
            ).raw()
        )
        upcoming = next(self._sql.exec("SELECT min(due) FROM messages WHERE taken = 0 AND due > ?", now).raw())[0]
        return {"due": due, "since": since, "next": upcoming}

    def take(self, limit: int, now: int) -> list[list[Any]]:
        """Takes up to `limit` due messages, the longest due first, and counts one attempt more for each."""
        rows = (
            self._sql.exec(
                "SELECT id, body, content_type, timestamp, attempts + 1 FROM messages "
                "WHERE taken = 0 AND due <= ? ORDER BY due, number LIMIT ?",
                now,
                limit,
            )
            .raw()
            .toArray()
        )
        for row in rows:
            self._sql.exec("UPDATE messages SET taken = 1, attempts = attempts + 1 WHERE id = ?", row[0])
        return [list(row) for row in rows]

    def settle(self, done: list[str], again: list[Any]) -> None:
        """Removes what is done, and lets what is to be handed out again wait until its time."""
        for name in done:
            self._sql.exec("DELETE FROM messages WHERE id = ?", name)
        for name, due in again:
            self._sql.exec("UPDATE messages SET taken = 0, due = ? WHERE id = ?", due, name)

    def size(self) -> int:
        """How many messages the queue holds, taken ones included."""
        count: int = next(self._sql.exec("SELECT count(*) FROM messages").raw())[0]
        return count
