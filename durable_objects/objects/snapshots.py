"""Snapshots: which archives there are, building one from the records, registering one that a runner built.

Rules: `moorage.protocols.snapshots`. Archives lie in the bucket, their rows in the queue object's SQLite (spec
state-plane-storage 2.1, 4). Building streams: a page of ids, one content at a time, 8 MiB parts; compression runs in
a thread, so that the object and the loop go on.
"""

import asyncio
import logging
import uuid
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from moorage.protocols import snapshots as rules
from moorage.protocols import ustar
from moorage.protocols.records import SECTIONS, RecordId
from moorage.protocols.wire import Reply, WireError, reply, wire_method
from moorage.protocols.wire.snapshots import (
    InvalidSnapshotIdentities,
    SnapshotCoverageIncomplete,
    SnapshotNotFound,
    SnapshotObjectNotFound,
    SnapshotRegistrationConflict,
    SnapshotSizeMismatch,
    SnapshotStoreUnavailable,
)

from .records import Records

log = logging.getLogger("moorage.objects.snapshots")

BUCKET: Final = "STATE_SNAPSHOTS"
IDS_PER_PAGE: Final = 500
LOT_BYTES: Final = 1024 * 1024
"""So much is gathered before a thread compresses it."""

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS exact_review_record_snapshots (
  snapshot_id INTEGER PRIMARY KEY AUTOINCREMENT,
  repo_slug TEXT NOT NULL,
  revision_watermark INTEGER NOT NULL CHECK (revision_watermark >= 0),
  object_key TEXT NOT NULL UNIQUE,
  bytes INTEGER NOT NULL CHECK (bytes >= 0),
  uncompressed_bytes INTEGER NOT NULL CHECK (uncompressed_bytes >= 0),
  file_count INTEGER NOT NULL CHECK (file_count >= 0),
  identity_digest TEXT,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS exact_review_record_snapshots_newest
  ON exact_review_record_snapshots (repo_slug, created_at DESC, snapshot_id DESC);
"""

HAS_IDENTITY_DIGEST: Final = """
SELECT count(*) AS present FROM pragma_table_info('exact_review_record_snapshots') WHERE name = 'identity_digest'
"""
ADD_IDENTITY_DIGEST: Final = "ALTER TABLE exact_review_record_snapshots ADD COLUMN identity_digest TEXT"

_COLUMNS: Final = (
    "repo_slug, revision_watermark, object_key, bytes, uncompressed_bytes, file_count, created_at, identity_digest"
)
NEWEST: Final = f"""
SELECT {_COLUMNS} FROM exact_review_record_snapshots
WHERE repo_slug = ?1 ORDER BY created_at DESC, snapshot_id DESC LIMIT 1
"""
WITH_WATERMARK: Final = f"""
SELECT {_COLUMNS} FROM exact_review_record_snapshots
WHERE repo_slug = ?1 AND revision_watermark = ?2 ORDER BY created_at DESC, snapshot_id DESC LIMIT 1
"""
BY_KEY: Final = f"SELECT {_COLUMNS} FROM exact_review_record_snapshots WHERE object_key = ?1"
INSERT: Final = f"INSERT INTO exact_review_record_snapshots ({_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
SUPERFLUOUS: Final = """
SELECT object_key FROM exact_review_record_snapshots
WHERE repo_slug = ?1 ORDER BY created_at DESC, snapshot_id DESC LIMIT -1 OFFSET ?2
"""
FORGET: Final = "DELETE FROM exact_review_record_snapshots WHERE object_key = ?1"


class Snapshots:
    """Rows of the registered archives over `ctx.storage`."""

    def __init__(self, storage: Any) -> None:
        self._sql = storage.sql
        self.registering = asyncio.Lock()
        """Held from the look at an archive to its row, and from the look for a row to the archive's deletion."""
        storage.transactionSync(self._upgrade)

    def _upgrade(self) -> None:
        self._sql.exec(SCHEMA)
        if not self._sql.exec(HAS_IDENTITY_DIGEST).one()["present"]:
            self._sql.exec(ADD_IDENTITY_DIGEST)

    def newest(self, slug: str) -> rules.Snapshot | None:
        """Returns the newest snapshot of a repository: by creation time, then by registration."""
        return _one(self._sql.exec(NEWEST, slug).toArray())

    def with_watermark(self, slug: str, watermark: int) -> rules.Snapshot | None:
        """Returns the newest snapshot with that watermark."""
        return _one(self._sql.exec(WITH_WATERMARK, slug, watermark).toArray())

    def by_key(self, key: str) -> rules.Snapshot | None:
        """Returns the snapshot whose archive lies at `key`."""
        return _one(self._sql.exec(BY_KEY, key).toArray())

    def insert(self, snapshot: rules.Snapshot) -> None:
        """Registers an archive; its key must be new."""
        self._sql.exec(
            INSERT,
            snapshot.slug,
            snapshot.watermark,
            snapshot.object_key,
            snapshot.bytes,
            snapshot.uncompressed_bytes,
            snapshot.file_count,
            snapshot.created_at,
            snapshot.identity_digest,
        )

    def superfluous(self, slug: str) -> list[str]:
        """Returns the keys of all but the newest two of a repository."""
        rows = self._sql.exec(SUPERFLUOUS, slug, rules.KEPT_PER_REPOSITORY).toArray()
        return [row["object_key"] for row in rows]

    def forget(self, key: str) -> None:
        """Removes the row of an archive that was deleted."""
        self._sql.exec(FORGET, key)


def _one(rows: list[Any]) -> rules.Snapshot | None:
    if not rows:
        return None
    row = rows[0]
    return rules.Snapshot(
        row["repo_slug"],
        row["revision_watermark"],
        row["object_key"],
        row["bytes"],
        row["uncompressed_bytes"],
        row["file_count"],
        row["created_at"],
        row["identity_digest"],
    )


async def tar_stream(records: Records, slug: str, tally: dict[str, int]) -> AsyncIterator[bytes]:
    """Yields the archive of a repository's live records, uncompressed, and counts `files` and `bytes` in `tally`.

    In order of section name and of the ids' text. A content is read when its turn comes: an archive may hold newer
    contents than its watermark, which the journal behind the watermark repeats (storage 4).
    """
    for section in sorted(SECTIONS):
        after = ""
        while ids := records.live_ids(slug, section, after, IDS_PER_PAGE):
            for record_id in ids:
                content = records.file(slug, section, record_id)
                if content is None:
                    continue
                tally["files"] += 1
                tally["bytes"] += len(content)
                yield ustar.entry(f"{section}/{RecordId(slug, section, record_id).file_name}", content)
            after = ids[-1]
    yield ustar.END


async def build(records: Records, bucket: Any, slug: str, watermark: int, created_at: int) -> rules.Snapshot:
    """Builds the archive of a repository in the bucket, and returns what to register.

    Memory: one lot, one part and what zlib keeps. A failure leaves no object; its multipart upload is aborted.
    """
    key = rules.object_key(slug, watermark, created_at, str(uuid.uuid4()))
    tally = {"files": 0, "bytes": 0}
    upload = await bucket.createMultipartUpload(key, {"httpMetadata": {"contentType": "application/gzip"}})
    try:
        size = await _send(upload, tar_stream(records, slug, tally))
    except BaseException:
        try:
            await upload.abort()
        except Exception:
            log.warning("an unfinished snapshot upload could not be aborted: its parts stay", exc_info=True)
        raise
    return rules.Snapshot(slug, watermark, key, size, tally["bytes"], tally["files"], created_at)


async def _send(upload: Any, stream: AsyncIterator[bytes]) -> int:
    """Compresses `stream` into the parts of `upload`, completes it and returns the archive's size in bytes."""
    packer = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    parts: list[Any] = []
    packed = bytearray()
    lot: list[bytes] = []
    gathered = size = 0

    async def part(length: int) -> None:
        nonlocal size
        parts.append(await upload.uploadPart(len(parts) + 1, bytes(packed[:length])))
        size += length
        del packed[:length]

    async for chunk in stream:
        lot.append(chunk)
        gathered += len(chunk)
        if gathered >= LOT_BYTES:
            packed += await asyncio.to_thread(packer.compress, b"".join(lot))
            lot.clear()
            gathered = 0
            while len(packed) >= rules.BUILD_PART_BYTES:
                await part(rules.BUILD_PART_BYTES)
    packed += packer.compress(b"".join(lot)) + packer.flush()
    while packed:
        await part(min(len(packed), rules.BUILD_PART_BYTES))
    await upload.complete(parts)
    return size


class SnapshotMethods:
    """The queue object's methods for snapshots."""

    env: Any
    records: Records
    snapshots: Snapshots
    now: Callable[[], int]

    @wire_method
    def newest_snapshot(self, slug: str) -> Reply:
        """200 with the envelope. Refuses: snapshot_not_found. Whether the object is there, the route looks."""
        snapshot = self.snapshots.newest(slug)
        if snapshot is None:
            raise SnapshotNotFound(snapshotStoreAvailable=True, repoSlug=slug)
        return reply(snapshot.envelope())

    @wire_method
    def snapshot_with_watermark(self, slug: str, watermark: int) -> Reply:
        """200 `{objectKey, bytes}` for a range read. Refuses: snapshot_not_found."""
        snapshot = self.snapshots.with_watermark(slug, watermark)
        if snapshot is None:
            raise SnapshotNotFound(snapshotStoreAvailable=True)
        return reply({"objectKey": snapshot.object_key, "bytes": snapshot.bytes})

    @wire_method
    async def trigger_snapshot(self, slug: str) -> Reply:
        """201 with the envelope of a new archive. Refuses: snapshot_store_unavailable."""
        rules.check_not_reserved(slug)
        bucket = bucket_of(self.env)
        watermark = self.records.current_revision()
        try:
            snapshot = await build(self.records, bucket, slug, watermark, self.now())
        except Exception as error:
            raise unavailable("building a snapshot", error) from error
        self.snapshots.insert(snapshot)
        await self.prune_snapshots(slug)
        return reply(snapshot.envelope(), 201)

    @wire_method
    async def register_snapshot(self, members: dict[str, Any]) -> Reply:
        """201 with the envelope of an archive that is in the bucket (spec state-plane-protocol 4.6).

        Refuses as the table there says, in its order.
        """
        return reply(await self.register(members), 201)

    async def register(self, members: dict[str, Any]) -> dict[str, object]:
        """Registers and returns the envelope; raises the wire errors of 4.6."""
        snapshot = rules.parse_registration(members, self.now(), self.records.current_revision())
        bucket = bucket_of(self.env)
        async with self.snapshots.registering:
            try:
                found = await bucket.head(snapshot.object_key)
            except Exception as error:
                raise unavailable("looking for a snapshot", error) from error
            if found is None:
                raise SnapshotObjectNotFound(snapshotStoreAvailable=True)
            if found.size != snapshot.bytes:
                raise SnapshotSizeMismatch(snapshotStoreAvailable=True)
            self._check_coverage(snapshot, members)
            registered = self.snapshots.by_key(snapshot.object_key)
            if registered is None:
                self.snapshots.insert(snapshot)
            elif registered != snapshot:
                raise SnapshotRegistrationConflict(snapshotStoreAvailable=True)
        if registered is None:
            await self.prune_snapshots(snapshot.slug)
        return snapshot.envelope()

    def _check_coverage(self, snapshot: rules.Snapshot, members: dict[str, Any]) -> None:
        live = self.records.live_at(snapshot.slug, snapshot.watermark)
        if snapshot.file_count < len(live):
            raise SnapshotCoverageIncomplete(snapshotStoreAvailable=True)
        if members.get("identities") is None:
            if snapshot.identity_digest is not None:
                raise InvalidSnapshotIdentities(snapshotStoreAvailable=True)
            return
        identities = rules.parse_identities(members["identities"])
        rules.check_identity_digest(identities, snapshot.identity_digest)
        if not set(live) <= set(identities):
            raise SnapshotCoverageIncomplete(snapshotStoreAvailable=True)
        if len(identities) != snapshot.file_count:
            raise InvalidSnapshotIdentities(snapshotStoreAvailable=True)

    async def prune_snapshots(self, slug: str) -> None:
        """Deletes all but the newest two archives of a repository: the object first, then its row.

        A bucket that fails keeps both; the next snapshot of the repository tries again.
        """
        bucket = bucket_of(self.env)
        for key in self.snapshots.superfluous(slug):
            try:
                await bucket.delete(key)
            except Exception:
                log.warning("an old snapshot could not be deleted and stays for now: %s", key, exc_info=True)
                return
            self.snapshots.forget(key)


def bucket_of(env: Any) -> Any:
    """Returns the bucket binding; raises SnapshotStoreUnavailable without it."""
    bucket = getattr(env, BUCKET, None)
    if bucket is None:
        raise SnapshotStoreUnavailable(snapshotStoreAvailable=False, detail=f"{BUCKET} is not available")
    return bucket


def unavailable(doing: str, error: Exception) -> WireError:
    """Returns the refusal for a failure of the bucket, and logs its cause; a WireError is returned as it is."""
    if isinstance(error, WireError):
        return error
    log.error("%s failed", doing, exc_info=error)
    return SnapshotStoreUnavailable(snapshotStoreAvailable=False, detail=f"{BUCKET} failed while {doing}")
