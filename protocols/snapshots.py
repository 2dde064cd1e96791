"""Snapshots of records: descriptions, keys, identities, ranges (spec state-plane-protocol 4).

What the archive holds is not looked at when it is registered: coverage is proven by identities.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from .javascript import ABSENT, iso_time, to_safe_integer, trimmed_text
from .records.identity import DIGEST, RESERVED_SLUGS, is_record_id, is_slug
from .wire.snapshots import (
    InvalidSnapshotDescriptor,
    InvalidSnapshotIdentities,
    InvalidSnapshotRange,
    InvalidSnapshotRepository,
    SnapshotIdentityDigestMismatch,
)

MIB: Final = 1024 * 1024
MAX_CHUNK_BYTES: Final = 32 * MIB
KEPT_PER_REPOSITORY: Final = 2
BUILD_PART_BYTES: Final = 8 * MIB
"""Part size of the archives that the service builds."""

PART_BYTES: Final = 6 * MIB
"""Part size of uploads; the last part may be smaller."""
MAX_BYTES: Final = 1024 * MIB
MAX_FILES: Final = 250_000
MANIFEST_CHUNK: Final = 10_000
"""Identities of one staged list; the last may be smaller."""

_UUID: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_KEY: Final = re.compile(rf"([^/]+)/(0|[1-9][0-9]*)/([1-9][0-9]*)-({_UUID})\.tar\.gz")

Identity = tuple[str, str]
"""Section and id of one record."""


def strict_integer(value: object, minimum: int, maximum: int) -> int | None:
    """Returns `value` when it is a JSON number that is an integer in bounds: nothing else counts here."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return to_safe_integer(value, minimum, maximum)


def parse_repository(body: Mapping[str, object]) -> str:
    """Returns the slug that a snapshot request names; raises InvalidSnapshotRepository."""
    slug = trimmed_text(body.get("repoSlug", ABSENT))
    if not is_slug(slug):
        raise InvalidSnapshotRepository
    return slug


def check_not_reserved(slug: str) -> None:
    """Raises InvalidSnapshotRepository for a slug whose snapshots would lie among the blobs (storage 4)."""
    if slug in RESERVED_SLUGS:
        raise InvalidSnapshotRepository


@dataclass(frozen=True, slots=True)
class Range:
    """A range of the archive with that watermark; `length` is not yet cut at the archive's end."""

    watermark: int
    offset: int
    length: int

    def cut(self, size: int) -> int:
        """Returns how many bytes there are to give; raises InvalidSnapshotRange past the end."""
        if self.offset >= size:
            raise InvalidSnapshotRange(snapshotStoreAvailable=True)
        return min(self.length, size - self.offset)


def parse_range(body: Mapping[str, object]) -> Range:
    """Returns the range that a chunk request asks for; raises InvalidSnapshotRange."""
    watermark = to_safe_integer(body.get("revisionWatermark", ABSENT))
    offset = to_safe_integer(body.get("offset", ABSENT))
    length = to_safe_integer(body.get("length", ABSENT), 1, MAX_CHUNK_BYTES)
    if watermark is None or offset is None or length is None:
        raise InvalidSnapshotRange(snapshotStoreAvailable=True)
    return Range(watermark, offset, length)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A registered archive. `bytes` and `uncompressed_bytes` count the archive and its contents; time in ms."""

    slug: str
    watermark: int
    object_key: str
    bytes: int
    uncompressed_bytes: int
    file_count: int
    created_at: int
    identity_digest: str | None = None

    def envelope(self) -> dict[str, object]:
        """Returns the answer of `latest`, `trigger` and `register` (4.1)."""
        return {
            "ok": True,
            "snapshotStoreAvailable": True,
            "snapshot": {
                "repoSlug": self.slug,
                "revisionWatermark": self.watermark,
                "objectKey": self.object_key,
                "bytes": self.bytes,
                "uncompressedBytes": self.uncompressed_bytes,
                "fileCount": self.file_count,
                "createdAt": iso_time(self.created_at),
                "access": {"mode": "worker_range_proxy", "maxChunkBytes": MAX_CHUNK_BYTES},
            },
        }


def object_key(slug: str, watermark: int, created_at: int, unique: str) -> str:
    """Returns where an archive lies: `<slug>/<watermark>/<created ms>-<uuid>.tar.gz`."""
    return f"{slug}/{watermark}/{created_at}-{unique}.tar.gz"


def manifest_key(key: str, number: int) -> str:
    """Returns where a staged identity list of an upload lies."""
    return f"{key}.manifest/{number}"


@dataclass(frozen=True, slots=True)
class Descriptor:
    """What an uploaded archive is said to be. `identity_digest` is absent from uploads without identities."""

    slug: str
    watermark: int
    bytes: int
    uncompressed_bytes: int
    file_count: int
    identity_digest: str | None

    @property
    def part_count(self) -> int:
        """How many parts the archive is sent in."""
        return -(-self.bytes // PART_BYTES)

    @property
    def manifest_count(self) -> int:
        """How many staged lists hold the identities."""
        return -(-self.file_count // MANIFEST_CHUNK)

    def manifest_size(self, number: int) -> int:
        """Returns how many identities the staged list `number` holds, from 1."""
        count = self.manifest_count
        return MANIFEST_CHUNK if number < count else self.file_count - MANIFEST_CHUNK * (count - 1)

    def part_size(self, number: int) -> int:
        """Returns the exact size in bytes of part `number`, from 1."""
        return PART_BYTES if number < self.part_count else self.bytes - PART_BYTES * (self.part_count - 1)


def parse_descriptor(body: Mapping[str, object]) -> Descriptor:
    """Returns the description that `start` and `register` carry; raises InvalidSnapshotDescriptor."""
    slug = body.get("repoSlug")
    watermark = strict_integer(body.get("revisionWatermark"), 0, 2**53 - 1)
    size = strict_integer(body.get("bytes"), 1, MAX_BYTES)
    uncompressed = strict_integer(body.get("uncompressedBytes"), 0, 2**53 - 1)
    files = strict_integer(body.get("fileCount"), 0, MAX_FILES)
    if not isinstance(slug, str) or not is_slug(slug) or slug in RESERVED_SLUGS:
        raise InvalidSnapshotDescriptor
    if watermark is None or size is None or uncompressed is None or files is None:
        raise InvalidSnapshotDescriptor
    digest = body.get("identityDigest")
    if digest is not None and not is_digest(digest):
        raise InvalidSnapshotDescriptor
    return Descriptor(slug, watermark, size, uncompressed, files, digest if isinstance(digest, str) else None)


def is_digest(value: object) -> bool:
    """Tells whether `value` is 64 lowercase hex digits."""
    return isinstance(value, str) and DIGEST.fullmatch(value) is not None


def parse_registration(body: Mapping[str, object], now: int, current_revision: int) -> Snapshot:
    """Returns the snapshot that a registration describes; raises InvalidSnapshotDescriptor.

    Key, slug, watermark and creation time must agree, the time must not be in the future, the watermark not above
    the store's counter.
    """
    try:
        descriptor = parse_descriptor(body)
    except InvalidSnapshotDescriptor:
        raise InvalidSnapshotDescriptor(snapshotStoreAvailable=True) from None
    created_at = strict_integer(body.get("createdAt"), 1, now)
    key = body.get("objectKey")
    match = _KEY.fullmatch(key) if isinstance(key, str) else None
    if created_at is None or match is None or not isinstance(key, str) or descriptor.watermark > current_revision:
        raise InvalidSnapshotDescriptor(snapshotStoreAvailable=True)
    if (match[1], match[2], match[3]) != (descriptor.slug, str(descriptor.watermark), str(created_at)):
        raise InvalidSnapshotDescriptor(snapshotStoreAvailable=True)
    return Snapshot(
        descriptor.slug,
        descriptor.watermark,
        key,
        descriptor.bytes,
        descriptor.uncompressed_bytes,
        descriptor.file_count,
        created_at,
        descriptor.identity_digest,
    )


def parse_identities(value: object) -> list[Identity]:
    """Returns the identities of a list of pairs, strictly ascending by `section/id`.

    Raises InvalidSnapshotIdentities.
    """
    if not isinstance(value, list) or len(value) > MAX_FILES:
        raise InvalidSnapshotIdentities(snapshotStoreAvailable=True)
    identities: list[Identity] = []
    before = ""
    for pair in value:
        if not isinstance(pair, list) or len(pair) != 2:
            raise InvalidSnapshotIdentities(snapshotStoreAvailable=True)
        section, record_id = pair
        if not isinstance(section, str) or not isinstance(record_id, str) or not is_record_id(section, record_id):
            raise InvalidSnapshotIdentities(snapshotStoreAvailable=True)
        name = f"{section}/{record_id}"
        if name <= before:
            raise InvalidSnapshotIdentities(snapshotStoreAvailable=True)
        before = name
        identities.append((section, record_id))
    return identities


def identity_digest(identities: Iterable[Identity]) -> str:
    """Returns the hex SHA-256 of the compact JSON of the whole list."""
    return hashlib.sha256(msgspec.json.encode([list(pair) for pair in identities])).hexdigest()


def check_identity_digest(identities: list[Identity], declared: str | None) -> None:
    """Raises SnapshotIdentityDigestMismatch when a digest was declared and the list has another."""
    if declared is not None and identity_digest(identities) != declared:
        raise SnapshotIdentityDigestMismatch(snapshotStoreAvailable=True)
