"""Queue items in SQLite: every search is by an index, and every count is kept, not taken.

Cost of an operation grows with the logarithm of the queue; `QUERIES` holds the statements for the test that
reads their
plans.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from moorage.protocols.javascript import MAX_SAFE_INTEGER
from moorage.protocols.queue.items import HELD, QueueItem, due_at

SCHEMA: Final = (Path(__file__).parent / "schema.sql").read_text()
STATES: Final = ("pending", "dispatching", "leased", "parked")
LANES: Final = ("review", "publication")

_FIRST_DUE = (
    "(SELECT due_at FROM exact_review_queue_items WHERE lane = '{lane}' AND state = '{state}'"
    " AND due_at > 0 ORDER BY due_at LIMIT 1) AS {lane}_{state}"
)
QUERIES: Final = {
    # not a compound SELECT: the platform takes five terms of those at most
    "next_held": "SELECT "
    + ", ".join(_FIRST_DUE.format(lane=lane, state=state) for lane in LANES for state in STATES[1:]),
    "get": "SELECT item_json FROM exact_review_queue_items WHERE item_key = ?",
    "by_lease": "SELECT item_json FROM exact_review_queue_items WHERE lease_id = ?",
    "by_run": "SELECT item_json FROM exact_review_queue_items WHERE claimed_run_id = ? ORDER BY item_key LIMIT ?",
    "claimed": "SELECT item_json FROM exact_review_queue_items WHERE claimed_run_id > ''"
    " ORDER BY claimed_run_id, item_key LIMIT ?",
    "of_target": "SELECT item_json FROM exact_review_queue_items WHERE target_key = ? ORDER BY lane DESC,"
    " item_key LIMIT ?",
    "due": "SELECT item_json FROM exact_review_queue_items WHERE lane = ? AND state = ? AND due_at <= ?"
    " ORDER BY due_at, created_at, item_key LIMIT ?",
    "next_due": "SELECT due_at FROM exact_review_queue_items WHERE lane = ? AND state = ? AND due_at > ?"
    " ORDER BY due_at LIMIT 1",
    "parked": "SELECT item_json FROM exact_review_queue_items WHERE lane = ? AND state = 'parked'"
    " AND (created_at, item_key) > (?, ?) ORDER BY created_at, item_key LIMIT ?",
    "oldest": "SELECT item_key, created_at FROM exact_review_queue_items WHERE lane = ? AND state = ?"
    " ORDER BY created_at, item_key LIMIT 1",
    # by name: without statistics SQLite takes an index that begins with the lane, and sorts all of it for every page
    "publications": "SELECT item_json FROM exact_review_queue_items"
    " INDEXED BY exact_review_queue_items_publications WHERE lane = 'publication' AND item_key > ?"
    " ORDER BY item_key LIMIT ?",
    "ready_target": "SELECT target_repo FROM exact_review_queue_targets WHERE lane = ? AND head_due_at <= ?"
    " AND dispatching + leased < ? ORDER BY head_due_at, head_created_at, target_repo LIMIT 1",
    "head": "SELECT due_at, created_at FROM exact_review_queue_items WHERE lane = ? AND target_repo = ?"
    " AND state = 'pending' ORDER BY due_at, created_at, item_key LIMIT 1",
    "head_item": "SELECT item_json FROM exact_review_queue_items WHERE lane = ? AND target_repo = ?"
    " AND state = 'pending' ORDER BY due_at, created_at, item_key LIMIT 1",
    "ready": "SELECT count(*) AS n FROM (SELECT 1 FROM exact_review_queue_items WHERE lane = ? AND state = 'pending'"
    " AND due_at <= ? LIMIT ?)",
    "oldest_dispatch": "SELECT item_key, due_at FROM exact_review_queue_items WHERE lane = ?"
    " AND state = 'dispatching' AND due_at IS NOT NULL ORDER BY due_at LIMIT 1",
    # a column must not stand in LIMIT: each repository is counted up to the limit of all, then cut to its own room
    "admissible": "SELECT coalesce(sum(min(max(0, ? - t.dispatching - t.leased), (SELECT count(*) FROM (SELECT 1"
    " FROM exact_review_queue_items WHERE lane = t.lane AND target_repo = t.target_repo AND state = 'pending'"
    " AND due_at <= ? LIMIT ?)))), 0) AS n FROM (SELECT lane, target_repo, dispatching, leased"
    " FROM exact_review_queue_targets WHERE lane = ? AND head_due_at <= ? ORDER BY head_due_at LIMIT ?) AS t",
    "oldest_ready": "SELECT min(created_at) AS at FROM (SELECT created_at FROM exact_review_queue_items"
    " WHERE lane = ? AND state = 'pending' AND due_at <= ? ORDER BY due_at LIMIT ?)",
    "oldest_backoff": "SELECT min(created_at) AS at FROM (SELECT created_at FROM exact_review_queue_items"
    " WHERE lane = ? AND state = 'pending' AND due_at > ? ORDER BY due_at LIMIT ?)",
    "older_ready": "SELECT count(*) FILTER (WHERE created_at < ?) AS older FROM (SELECT created_at"
    " FROM exact_review_queue_items WHERE lane = ? AND state = 'pending' AND due_at <= ? ORDER BY due_at LIMIT ?)",
}
OLDER_READY_WINDOW: Final = 1000

_decoder = msgspec.json.Decoder(QueueItem)
_encoder = msgspec.json.Encoder()


class QueueItems:
    """Items over `ctx.storage`.

    `grace_ms`: how long a holder may be silent, which decides when a lease is due; `dispatch_lease_ms`: how
    long a hand-out waits.
    """

    def __init__(self, storage: Any, grace_ms: int, dispatch_lease_ms: int) -> None:
        self._sql = storage.sql
        self._grace_ms = grace_ms
        self._dispatch_lease_ms = dispatch_lease_ms
        self._counts: dict[tuple[str, str], int] | None = None
        self._sql.exec(SCHEMA)

    def _find(self, query: str, *bindings: Any) -> list[QueueItem]:
        return [_decoder.decode(row["item_json"]) for row in self._sql.exec(QUERIES[query], *bindings)]

    def get(self, key: str) -> QueueItem | None:
        """The item under `key`, or None."""
        return next(iter(self._find("get", key)), None)

    def by_lease(self, lease_id: str) -> QueueItem | None:
        """The item that this lease holds, or None."""
        return next(iter(self._find("by_lease", lease_id)), None)

    def by_run(self, run_id: str, limit: int) -> list[QueueItem]:
        """Items that a run has claimed, by key."""
        return self._find("by_run", run_id, limit)

    def claimed(self, limit: int) -> list[QueueItem]:
        """Items that are claimed, by run and key."""
        return self._find("claimed", limit)

    def of_target(self, target_key: str, limit: int = 50) -> list[QueueItem]:
        """All items of `owner/name#number`, spelled so: the review first, then publications by key."""
        return self._find("of_target", target_key, limit)

    def due(self, lane: str, state: str, now: int, limit: int) -> list[QueueItem]:
        """Items whose time has come, in the order of their times."""
        return self._find("due", lane, state, now, limit)

    def parked(self, lane: str, limit: int, after: tuple[int, str] = (-1, "")) -> list[QueueItem]:
        """Parked items, oldest first; those after (creation in ms, key)."""
        return self._find("parked", lane, *after, limit)

    def publications(self, after: str, limit: int) -> list[QueueItem]:
        """Publications whose key is after `after`, by key."""
        return self._find("publications", after, limit)

    def next_due(self, lane: str, state: str, after: int = -1) -> int | None:
        """The first time after `after` at which an item of `state` is due."""
        rows = self._sql.exec(QUERIES["next_due"], lane, state, after).toArray()
        return rows[0]["due_at"] if rows else None

    def next_held(self) -> int | None:
        """When the first lease ends or the first parked item is woken, of both lanes."""
        times = [time for time in self._sql.exec(QUERIES["next_held"]).one().values() if time is not None]
        return min(times) if times else None

    def next_ready(self, lane: str, now: int, target_capacity: int) -> QueueItem | None:
        """The item to hand out next: of the repositories with room, the one whose first waiting item is due
        longest."""
        rows = self._sql.exec(QUERIES["ready_target"], lane, now, target_capacity).toArray()
        return next(iter(self._find("head_item", lane, rows[0]["target_repo"])), None) if rows else None

    def has_ready(self, lane: str, now: int, target_capacity: int) -> bool:
        """Whether `next_ready` has one."""
        return bool(self._sql.exec(QUERIES["ready_target"], lane, now, target_capacity).toArray())

    def oldest(self, lane: str, state: str) -> tuple[str, int] | None:
        """Key and creation of the oldest item of `state`."""
        rows = self._sql.exec(QUERIES["oldest"], lane, state).toArray()
        return (rows[0]["item_key"], rows[0]["created_at"]) if rows else None

    def older_ready(self, item: QueueItem, now: int) -> int:
        """How many waiting items of the lane are ready and older; exact up to the first thousand ready ones."""
        row = self._sql.exec(QUERIES["older_ready"], item.created_at, item.lane, now, OLDER_READY_WINDOW).one()
        return int(row["older"])

    def ready(self, lane: str, now: int) -> int:
        """How many waiting items are ready; exact up to a thousand."""
        return int(self._sql.exec(QUERIES["ready"], lane, now, OLDER_READY_WINDOW).one()["n"])

    def admissible(self, lane: str, now: int, target_capacity: int) -> int:
        """How many ready items are for repositories with room, each up to its room; exact up to a thousand
        repositories."""
        limits = target_capacity, now, OLDER_READY_WINDOW, lane, now, OLDER_READY_WINDOW
        return int(self._sql.exec(QUERIES["admissible"], *limits).one()["n"])

    def oldest_waiting(self, lane: str, now: int) -> tuple[int | None, int | None]:
        """Creation of the oldest item that is ready, and of the oldest that is not; of the thousand due first."""
        ready, backoff = (
            self._sql.exec(QUERIES[name], lane, now, OLDER_READY_WINDOW).one()["at"]
            for name in ("oldest_ready", "oldest_backoff")
        )
        return ready, backoff

    def oldest_dispatch(self, lane: str) -> tuple[str, int] | None:
        """Key and time of the hand-out that lapses first, or None."""
        rows = self._sql.exec(QUERIES["oldest_dispatch"], lane).toArray()
        return (rows[0]["item_key"], rows[0]["due_at"] - self._dispatch_lease_ms) if rows else None

    def oldest_claim(self, lane: str) -> tuple[str, int] | None:
        """Key and time of the oldest claim, or None; of the thousand leases that end first."""
        held = self.due(lane, "leased", MAX_SAFE_INTEGER, OLDER_READY_WINDOW)
        claims = [(item.claimed_at, item.key) for item in held if item.claimed_at is not None]
        return (min(claims)[1], min(claims)[0]) if claims else None

    def counts(self) -> Mapping[tuple[str, str], int]:
        """Items by lane and state; read once and kept in memory from then on."""
        if self._counts is None:
            rows = self._sql.exec("SELECT lane, state, items FROM exact_review_queue_counts")
            found = {(row["lane"], row["state"]): row["items"] for row in rows}
            self._counts = {(lane, state): found.get((lane, state), 0) for lane in LANES for state in STATES}
        return self._counts

    def forget(self) -> None:
        """Forgets what is kept in memory: a transaction was undone."""
        self._counts = None

    def count(self, lane: str, state: str) -> int:
        """Items of one lane and state."""
        return self.counts()[lane, state]

    def active(self, lane: str) -> int:
        """Items that are handed out or held."""
        counts = self.counts()
        return sum(counts[lane, state] for state in HELD)

    def targets(self, lane: str, limit: int) -> list[dict[str, Any]]:
        """Repositories with items, those due longest first, then the others by name; `limit` of them."""
        rows = self._sql.exec(
            "SELECT target_repo, pending, dispatching, leased, parked, head_created_at FROM"
            " exact_review_queue_targets"
            " WHERE lane = ? AND head_due_at IS NOT NULL ORDER BY head_due_at, head_created_at, target_repo LIMIT ?",
            lane,
            limit,
        )
        return rows.toArray()  # type: ignore[no-any-return]

    def put(self, item: QueueItem, before: QueueItem | None) -> None:
        """Writes the item and the counts that it moves, of both lanes where it changes its own.

        `before`: the item as it is stored now, None for a new one.
        """
        target = item.decision.target_repo.lower()
        self._sql.exec(
            "INSERT OR REPLACE INTO exact_review_queue_items (item_key, item_json, lane, state, target_key,"
            " target_repo,"
            " due_at, created_at, lease_id, claimed_run_id, batch_id) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            item.key,
            _encoder.encode(item).decode(),
            item.lane,
            item.state,
            item.decision.target_key,
            target,
            due_at(item, self._grace_ms),
            item.created_at,
            item.lease_id,
            item.claimed_run_id,
            item.batch_id,
        )
        if before is None and item.state == "pending":
            self._add_waiting(item, target)
            return
        if before is None or (before.lane, before.state) != (item.lane, item.state):
            if before is not None:
                self._add(before.lane, target, before.state, -1)
            self._add(item.lane, target, item.state, 1)
        for lane in {one.lane for one in (before, item) if one is not None and one.state == "pending"}:
            self._set_head(lane, target)

    def remove(self, item: QueueItem) -> None:
        """Removes the item."""
        target = item.decision.target_repo.lower()
        self._sql.exec("DELETE FROM exact_review_queue_items WHERE item_key = ?", item.key)
        self._add(item.lane, target, item.state, -1)
        if item.state == "pending":
            self._set_head(item.lane, target)

    def _add_waiting(self, item: QueueItem, target: str) -> None:
        """A new waiting item: its repository's head moves where the new item is due before it."""
        self._add_count(item.lane, "pending", 1)
        self._sql.exec(
            "INSERT INTO exact_review_queue_targets (lane, target_repo, pending, head_due_at, head_created_at)"
            " VALUES (?, ?, 1, ?, ?) ON CONFLICT (lane, target_repo) DO UPDATE SET pending = pending + 1,"
            " head_created_at = CASE WHEN head_due_at IS NULL OR (excluded.head_due_at, excluded.head_created_at)"
            " < (head_due_at, head_created_at) THEN excluded.head_created_at ELSE head_created_at END,"
            " head_due_at = min(coalesce(head_due_at, excluded.head_due_at), excluded.head_due_at)",
            item.lane,
            target,
            item.next_attempt_at,
            item.created_at,
        )

    def _add_count(self, lane: str, state: str, change: int) -> None:
        self._sql.exec(
            "INSERT INTO exact_review_queue_counts VALUES (?, ?, ?)"
            " ON CONFLICT (lane, state) DO UPDATE SET items = items + excluded.items",
            lane,
            state,
            change,
        )
        if self._counts is not None:
            self._counts[lane, state] += change

    def _add(self, lane: str, target: str, state: str, change: int) -> None:
        self._add_count(lane, state, change)
        self._sql.exec(
            f"INSERT INTO exact_review_queue_targets (lane, target_repo, {state}) VALUES (?, ?, ?)"
            f" ON CONFLICT (lane, target_repo) DO UPDATE SET {state} = {state} + excluded.{state}",
            lane,
            target,
            change,
        )
        if change < 0:
            self._sql.exec(
                "DELETE FROM exact_review_queue_targets WHERE lane = ? AND target_repo = ?"
                " AND pending = 0 AND dispatching = 0 AND leased = 0 AND parked = 0",
                lane,
                target,
            )

    def _set_head(self, lane: str, target: str) -> None:
        rows = self._sql.exec(QUERIES["head"], lane, target).toArray()
        self._sql.exec(
            "UPDATE exact_review_queue_targets SET head_due_at = ?, head_created_at = ? WHERE lane = ? AND"
            " target_repo = ?",
            rows[0]["due_at"] if rows else None,
            rows[0]["created_at"] if rows else None,
            lane,
            target,
        )
