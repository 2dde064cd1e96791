"""Refusals of the artifact receipts (spec state-plane-protocol 8)."""

from .base import WireError


class InvalidArtifactReceiptTuple(WireError):
    """One of the six members that name a receipt is missing or malformed."""

    code, status = "invalid_artifact_receipt_tuple", 400


class InvalidArtifactReceipt(WireError):
    """The six members, `digest` (64 lower-case hex digits) or `bytes` (at least 1) are missing or malformed."""

    code, status = "invalid_artifact_receipt", 400


class ArtifactCacheObjectMismatch(WireError):
    """The bucket has no object of that digest and size, so there is nothing that a receipt could vouch for."""

    code, status = "artifact_cache_object_mismatch", 409


class ArtifactReceiptImmutableConflict(WireError):
    """The same six members already have a live receipt for another digest or size."""

    code, status = "artifact_receipt_immutable_conflict", 409


class ArtifactCacheUnavailable(WireError):
    """The bucket is not bound or does not answer; the caller fetches from the code host instead."""

    code, status = "artifact_cache_unavailable", 503
