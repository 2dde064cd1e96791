"""Parked items: what an operator sees of them and does with them. Rules: `moorage.protocols.parked`."""

from typing import Any

import msgspec

from moorage.protocols import parked as rules
from moorage.protocols.dead_letters import parse_idempotency_key, parse_note
from moorage.protocols.queue.items import QueueItem
from moorage.protocols.wire import Reply, reply, wire_method

from .base import QueueBase

_SCHEMA = """
CREATE TABLE IF NOT EXISTS exact_review_queue_parked_actions (
  item_key TEXT NOT NULL,
  revision INTEGER NOT NULL,
  action TEXT NOT NULL CHECK (action IN ('recovered', 'resolved')),
  idempotency_key TEXT,
  note TEXT,
  item_json TEXT NOT NULL,
  acted_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS exact_review_queue_parked_actions_key
  ON exact_review_queue_parked_actions (item_key, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX IF NOT EXISTS exact_review_queue_parked_actions_age ON exact_review_queue_parked_actions (acted_at);
"""
PRUNE_LOT = 256
_encoder = msgspec.json.Encoder()


class ParkedActions:
    """What operators did with parked items, over `ctx.storage`; kept for 30 days. Times in milliseconds."""

    def __init__(self, storage: Any) -> None:
        self._sql = storage.sql
        self._sql.exec(_SCHEMA)

    def was_recovered(self, item_key: str, idempotency_key: str) -> bool:
        """Whether this call recovered the item before."""
        rows = self._sql.exec(
            "SELECT 1 FROM exact_review_queue_parked_actions WHERE item_key = ? AND idempotency_key = ?",
            item_key,
            idempotency_key,
        )
        return bool(rows.toArray())

    def add(self, item: QueueItem, action: rules.Action, now: int, key: str | None, note: str | None) -> None:
        """Writes what was done, with the item as it was."""
        self._sql.exec(
            "INSERT INTO exact_review_queue_parked_actions VALUES (?, ?, ?, ?, ?, ?, ?)",
            item.key,
            item.revision,
            action,
            key,
            note,
            _encoder.encode(item).decode(),
            now,
        )

    def prune(self, now: int) -> None:
        """Removes what was done 30 days ago, a bounded lot."""
        self._sql.exec(
            "DELETE FROM exact_review_queue_parked_actions WHERE rowid IN (SELECT rowid"
            " FROM exact_review_queue_parked_actions WHERE acted_at <= ? ORDER BY acted_at LIMIT ?)",
            now - rules.RETENTION_MS,
            PRUNE_LOT,
        )


class ParkedMethods(QueueBase):
    """`parked-reviews/list`, `recover-fresh` and `resolve`."""

    parked_actions: ParkedActions

    def open_parked(self) -> None:
        """Makes the table."""
        self.parked_actions = ParkedActions(self.ctx.storage)

    @wire_method
    def list_parked(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, parked_reviews, next_cursor}`, oldest first."""
        page = rules.parse_page(members)
        found = self.items.parked(page.lane, page.limit + 1, page.after)
        shown = found[: page.limit]
        return reply(
            {
                "ok": True,
                "parked_reviews": [rules.wire(item) for item in shown],
                "next_cursor": rules.cursor_of(shown[-1]) if len(found) > page.limit else None,
            }
        )

    @wire_method
    async def recover_parked(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, recovered, deduped, skipped}`: the items wait again; what is not parked, or not as it was seen,
        is skipped, and so is what was chosen by its row while no review has room."""
        chosen, call = rules.parse_chosen(members, rules.MAX_RECOVERED), parse_idempotency_key(members)
        counts = self.transaction(lambda: self._recover_parked(chosen, call))
        await self.reschedule()
        return reply({"ok": True, **counts})

    def _recover_parked(self, chosen: list[rules.Chosen], call: str) -> dict[str, int]:
        counts = dict.fromkeys(("recovered", "deduped", "skipped"), 0)
        full = self.items.active("review") >= self.settings.review_capacity
        for one in chosen:
            item = self.items.get(one.key)
            if self.parked_actions.was_recovered(one.key, call):
                counts["deduped"] += 1
            elif item is None or not one.may_act_on(item) or (full and one.revision is not None):
                counts["skipped"] += 1
            else:
                self.items.put(rules.recovered(item, self.now()), item)
                self.parked_actions.add(item, "recovered", self.now(), call, None)
                counts["recovered"] += 1
        return counts

    @wire_method
    async def resolve_parked(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, resolved, skipped}`: the items leave the queue; the note is kept with them for 30 days."""
        chosen, note = rules.parse_chosen(members, rules.MAX_RESOLVED), parse_note(members)
        counts = self.transaction(lambda: self._resolve_parked(chosen, note))
        await self.reschedule()
        return reply({"ok": True, **counts})

    def _resolve_parked(self, chosen: list[rules.Chosen], note: str) -> dict[str, int]:
        resolved = 0
        for one in chosen:
            item = self.items.get(one.key)
            if item is not None and one.may_act_on(item):
                self.items.remove(item)
                self.parked_actions.add(item, "resolved", self.now(), None, note)
                self.count(item.lane, "parked_resolved")
                resolved += 1
        return {"resolved": resolved, "skipped": len(chosen) - resolved}
