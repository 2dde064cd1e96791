"""Refusals of the state blobs (spec state-plane-protocol 9)."""

from .base import WireError


class InvalidBlobPath(WireError):
    """The path is not below a known prefix, or a segment of it is not allowed."""

    code, status = "invalid_blob_path", 400


class InvalidBlobPrefix(WireError):
    """The prefix is not a known one or a directory below one."""

    code, status = "invalid_blob_prefix", 400


class InvalidBlobDigest(WireError):
    """`digest` must be 64 lowercase hex digits."""

    code, status = "invalid_blob_digest", 400


class InvalidBlobContent(WireError):
    """`contentBase64` must be padded base64 of the standard alphabet, without white space."""

    code, status = "invalid_blob_content", 400


class BlobDigestMismatch(WireError):
    """The content has another SHA-256 than `digest`."""

    code, status = "blob_digest_mismatch", 400


class ArtifactBlobKeyDigestMismatch(WireError):
    """The last segment of an artifact's path must be its digest."""

    code, status = "artifact_blob_key_digest_mismatch", 400


class InvalidBlobBytes(WireError):
    """`bytes` must be an integer from 1 to 1 GiB."""

    code, status = "invalid_blob_bytes", 400


class InvalidBlobRange(WireError):
    """`offset` must be an integer from 0, `length` one from 1 to 32 MiB."""

    code, status = "invalid_blob_range", 400


class BlobRangeNotSatisfiable(WireError):
    """`offset` lies at or past the end of the blob."""

    code, status = "invalid_blob_range", 416


class InvalidBlobListLimit(WireError):
    """`limit` must be an integer from 1 to 1,000."""

    code, status = "invalid_blob_list_limit", 400


class InvalidBlobListCursor(WireError):
    """`cursor` must be a `nextCursor` of an earlier page. The recorded answers are silent about this one."""

    code, status = "invalid_blob_list_cursor", 400


class InvalidBlobPartNumber(WireError):
    """`partNumber` must be an integer from 1 to 10,000."""

    code, status = "invalid_blob_part_number", 400


class InvalidBlobParts(WireError):
    """`parts` must be a list of 1 to 10,000 part numbers with their etags."""

    code, status = "invalid_blob_parts", 400


class InvalidBlobUpload(WireError):
    """The upload is not open, or its parts are not those that were sent."""

    code, status = "invalid_blob_upload", 400


class BlobSizeMismatch(WireError):
    """The finished upload has another size than `bytes`; the object stays."""

    code, status = "blob_size_mismatch", 400


class BlobNotFound(WireError):
    """There is no blob under this path."""

    code, status = "blob_not_found", 404


class LedgerBlobImmutableConflict(WireError):
    """Another blob holds this ledger path for good."""

    code, status = "ledger_blob_immutable_conflict", 409


class ArtifactBlobImmutableConflict(WireError):
    """Another blob holds this artifact path for good."""

    code, status = "artifact_blob_immutable_conflict", 409


class BlobTooLarge(WireError):
    """A single put holds at most 24 MiB."""

    code, status = "blob_too_large", 413


class BlobPartTooLarge(WireError):
    """A part holds at most 8 MiB."""

    code, status = "blob_part_too_large", 413


class BlobStoreUnavailable(WireError):
    """The bucket is missing or failed; the log has the reason."""

    code, status = "blob_store_unavailable", 503
