"""Publication batches in SQLite. Rules: `moorage.protocols.publication.batches`; spec state-plane-protocol 11.8.

An item is in one unfinished batch at most (a unique partial index). Generations outlive batches, so that a
late completion
never matches a lease that was given again.
"""

from typing import Any

import msgspec
from msgspec import UNSET

from moorage.protocols.publication import batches as rules
from moorage.protocols.publication.batches import Batch, BatchItem
from moorage.protocols.queue import endings
from moorage.protocols.queue.items import QueueItem, move
from moorage.protocols.wire import Reply, reply, wire_method
from moorage.protocols.wire.publication import (
    BatchLeaseNotActive,
    InvalidBatchCompletions,
    PublicationBatchingDisabled,
)

from .base import QueueBase

_SCHEMA = """
CREATE TABLE IF NOT EXISTS exact_review_publication_batches (
  batch_id TEXT PRIMARY KEY,
  state TEXT NOT NULL CHECK (state IN ('leased', 'completed', 'expired')),
  lease_owner TEXT NOT NULL,
  lease_expires_at INTEGER NOT NULL,
  configured_batch_size INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  completed_at INTEGER,
  state_commit_sha TEXT,
  failure_fingerprint TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS exact_review_publication_batches_expiry
  ON exact_review_publication_batches (state, lease_expires_at);
CREATE TABLE IF NOT EXISTS exact_review_publication_batch_items (
  batch_id TEXT NOT NULL,
  position INTEGER NOT NULL,
  item_key TEXT NOT NULL,
  revision INTEGER NOT NULL,
  claim_generation INTEGER NOT NULL,
  terminal_outcome TEXT,
  PRIMARY KEY (batch_id, position)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS exact_review_publication_batch_items_open
  ON exact_review_publication_batch_items (item_key) WHERE terminal_outcome IS NULL;
CREATE TABLE IF NOT EXISTS exact_review_publication_batch_generations (
  item_key TEXT PRIMARY KEY,
  last_generation INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""
BATCH_RETENTION_MS = 7 * 24 * 60 * 60 * 1000


class Batches:
    """Batches over `ctx.storage`; every time is an argument, in milliseconds."""

    def __init__(self, storage: Any) -> None:
        self._sql = storage.sql
        self._sql.exec(_SCHEMA)

    def get(self, batch_id: str) -> Batch | None:
        """A batch with its items, or None."""
        rows = self._sql.exec("SELECT * FROM exact_review_publication_batches WHERE batch_id = ?", batch_id).toArray()
        if not rows:
            return None
        items = self._sql.exec(
            "SELECT item_key, revision, claim_generation, terminal_outcome FROM exact_review_publication_batch_items"
            " WHERE batch_id = ? ORDER BY position",
            batch_id,
        )
        return Batch(**rows[0], items=tuple(BatchItem(**row) for row in items))

    def add(self, batch: Batch) -> None:
        """Writes a new batch with its items."""
        self._sql.exec(
            "INSERT INTO exact_review_publication_batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            batch.batch_id,
            batch.state,
            batch.lease_owner,
            batch.lease_expires_at,
            batch.configured_batch_size,
            batch.attempt,
            batch.created_at,
            batch.completed_at,
            batch.state_commit_sha,
            batch.failure_fingerprint,
        )
        for position, item in enumerate(batch.items):
            self._sql.exec(
                "INSERT INTO exact_review_publication_batch_items VALUES (?, ?, ?, ?, ?, NULL)",
                batch.batch_id,
                position,
                item.item_key,
                item.revision,
                item.claim_generation,
            )

    def next_generation(self, item_key: str) -> int:
        """A generation of the item that was never given before."""
        row = self._sql.exec(
            "INSERT INTO exact_review_publication_batch_generations VALUES (?, 1) ON CONFLICT (item_key) DO UPDATE"
            " SET last_generation = last_generation + 1 RETURNING last_generation",
            item_key,
        ).one()
        return int(row["last_generation"])

    def end_item(self, batch_id: str, item_key: str, outcome: str) -> None:
        """What became of an item of the batch."""
        self._sql.exec(
            "UPDATE exact_review_publication_batch_items SET terminal_outcome = ? WHERE batch_id = ? AND item_key = ?"
            " AND terminal_outcome IS NULL",
            outcome,
            batch_id,
            item_key,
        )

    def end(self, batch_id: str, state: str, now: int, commit: str | None, fingerprint: str | None) -> None:
        """Ends a batch."""
        self._sql.exec(
            "UPDATE exact_review_publication_batches SET state = ?, completed_at = ?,"
            " state_commit_sha = coalesce(?, state_commit_sha), failure_fingerprint = coalesce(?,"
            " failure_fingerprint)"
            " WHERE batch_id = ?",
            state,
            now,
            commit,
            fingerprint,
            batch_id,
        )

    def note(self, batch_id: str, commit: str | None, fingerprint: str | None) -> None:
        """Keeps the commit and the failure of a batch that goes on."""
        self._sql.exec(
            "UPDATE exact_review_publication_batches SET state_commit_sha = coalesce(?, state_commit_sha),"
            " failure_fingerprint = coalesce(?, failure_fingerprint) WHERE batch_id = ?",
            commit,
            fingerprint,
            batch_id,
        )

    def renew(self, batch_id: str, expires_at: int) -> None:
        """Moves the end of a batch's lease."""
        self._sql.exec(
            "UPDATE exact_review_publication_batches SET lease_expires_at = ? WHERE batch_id = ?",
            expires_at,
            batch_id,
        )

    def active(self, now: int) -> int:
        """Batches whose lease runs."""
        row = self._sql.exec(
            "SELECT count(*) AS n FROM exact_review_publication_batches WHERE state = 'leased' AND"
            " lease_expires_at > ?",
            now,
        ).one()
        return int(row["n"])

    def expired(self, now: int) -> list[str]:
        """Batches whose lease has ended, at most 100."""
        rows = self._sql.exec(
            "SELECT batch_id FROM exact_review_publication_batches WHERE state = 'leased' AND lease_expires_at <= ?"
            " ORDER BY lease_expires_at LIMIT 100",
            now,
        )
        return [row["batch_id"] for row in rows]

    def next_expiry(self) -> int | None:
        """When the next lease of a batch ends."""
        rows = self._sql.exec(
            "SELECT lease_expires_at FROM exact_review_publication_batches WHERE state = 'leased'"
            " ORDER BY lease_expires_at LIMIT 1"
        ).toArray()
        return rows[0]["lease_expires_at"] if rows else None

    def prune(self, now: int) -> None:
        """Removes ended batches after seven days, a bounded lot; generations stay."""
        for state in ("completed", "expired"):
            gone = self._sql.exec(
                "DELETE FROM exact_review_publication_batches WHERE batch_id IN (SELECT batch_id"
                " FROM exact_review_publication_batches WHERE state = ? AND lease_expires_at <= ? LIMIT 100)"
                " RETURNING batch_id",
                state,
                now - BATCH_RETENTION_MS,
            ).toArray()
            for row in gone:
                self._sql.exec("DELETE FROM exact_review_publication_batch_items WHERE batch_id = ?", row["batch_id"])


class BatchMethods(QueueBase):
    """Claim, fetch, heartbeat, complete; and what expiry gives back."""

    batches: Batches

    @wire_method
    async def claim_batch(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, claimed, batch, …}`; the same claim again returns its batch."""
        if not self.settings.batching:
            raise PublicationBatchingDisabled
        claim = rules.parse_claim(members)
        size = min(claim.max_items, self.settings.batch_size)
        sizes = {"requested_max_items": claim.max_items, "effective_max_items": size}
        batch = self.transaction(lambda: self._claim(claim, size))
        self.note_batch_claim(claim.dispatch_id)
        await self.reschedule()
        if batch is None:
            return reply({"ok": True, "claimed": False, "batch": None, **sizes})
        waited = [item.created_at for item in map(self.items.get, (held.item_key for held in batch.items)) if item]
        return reply(
            {
                "ok": True,
                "claimed": True,
                "batch": batch.wire(),
                "configured_batch_size": batch.configured_batch_size,
                "batch_wait_ms": self.now() - min(waited) if waited else 0,
                **sizes,
            }
        )

    def _claim(self, claim: rules.BatchClaim, size: int) -> Batch | None:
        now = self.now()
        self.expire_batches()
        present = self.batches.get(claim.claim_id)
        if present is not None:
            return present if present.lease_owner == claim.lease_owner else None
        waiting = self.items.due("publication", "pending", now, size)
        if not waiting or self.batches.active(now) >= self.settings.batch_concurrent:
            return None
        expires = now + self.settings.batch_lease_ms
        held = []
        for item in waiting:
            generation = self.batches.next_generation(item.key)
            reserved = move(
                item,
                "reserve",
                now,
                lease_id=self.new_lease_id(),
                lease_revision=item.revision,
                lease_decision=item.decision,
                lease_expires_at=expires,
                claim_generation=generation,
                claim_protocol_version=2,
                claimed_at=now,
                batch_id=claim.claim_id,
            )
            self.items.put(reserved, item)
            held.append(BatchItem(item.key, item.revision, generation))
        batch = Batch(
            claim.claim_id, "leased", claim.lease_owner, expires, size, 1, now, None, None, None, tuple(held)
        )
        self.batches.add(batch)
        self.count("publication", "batches")
        return batch

    def running_batches(self) -> int:
        """Batches whose lease runs."""
        return self.batches.active(self.now())

    def _held(self, members: dict[str, Any], or_completed: bool = False) -> Batch:
        batch_id, owner = rules.parse_identity(members)
        batch = self.batches.get(batch_id)
        if batch is None or batch.lease_owner != owner:
            raise BatchLeaseNotActive
        if batch.state == "leased" and batch.lease_expires_at > self.now():
            return batch
        if batch.state == "completed" and or_completed:
            return batch
        raise BatchLeaseNotActive

    def _item(self, batch: Batch, held: BatchItem) -> QueueItem | None:
        item = self.items.get(held.item_key)
        if item is None or item.batch_id != batch.batch_id or item.claim_generation != held.claim_generation:
            return None
        return item

    @wire_method
    async def fetch_batch(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, batch, items, superseded}`: what is to be published; what a newer revision has overtaken
        is ended, and the batch with it when nothing else is left."""
        batch = self._held(members)
        superseded = self.transaction(lambda: self._end_overtaken(batch))
        if superseded:
            await self.reschedule()
        batch = self.batches.get(batch.batch_id) or batch
        items = [(held, self._item(batch, held)) for held in batch.items if held.terminal_outcome is None]
        rows = [
            {
                "item_key": held.item_key,
                "revision": held.revision,
                "claim_generation": held.claim_generation,
                "decision": (item.held_decision or item.decision).wire(),
            }
            for held, item in items
            if item is not None
        ]
        return reply({"ok": True, "batch": batch.wire(), "items": rows, "superseded": superseded})

    def _end_overtaken(self, batch: Batch) -> int:
        ended = 0
        for held in batch.items:
            item = self._item(batch, held)
            publication = (item.held_decision or item.decision).publication if item is not None else UNSET
            if item is None or publication is UNSET or held.terminal_outcome is not None:
                continue
            revision = publication.lease_revision
            # protocol 1 may name none; such a publication was admitted and is as good as any
            if revision is not None and revision < self.heads.get(item.decision.target_key):
                overtaken = rules.BatchCompletion(
                    held.item_key, held.revision, held.claim_generation, "superseded", "remote_newer_tuple", None
                )
                self._end_item(batch, held, item, overtaken)
                ended += 1
        if ended and ended == sum(held.terminal_outcome is None for held in batch.items):
            self.batches.end(batch.batch_id, "completed", self.now(), None, None)
        return ended

    @wire_method
    async def heartbeat_batch(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, batch}`: the lease of the batch, and so of all its items, is renewed; `items` must be of it."""
        batch = self._held(members)
        named = rules.parse_items(members.get("items"))
        known = {(held.item_key, held.revision, held.claim_generation) for held in batch.items}
        if any((key, revision, generation) not in known for _, key, revision, generation in named):
            raise InvalidBatchCompletions
        expires = self.now() + self.settings.batch_lease_ms

        def renew() -> None:
            self.batches.renew(batch.batch_id, expires)
            for held in batch.items:
                item = self._item(batch, held)
                if item is not None:
                    self.items.put(msgspec.structs.replace(item, lease_expires_at=expires), item)

        self.transaction(renew)
        await self.reschedule()
        renewed = self.batches.get(batch.batch_id) or batch
        return reply({"ok": True, "batch": renewed.wire()})

    @wire_method
    async def complete_batch(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, accepted, skipped, batch}`; repeating it skips every item."""
        batch = self._held(members, or_completed=True)
        completions, commit = rules.parse_completions(members, self.now())
        accepted = self.transaction(lambda: self._complete_items(batch, completions, commit))
        await self.reschedule()
        after = self.batches.get(batch.batch_id) or batch
        skipped = len(completions) - accepted
        return reply({"ok": True, "accepted": accepted, "skipped": skipped, "batch": after.wire()})

    def _complete_items(self, batch: Batch, completions: list[rules.BatchCompletion], commit: str | None) -> int:
        open_items = {
            (held.item_key, held.revision, held.claim_generation): held
            for held in batch.items
            if held.terminal_outcome is None
        }
        accepted, fingerprint = 0, None
        for done in completions:
            held = open_items.pop((done.item_key, done.revision, done.claim_generation), None)
            item = self._item(batch, held) if held is not None else None
            if held is None or item is None:
                continue
            self._end_item(batch, held, item, done)
            fingerprint = done.fingerprint or fingerprint
            accepted += 1
        if batch.state == "leased":
            if open_items:
                self.batches.note(batch.batch_id, commit, fingerprint)
            else:
                self.batches.end(batch.batch_id, "completed", self.now(), commit, fingerprint)
        return accepted

    def _end_item(self, batch: Batch, held: BatchItem, item: QueueItem, done: rules.BatchCompletion) -> None:
        now, retry_at = self.now(), done.retry_at
        if retry_at is not None and not done.attempted and not item.has_newer_revision:
            ending = endings.put_off_publication(item, retry_at, now)
        else:
            ending = endings.end_publication(
                item, done.kind, done.reason, done.fingerprint, now, retry_at, self.dead_letter_room()
            )
        self.end_lifecycle(item, ending, done.kind, None)
        self.settle(item, ending)
        self.batches.end_item(batch.batch_id, held.item_key, done.kind)

    def expire_batches(self) -> None:
        """Gives back the items of batches whose lease has ended; inside the caller's transaction."""
        for batch_id in self.batches.expired(self.now()):
            batch = self.batches.get(batch_id)
            for held in batch.items if batch is not None else ():
                item = self._item(batch, held) if batch is not None else None
                if item is not None:
                    self.settle(item, endings.expire(item, self.now()))
                self.batches.end_item(batch_id, held.item_key, "expired")
            self.batches.end(batch_id, "expired", self.now(), None, None)
