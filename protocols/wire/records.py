"""Refusals of the record routes (spec state-plane-protocol 3)."""

from typing import Any, ClassVar

from .base import WireError


class _Detailed:
    """Says in its text which field is wrong and what would be right; the wire has the code alone."""

    code: ClassVar[str]

    def __init__(self, detail: str = "", **fields: Any) -> None:
        super().__init__(**fields)
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.code}: {self.detail}" if self.detail else super().__str__()


class InvalidCanonicalRecordIdentity(_Detailed, WireError):
    """The repository slug is outside its grammar, or the number is no safe integer."""

    code, status = "invalid_canonical_record_identity", 400


class RecordNotFound(WireError):
    """The record was never written; of a tombstone, `digest`, `revision`, `updatedAt` and `deleted` tell."""

    code, status = "record_not_found", 404


class InvalidCanonicalRecordListing(_Detailed, WireError):
    """A field of the list request breaks its rule."""

    code, status = "invalid_canonical_record_listing", 400


class InvalidCanonicalRecordExport(_Detailed, WireError):
    """A field of the export request breaks its rule."""

    code, status = "invalid_canonical_record_export", 400


class InvalidCanonicalRecordTupleJson(WireError):
    """The body of a tuple request is no JSON."""

    code, status = "invalid_canonical_record_tuple_json", 400


class InvalidCanonicalRecordTuple(_Detailed, WireError):
    """The request is no record tuple."""

    code, status = "invalid_canonical_record_tuple", 400


class CanonicalRecordTupleTooLarge(WireError):
    """The body of a tuple request is above 4 MiB."""

    code, status = "canonical_record_tuple_too_large", 413


class CanonicalRecordTupleConflict(WireError):
    """An expected digest is not the stored one, or the delivery id belongs to another payload; `current` may tell."""

    code, status = "canonical_record_tuple_conflict", 409


class InvalidCanonicalCommitRecords(_Detailed, WireError):
    """The request is no lot of commit records."""

    code, status = "invalid_canonical_commit_records", 400


class CanonicalCommitRecordsTooLarge(WireError):
    """The body of a commits request is above `maxBytes`."""

    code, status = "canonical_commit_records_too_large", 413


class CanonicalRecordTooLarge(WireError):
    """One record's content is above `maxBytes`."""

    code, status = "canonical_record_too_large", 413


class CanonicalRecordDigestMismatch(WireError):
    """A record's `digest` is not that of its content."""

    code, status = "canonical_record_digest_mismatch", 400


class CanonicalCommitRecordConflict(WireError):
    """A sha is there with another digest; nothing of the lot was written."""

    code, status = "canonical_commit_record_conflict", 409
