"""What the queue remembers beside its items: deliveries, ingress, heads, supersessions, counters, its dispatcher.

Each class is one table or two over `ctx.storage`; every time is an argument, in milliseconds.
"""

from typing import Any, Final

import msgspec

from moorage.protocols.queue.admission import DELIVERY_RETENTION_MS, Ingress
from moorage.protocols.queue.completions import Completion
from moorage.protocols.queue.dispatch import Dispatcher
from moorage.protocols.queue.items import QueueItem
from moorage.protocols.queue.scheduled import Bucket

DELIVERY_LOT: Final = 1000
DELIVERY_LOTS: Final = 5
SUPERSESSION_RETENTION_MS: Final = 7 * 24 * 60 * 60 * 1000
INGRESS_RETENTION_MS: Final = 7 * 24 * 60 * 60 * 1000
BUCKET_MS: Final = 5 * 60_000
BUCKET_RETENTION_MS: Final = 48 * 60 * 60 * 1000
SCHEDULED_KEY: Final = "exact-review-scheduled-feed:v1"

_dispatcher = msgspec.json.Decoder(Dispatcher)


class Deliveries:
    """Delivery ids of the last seven days; their number is kept, not counted."""

    def __init__(self, storage: Any, metrics: "Metrics") -> None:
        self._sql = storage.sql
        self._metrics = metrics

    def seen(self, delivery_id: str, now: int) -> bool:
        """Whether the delivery arrived within the last seven days."""
        rows = self._sql.exec(
            "SELECT received_at FROM exact_review_queue_deliveries WHERE delivery_id = ?", delivery_id
        ).toArray()
        return bool(rows) and rows[0]["received_at"] > now - DELIVERY_RETENTION_MS

    def add(self, delivery_id: str, fingerprint: str | None, now: int) -> None:
        """Remembers the delivery, also when an expired one of that id has not been pruned yet."""
        known = self._sql.exec(
            "SELECT 1 FROM exact_review_queue_deliveries WHERE delivery_id = ?", delivery_id
        ).toArray()
        self._sql.exec(
            "INSERT OR REPLACE INTO exact_review_queue_deliveries VALUES (?, ?, ?, NULL)",
            delivery_id,
            now,
            fingerprint,
        )
        if not known:
            self._metrics.add("delivery_receipts", 1)

    def prune(self, now: int) -> None:
        """Removes expired ids, at most 5 lots of 1,000."""
        for _ in range(DELIVERY_LOTS):
            gone = self._sql.exec(
                "DELETE FROM exact_review_queue_deliveries WHERE delivery_id IN (SELECT delivery_id"
                " FROM exact_review_queue_deliveries WHERE received_at <= ? ORDER BY received_at LIMIT ?)"
                " RETURNING delivery_id",
                now - DELIVERY_RETENTION_MS,
                DELIVERY_LOT,
            ).toArray()
            if gone:
                self._metrics.add("delivery_receipts", -len(gone))
            if len(gone) < DELIVERY_LOT:
                return


class IngressRoutes:
    """Which route brought an event, and what an edited pull request came to."""

    def __init__(self, storage: Any) -> None:
        self._sql = storage.sql

    def came_by_other_route(self, ingress: Ingress, branch: str, verified: bool) -> bool:
        """Whether the other route's copy of the event was admitted already.

        The direct route with a verified head is better than the dispatcher's copy and is never folded away
        (`exact-review-enqueue/fallback-route-first`).
        """
        if ingress.route == "direct_webhook" and verified:
            return False
        rows = self._sql.exec(
            "SELECT 1 FROM exact_review_queue_ingress WHERE fingerprint = ? AND route <> ? AND target_branch = ?"
            " AND admitted_at IS NOT NULL",
            ingress.fingerprint,
            ingress.route,
            branch,
        )
        return bool(rows.toArray())

    def note(self, ingress: Ingress, branch: str, admitted: bool, now: int) -> None:
        """Remembers that the event came this way, and whether it was admitted."""
        self._sql.exec(
            "INSERT INTO exact_review_queue_ingress VALUES (?, ?, ?, ?, ?) ON CONFLICT (fingerprint, route) DO UPDATE"
            " SET target_branch = excluded.target_branch, received_at = excluded.received_at,"
            " admitted_at = coalesce(excluded.admitted_at, admitted_at)",
            ingress.fingerprint,
            ingress.route,
            branch,
            now,
            now if admitted else None,
        )

    def edit_unchanged(self, item_key: str, fingerprint: str) -> bool:
        """Whether the item's last edit came to the same."""
        rows = self._sql.exec(
            "SELECT fingerprint FROM exact_review_queue_edit_semantic WHERE item_key = ?", item_key
        ).toArray()
        return bool(rows) and rows[0]["fingerprint"] == fingerprint

    def note_edit(self, item_key: str, fingerprint: str, now: int) -> None:
        """Remembers what the item's last edit came to."""
        self._sql.exec(
            "INSERT OR REPLACE INTO exact_review_queue_edit_semantic VALUES (?, ?, ?)", item_key, fingerprint, now
        )

    def prune(self, now: int) -> None:
        """Removes routes of the week before last, a bounded lot."""
        self._sql.exec(
            "DELETE FROM exact_review_queue_ingress WHERE (fingerprint, route) IN (SELECT fingerprint, route"
            " FROM exact_review_queue_ingress WHERE received_at <= ? ORDER BY received_at LIMIT 1000)",
            now - INGRESS_RETENTION_MS,
        )


class PublicationHeads:
    """The newest revision of every target whose publication was ever asked for."""

    def __init__(self, storage: Any) -> None:
        self._sql = storage.sql

    def get(self, target_key: str) -> int:
        """The head of `owner/name#number` (any case); 0 without one."""
        rows = self._sql.exec(
            "SELECT source_revision FROM exact_review_publication_heads WHERE target_key = ?", target_key.lower()
        ).toArray()
        return rows[0]["source_revision"] if rows else 0

    def advance(self, target_key: str, revision: int, now: int) -> None:
        """Moves the head forward, never back."""
        self._sql.exec(
            "INSERT INTO exact_review_publication_heads VALUES (?, ?, ?) ON CONFLICT (target_key) DO UPDATE"
            " SET source_revision = max(source_revision, excluded.source_revision), updated_at = excluded.updated_at",
            target_key.lower(),
            revision,
            now,
        )


class Supersessions:
    """Who was pre-empted by which revision; `lease_superseded` is answered from here."""

    def __init__(self, storage: Any) -> None:
        self._sql = storage.sql

    def add(self, item: QueueItem, next_revision: int, source_action: str, now: int) -> None:
        """Records that the holder of `item` lost it to `next_revision`."""
        self._sql.exec(
            "INSERT INTO exact_review_queue_supersessions (item_key, prior_revision, next_revision, lease_id, run_id,"
            " run_attempt, claim_generation, protocol_version, source_action, reason_code, superseded_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'newer_revision', ?)",
            item.key,
            item.lease_revision or item.revision,
            next_revision,
            item.lease_id,
            item.claimed_run_id,
            item.claimed_run_attempt,
            item.claim_generation,
            item.claim_protocol_version,
            source_action,
            now,
        )

    def superseded_by(self, request: Completion) -> int | None:
        """The revision that exactly this claim was withdrawn for, or None."""
        rows = self._sql.exec(
            "SELECT next_revision, item_key, prior_revision, run_id, run_attempt, claim_generation, protocol_version"
            " FROM exact_review_queue_supersessions WHERE lease_id = ? ORDER BY audit_id DESC LIMIT 1",
            request.lease_id,
        ).toArray()
        if not rows or rows[0]["run_id"] is None:
            return None
        row = rows[0]
        held = (row["run_id"], row["run_attempt"], row["protocol_version"])
        if held != (request.run_id, request.run_attempt, request.protocol):
            return None
        if request.protocol == 2:
            held = (row["item_key"], row["prior_revision"], row["claim_generation"])
            if held != (request.item_key, request.lease_revision, request.claim_generation):
                return None
        return int(row["next_revision"])

    def prune(self, now: int) -> None:
        """Removes what is older than seven days, a bounded lot."""
        self._sql.exec(
            "DELETE FROM exact_review_queue_supersessions WHERE audit_id IN (SELECT audit_id"
            " FROM exact_review_queue_supersessions WHERE superseded_at <= ? ORDER BY superseded_at LIMIT 1000)",
            now - SUPERSESSION_RETENTION_MS,
        )


class Metrics:
    """Totals since the beginning and counts of five-minute buckets for 48 hours."""

    def __init__(self, storage: Any) -> None:
        self._sql = storage.sql

    def add(self, name: str, change: int, now: int | None = None) -> None:
        """Adds to a total; with `now` also to its bucket."""
        self._sql.exec(
            "INSERT INTO exact_review_queue_metrics VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
            name,
            change,
        )
        if now is not None:
            self._sql.exec(
                "INSERT INTO exact_review_queue_metric_buckets VALUES (?, ?, ?)"
                " ON CONFLICT (bucket_start, name) DO UPDATE SET count = count + excluded.count",
                now - now % BUCKET_MS,
                name,
                change,
            )

    def totals(self) -> dict[str, int]:
        """Every total."""
        return {
            row["name"]: row["value"] for row in self._sql.exec("SELECT name, value FROM exact_review_queue_metrics")
        }

    def window(self, minutes: int, now: int) -> dict[str, int]:
        """Counts of the buckets that began within the last `minutes`."""
        rows = self._sql.exec(
            "SELECT name, sum(count) AS total FROM exact_review_queue_metric_buckets WHERE bucket_start > ?"
            " GROUP BY name",
            now - minutes * 60_000,
        )
        return {row["name"]: row["total"] for row in rows}

    def prune(self, now: int) -> None:
        """Removes buckets older than 48 hours."""
        self._sql.exec(
            "DELETE FROM exact_review_queue_metric_buckets WHERE bucket_start < ?", now - BUCKET_RETENTION_MS
        )


class Meta:
    """The dispatcher's state and the token buckets."""

    def __init__(self, storage: Any, now: int) -> None:
        self._sql = storage.sql
        self._kv = storage.kv
        self._dispatcher: Dispatcher | None = None
        self._buckets: dict[str, Bucket] | None = None
        self._sql.exec(
            "INSERT OR IGNORE INTO exact_review_queue_meta (singleton, schema_version, migrated_at) VALUES (1, 1, ?)",
            now,
        )

    def dispatcher(self) -> Dispatcher:
        """The dispatcher as stored; read once and kept in memory from then on."""
        if self._dispatcher is None:
            stored = self._sql.exec("SELECT dispatcher_json FROM exact_review_queue_meta").one()["dispatcher_json"]
            self._dispatcher = _dispatcher.decode(stored) if stored else Dispatcher()
        return self._dispatcher

    def put_dispatcher(self, dispatcher: Dispatcher) -> None:
        """Stores the dispatcher."""
        self._sql.exec(
            "UPDATE exact_review_queue_meta SET dispatcher_json = ?", msgspec.json.encode(dispatcher).decode()
        )
        self._dispatcher = dispatcher

    def buckets(self) -> dict[str, Bucket]:
        """The token buckets of scheduled reviews; read once and kept in memory from then on."""
        if self._buckets is None:
            self._buckets = msgspec.convert(self._kv.get(SCHEDULED_KEY) or {}, dict[str, Bucket])
        return self._buckets

    def put_buckets(self, buckets: dict[str, Bucket]) -> None:
        """Stores the token buckets."""
        self._kv.put(SCHEDULED_KEY, msgspec.to_builtins(buckets))
        self._buckets = buckets

    def forget(self) -> None:
        """Forgets what is kept in memory: a transaction was undone."""
        self._dispatcher = None
        self._buckets = None
