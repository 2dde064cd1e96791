"""The conditional-read cache: one object a repository, entries in its SQLite, bounded in number, size and age.

Spec state-plane-protocol 7, state-plane-storage 2.3; seed "State storage". Rules: `moorage.protocols.etag_cache`.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

from moorage.protocols import etag_cache as rules
from moorage.protocols.javascript import to_safe_integer
from moorage.protocols.wire import Reply, reply, wire_method
from moorage.protocols.wire.etag_cache import InvalidGithubEtagCacheKey, InvalidGithubEtagConfirmation

from ..runtime import DurableObject
from .clock import clock_of

logger = logging.getLogger(__name__)
MAX_BODY_VARIABLE: Final = "GITHUB_ETAG_CACHE_MAX_BODY_BYTES"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS github_etag_response_cache_v1 (
  cache_key TEXT PRIMARY KEY,
  credential_pool TEXT NOT NULL,
  route TEXT NOT NULL,
  media_type TEXT NOT NULL,
  page INTEGER NOT NULL CHECK (page >= 1),
  etag TEXT NOT NULL,
  body TEXT NOT NULL,
  body_digest TEXT NOT NULL,
  body_bytes INTEGER NOT NULL CHECK (body_bytes >= 1),
  response_at INTEGER NOT NULL,
  validated_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS github_etag_response_cache_v1_expiry
  ON github_etag_response_cache_v1 (expires_at, validated_at);
CREATE INDEX IF NOT EXISTS github_etag_response_cache_v1_eviction
  ON github_etag_response_cache_v1 (validated_at, cache_key);
CREATE TABLE IF NOT EXISTS github_etag_response_cache_metrics_v1 (
  bucket_start INTEGER NOT NULL,
  credential_pool TEXT NOT NULL,
  outcome TEXT NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (bucket_start, credential_pool, outcome)
) STRICT;
"""
_ENTRY = "etag, body_digest, response_at, validated_at, expires_at"


class EtagCacheStore:
    """Entries of one repository over `ctx.storage`; every time is an argument, in milliseconds."""

    def __init__(self, storage: Any, max_body_bytes: int = rules.DEFAULT_MAX_BODY_BYTES) -> None:
        self._storage = storage
        self._sql = storage.sql
        self._max_body_bytes = max_body_bytes
        self._next_cleaning = 0
        self._sql.exec(_SCHEMA)

    def lookup(self, members: Mapping[str, Any], now: int) -> dict[str, Any] | None:
        """The live entry's etag, digest and times, or None; never the body. A malformed key is a miss."""
        key = rules.parse_key(members)
        if key is None:
            return None
        self._clean(now)
        rows = self._sql.exec(
            f"SELECT {_ENTRY} FROM github_etag_response_cache_v1 WHERE cache_key = ? AND expires_at > ?",
            key.text,
            now,
        ).toArray()
        self._count("cache_hit" if rows else "cache_miss", key, now)
        return _entry(rows[0]) if rows else None

    def store200(self, members: Mapping[str, Any], now: int) -> dict[str, Any]:
        """Stores a fresh response whole: `{ok, stored, entry}`, or `stored: false` with the reason; `ok: false`
        for a bad key.
        """
        key = rules.parse_key(members)
        if key is None:
            return {"ok": False, "error": InvalidGithubEtagCacheKey.code, "status": 400}
        self._clean(now)
        response = rules.storable(members, self._max_body_bytes)
        if isinstance(response, rules.Skip):
            self._count("cache_skip", key, now)
            return {"ok": True, "stored": False, "reason": response.reason}

        def write() -> None:
            self._make_room(key.text)
            self._sql.exec(
                "INSERT OR REPLACE INTO github_etag_response_cache_v1 (cache_key, credential_pool, route, media_type,"
                " page, etag, body, body_digest, body_bytes, response_at, validated_at, expires_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                key.text,
                key.credential_pool,
                key.route,
                key.media_type,
                key.page,
                response.etag,
                response.body,
                response.digest,
                response.size,
                now,
                now,
                now + rules.RETENTION_MS,
            )
            self._count("cache_200_stored", key, now)

        self._storage.transactionSync(write)
        return {"ok": True, "stored": True, "entry": _times(response.etag, response.digest, now, now)}

    def confirm304(self, members: Mapping[str, Any], now: int) -> dict[str, Any]:
        """The body, after the code host's 304: `{ok, confirmed, body, entry}`; etag and digest must be the
        entry's.
        """
        key, etag = rules.parse_key(members), rules.parse_etag(members.get("etag"))
        digest = rules.parse_digest(members.get("body_digest"))
        if key is None or etag is None or digest is None:
            return {"ok": False, "error": InvalidGithubEtagConfirmation.code, "status": 400}
        rows = self._sql.exec(
            "SELECT body, response_at FROM github_etag_response_cache_v1"
            " WHERE cache_key = ? AND etag = ? AND body_digest = ? AND expires_at > ?",
            key.text,
            etag,
            digest,
            now,
        ).toArray()
        if not rows:
            self._count("cache_skip", key, now)
            return {"ok": True, "confirmed": False, "reason": "entry_changed_or_expired"}

        def write() -> None:
            self._sql.exec(
                "UPDATE github_etag_response_cache_v1 SET validated_at = ?, expires_at = ? WHERE cache_key = ?",
                now,
                now + rules.RETENTION_MS,
                key.text,
            )
            self._count("cache_304_served", key, now)

        self._storage.transactionSync(write)
        return {
            "ok": True,
            "confirmed": True,
            "body": rows[0]["body"],
            "entry": _times(etag, digest, rows[0]["response_at"], now),
        }

    def telemetry(self, now: int) -> dict[str, int]:
        """Outcomes of the last 24 hours, by name; an outcome that did not happen is left out."""
        rows = self._sql.exec(
            "SELECT outcome, sum(count) AS total FROM github_etag_response_cache_metrics_v1"
            " WHERE bucket_start >= ? AND bucket_start <= ? GROUP BY outcome ORDER BY outcome",
            now - rules.METRIC_WINDOW_MS,
            now,
        )
        return {row["outcome"]: row["total"] for row in rows}

    def _count(self, outcome: str, key: rules.CacheKey, now: int) -> None:
        self._sql.exec(
            "INSERT INTO github_etag_response_cache_metrics_v1 (bucket_start, credential_pool, outcome, count)"
            " VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET count = count + 1",
            now - now % rules.METRIC_BUCKET_MS,
            key.credential_pool,
            outcome,
        )

    def _make_room(self, cache_key: str) -> None:
        """Least recently validated first, ties by key; replacing an entry evicts nothing."""
        held = self._sql.exec(
            "SELECT count(*) AS entries, count(*) FILTER (WHERE cache_key = ?) AS same"
            " FROM github_etag_response_cache_v1",
            cache_key,
        ).one()
        excess = held["entries"] - held["same"] - rules.MAX_ENTRIES + 1
        if excess > 0:
            self._sql.exec(
                "DELETE FROM github_etag_response_cache_v1 WHERE cache_key IN (SELECT cache_key"
                " FROM github_etag_response_cache_v1 WHERE cache_key <> ? ORDER BY validated_at, cache_key LIMIT ?)",
                cache_key,
                excess,
            )

    def _clean(self, now: int) -> None:
        if now < self._next_cleaning:
            return
        self._next_cleaning = now + rules.CLEAN_INTERVAL_MS
        self._sql.exec(
            "DELETE FROM github_etag_response_cache_v1 WHERE cache_key IN (SELECT cache_key"
            " FROM github_etag_response_cache_v1 WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)",
            now,
            rules.CLEAN_LOT,
        )
        self._sql.exec(
            "DELETE FROM github_etag_response_cache_metrics_v1 WHERE bucket_start < ?", now - rules.RETENTION_MS
        )


def _times(etag: str, digest: str, response_at: int, validated_at: int) -> dict[str, Any]:
    return {
        "etag": etag,
        "bodyDigest": digest,
        "responseAt": response_at,
        "validatedAt": validated_at,
        "expiresAt": validated_at + rules.RETENTION_MS,
    }


def _entry(row: Mapping[str, Any]) -> dict[str, Any]:
    return _times(row["etag"], row["body_digest"], row["response_at"], row["validated_at"])


def max_body_bytes(value: Any) -> int:
    """The cap that the variable sets; a bad value is logged, and the default is used."""
    if value is None or value == "":
        return rules.DEFAULT_MAX_BODY_BYTES
    limit = to_safe_integer(value, minimum=1)
    if limit is None:
        logger.warning(
            "%s must be an integer of at least 1, not %r; %d is used",
            MAX_BODY_VARIABLE,
            value,
            rules.DEFAULT_MAX_BODY_BYTES,
        )
        return rules.DEFAULT_MAX_BODY_BYTES
    return limit


class GithubEtagCache(DurableObject):
    """The object: one instance a repository, named `owner/name` in lower case, else `fallback`."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.now = clock_of(ctx)
        self.entries = EtagCacheStore(ctx.storage, max_body_bytes(getattr(env, MAX_BODY_VARIABLE, None)))

    async def call_store(self, store: str, op: str, args: list[Any]) -> dict[str, Any]:
        """A recorded store call, for the test hook alone; nothing that is served reaches it."""
        from .store_calls import call, etag_operations

        return await call(etag_operations(self.entries), op, args)

    @wire_method
    def lookup(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, hit, entry}`. Refuses: invalid_github_etag_cache_key."""
        if rules.parse_key(members) is None:
            raise InvalidGithubEtagCacheKey
        entry = self.entries.lookup(members, self.now())
        return reply({"ok": True, "hit": entry is not None, "entry": entry})

    @wire_method
    def store(self, members: dict[str, Any]) -> Reply:
        """201 when stored, 200 with a reason when not. Refuses: invalid_github_etag_cache_key."""
        result = self.entries.store200(members, self.now())
        if not result["ok"]:
            raise InvalidGithubEtagCacheKey
        return reply(result, 201 if result["stored"] else 200)

    @wire_method
    def confirm(self, members: dict[str, Any]) -> Reply:
        """200 with the body or the reason. Refuses: invalid_github_etag_confirmation."""
        result = self.entries.confirm304(members, self.now())
        if not result["ok"]:
            raise InvalidGithubEtagConfirmation
        return reply(result)
