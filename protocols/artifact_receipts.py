"""Rules of the artifact receipts: what names one, what it says, and when an object may go.

Spec state-plane-protocol 8; vectors `artifact-receipts/*`. A receipt binds the digest of a stored bundle to
exactly one producer run, item and lease; there is no partial or newest match.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .javascript import ABSENT, to_safe_integer, trim

PREFIX: Final = "artifacts/exact-review/v1/"
RETENTION_MS: Final = 30 * 24 * 60 * 60 * 1000
CLEAN_LOT: Final = 128

_RUN: Final = re.compile(r"[0-9]+")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_ITEM: Final = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+#[1-9][0-9]*")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ReceiptTuple:
    """The six members that name a receipt; all must match."""

    producer_run_id: str
    producer_run_attempt: int
    artifact_name: str
    canonical_item_key: str
    lease_revision: int
    protocol_version: int

    def columns(self) -> tuple[str, int, str, str, int, int]:
        """The members in the order of the primary key."""
        return (
            self.producer_run_id,
            self.producer_run_attempt,
            self.artifact_name,
            self.canonical_item_key,
            self.lease_revision,
            self.protocol_version,
        )


@dataclass(frozen=True, slots=True)
class Stored:
    """The object that a receipt vouches for. `digest` is hex, `size` in bytes."""

    digest: str
    size: int

    @property
    def object_key(self) -> str:
        """Its key in the bucket."""
        return PREFIX + self.digest


@dataclass(frozen=True, slots=True)
class Receipt:
    """A receipt as stored. Times are milliseconds."""

    name: ReceiptTuple
    stored: Stored
    created_at: int
    expires_at: int

    def wire(self) -> dict[str, Any]:
        """The receipt as clients read it."""
        return {
            "producerRunId": self.name.producer_run_id,
            "producerRunAttempt": self.name.producer_run_attempt,
            "artifactName": self.name.artifact_name,
            "canonicalItemKey": self.name.canonical_item_key,
            "leaseRevision": self.name.lease_revision,
            "protocolVersion": self.name.protocol_version,
            "digest": self.stored.digest,
            "bytes": self.stored.size,
            "objectKey": self.stored.object_key,
            "createdAt": self.created_at,
            "expiresAt": self.expires_at,
        }


def _text(value: Any) -> str:
    if isinstance(value, str):
        return trim(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def parse_tuple(members: Mapping[str, Any]) -> ReceiptTuple | None:
    """The six members, spaces trimmed and numbers lenient (`artifact-receipts/lenient-forms`); None when one is
    malformed.
    """
    run, name, item = (_text(members.get(key)) for key in ("producer_run_id", "artifact_name", "canonical_item_key"))
    attempt, revision, version = (
        to_safe_integer(members.get(key, ABSENT), minimum=1)
        for key in ("producer_run_attempt", "lease_revision", "protocol_version")
    )
    if attempt is None or revision is None or version is None:
        return None
    if not (_RUN.fullmatch(run) and _NAME.fullmatch(name) and _ITEM.fullmatch(item)):
        return None
    return ReceiptTuple(run, attempt, name, item, revision, version)


def parse_stored(members: Mapping[str, Any]) -> Stored | None:
    """`digest` and `bytes`; None when one is malformed."""
    digest, size = members.get("digest"), to_safe_integer(members.get("bytes", ABSENT), minimum=1)
    if size is None or not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        return None
    return Stored(digest, size)


def digest_of_key(object_key: str) -> str | None:
    """The digest that an object key under the prefix carries, or None for a key that does not look like one."""
    digest = object_key.removeprefix(PREFIX)
    return digest if object_key.startswith(PREFIX) and _DIGEST.fullmatch(digest) else None


def object_may_go(uploaded_at: int, has_live_receipt: bool, now: int) -> bool:
    """Whether clean-up deletes an object: uploaded more than 30 days ago, and no live receipt has its digest."""
    return not has_live_receipt and uploaded_at < now - RETENTION_MS
