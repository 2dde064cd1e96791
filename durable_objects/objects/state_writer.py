"""Tickets of the state-writer lease in the SQLite of the queue object (spec state-plane-storage 2.5).

Rules: `moorage.protocols.state_writer`. The unique partial index makes two holders impossible, whatever the code
does. Time works lazily: every call first ends what is over.
"""

import uuid
from collections.abc import Callable
from typing import Any, Final

from moorage.protocols import state_writer as rules
from moorage.protocols.javascript import ABSENT, iso_time
from moorage.protocols.wire import Reply, reply, wire_method
from moorage.protocols.wire.state_writer import (
    InvalidStateWriterHeartbeat,
    InvalidStateWriterRelease,
    StateWriterTicketCompleted,
    StateWriterTicketExpired,
    StateWriterTicketIdentity,
    StateWriterTicketNotActive,
)

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS state_writer_tickets (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  ticket_id TEXT NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  branch TEXT NOT NULL,
  repository TEXT NOT NULL,
  workflow TEXT NOT NULL,
  job TEXT NOT NULL,
  run_id TEXT NOT NULL,
  run_attempt INTEGER NOT NULL CHECK (run_attempt >= 1),
  writer_class TEXT NOT NULL CHECK (writer_class IN ('ordinary', 'publication_batch', 'cluster_intake')),
  state TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'completed', 'expired')),
  enqueued_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  leased_at INTEGER,
  lease_token TEXT,
  lease_generation INTEGER NOT NULL DEFAULT 0,
  lease_expires_at INTEGER,
  lease_deadline_at INTEGER,
  completed_at INTEGER
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS state_writer_tickets_one_holder
  ON state_writer_tickets (state) WHERE state = 'leased';
CREATE INDEX IF NOT EXISTS state_writer_tickets_by_state ON state_writer_tickets (state, seq);
CREATE INDEX IF NOT EXISTS state_writer_tickets_by_end ON state_writer_tickets (state, completed_at, seq);
CREATE TABLE IF NOT EXISTS state_writer_meta (
  singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
  admitted INTEGER NOT NULL DEFAULT 0,
  completed INTEGER NOT NULL DEFAULT 0,
  expired INTEGER NOT NULL DEFAULT 0,
  recovered INTEGER NOT NULL DEFAULT 0,
  last_wait_ms INTEGER NOT NULL DEFAULT 0,
  max_wait_ms INTEGER NOT NULL DEFAULT 0,
  consecutive_batch_turns INTEGER NOT NULL DEFAULT 0,
  consecutive_intake_turns INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT OR IGNORE INTO state_writer_meta (singleton) VALUES (1);
"""

EARLIER_TABLE: Final = """
SELECT name FROM sqlite_master
WHERE type = 'table' AND name = 'state_writer_tickets' AND instr(sql, 'cluster_intake') = 0
"""
EARLIER_INDEXES: Final = """
SELECT name FROM sqlite_master
WHERE type = 'index' AND tbl_name = 'state_writer_tickets_before_classes' AND sql IS NOT NULL
"""
BOUND_EARLIER_LEASE: Final = """
UPDATE state_writer_tickets SET lease_deadline_at = lease_expires_at
WHERE state = 'leased' AND lease_deadline_at IS NULL
"""
"""A lease from before the deadline existed ends when it runs out."""
SHARED_COLUMNS: Final = """
SELECT name FROM pragma_table_info('state_writer_tickets_before_classes')
WHERE name IN (SELECT name FROM pragma_table_info('state_writer_tickets'))
"""

TICKET_BY_ID: Final = "SELECT * FROM state_writer_tickets WHERE ticket_id = ?1"
TICKET_IN_STATE: Final = "SELECT * FROM state_writer_tickets WHERE state = ?1 ORDER BY seq"
WAITING: Final = "SELECT seq, writer_class FROM state_writer_tickets WHERE state = 'queued' ORDER BY seq"
STALE: Final = "SELECT * FROM state_writer_tickets WHERE state = 'queued' AND last_seen_at <= ?1 ORDER BY seq"

ENQUEUE: Final = """
INSERT INTO state_writer_tickets (ticket_id, owner, branch, repository, workflow, job, run_id, run_attempt,
  writer_class, state, enqueued_at, last_seen_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 'queued', ?10, ?10)
"""

SAVE: Final = """
UPDATE state_writer_tickets SET state = ?2, last_seen_at = ?3, leased_at = ?4, lease_token = ?5,
  lease_generation = ?6, lease_expires_at = ?7, lease_deadline_at = ?8, completed_at = ?9
WHERE seq = ?1
"""

SEEN: Final = "UPDATE state_writer_tickets SET last_seen_at = ?2 WHERE seq = ?1"

PRUNE: Final = """
DELETE FROM state_writer_tickets WHERE seq IN (
  SELECT seq FROM state_writer_tickets
  WHERE state = ?1 AND completed_at <= ?2 ORDER BY completed_at, seq LIMIT ?3)
"""

META: Final = "SELECT * FROM state_writer_meta"
ADMITTED: Final = """
UPDATE state_writer_meta SET admitted = admitted + 1, last_wait_ms = ?1, max_wait_ms = max(max_wait_ms, ?1),
  consecutive_batch_turns = ?2, consecutive_intake_turns = ?3
"""
COMPLETED: Final = "UPDATE state_writer_meta SET completed = completed + 1"
EXPIRED: Final = "UPDATE state_writer_meta SET expired = expired + ?1, recovered = recovered + ?1"


def terms_of(env: Any) -> rules.Terms:
    """Returns the durations that the settings `STATE_WRITER_COORDINATOR_…_MS` give."""
    prefix = "STATE_WRITER_COORDINATOR_"
    return rules.Terms.of(
        getattr(env, f"{prefix}LEASE_MS", ABSENT),
        getattr(env, f"{prefix}QUEUED_STALE_MS", ABSENT),
        getattr(env, f"{prefix}MAX_LEASE_AGE_MS", ABSENT),
    )


class StateWriter:
    """The coordinator over `ctx.storage`. `now`: ms since 1970; `token`: makes a fresh lease token."""

    def __init__(
        self,
        storage: Any,
        now: Callable[[], int],
        terms: rules.Terms | None = None,
        token: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self._storage = storage
        self._sql = storage.sql
        self._now = now
        self._token = token
        self._terms = rules.Terms() if terms is None else terms
        storage.transactionSync(self._upgrade)

    def _upgrade(self) -> None:
        if not self._sql.exec(EARLIER_TABLE).toArray():
            self._sql.exec(SCHEMA)
            return
        # from before the three writer classes: its checks cannot be altered, so the rows move to a new table
        self._sql.exec("ALTER TABLE state_writer_tickets RENAME TO state_writer_tickets_before_classes")
        for row in self._sql.exec(EARLIER_INDEXES).toArray():
            self._sql.exec(f'DROP INDEX "{row["name"]}"')
        self._sql.exec(SCHEMA)
        columns = [row[0] for row in self._sql.exec(SHARED_COLUMNS).raw()]
        names = ", ".join(columns)
        missing = ("", "") if "writer_class" in columns else (", writer_class", ", 'ordinary'")
        self._sql.exec(
            f"INSERT INTO state_writer_tickets ({names}{missing[0]})"
            f" SELECT {names}{missing[1]} FROM state_writer_tickets_before_classes"
        )
        self._sql.exec("DROP TABLE state_writer_tickets_before_classes")
        self._sql.exec(BOUND_EARLIER_LEASE)

    def acquire(self, identity: rules.Identity) -> tuple[rules.Ticket, int]:
        """Queues, polls or grants; returns the ticket and its position (1-based while queued, else 0).

        Raises StateWriterTicketIdentity, StateWriterTicketCompleted and StateWriterTicketExpired.
        """
        return self._storage.transactionSync(lambda: self._acquire(identity))  # type: ignore[no-any-return]

    def _acquire(self, identity: rules.Identity) -> tuple[rules.Ticket, int]:
        now = self._now()
        ticket = self._find(identity.ticket_id)
        if ticket is None:
            self._enqueue(identity, now)
            ticket = self._find(identity.ticket_id)
            assert ticket is not None
        elif ticket.identity != identity:
            raise StateWriterTicketIdentity
        if ticket.state is rules.State.QUEUED:
            self._sql.exec(SEEN, ticket.seq, now)
        elif ticket.state is rules.State.LEASED:
            return ticket, 0
        else:
            refusal = {
                rules.State.COMPLETED: StateWriterTicketCompleted,
                rules.State.EXPIRED: StateWriterTicketExpired,
            }[ticket.state]
            raise refusal(ticket=rules.wire_ticket(ticket, 0))
        turns, queue = self._line()
        order = rules.line_up(queue, turns)
        if order[0] == ticket.seq and self._holder() is None:
            granted = rules.grant(ticket, now, self._token(), self._terms)
            self._save(granted)
            left = [writer_class for seq, writer_class in queue if seq != ticket.seq]
            after = turns.after(identity.writer_class, ordinary_waits=rules.WriterClass.ORDINARY in left)
            self._sql.exec(ADMITTED, now - ticket.enqueued_at, after.batch, after.intake)
            return granted, 0
        return ticket, order.index(ticket.seq) + 1

    def heartbeat(self, claim: rules.Claim) -> rules.Ticket:
        """Prolongs a lease and returns the ticket. Raises StateWriterTicketNotActive."""
        return self._storage.transactionSync(lambda: self._heartbeat(claim))  # type: ignore[no-any-return]

    def _heartbeat(self, claim: rules.Claim) -> rules.Ticket:
        now = self._now()
        ticket = self._find(claim.ticket_id)
        if ticket is None or not ticket.holds(claim.owner, claim.lease_token):
            raise StateWriterTicketNotActive
        if ticket.state is not rules.State.LEASED:
            raise StateWriterTicketNotActive
        beaten = rules.beat(ticket, now, self._terms)
        self._save(beaten)
        return beaten

    def release(self, claim: rules.Claim) -> None:
        """Ends a lease; once more is no error. Raises StateWriterTicketNotActive."""
        self._storage.transactionSync(lambda: self._release(claim))

    def _release(self, claim: rules.Claim) -> None:
        ticket = self._find(claim.ticket_id)
        if ticket is None or not ticket.holds(claim.owner, claim.lease_token):
            raise StateWriterTicketNotActive
        if ticket.state is rules.State.COMPLETED:
            return
        if ticket.state is not rules.State.LEASED:
            raise StateWriterTicketNotActive
        self._save(rules.end(ticket, rules.Event.RELEASE, self._now()))
        self._sql.exec(COMPLETED)

    def expire(self) -> None:
        """Ends what time has ended, and drops a bounded lot of tickets that ended a week ago.

        A transaction of its own: a call that is refused afterwards does not bring back what was over.
        """
        self._storage.transactionSync(self._expire)

    def _expire(self) -> None:
        now = self._now()
        over: list[tuple[rules.Ticket, rules.Event]] = []
        holder = self._holder()
        if holder is not None and rules.is_run_out(holder, now):
            over.append((holder, rules.Event.RUN_OUT))
        stale = self._sql.exec(STALE, now - self._terms.stale).toArray()
        over.extend((_ticket(row), rules.Event.GO_STALE) for row in stale)
        for ticket, event in over:
            self._save(rules.end(ticket, event, now))
        if over:
            self._sql.exec(EXPIRED, len(over))
        for state in (rules.State.COMPLETED, rules.State.EXPIRED):
            self._sql.exec(PRUNE, state.value, now - rules.RETENTION_MS, rules.PRUNED_PER_CALL)

    def stats(self) -> dict[str, Any]:
        """Returns the member `state_writer.coordinator` of the queue's statistics, after ending what is over."""
        self.expire()
        meta = self._sql.exec(META).one()
        waiting = [rules.WriterClass(row[1]) for row in self._sql.exec(WAITING).raw()]
        holder = self._holder()
        return {
            "queued": len(waiting),
            "leased": int(holder is not None),
            "queued_batch": waiting.count(rules.WriterClass.BATCH),
            "queued_intake": waiting.count(rules.WriterClass.INTAKE),
            "queued_ordinary": waiting.count(rules.WriterClass.ORDINARY),
            "admitted": meta["admitted"],
            "completed": meta["completed"],
            "expired": meta["expired"],
            "recovered": meta["recovered"],
            "last_wait_ms": meta["last_wait_ms"],
            "max_wait_ms": meta["max_wait_ms"],
            "consecutive_batch_turns": meta["consecutive_batch_turns"],
            "consecutive_intake_turns": meta["consecutive_intake_turns"],
            "active": None if holder is None else _active(holder),
        }

    def _line(self) -> tuple[rules.Turns, list[tuple[int, rules.WriterClass]]]:
        """Returns the turn counters, and the waiting tickets by number and class."""
        meta = self._sql.exec(META).one()
        turns = rules.Turns(meta["consecutive_batch_turns"], meta["consecutive_intake_turns"])
        return turns, [(row[0], rules.WriterClass(row[1])) for row in self._sql.exec(WAITING).raw()]

    def _holder(self) -> rules.Ticket | None:
        rows = self._sql.exec(TICKET_IN_STATE, rules.State.LEASED.value).toArray()
        return _ticket(rows[0]) if rows else None

    def _find(self, ticket_id: str) -> rules.Ticket | None:
        rows = self._sql.exec(TICKET_BY_ID, ticket_id).toArray()
        return _ticket(rows[0]) if rows else None

    def _enqueue(self, identity: rules.Identity, now: int) -> None:
        self._sql.exec(
            ENQUEUE,
            identity.ticket_id,
            identity.owner,
            identity.branch,
            identity.repository,
            identity.workflow,
            identity.job,
            identity.run_id,
            identity.run_attempt,
            identity.writer_class.value,
            now,
        )

    def _save(self, ticket: rules.Ticket) -> None:
        self._sql.exec(
            SAVE,
            ticket.seq,
            ticket.state.value,
            ticket.last_seen_at,
            ticket.leased_at,
            ticket.lease_token,
            ticket.lease_generation,
            ticket.lease_expires_at,
            ticket.lease_deadline_at,
            ticket.completed_at,
        )


def _ticket(row: Any) -> rules.Ticket:
    identity = rules.Identity(
        row["ticket_id"],
        row["owner"],
        row["branch"],
        row["repository"],
        row["workflow"],
        row["job"],
        row["run_id"],
        row["run_attempt"],
        rules.WriterClass(row["writer_class"]),
    )
    return rules.Ticket(
        row["seq"],
        identity,
        rules.State(row["state"]),
        row["enqueued_at"],
        row["last_seen_at"],
        row["leased_at"],
        row["lease_token"],
        row["lease_generation"],
        row["lease_expires_at"],
        row["lease_deadline_at"],
        row["completed_at"],
    )


def _active(holder: rules.Ticket) -> dict[str, Any]:
    """The holder for statistics, times as ISO text: never its token, which is the fence."""
    leased_at = 0 if holder.leased_at is None else holder.leased_at
    return {
        "ticket_id": holder.identity.ticket_id,
        "owner": holder.identity.owner,
        "branch": holder.identity.branch,
        "repository": holder.identity.repository,
        "workflow": holder.identity.workflow,
        "job": holder.identity.job,
        "run_id": holder.identity.run_id,
        "run_attempt": holder.identity.run_attempt,
        "writer_class": holder.identity.writer_class.value,
        "enqueued_at": iso_time(holder.enqueued_at),
        "leased_at": iso_time(leased_at),
        "wait_ms": max(0, leased_at - holder.enqueued_at),
        "lease_expires_at": iso_time(holder.lease_expires_at or 0),
        "lease_deadline_at": iso_time(holder.lease_deadline_at or 0),
    }


class StateWriterMethods:
    """The queue object's methods for the writer lease."""

    state_writer: StateWriter

    @wire_method
    def acquire_state_writer(self, members: dict[str, Any]) -> Reply:
        """200 with the ticket. Refuses: invalid_state_writer_ticket, and as `StateWriter.acquire` raises."""
        identity = rules.parse_identity(members)
        self.state_writer.expire()
        return _answer(*self.state_writer.acquire(identity))

    @wire_method
    def heartbeat_state_writer(self, members: dict[str, Any]) -> Reply:
        """200 with the ticket. Refuses: invalid_state_writer_heartbeat, state_writer_ticket_not_active."""
        claim = rules.parse_claim(members, InvalidStateWriterHeartbeat)
        self.state_writer.expire()
        return _answer(self.state_writer.heartbeat(claim), 0)

    @wire_method
    def release_state_writer(self, members: dict[str, Any]) -> Reply:
        """200. Refuses: invalid_state_writer_release, state_writer_ticket_not_active."""
        claim = rules.parse_claim(members, InvalidStateWriterRelease)
        self.state_writer.expire()
        self.state_writer.release(claim)
        return reply({"ok": True, "released": True})


def _answer(ticket: rules.Ticket, position: int) -> Reply:
    return reply({"ok": True, "ticket": rules.wire_ticket(ticket, position)})
