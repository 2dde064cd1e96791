"""Receipts of what the queue writes to the code host, as ledger events in SQLite.

An attempt is a row before its write leaves; its outcome is a second row, and closes the first. Lines are never
changed. Rules: `moorage.protocols.ledger.receipts`.
"""

from collections.abc import Callable
from typing import Any, Final

from moorage.protocols.ledger.events import Event
from moorage.protocols.ledger.receipts import Outcome, OutsideWrite, outcome_event
from moorage.protocols.ledger.timestamps import millisecond_text
from moorage.protocols.ledger.validate import parse_event_line

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS code_host_mutation_events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  event_id TEXT NOT NULL UNIQUE,
  effect TEXT NOT NULL,
  stage TEXT NOT NULL CHECK (stage IN ('attempted', 'accepted', 'rejected', 'outcome_unknown')),
  is_open INTEGER NOT NULL CHECK (is_open IN (0, 1)),
  partition_date TEXT NOT NULL,
  recorded_at INTEGER NOT NULL,
  line TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS code_host_mutation_events_effect ON code_host_mutation_events (effect, stage);
CREATE INDEX IF NOT EXISTS code_host_mutation_events_open ON code_host_mutation_events (partition_date)
  WHERE is_open = 1;
CREATE INDEX IF NOT EXISTS code_host_mutation_events_age ON code_host_mutation_events (recorded_at) WHERE is_open = 0;
"""
RETENTION_MS: Final = 30 * 24 * 60 * 60 * 1000
PRUNE_LOT: Final = 256


class MutationEvents:
    """The rows over `ctx.storage`; every time is an argument, in milliseconds."""

    def __init__(self, storage: Any) -> None:
        self._sql = storage.sql
        self._sql.exec(_SCHEMA)

    def begin(self, write_of: Callable[[int], OutsideWrite], effect: str, date: str, now: int) -> Event:
        """Writes the attempt of the effect's next try: `write_of` makes it, given the number of the try from 1.

        `effect` is the digest of the write's effect, `date` the day it is filed under. Raises LedgerRefusal.
        """
        rows = self._sql.exec(
            "SELECT count(*) AS n FROM code_host_mutation_events WHERE effect = ? AND stage = 'attempted'", effect
        )
        event = write_of(int(rows.one()["n"]) + 1).attempt(millisecond_text(now))
        self._insert(event, "attempted", date, now, is_open=True)
        return event

    def end(self, attempt: Event, outcome: Outcome, now: int) -> bool:
        """Writes the attempt's outcome; False, and nothing, when it has one or is not here."""
        closed = self._sql.exec(
            "UPDATE code_host_mutation_events SET is_open = 0 WHERE event_id = ? AND is_open = 1"
            " RETURNING partition_date",
            attempt.event_id,
        ).toArray()
        if not closed:
            return False
        event = outcome_event(attempt, outcome, millisecond_text(now))
        self._insert(event, outcome, closed[0]["partition_date"], now, is_open=False)
        return True

    def _insert(self, event: Event, stage: str, date: str, now: int, *, is_open: bool) -> None:
        self._sql.exec(
            "INSERT INTO code_host_mutation_events (event_id, effect, stage, is_open, partition_date, recorded_at,"
            " line) VALUES (?, ?, ?, ?, ?, ?, ?)",
            event.event_id,
            event.record["idempotency_key_sha256"],
            stage,
            int(is_open),
            date,
            now,
            event.line,
        )

    def close_open(self, now: int) -> int:
        """Gives every attempt without an outcome the outcome `unknown`: whoever made it is gone. How many."""
        # by name: else the order tempts SQLite to read the whole table for it
        rows = self._sql.exec(
            "SELECT line FROM code_host_mutation_events INDEXED BY code_host_mutation_events_open WHERE is_open = 1"
            " ORDER BY seq"
        ).toArray()
        return sum(self.end(parse_event_line(row["line"]), Outcome.unknown, now) for row in rows)

    def was_accepted(self, effect: str) -> bool:
        """Whether a try of the effect was accepted."""
        rows = self._sql.exec(
            "SELECT 1 FROM code_host_mutation_events WHERE effect = ? AND stage = 'accepted' LIMIT 1", effect
        )
        return bool(rows.toArray())

    def page(self, after: int, before_date: str | None, limit: int) -> list[dict[str, Any]]:
        """At most `limit` + 1 rows `{seq, partition_date, line}` after `after`, in the order they were written.

        With `before_date` only those filed under an earlier day.
        """
        where, bindings = ("", []) if before_date is None else (" AND partition_date < ?", [before_date])
        return self._sql.exec(  # type: ignore[no-any-return]
            f"SELECT seq, partition_date, line FROM code_host_mutation_events WHERE seq > ?{where}"
            " ORDER BY seq LIMIT ?",
            after,
            *bindings,
            limit + 1,
        ).toArray()

    def open_count(self, before_date: str | None) -> int:
        """Attempts without an outcome; with `before_date` only those filed under an earlier day."""
        row = self._sql.exec(
            "SELECT count(*) AS n FROM code_host_mutation_events WHERE is_open = 1 AND partition_date < ?",
            "9999-99-99" if before_date is None else before_date,
        ).one()
        return int(row["n"])

    def prune(self, now: int) -> None:
        """Removes closed rows 30 days after they were written, a bounded lot; an open attempt stays."""
        self._sql.exec(
            "DELETE FROM code_host_mutation_events WHERE seq IN (SELECT seq FROM code_host_mutation_events"
            " WHERE is_open = 0 AND recorded_at <= ? ORDER BY recorded_at LIMIT ?)",
            now - RETENTION_MS,
            PRUNE_LOT,
        )
