"""The rows of `LedgerIndex`: sets, events, the lock, and the generation that a rebuild sweeps with."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from moorage.protocols.ledger.bindings import ROOT
from moorage.protocols.ledger.index import Claim, EventRow, Lock, Row, SetRow

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS ledger_sets (
  digest TEXT PRIMARY KEY,
  run_digest TEXT NOT NULL,
  partition_date TEXT NOT NULL,
  reservation_sha256 TEXT NOT NULL,
  complete INTEGER NOT NULL DEFAULT 0,
  generation INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS ledger_sets_run ON ledger_sets (run_digest);
CREATE INDEX IF NOT EXISTS ledger_sets_open ON ledger_sets (digest) WHERE complete = 0;
CREATE TABLE IF NOT EXISTS ledger_events (
  event_id TEXT PRIMARY KEY,
  semantic_sha256 TEXT NOT NULL,
  parent TEXT,
  owner TEXT,
  generation INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS ledger_lock (
  singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
  token INTEGER NOT NULL,
  holder TEXT,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS ledger_rebuild (
  singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
  generation INTEGER NOT NULL,
  finished_at INTEGER
) STRICT;
INSERT OR IGNORE INTO ledger_rebuild (singleton, generation, finished_at) VALUES (1, 1, NULL);
"""
PUT_SET: Final = """
INSERT INTO ledger_sets (digest, run_digest, partition_date, reservation_sha256, complete, generation)
VALUES (?1, ?2, ?3, ?4, 0, ?5)
ON CONFLICT (digest) DO UPDATE SET
  complete = CASE WHEN reservation_sha256 = excluded.reservation_sha256 THEN complete ELSE 0 END,
  run_digest = excluded.run_digest, partition_date = excluded.partition_date,
  reservation_sha256 = excluded.reservation_sha256, generation = excluded.generation
"""
# the first owner stays: another set with the same event says nothing new
PUT_EVENT: Final = """
INSERT INTO ledger_events (event_id, semantic_sha256, parent, owner, generation) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (event_id) DO UPDATE SET
  semantic_sha256 = excluded.semantic_sha256, parent = excluded.parent, generation = excluded.generation
"""
PUT_LOCK: Final = "INSERT OR REPLACE INTO ledger_lock (singleton, token, holder, expires_at) VALUES (1, ?1, ?2, ?3)"
COUNTS: Final = """
SELECT (SELECT COUNT(*) FROM ledger_sets) AS sets,
       (SELECT COUNT(*) FROM ledger_sets WHERE complete = 1) AS complete,
       (SELECT COUNT(*) FROM ledger_events) AS events
"""


class LedgerRows:
    """See the module. Every method is one step: none waits."""

    def __init__(self, storage: Any) -> None:
        self._sql = storage.sql
        self._sql.exec(SCHEMA)

    def _one(self, text: str, *values: Any) -> dict[str, Any] | None:
        rows: list[dict[str, Any]] = self._sql.exec(text, *values).toArray()
        return rows[0] if rows else None

    def set(self, digest: str) -> SetRow | None:
        """A set."""
        row = self._one("SELECT * FROM ledger_sets WHERE digest = ?1", digest)
        return None if row is None else _set_row(row)

    def sets_of_run(self, run_digest: str) -> Iterator[tuple[str, SetRow]]:
        """The sets of a producer run, with their digests."""
        for row in self._sql.exec("SELECT * FROM ledger_sets WHERE run_digest = ?1", run_digest).toArray():
            yield row["digest"], _set_row(row)

    def event(self, event_id: str) -> EventRow | None:
        """An event."""
        row = self._one("SELECT * FROM ledger_events WHERE event_id = ?1", event_id)
        return None if row is None else EventRow(row["semantic_sha256"], row["parent"], row["owner"])

    def get(self, row: Row) -> SetRow | EventRow | None:
        """The row of that table and key."""
        return self.set(row.key) if row.table == "sets" else self.event(row.key)

    def drop(self, row: Row) -> None:
        """Removes a row."""
        if row.table == "sets":
            self._sql.exec("DELETE FROM ledger_sets WHERE digest = ?1", row.key)
        else:
            self._sql.exec("DELETE FROM ledger_events WHERE event_id = ?1", row.key)

    def reserve(self, claims: Sequence[Claim]) -> None:
        """Notes every set and event of a batch. Call it within one transaction."""
        generation = self.generation
        for claim in claims:
            self.put_set(claim.digest, claim.run_digest, claim.partition_date, claim.reservation_sha256)
            for event_id, semantic, parent in claim.events:
                self._sql.exec(PUT_EVENT, event_id, semantic, parent, claim.digest, generation)

    def put_set(self, digest: str, run_digest: str, partition_date: str, reservation_sha256: str) -> None:
        """Notes a set; it stays complete when its reservation is the same."""
        self._sql.exec(PUT_SET, digest, run_digest, partition_date, reservation_sha256, self.generation)

    def put_event(self, event_id: str, semantic_sha256: str, parent: str | None) -> None:
        """Notes an event that was found in R2."""
        self._sql.exec(PUT_EVENT, event_id, semantic_sha256, parent, None, self.generation)

    def complete(self, digest: str) -> None:
        """Notes a set as complete."""
        self._sql.exec("UPDATE ledger_sets SET complete = 1 WHERE digest = ?1", digest)

    def reopen(self, digest: str) -> None:
        """Notes a set as not complete."""
        self._sql.exec("UPDATE ledger_sets SET complete = 0 WHERE digest = ?1", digest)

    def state(self, digest: str) -> str:
        """`complete` or `reserved`."""
        row = self._one("SELECT complete FROM ledger_sets WHERE digest = ?1", digest)
        return "complete" if row is not None and row["complete"] else "reserved"

    def counts(self) -> dict[str, Any]:
        """Numbers of sets, complete sets and events; when the last rebuild ended (ms since 1970), null for never."""
        counts, rebuild = self._one(COUNTS), self._one("SELECT finished_at FROM ledger_rebuild")
        assert counts is not None
        assert rebuild is not None
        return {**counts, "rebuilt_at": rebuild["finished_at"]}

    def unfinished(self, limit: int) -> list[str]:
        """Reservation files of sets that are not complete."""
        rows = self._sql.exec("SELECT digest FROM ledger_sets WHERE complete = 0 ORDER BY digest LIMIT ?1", limit)
        return [f"{ROOT}/shard-sets/{row['digest']}.json" for row in rows.toArray()]

    @property
    def lock(self) -> Lock:
        """The lock of imports."""
        row = self._one("SELECT token, holder, expires_at FROM ledger_lock")
        return Lock() if row is None else Lock(row["token"], row["holder"], row["expires_at"])

    def put_lock(self, lock: Lock) -> None:
        """Stores the lock."""
        self._sql.exec(PUT_LOCK, lock.token, lock.holder, lock.expires_at)

    @property
    def generation(self) -> int:
        """Number of the present rebuild; rows that are written carry it."""
        row = self._one("SELECT generation FROM ledger_rebuild")
        assert row is not None
        return int(row["generation"])

    def begin_rebuild(self) -> None:
        """Begins a rebuild: rows that are not written again before its end go."""
        self._sql.exec("UPDATE ledger_rebuild SET generation = generation + 1, finished_at = NULL")

    def finish_rebuild(self, generation: int, now: int) -> None:
        """Removes what the rebuild did not find."""
        self._sql.exec("DELETE FROM ledger_sets WHERE generation < ?1", generation)
        self._sql.exec("DELETE FROM ledger_events WHERE generation < ?1", generation)
        self._sql.exec("UPDATE ledger_rebuild SET finished_at = ?1", now)


def _set_row(row: dict[str, Any]) -> SetRow:
    return SetRow(row["run_digest"], row["partition_date"], row["reservation_sha256"])
