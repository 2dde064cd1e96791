"""Record tuples: what a tuple request must be, and what writing one does (spec state-plane-protocol 3.6).

Validation yields a `TupleWrite`; comparing it with what is stored yields `Write`, `Replay` or `Conflict`. A store
only carries the decision out. Direct publication, which writes records in the same way, compares nothing and
uses `next_revision` and `Operation` alone.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from ..javascript import ABSENT, to_text, trimmed_text, utf16_length
from ..wire.records import InvalidCanonicalRecordTuple as _Refused
from .identity import DIGEST, TUPLE_SECTIONS, item_number, tuple_path
from .text import MAX_RECORD_BYTES, decode_base64, digest_of, packet_reference_holds

RECEIPT_LIFETIME_MS: Final = 7 * 24 * 60 * 60 * 1000
"""How long a delivery id is remembered (storage 6)."""

RECEIPTS_PRUNED_PER_WRITE: Final = 256

MAX_DELIVERY_ID: Final = 512
"""Longest delivery id, in UTF-16 units."""

_KEY: Final = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,199})/([1-9][0-9]*)")
_FORBIDDEN_IN_DELIVERY: Final = re.compile("[\r\n\0]")


@dataclass(frozen=True, slots=True)
class Operation:
    """What one section of an item becomes: `content` bytes, or a tombstone when it is None."""

    section: str
    path: str
    expected_digest: str | None
    content: bytes | None = field(repr=False)
    digest: str | None

    @property
    def deletes(self) -> bool:
        """Whether the section becomes (or stays) a tombstone."""
        return self.content is None


@dataclass(frozen=True, slots=True)
class TupleWrite:
    """A valid tuple request. `operations` holds the four sections once each, in the order sent."""

    delivery_id: str
    key: str
    slug: str
    number: int
    operations: tuple[Operation, ...]

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 that the delivery id is bound to: key, paths, expectations and digests, in the order sent."""
        payload = {
            "key": self.key,
            "operations": [
                {"path": operation.path, "expectedDigest": operation.expected_digest, "digest": operation.digest}
                for operation in self.operations
            ],
        }
        return hashlib.sha256(msgspec.json.encode(payload)).hexdigest()


def parse_tuple(body: object) -> TupleWrite:
    """Returns the tuple that a request's JSON describes; raises InvalidCanonicalRecordTuple for a broken rule."""
    if not isinstance(body, dict):
        raise _Refused("body: an object is needed")
    delivery_id = trimmed_text(body.get("deliveryId", ABSENT))
    if not 1 <= utf16_length(delivery_id) <= MAX_DELIVERY_ID or _FORBIDDEN_IN_DELIVERY.search(delivery_id):
        raise _Refused(f"deliveryId: 1 to {MAX_DELIVERY_ID} characters without CR, LF and NUL are needed")
    key = trimmed_text(body.get("key", ABSENT))
    match = _KEY.fullmatch(key)
    number = None if match is None else item_number(match[2])
    if match is None or number is None:
        raise _Refused("key: <repository slug>/<item number> is needed")
    slug = match[1]
    operations = body.get("operations")
    if not isinstance(operations, list) or len(operations) != len(TUPLE_SECTIONS):
        raise _Refused("operations: a list of four is needed, one for each section")
    paths = {tuple_path(slug, section, number): section for section in TUPLE_SECTIONS}
    parsed = tuple(_parse_operation(entry, paths) for entry in operations)
    by_section = {operation.section: operation for operation in parsed}
    if len(by_section) != len(TUPLE_SECTIONS):
        raise _Refused("operations: every section exactly once")
    _check_structure(by_section)
    return TupleWrite(delivery_id, key, slug, number, parsed)


def _parse_operation(entry: object, paths: Mapping[str, str]) -> Operation:
    if not isinstance(entry, dict):
        raise _Refused("operations: every entry is an object")
    path = to_text(entry.get("path", ABSENT))
    section = paths.get(path)
    if section is None:
        raise _Refused("operations.path: one of " + ", ".join(paths))
    expected = entry.get("expectedDigest", ABSENT)
    if expected is not None and (not isinstance(expected, str) or DIGEST.fullmatch(expected) is None):
        raise _Refused(f"expectedDigest of {path}: null or 64 lowercase hex digits are needed")
    if "contentBase64" not in entry:
        return Operation(section, path, expected, None, None)
    content = decode_base64(entry["contentBase64"])
    if content is None or len(content) > MAX_RECORD_BYTES:
        raise _Refused(f"contentBase64 of {path}: padded base64 of at most {MAX_RECORD_BYTES} bytes is needed")
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise _Refused(f"contentBase64 of {path}: the bytes are no UTF-8") from error
    return Operation(section, path, expected, content, digest_of(content))


def _check_structure(operations: Mapping[str, Operation]) -> None:
    items, closed = operations["items"].content, operations["closed"].content
    packet = operations["decision-packets"]
    if items is not None and closed is not None:
        raise _Refused("operations: items and closed exclude each other")
    primary = items if items is not None else closed
    if primary is None:
        if operations["plans"].content is not None or packet.content is not None:
            raise _Refused("operations: a plan or decision packet needs a report in items or closed")
        return
    if closed is not None and operations["plans"].content is not None:
        raise _Refused("operations: a closed report has no plan")
    if not packet_reference_holds(primary.decode(), packet.path, packet.digest):
        raise _Refused("decision_packet_sha256, decision_packet_path: the report must name its packet, or none")


@dataclass(frozen=True, slots=True)
class StoredSection:
    """What the store has of one section: digest None for a tombstone."""

    digest: str | None
    revision: int


@dataclass(frozen=True, slots=True)
class Write:
    """Store all four operations under `revision`."""

    revision: int


@dataclass(frozen=True, slots=True)
class Replay:
    """The delivery was accepted before, at `revision`: answer it again, write nothing."""

    revision: int


@dataclass(frozen=True, slots=True)
class Conflict:
    """Refused. `show_current` tells whether the answer may show the tuple as it is now."""

    reason: str
    show_current: bool
    revision: int | None = None


def next_revision(stored: Mapping[str, StoredSection]) -> int:
    """Returns the revision of the next write of an item: one more than the largest of its four rows, from 1."""
    return max((section.revision for section in stored.values()), default=0) + 1


def decide(
    write: TupleWrite, receipt: tuple[str, int] | None, stored: Mapping[str, StoredSection]
) -> Write | Replay | Conflict:
    """Decides one tuple write.

    `receipt` is fingerprint and revision of an earlier use of the delivery id; `stored` the rows that exist, by
    section. All four expectations are compared, also of sections that stay deleted.
    """
    if receipt is not None:
        fingerprint, revision = receipt
        if fingerprint == write.fingerprint:
            return Replay(revision)
        return Conflict("the delivery id belongs to another payload", show_current=False)
    for operation in write.operations:
        present = stored.get(operation.section)
        if (present.digest if present is not None else None) != operation.expected_digest:
            revisions = {section.revision for section in stored.values()}
            whole = len(stored) == len(TUPLE_SECTIONS) and len(revisions) == 1
            return Conflict(f"{operation.path} has another digest", whole, revisions.pop() if whole else None)
    return Write(next_revision(stored))


def reconcile_prefix(slug: str, number: int) -> str:
    """Returns how the delivery ids begin that a conflict may show: `record-reconcile:<slug>:<number>:`."""
    return f"record-reconcile:{slug}:{number}:"
