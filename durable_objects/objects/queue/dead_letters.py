"""Dead letters in SQLite and what operators do with them. Rules: `moorage.protocols.dead_letters`; spec 11.7."""

from typing import Any

import msgspec

from moorage.protocols import dead_letters as rules
from moorage.protocols.dead_letters import DeadLetter
from moorage.protocols.queue import endings
from moorage.protocols.queue.decisions import Decision
from moorage.protocols.queue.endings import Burial
from moorage.protocols.queue.items import QueueItem
from moorage.protocols.wire import Reply, reply, wire_method

from .base import QueueBase

_SCHEMA = """
CREATE TABLE IF NOT EXISTS exact_review_queue_dead_letters (
  dead_letter_id TEXT PRIMARY KEY,
  item_json TEXT NOT NULL,
  target_key TEXT NOT NULL,
  reason_code TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  first_failed_at INTEGER NOT NULL,
  last_failed_at INTEGER NOT NULL,
  error_fingerprint TEXT,
  status TEXT NOT NULL CHECK (status IN ('open', 'replayed', 'resolved')),
  replay_key TEXT,
  resolution_note TEXT,
  resolved_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS exact_review_queue_dead_letters_status
  ON exact_review_queue_dead_letters (status, dead_letter_id);
CREATE INDEX IF NOT EXISTS exact_review_queue_dead_letters_age
  ON exact_review_queue_dead_letters (status, last_failed_at, dead_letter_id);
CREATE INDEX IF NOT EXISTS exact_review_queue_dead_letters_ended
  ON exact_review_queue_dead_letters (resolved_at) WHERE resolved_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS exact_review_queue_dead_letters_target ON exact_review_queue_dead_letters (target_key);
"""
_COLUMNS = (
    "dead_letter_id, item_json, target_key, reason_code, attempts, first_failed_at, last_failed_at,"
    " error_fingerprint,"
    " status, replay_key, resolution_note, resolved_at"
)
_decoder = msgspec.json.Decoder(QueueItem)


def _letter(row: dict[str, Any]) -> DeadLetter:
    members = {name: value for name, value in row.items() if name not in {"item_json", "target_key"}}
    return DeadLetter(item=_decoder.decode(row["item_json"]), **members)


class DeadLetters:
    """The letters over `ctx.storage`; every time is an argument, in milliseconds."""

    def __init__(self, storage: Any) -> None:
        self._sql = storage.sql
        self._sql.exec(_SCHEMA)

    def get(self, dead_letter_id: str) -> DeadLetter | None:
        """A letter by its id, or None."""
        rows = self._sql.exec(
            f"SELECT {_COLUMNS} FROM exact_review_queue_dead_letters WHERE dead_letter_id = ?", dead_letter_id
        ).toArray()
        return _letter(rows[0]) if rows else None

    def page(self, page: rules.Page) -> list[DeadLetter]:
        """At most `limit` + 1 letters, by id; the last one only shows that more follow."""
        where = "" if page.status == "all" else "status = ? AND "
        bindings = [] if page.status == "all" else [page.status]
        rows = self._sql.exec(
            f"SELECT {_COLUMNS} FROM exact_review_queue_dead_letters WHERE {where}dead_letter_id > ?"
            " ORDER BY dead_letter_id LIMIT ?",
            *bindings,
            page.cursor,
            page.limit + 1,
        )
        return [_letter(row) for row in rows]

    def of_target(self, target_key: str) -> list[DeadLetter]:
        """Letters of `owner/name#number`, spelled so."""
        rows = self._sql.exec(
            f"SELECT {_COLUMNS} FROM exact_review_queue_dead_letters WHERE target_key = ? ORDER BY dead_letter_id"
            " LIMIT 20",
            target_key,
        )
        return [_letter(row) for row in rows]

    def open_ids(self) -> list[str]:
        """Ids of the open letters."""
        rows = self._sql.exec("SELECT dead_letter_id FROM exact_review_queue_dead_letters WHERE status = 'open'")
        return [row["dead_letter_id"] for row in rows]

    def open_count(self) -> int:
        """How many letters are open; they are at most 5,000."""
        row = self._sql.exec("SELECT count(*) AS n FROM exact_review_queue_dead_letters WHERE status = 'open'").one()
        return int(row["n"])

    def summary(self) -> dict[str, Any]:
        """Number, oldest failure and reasons of the open letters, for the queue's statistics."""
        oldest = self._sql.exec(
            "SELECT last_failed_at FROM exact_review_queue_dead_letters WHERE status = 'open'"
            " ORDER BY last_failed_at, dead_letter_id LIMIT 1"
        ).toArray()
        reasons = self._sql.exec(
            "SELECT reason_code, count(*) AS n FROM exact_review_queue_dead_letters WHERE status = 'open'"
            " GROUP BY reason_code ORDER BY reason_code"
        )
        return {
            "open": self.open_count(),
            "oldest": oldest[0]["last_failed_at"] if oldest else None,
            "reasons": {row["reason_code"]: row["n"] for row in reasons},
        }

    def put(self, letter: DeadLetter) -> None:
        """Writes a letter whole."""
        self._sql.exec(
            f"INSERT OR REPLACE INTO exact_review_queue_dead_letters ({_COLUMNS})"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            letter.dead_letter_id,
            msgspec.json.encode(letter.item).decode(),
            letter.decision.target_key,
            letter.reason_code,
            letter.attempts,
            letter.first_failed_at,
            letter.last_failed_at,
            letter.error_fingerprint,
            letter.status,
            letter.replay_key,
            letter.resolution_note,
            letter.resolved_at,
        )

    def end(self, letter: DeadLetter, status: str, now: int, key: str | None, note: str | None) -> None:
        """Closes an open letter."""
        self._sql.exec(
            "UPDATE exact_review_queue_dead_letters SET status = ?, replay_key = ?, resolution_note = ?,"
            " resolved_at = ?"
            " WHERE dead_letter_id = ?",
            status,
            key,
            note,
            now,
            letter.dead_letter_id,
        )

    def prune(self, now: int) -> None:
        """Removes letters 30 days after they were closed, a bounded lot; open ones stay."""
        self._sql.exec(
            "DELETE FROM exact_review_queue_dead_letters WHERE dead_letter_id IN (SELECT dead_letter_id"
            " FROM exact_review_queue_dead_letters WHERE resolved_at <= ? ORDER BY resolved_at LIMIT 256)",
            now - rules.RETENTION_MS,
        )


class DeadLetterMethods(QueueBase):
    """List, replay, recover, resolve; and how a publication gets there."""

    dead_letters: DeadLetters

    def dead_letter_room(self) -> bool:
        """Whether another letter may be open."""
        return self.dead_letters.open_count() < self.settings.dead_letter_limit

    def bury(self, item: QueueItem, burial: Burial) -> None:
        """Writes the letter of a publication that failed for good; inside the caller's transaction."""
        self.dead_letters.put(
            DeadLetter(
                rules.letter_id(item),
                item,
                burial.reason,
                burial.attempts,
                burial.first_failed_at,
                self.now(),
                burial.fingerprint,
            )
        )

    def recovery_reason(self, letter: DeadLetter) -> str:
        """Whether a fresh review may take the letter's place now."""
        key = letter.decision.target_key
        return rules.recovery_reason(letter, {key} if self.items.get(key) is not None else ())

    @wire_method
    def list_dead_letters(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, dead_letters, next_cursor}`, by id."""
        page = rules.parse_page(members)
        found = self.dead_letters.page(page)
        shown = found[: page.limit]
        return reply(
            {
                "ok": True,
                "dead_letters": [letter.wire(self.recovery_reason(letter)) for letter in shown],
                "next_cursor": shown[-1].dead_letter_id if len(found) > page.limit else None,
            }
        )

    @wire_method
    async def replay_dead_letters(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, replayed, deduped, skipped}`: the publications as they were, unless their keys are in use."""
        ids, key = rules.parse_ids(members), rules.parse_idempotency_key(members)
        counts = self.transaction(lambda: self._replay(ids, key))
        await self.reschedule()
        return reply({"ok": True, **counts})

    def _replay(self, ids: list[str], key: str) -> dict[str, int]:
        counts = dict.fromkeys(("replayed", "deduped", "skipped"), 0)
        for letter in map(self.dead_letters.get, ids):
            if letter is not None and letter.status == "replayed" and letter.replay_key == key:
                counts["deduped"] += 1
            elif letter is None or letter.status != "open" or self._replay_blocked(letter):
                counts["skipped"] += 1
            else:
                self.items.put(rules.replayed_item(letter, self.now()), None)
                self.dead_letters.end(letter, "replayed", self.now(), key, None)
                self.count("publication", "enqueued")
                counts["replayed"] += 1
        return counts

    def _replay_blocked(self, letter: DeadLetter) -> bool:
        newest = self.heads.get(letter.decision.target_key)
        return self.items.get(letter.item.key) is not None or rules.fresh_minimum(letter) <= newest

    @wire_method
    async def recover_dead_letters(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, recovered, deduped, skipped, unparked[, stale_inventory]}`: new reviews in place of old
        publications."""
        ids = rules.parse_ids(members, rules.MAX_RECOVERIES)
        key, guard = rules.parse_idempotency_key(members), rules.parse_guard(members, ids)
        if guard is not None and guard.fingerprint != rules.inventory_fingerprint(self.dead_letters.open_ids()):
            void = {"recovered": 0, "deduped": 0, "skipped": len(ids), "unparked": 0}
            return reply({"ok": True, **void, "stale_inventory": True})
        counts = self.transaction(lambda: self._recover(ids, key, guard))
        await self.reschedule()
        return reply({"ok": True, **counts})

    def _recover(self, ids: list[str], key: str, guard: rules.RecoveryGuard | None) -> dict[str, int]:
        counts = dict.fromkeys(("recovered", "deduped", "skipped", "unparked"), 0)
        for dead_letter_id in ids:
            letter = self.dead_letters.get(dead_letter_id)
            if letter is not None and letter.status == "resolved" and letter.replay_key == key:
                counts["deduped"] += 1
                continue
            fresh = self._fresh(letter, guard)
            if letter is None or fresh is None:
                counts["skipped"] += 1
                continue
            self.create_review(fresh, rules.fresh_minimum(letter))
            self.dead_letters.end(letter, "resolved", self.now(), key, rules.RECOVERED_NOTE)
            counts["recovered"] += 1
        counts["unparked"] = self._unpark(counts["recovered"])
        return counts

    def _fresh(self, letter: DeadLetter | None, guard: rules.RecoveryGuard | None) -> Decision | None:
        """The review that may take the letter's place, or None."""
        if letter is None or letter.status != "open" or self.recovery_reason(letter) != "eligible":
            return None
        if guard is not None:
            if guard.targets[letter.dead_letter_id].lower() != letter.decision.target_key.lower():
                return None
            if any(self.items.get(alias) is not None for alias in guard.aliases[letter.dead_letter_id]):
                return None
        return endings.fresh_review(letter.item)

    @wire_method
    async def resolve_dead_letters(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, resolved, skipped, unparked}`: the letters are closed with a note."""
        ids, note = rules.parse_ids(members), rules.parse_note(members)
        counts = self.transaction(lambda: self._resolve(ids, note))
        await self.reschedule()
        return reply({"ok": True, **counts})

    def _resolve(self, ids: list[str], note: str) -> dict[str, int]:
        resolved = 0
        for letter in map(self.dead_letters.get, ids):
            if letter is not None and letter.status == "open":
                self.dead_letters.end(letter, "resolved", self.now(), None, note)
                resolved += 1
        return {"resolved": resolved, "skipped": len(ids) - resolved, "unparked": self._unpark(resolved)}

    def _unpark(self, room: int) -> int:
        """Publications that were parked because no letter could be opened go on, as many as there is room for now."""
        woken = 0
        for item in self.items.parked("publication", room) if room else []:
            if item.parked_reason == "dead_letter_capacity":
                self.items.put(endings.recover(item, self.now()), item)
                woken += 1
        return woken
