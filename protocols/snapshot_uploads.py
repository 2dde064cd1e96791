"""Uploads of snapshots that a runner built: the forms of their requests (spec state-plane-protocol 4.5)."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from .javascript import utf16_length
from .snapshots import MAX_BYTES, PART_BYTES, Descriptor, is_digest, parse_descriptor, strict_integer
from .wire.snapshot_uploads import (
    InvalidSnapshotDigest,
    InvalidSnapshotOperationId,
    InvalidSnapshotPartNumber,
    InvalidSnapshotParts,
    InvalidSnapshotUploadId,
    SnapshotPartMismatch,
    SnapshotPartMissing,
    SnapshotTooLarge,
    UploadOperationMismatch,
    UploadRequestExpired,
)

MAX_UPLOAD_REQUEST_BYTES: Final = PART_BYTES // 3 * 4 + 16 * 1024
UPLOAD_LIFETIME_MS: Final = 60 * 60 * 1000
OPERATION_LIFETIME_MS: Final = 3900 * 1000
ISSUED_AHEAD_MS: Final = 300 * 1000
_OPERATION_ID: Final = re.compile(r"[A-Za-z0-9:_.-]{1,256}")
_UTC: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{3})?Z", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def check_request(body: Mapping[str, object], operation: str, now: int) -> None:
    """Checks the members that bind a signed upload request to its route and time.

    Earlier clients send neither; where they are sent they must hold. Raises UploadOperationMismatch and
    UploadRequestExpired.
    """
    if "operation" in body and body["operation"] != operation:
        raise UploadOperationMismatch
    if "issuedAt" in body:
        issued = parse_utc(body["issuedAt"])
        if issued is None or issued <= now - UPLOAD_LIFETIME_MS or issued > now + ISSUED_AHEAD_MS:
            raise UploadRequestExpired


def parse_utc(value: object) -> int | None:
    """Returns ms since 1970 of `2026-08-03T10:00:00Z`, with or without milliseconds; None for anything else."""
    if not isinstance(value, str) or not _UTC.fullmatch(value):
        return None
    try:
        return (datetime.fromisoformat(value) - _EPOCH) // timedelta(milliseconds=1)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class UploadStart:
    """A valid `start`: what the archive will be, its digest, and the operation that makes it repeatable."""

    descriptor: Descriptor
    sha256: str
    operation_id: str | None
    issued_at: int | None

    @property
    def fingerprint(self) -> str:
        """What the operation id is bound to: the seven descriptor values."""
        values = self.descriptor
        text = msgspec.json.encode(
            [
                values.slug,
                values.watermark,
                values.bytes,
                values.uncompressed_bytes,
                values.file_count,
                values.identity_digest,
                self.sha256,
            ]
        )
        return hashlib.sha256(text).hexdigest()


def parse_start(body: Mapping[str, object]) -> UploadStart:
    """Returns the upload that a `start` request describes.

    Raises, in this order, SnapshotTooLarge, InvalidSnapshotDigest (of the archive), InvalidSnapshotOperationId and
    InvalidSnapshotDescriptor.
    """
    size = body.get("bytes")
    if isinstance(size, int | float) and size > MAX_BYTES:
        raise SnapshotTooLarge
    sha256 = body.get("sha256")
    if not isinstance(sha256, str) or not is_digest(sha256):
        raise InvalidSnapshotDigest
    operation = body.get("operationId")
    if operation is not None and (not isinstance(operation, str) or not _OPERATION_ID.fullmatch(operation)):
        raise InvalidSnapshotOperationId
    return UploadStart(parse_descriptor(body), sha256, operation, parse_utc(body.get("issuedAt")))


def parse_upload_id(body: Mapping[str, object]) -> str:
    """Returns the upload id of a request; raises InvalidSnapshotUploadId when it is no text of 200 characters.

    An empty one is only an upload that is not known.
    """
    value = body.get("uploadId")
    if not isinstance(value, str) or utf16_length(value) > 200:
        raise InvalidSnapshotUploadId
    return value


def parse_part_number(body: Mapping[str, object], count: int) -> int:
    """Returns the part number of a request; raises InvalidSnapshotPartNumber outside 1..`count`."""
    number = strict_integer(body.get("partNumber"), 1, count)
    if number is None:
        raise InvalidSnapshotPartNumber
    return number


def check_parts(value: object, count: int, receipts: Mapping[int, str]) -> list[str]:
    """Returns the etags of a `complete` request in order of their parts; `receipts`: those handed out, by number.

    Part by part, raises InvalidSnapshotParts for its form, SnapshotPartMissing and SnapshotPartMismatch.
    """
    if not isinstance(value, list) or len(value) != count:
        raise InvalidSnapshotParts
    etags: list[str] = []
    for number, part in enumerate(value, 1):
        etag = part.get("etag") if isinstance(part, dict) else None
        if not isinstance(etag, str) or strict_integer(part.get("partNumber"), number, number) is None:
            raise InvalidSnapshotParts
        if number not in receipts:
            raise SnapshotPartMissing
        if receipts[number] != etag:
            raise SnapshotPartMismatch
        etags.append(etag)
    return etags
