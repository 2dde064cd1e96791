"""Rows of snapshot uploads in the SQLite of the queue object: what was promised, which parts and lists are there.

Rules: `moorage.protocols.snapshot_uploads`; what is done with the bucket: `snapshot_uploads`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from moorage.protocols import snapshot_uploads as rules
from moorage.protocols.snapshots import PART_BYTES, Descriptor
from moorage.protocols.wire.snapshot_uploads import (
    SnapshotManifestConflict,
    SnapshotOperationConflict,
    SnapshotPartConflict,
    SnapshotUploadExpired,
)

CLEAN_FIRST_WAIT_MS: Final = 60_000
CLEAN_LONGEST_WAIT_MS: Final = 3_600_000
CLEAN_ATTEMPTS_ALLOWED: Final = 12
"""Of a clean-up that fails; after the last the bucket keeps what is left (spec state-plane-storage 5)."""

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS record_snapshot_uploads (
  upload_id TEXT PRIMARY KEY,
  operation_id TEXT UNIQUE,
  fingerprint TEXT NOT NULL,
  repo_slug TEXT NOT NULL,
  revision_watermark INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  uncompressed_bytes INTEGER NOT NULL,
  file_count INTEGER NOT NULL,
  identity_digest TEXT,
  sha256 TEXT NOT NULL,
  object_key TEXT NOT NULL UNIQUE,
  r2_upload_id TEXT,
  aborted INTEGER NOT NULL DEFAULT 0 CHECK (aborted IN (0, 1)),
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  clean_at INTEGER NOT NULL,
  clean_attempts INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX IF NOT EXISTS record_snapshot_uploads_by_clean_up ON record_snapshot_uploads (clean_at);
CREATE TABLE IF NOT EXISTS record_snapshot_upload_parts (
  upload_id TEXT NOT NULL,
  part_number INTEGER NOT NULL CHECK (part_number >= 1),
  bytes INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  etag TEXT,
  PRIMARY KEY (upload_id, part_number)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS record_snapshot_upload_manifests (
  upload_id TEXT NOT NULL,
  part_number INTEGER NOT NULL CHECK (part_number >= 1),
  digest TEXT NOT NULL,
  PRIMARY KEY (upload_id, part_number)
) STRICT, WITHOUT ROWID;
"""

UPLOAD: Final = "SELECT * FROM record_snapshot_uploads WHERE upload_id = ?1"
UPLOAD_OF_OPERATION: Final = "SELECT * FROM record_snapshot_uploads WHERE operation_id = ?1"
OPEN: Final = """
INSERT INTO record_snapshot_uploads (upload_id, operation_id, fingerprint, repo_slug, revision_watermark, bytes,
  uncompressed_bytes, file_count, identity_digest, sha256, object_key, r2_upload_id, created_at, expires_at,
  clean_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
"""
ABORT: Final = "UPDATE record_snapshot_uploads SET aborted = 1 WHERE upload_id = ?1"
PART: Final = "SELECT sha256, etag FROM record_snapshot_upload_parts WHERE upload_id = ?1 AND part_number = ?2"
PARTS: Final = """
SELECT part_number, bytes, etag FROM record_snapshot_upload_parts
WHERE upload_id = ?1 AND etag IS NOT NULL ORDER BY part_number
"""
RESERVE_PART: Final = """
INSERT INTO record_snapshot_upload_parts (upload_id, part_number, bytes, sha256) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO NOTHING
"""
KEEP_PART: Final = "UPDATE record_snapshot_upload_parts SET etag = ?3 WHERE upload_id = ?1 AND part_number = ?2"
MANIFEST: Final = "SELECT digest FROM record_snapshot_upload_manifests WHERE upload_id = ?1 AND part_number = ?2"
MANIFESTS: Final = """
SELECT part_number, digest FROM record_snapshot_upload_manifests WHERE upload_id = ?1 ORDER BY part_number
"""
KEEP_MANIFEST: Final = """
INSERT INTO record_snapshot_upload_manifests (upload_id, part_number, digest) VALUES (?1, ?2, ?3)
ON CONFLICT DO NOTHING
"""
DUE: Final = "SELECT * FROM record_snapshot_uploads WHERE clean_at <= ?1 ORDER BY clean_at LIMIT ?2"
NEXT_DUE: Final = "SELECT min(clean_at) AS at FROM record_snapshot_uploads"
CLEAN_ATTEMPTS: Final = "SELECT clean_attempts FROM record_snapshot_uploads WHERE upload_id = ?1"
POSTPONE: Final = """
UPDATE record_snapshot_uploads SET clean_attempts = clean_attempts + 1, clean_at = ?2 WHERE upload_id = ?1
"""
DROP: Final = (
    "DELETE FROM record_snapshot_upload_parts WHERE upload_id = ?1",
    "DELETE FROM record_snapshot_upload_manifests WHERE upload_id = ?1",
    "DELETE FROM record_snapshot_uploads WHERE upload_id = ?1",
)
KEPT_AFTER_EXPIRY_MS: Final = rules.OPERATION_LIFETIME_MS - rules.UPLOAD_LIFETIME_MS
"""How much longer an operation id is known than its upload lives, so that a late replay is told 410."""


@dataclass(frozen=True, slots=True)
class Upload:
    """One upload as it is kept; times in ms."""

    upload_id: str
    fingerprint: str
    descriptor: Descriptor
    sha256: str
    object_key: str
    r2_upload_id: str | None
    aborted: bool
    created_at: int
    expires_at: int

    def alive(self, now: int) -> bool:
        """Whether requests for it are served."""
        return not self.aborted and now < self.expires_at

    def answer(self) -> dict[str, Any]:
        """The answer of `start`."""
        return {
            "ok": True,
            "uploadId": self.upload_id,
            "objectKey": self.object_key,
            "partBytes": PART_BYTES,
            "expiresAt": self.expires_at,
        }

    def registration(self, identities: Any) -> dict[str, Any]:
        """The members of the registration at the end."""
        members: dict[str, Any] = {
            "repoSlug": self.descriptor.slug,
            "revisionWatermark": self.descriptor.watermark,
            "bytes": self.descriptor.bytes,
            "uncompressedBytes": self.descriptor.uncompressed_bytes,
            "fileCount": self.descriptor.file_count,
            "objectKey": self.object_key,
            "createdAt": self.created_at,
        }
        if self.descriptor.identity_digest is not None:
            members["identityDigest"] = self.descriptor.identity_digest
        if identities is not None:
            members["identities"] = identities
        return members


class SnapshotUploads:
    """Rows of uploads over `ctx.storage`. `now`: ms since 1970."""

    def __init__(self, storage: Any, now: Callable[[], int]) -> None:
        self._sql = storage.sql
        self._now = now
        self._sql.exec(SCHEMA)

    def find(self, upload_id: str) -> Upload | None:
        """Returns an upload by its id, expired and aborted ones too."""
        return _upload(self._sql.exec(UPLOAD, upload_id).toArray())

    def living(self, upload_id: str) -> Upload:
        """Returns an upload that is served; raises SnapshotUploadExpired."""
        upload = self.find(upload_id)
        if upload is None or not upload.alive(self._now()):
            raise SnapshotUploadExpired
        return upload

    def of_operation(self, start: rules.UploadStart) -> Upload | None:
        """Returns the upload that an operation id began.

        Raises SnapshotOperationConflict for another description and SnapshotUploadExpired for one that is over.
        """
        if start.operation_id is None:
            return None
        upload = _upload(self._sql.exec(UPLOAD_OF_OPERATION, start.operation_id).toArray())
        if upload is None:
            return None
        if upload.fingerprint != start.fingerprint:
            raise SnapshotOperationConflict
        if not upload.alive(self._now()):
            raise SnapshotUploadExpired
        return upload

    def open(self, upload: Upload, operation_id: str | None) -> None:
        """Keeps a new upload."""
        values = upload.descriptor
        self._sql.exec(
            OPEN,
            upload.upload_id,
            operation_id,
            upload.fingerprint,
            values.slug,
            values.watermark,
            values.bytes,
            values.uncompressed_bytes,
            values.file_count,
            values.identity_digest,
            upload.sha256,
            upload.object_key,
            upload.r2_upload_id,
            upload.created_at,
            upload.expires_at,
            upload.expires_at + KEPT_AFTER_EXPIRY_MS,
        )

    def abort(self, upload_id: str) -> None:
        """Marks an upload as aborted."""
        self._sql.exec(ABORT, upload_id)

    def reserve_part(self, upload_id: str, number: int, size: int, sha256: str) -> str | None:
        """Binds a part number to its bytes; returns the etag when they are in the bucket already.

        Raises SnapshotPartConflict for other bytes, also when those are still on their way.
        """
        self._sql.exec(RESERVE_PART, upload_id, number, size, sha256)
        row = self._sql.exec(PART, upload_id, number).one()
        if row["sha256"] != sha256:
            raise SnapshotPartConflict
        etag: str | None = row["etag"]
        return etag

    def keep_part(self, upload_id: str, number: int, etag: str) -> None:
        """Records that a reserved part is in the bucket."""
        self._sql.exec(KEEP_PART, upload_id, number, etag)

    def parts(self, upload_id: str) -> dict[int, tuple[str, int]]:
        """Returns etag and size of the parts in the bucket, by number."""
        rows = self._sql.exec(PARTS, upload_id).toArray()
        return {row["part_number"]: (row["etag"], row["bytes"]) for row in rows}

    def reserve_manifest(self, upload_id: str, number: int, digest: str) -> None:
        """Binds a staged list's number to its content; raises SnapshotManifestConflict."""
        rows = self._sql.exec(MANIFEST, upload_id, number).toArray()
        if rows and rows[0]["digest"] != digest:
            raise SnapshotManifestConflict

    def keep_manifest(self, upload_id: str, number: int, digest: str) -> None:
        """Records that a list is staged in the bucket."""
        self._sql.exec(KEEP_MANIFEST, upload_id, number, digest)

    def manifests(self, upload_id: str) -> dict[int, str]:
        """Returns the digests of the staged lists, by number."""
        return {row["part_number"]: row["digest"] for row in self._sql.exec(MANIFESTS, upload_id).toArray()}

    def due(self, limit: int) -> list[Upload]:
        """Returns uploads whose time, and that of their operation id, is over."""
        rows = self._sql.exec(DUE, self._now(), limit).toArray()
        return [upload for row in rows if (upload := _upload([row])) is not None]

    def next_due(self) -> int | None:
        """Returns when the next clean-up is due, in ms; None without uploads. For the object's alarm."""
        at = self._sql.exec(NEXT_DUE).one()["at"]
        return None if at is None else int(at)

    def postpone(self, upload_id: str) -> bool:
        """Notes that a clean-up failed and sets the next; returns False when it was the last, and the upload is
        forgotten."""
        attempts = self._sql.exec(CLEAN_ATTEMPTS, upload_id).one()["clean_attempts"]
        if attempts + 1 >= CLEAN_ATTEMPTS_ALLOWED:
            self.drop(upload_id)
            return False
        wait = min(CLEAN_FIRST_WAIT_MS * 2**attempts, CLEAN_LONGEST_WAIT_MS)
        self._sql.exec(POSTPONE, upload_id, self._now() + wait)
        return True

    def drop(self, upload_id: str) -> None:
        """Forgets an upload with its parts and lists."""
        for statement in DROP:
            self._sql.exec(statement, upload_id)


def _upload(rows: list[Any]) -> Upload | None:
    if not rows:
        return None
    row = rows[0]
    descriptor = Descriptor(
        row["repo_slug"],
        row["revision_watermark"],
        row["bytes"],
        row["uncompressed_bytes"],
        row["file_count"],
        row["identity_digest"],
    )
    return Upload(
        row["upload_id"],
        row["fingerprint"],
        descriptor,
        row["sha256"],
        row["object_key"],
        row["r2_upload_id"],
        bool(row["aborted"]),
        row["created_at"],
        row["expires_at"],
    )
