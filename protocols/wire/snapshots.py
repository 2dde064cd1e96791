"""Refusals of the snapshot routes (spec state-plane-protocol 4.1 to 4.3 and 4.6)."""

from .base import WireError


class InvalidSnapshotRepository(WireError):
    """The repository slug is outside its grammar, or reserved for blobs."""

    code, status = "invalid_snapshot_repository", 400


class SnapshotNotFound(WireError):
    """The repository has no snapshot, or none with that watermark."""

    code, status = "snapshot_not_found", 404


class SnapshotStoreUnavailable(WireError):
    """The bucket is missing or fails, or the newest snapshot's object is gone; `detail` tells which."""

    code, status = "snapshot_store_unavailable", 503


class InvalidSnapshotRange(WireError):
    """Offset, length or watermark is no such number, or the offset is past the end."""

    code, status = "invalid_snapshot_range", 400


class InvalidSnapshotDescriptor(WireError):
    """A member of the snapshot's description breaks its rule, or the members contradict each other."""

    code, status = "invalid_snapshot_descriptor", 400


class SnapshotObjectNotFound(WireError):
    """The object to register is not in the bucket."""

    code, status = "snapshot_object_not_found", 404


class SnapshotSizeMismatch(WireError):
    """The object's size is not the declared one."""

    code, status = "snapshot_size_mismatch", 400


class SnapshotCoverageIncomplete(WireError):
    """A live record at or below the watermark is not in the snapshot."""

    code, status = "snapshot_coverage_incomplete", 422


class InvalidSnapshotIdentities(WireError):
    """The identities are not ascending pairs of section and id, or not as many as the files."""

    code, status = "invalid_snapshot_identities", 400


class SnapshotIdentityDigestMismatch(WireError):
    """The digest over the identities is not the declared one."""

    code, status = "snapshot_identity_digest_mismatch", 400


class SnapshotRegistrationConflict(WireError):
    """The object is registered already, with other values."""

    code, status = "snapshot_registration_conflict", 409
