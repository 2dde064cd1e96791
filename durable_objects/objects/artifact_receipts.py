"""Artifact receipts in the queue's SQLite, the objects that they vouch for in R2, and the clean-up of both.

Spec state-plane-protocol 8, state-plane-storage 2.4. Rules: `moorage.protocols.artifact_receipts`.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from moorage.protocols import artifact_receipts as rules
from moorage.protocols.artifact_receipts import Receipt, ReceiptTuple, Stored
from moorage.protocols.wire import Reply, reply, wire_method
from moorage.protocols.wire.artifact_receipts import (
    ArtifactCacheObjectMismatch,
    ArtifactCacheUnavailable,
    ArtifactReceiptImmutableConflict,
    InvalidArtifactReceipt,
    InvalidArtifactReceiptTuple,
)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS exact_review_artifact_receipts (
  producer_run_id TEXT NOT NULL,
  producer_run_attempt INTEGER NOT NULL CHECK (producer_run_attempt >= 1),
  artifact_name TEXT NOT NULL,
  canonical_item_key TEXT NOT NULL,
  lease_revision INTEGER NOT NULL CHECK (lease_revision >= 1),
  protocol_version INTEGER NOT NULL CHECK (protocol_version >= 1),
  digest TEXT NOT NULL CHECK (length(digest) = 64),
  bytes INTEGER NOT NULL CHECK (bytes >= 1),
  object_key TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (producer_run_id, producer_run_attempt, artifact_name, canonical_item_key, lease_revision,
    protocol_version)
) STRICT;
CREATE INDEX IF NOT EXISTS exact_review_artifact_receipts_expiry
  ON exact_review_artifact_receipts (expires_at, digest);
CREATE INDEX IF NOT EXISTS exact_review_artifact_receipts_digest
  ON exact_review_artifact_receipts (digest, expires_at);
CREATE TABLE IF NOT EXISTS exact_review_artifact_cache_meta (
  singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
  prune_cursor TEXT
) STRICT;
INSERT OR IGNORE INTO exact_review_artifact_cache_meta (singleton, prune_cursor) VALUES (1, NULL);
"""
_WHERE = (
    "producer_run_id = ? AND producer_run_attempt = ? AND artifact_name = ? AND canonical_item_key = ?"
    " AND lease_revision = ? AND protocol_version = ?"
)


def _uploaded_at(listed: Any) -> int:
    """Milliseconds of an object's upload; the platform hands over a datetime."""
    uploaded = listed.uploaded
    return int(uploaded.timestamp() * 1000) if isinstance(uploaded, datetime) else int(uploaded)


class ArtifactReceiptStore:
    """Receipts over `ctx.storage` and the bucket (None: not bound); every time is an argument, in milliseconds."""

    def __init__(self, storage: Any, bucket: Any) -> None:
        self._storage = storage
        self._sql = storage.sql
        self._bucket = bucket
        self._pruning = False
        self._sql.exec(_SCHEMA)

    def find(self, name: ReceiptTuple, now: int) -> Receipt | None:
        """The live receipt of exactly `name`, or None."""
        rows = self._sql.exec(
            f"SELECT digest, bytes, created_at, expires_at FROM exact_review_artifact_receipts"
            f" WHERE {_WHERE} AND expires_at > ?",
            *name.columns(),
            now,
        ).toArray()
        if not rows:
            return None
        row = rows[0]
        return Receipt(name, Stored(row["digest"], row["bytes"]), row["created_at"], row["expires_at"])

    def lookup(self, members: Mapping[str, Any], now: int) -> dict[str, Any] | None:
        """The receipt that `members` name, as clients read it, or None. Raises InvalidArtifactReceiptTuple."""
        name = rules.parse_tuple(members)
        if name is None:
            raise InvalidArtifactReceiptTuple
        receipt = self.find(name, now)
        return receipt.wire() if receipt else None

    async def store(self, members: Mapping[str, Any], now: int) -> dict[str, Any]:
        """`{ok, deduped, receipt}`; the same receipt again renews its expiry and keeps its creation.

        Raises InvalidArtifactReceipt, ArtifactCacheUnavailable, ArtifactCacheObjectMismatch and
        ArtifactReceiptImmutableConflict.
        """
        name, stored = rules.parse_tuple(members), rules.parse_stored(members)
        if name is None or stored is None:
            raise InvalidArtifactReceipt
        if self._bucket is None:
            raise ArtifactCacheUnavailable
        held = await self._head(stored.object_key)
        if held is None or held.size != stored.size or (held.customMetadata or {}).get("sha256") != stored.digest:
            raise ArtifactCacheObjectMismatch
        return self._storage.transactionSync(lambda: self._write(name, stored, now))  # type: ignore[no-any-return]

    async def _head(self, object_key: str) -> Any:
        try:
            return await self._bucket.head(object_key)
        except Exception as error:
            raise ArtifactCacheUnavailable from error

    def _write(self, name: ReceiptTuple, stored: Stored, now: int) -> dict[str, Any]:
        present = self.find(name, now)
        if present is not None and present.stored != stored:
            raise ArtifactReceiptImmutableConflict
        receipt = Receipt(name, stored, present.created_at if present else now, now + rules.RETENTION_MS)
        self._sql.exec(
            "INSERT OR REPLACE INTO exact_review_artifact_receipts (producer_run_id, producer_run_attempt,"
            " artifact_name,"
            " canonical_item_key, lease_revision, protocol_version, digest, bytes, object_key, created_at,"
            " expires_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *name.columns(),
            stored.digest,
            stored.size,
            stored.object_key,
            receipt.created_at,
            receipt.expires_at,
        )
        return {"ok": True, "deduped": present is not None, "receipt": receipt.wire()}

    async def prune(self, now: int) -> dict[str, int]:
        """Removes at most 128 expired receipts and looks at one listing page of 128 objects; what was removed.

        The listing goes on where the last one ended. A clean-up that is already running makes this one do nothing.
        """
        if self._pruning:
            return {"receiptsDeleted": 0, "objectsDeleted": 0}
        self._pruning = True
        try:
            receipts = self._sql.exec(
                "DELETE FROM exact_review_artifact_receipts WHERE rowid IN (SELECT rowid"
                " FROM exact_review_artifact_receipts WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)"
                " RETURNING digest",
                now,
                rules.CLEAN_LOT,
            ).toArray()
            return {"receiptsDeleted": len(receipts), "objectsDeleted": await self._prune_objects(now)}
        finally:
            self._pruning = False

    async def _prune_objects(self, now: int) -> int:
        if self._bucket is None:
            return 0
        cursor = self._sql.exec("SELECT prune_cursor FROM exact_review_artifact_cache_meta").one()["prune_cursor"]
        options = {"prefix": rules.PREFIX, "limit": rules.CLEAN_LOT, **({"cursor": cursor} if cursor else {})}
        page = await self._bucket.list(options)
        gone = [listed.key for listed in page.objects if self._may_go(listed, now)]
        if gone:
            await self._bucket.delete(gone)
        self._sql.exec(
            "UPDATE exact_review_artifact_cache_meta SET prune_cursor = ?", page.cursor if page.truncated else None
        )
        return len(gone)

    def _may_go(self, listed: Any, now: int) -> bool:
        digest = rules.digest_of_key(listed.key)
        live = digest is not None and bool(
            self._sql.exec(
                "SELECT 1 AS live FROM exact_review_artifact_receipts WHERE digest = ? AND expires_at > ? LIMIT 1",
                digest,
                now,
            ).toArray()
        )
        return rules.object_may_go(_uploaded_at(listed), live, now)


class ArtifactReceiptMethods:
    """The object's methods of this subject, over `self.artifact_receipts` and `self.now()`."""

    artifact_receipts: ArtifactReceiptStore
    now: Callable[[], int]

    @wire_method
    async def lookup_artifact_receipt(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, hit, receipt}`."""
        receipt = self.artifact_receipts.lookup(members, self.now())
        await self._prune_artifacts()
        return reply({"ok": True, "hit": receipt is not None, "receipt": receipt})

    @wire_method
    async def store_artifact_receipt(self, members: dict[str, Any]) -> Reply:
        """201 `{ok, deduped, receipt}`."""
        result = await self.artifact_receipts.store(members, self.now())
        await self._prune_artifacts()
        return reply(result, 201)

    async def _prune_artifacts(self) -> None:
        # A bucket that fails must not turn a receipt's answer into an error: the next request cleans up.
        try:
            await self.artifact_receipts.prune(self.now())
        except Exception:
            return
