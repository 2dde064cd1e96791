"""Refusals of runner-built snapshot uploads (spec state-plane-protocol 4.5)."""

from .base import WireError


class UploadOperationMismatch(WireError):
    """`operation` is not the last segment of the path."""

    code, status = "upload_operation_mismatch", 400


class UploadRequestExpired(WireError):
    """`issuedAt` is an hour old or older, more than 300 s ahead, or no UTC time."""

    code, status = "upload_request_expired", 400


class SnapshotRequestTooLarge(WireError):
    """The body is above 8,404,992 bytes."""

    code, status = "snapshot_request_too_large", 413


class SnapshotUploadUnavailable(WireError):
    """The upload failed for a reason that the log has; it may be repeated."""

    code, status = "snapshot_upload_unavailable", 503


class InvalidSnapshotOperationId(WireError):
    """`operationId`: 1 to 256 letters, digits, `:`, `_`, `.` and `-` are needed."""

    code, status = "invalid_snapshot_operation_id", 400


class SnapshotOperationConflict(WireError):
    """The operation id was used with another description."""

    code, status = "snapshot_operation_conflict", 409


class SnapshotTooLarge(WireError):
    """The archive is above 1 GiB."""

    code, status = "snapshot_too_large", 413


class InvalidSnapshotDigest(WireError):
    """A `sha256` is not 64 lowercase hex digits."""

    code, status = "invalid_snapshot_digest", 400


class InvalidSnapshotUploadId(WireError):
    """`uploadId` is no text."""

    code, status = "invalid_snapshot_upload_id", 400


class SnapshotUploadExpired(WireError):
    """The upload is unknown, expired or aborted: start a new one."""

    code, status = "snapshot_upload_expired", 410


class InvalidSnapshotPartNumber(WireError):
    """`partNumber` is no integer from 1 to the number of parts."""

    code, status = "invalid_snapshot_part_number", 400


class SnapshotPartTooLarge(WireError):
    """`data` is no text, or longer than a part may be."""

    code, status = "snapshot_part_too_large", 413


class InvalidSnapshotPartData(WireError):
    """`data` is no strict base64."""

    code, status = "invalid_snapshot_part_data", 400


class SnapshotPartSizeMismatch(WireError):
    """The part has not the size that its number wants."""

    code, status = "snapshot_part_size_mismatch", 400


class SnapshotPartDigestMismatch(WireError):
    """The part's `sha256` is not that of its bytes."""

    code, status = "snapshot_part_digest_mismatch", 400


class SnapshotDigestMismatch(WireError):
    """The only part has not the digest of the archive."""

    code, status = "snapshot_digest_mismatch", 400


class SnapshotPartConflict(WireError):
    """The part was uploaded with other bytes."""

    code, status = "snapshot_part_conflict", 409


class InvalidSnapshotManifestPart(WireError):
    """`partNumber` of a staged identity list is out of range, or the list is empty or too long."""

    code, status = "invalid_snapshot_manifest_part", 400


class SnapshotManifestConflict(WireError):
    """That part of the identity list was staged with other content."""

    code, status = "snapshot_manifest_conflict", 409


class InvalidSnapshotParts(WireError):
    """`parts` is not the list of all part numbers in order, each with its etag."""

    code, status = "invalid_snapshot_parts", 400


class SnapshotPartMissing(WireError):
    """A part was not uploaded."""

    code, status = "snapshot_part_missing", 400


class SnapshotPartMismatch(WireError):
    """A part's etag is not the one that was handed out."""

    code, status = "snapshot_part_mismatch", 400


class SnapshotManifestMissing(WireError):
    """Neither `identities` nor all staged identity lists are there."""

    code, status = "snapshot_manifest_missing", 400


class SnapshotManifestDigestMismatch(WireError):
    """The staged identity lists have not the declared digest."""

    code, status = "snapshot_manifest_digest_mismatch", 400
