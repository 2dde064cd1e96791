"""Rules of the state blobs: paths, digests, limits, and what an existing blob means for a new one (spec
state-plane-protocol 9)."""

import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import msgspec

from .javascript import ABSENT, to_safe_integer
from .json_body import parse_as
from .wire.blobs import (
    ArtifactBlobImmutableConflict,
    ArtifactBlobKeyDigestMismatch,
    BlobPartTooLarge,
    BlobTooLarge,
    InvalidBlobBytes,
    InvalidBlobContent,
    InvalidBlobDigest,
    InvalidBlobListCursor,
    InvalidBlobListLimit,
    InvalidBlobPartNumber,
    InvalidBlobParts,
    InvalidBlobPath,
    InvalidBlobPrefix,
    InvalidBlobRange,
    InvalidBlobUpload,
    LedgerBlobImmutableConflict,
)

MIB: Final = 1024 * 1024
MAX_PUT_BYTES: Final = 24 * MIB
MAX_PART_BYTES: Final = 8 * MIB
MAX_CHUNK_BYTES: Final = 32 * MIB
MAX_MULTIPART_BYTES: Final = 1024 * MIB
MAX_PARTS: Final = 10_000
MAX_LIST_LIMIT: Final = 1000
MAX_PATH: Final = 900
MAX_UPLOAD_ID: Final = 4096
MAX_CURSOR: Final = 8192

LEDGER: Final = "ledger/v1/"
ASSETS: Final = "assets/"
ARTIFACTS: Final = "artifacts/exact-review/v1/"
ROOTS: Final = (LEDGER, ASSETS, ARTIFACTS)

_SEGMENT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+@-]{0,254}", re.ASCII)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}", re.ASCII)


class Body(msgspec.Struct):
    """The members that any blob operation reads; each is checked by its own rule, in the operation's order.

    `contentBase64` is bytes when `parse_content_body` has decoded it already.
    """

    path: Any = ABSENT
    digest: Any = ABSENT
    contentBase64: Any = ABSENT
    offset: Any = ABSENT
    length: Any = ABSENT
    prefix: Any = ABSENT
    cursor: Any = ABSENT
    limit: Any = ABSENT
    bytes: Any = ABSENT
    uploadId: Any = ABSENT
    partNumber: Any = ABSENT
    parts: Any = ABSENT


class _ContentBody(Body, kw_only=True):
    contentBase64: bytes


_decode_content_body: Final = msgspec.json.Decoder(_ContentBody).decode


def parse_content_body(data: bytes) -> Body:
    """The members of a body that carries content, which is decoded where it lies in the JSON text: no copy is made of
    its base64.

    Whatever is wrong with it is left to `decode_content`, in the operation's order. Raises NotJson.
    """
    try:
        return _decode_content_body(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return parse_as(Body, data)


@dataclass(frozen=True, slots=True)
class BlobPath:
    """A checked path; its first segments say how it may change."""

    text: str
    root: str

    @property
    def immutable(self) -> bool:
        """Whether a blob under this path is written once, for good."""
        return self.root != ASSETS


@dataclass(frozen=True, slots=True)
class Blob:
    """A stored blob. `digest`: hex SHA-256, None when it is not known; `verified`: whether the service computed
    it.
    """

    path: str
    size: int
    digest: str | None
    verified: bool

    def descriptor(self) -> dict[str, Any]:
        """`{path, bytes, digest, digestVerified}`."""
        return {"path": self.path, "bytes": self.size, "digest": self.digest, "digestVerified": self.verified}


def _segments_hold(text: str) -> bool:
    return all(_SEGMENT.fullmatch(segment) for segment in text.split("/"))


def parse_path(value: Any) -> BlobPath:
    """A blob's path (`blobs/bad-paths`, `blobs/artifact-paths`). Raises InvalidBlobPath."""
    if not isinstance(value, str) or len(value) > MAX_PATH:
        raise InvalidBlobPath
    for root in ROOTS:
        if value.startswith(root):
            below = value[len(root) :]
            holds = _DIGEST.fullmatch(below) if root == ARTIFACTS else _segments_hold(below)
            if holds:
                return BlobPath(value, root)
    raise InvalidBlobPath


def parse_prefix(value: Any) -> str:
    """A listing's directory, with a trailing slash: a known prefix or one below (`blobs/list-bad-requests`).

    Raises InvalidBlobPrefix.
    """
    if not isinstance(value, str) or not value or len(value) > MAX_PATH:
        raise InvalidBlobPrefix
    directory = value if value.endswith("/") else value + "/"
    for root in ROOTS:
        if directory == root or (directory.startswith(root) and _segments_hold(directory[len(root) : -1])):
            return directory
    raise InvalidBlobPrefix


def parse_digest(path: BlobPath, value: Any) -> str:
    """A blob's SHA-256 in hex; under `artifacts/` it must be the path's last segment.

    Raises InvalidBlobDigest, ArtifactBlobKeyDigestMismatch.
    """
    if not isinstance(value, str) or not _DIGEST.fullmatch(value):
        raise InvalidBlobDigest
    if path.root == ARTIFACTS and path.text[len(ARTIFACTS) :] != value:
        raise ArtifactBlobKeyDigestMismatch
    return value


def known_digest(value: Any) -> str | None:
    """`value` when it is a digest, as object metadata should hold one; else None."""
    return value if isinstance(value, str) and _DIGEST.fullmatch(value) else None


def decode_content(value: Any, limit: int, error: type[BlobTooLarge] | type[BlobPartTooLarge]) -> bytes:
    """The bytes of `contentBase64`, at most `limit` of them, else `error`; the length is looked at first.

    Strict: padded, standard alphabet, no white space (`blobs/bad-base64`); bits beyond the last byte are ignored,
    as the reference does. Raises InvalidBlobContent.
    """
    if isinstance(value, bytes):
        if len(value) > limit:
            raise _too_large(error, limit)
        return value
    # the module takes padding behind a whole group for nothing: `JJJJ====`
    if not isinstance(value, str) or len(value) % 4 or not value.isascii() or value.endswith("==="):
        raise InvalidBlobContent
    size = len(value) // 4 * 3 - (2 if value.endswith("==") else 1 if value.endswith("=") else 0)
    if size > limit:
        if not _BASE64.fullmatch(value):
            raise InvalidBlobContent
        raise _too_large(error, limit)
    try:
        return binascii.a2b_base64(value, strict_mode=True)
    except (binascii.Error, ValueError):
        raise InvalidBlobContent from None


def _too_large(error: type[BlobTooLarge] | type[BlobPartTooLarge], limit: int) -> BlobTooLarge | BlobPartTooLarge:
    if error is BlobTooLarge:
        return error(maxBytes=limit, detail="use the multipart upload endpoints for larger blobs")
    return error(maxBytes=limit)


def parse_range(body: Body) -> tuple[int, int]:
    """`offset` and `length` of a chunk; numbers are lenient (`blobs/ranges`). Raises InvalidBlobRange."""
    offset = to_safe_integer(body.offset)
    length = to_safe_integer(body.length, 1, MAX_CHUNK_BYTES)
    if offset is None or length is None:
        raise InvalidBlobRange(maxChunkBytes=MAX_CHUNK_BYTES)
    return offset, length


def parse_limit(value: Any) -> int:
    """A listing's page size, 1,000 when absent. Raises InvalidBlobListLimit."""
    limit = MAX_LIST_LIMIT if value is ABSENT else to_safe_integer(value, 1, MAX_LIST_LIMIT)
    if limit is None:
        raise InvalidBlobListLimit(maxLimit=MAX_LIST_LIMIT)
    return limit


def parse_cursor(value: Any) -> str | None:
    """A listing's cursor; absent, null and empty are the beginning. Raises InvalidBlobListCursor."""
    if value is ABSENT or value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > MAX_CURSOR:
        raise InvalidBlobListCursor
    return value


def parse_bytes(value: Any) -> int:
    """The announced size of a multipart upload. Raises InvalidBlobBytes."""
    size = to_safe_integer(value, 1, MAX_MULTIPART_BYTES)
    if size is None:
        raise InvalidBlobBytes(maxBytes=MAX_MULTIPART_BYTES)
    return size


def parse_upload_id(value: Any) -> str:
    """The id that `multipart/start` gave. Raises InvalidBlobUpload."""
    if not isinstance(value, str) or not value or len(value) > MAX_UPLOAD_ID:
        raise InvalidBlobUpload
    return value


def parse_part_number(value: Any) -> int:
    """A part's number. Raises InvalidBlobPartNumber."""
    number = to_safe_integer(value, 1, MAX_PARTS)
    if number is None:
        raise InvalidBlobPartNumber
    return number


def parse_parts(value: Any) -> list[dict[str, Any]]:
    """`[{"partNumber", "etag"}]` in the order sent; numbers are lenient. Raises InvalidBlobParts for a wrong form."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_PARTS:
        raise InvalidBlobParts
    parts = []
    for entry in value:
        number = to_safe_integer(entry.get("partNumber", ABSENT), 1) if isinstance(entry, Mapping) else None
        etag = entry.get("etag") if number is not None else None
        if not isinstance(etag, str):
            raise InvalidBlobParts
        parts.append({"partNumber": number, "etag": etag})
    return parts


def check_parts(parts: list[dict[str, Any]]) -> None:
    """Raises InvalidBlobUpload for a list that is well formed and of parts that no upload has: a number twice
    (`blobs/multipart-missing-part`) or beyond the last, an empty etag.
    """
    numbers = {part["partNumber"] for part in parts}
    if len(numbers) != len(parts) or max(numbers) > MAX_PARTS or not all(part["etag"] for part in parts):
        raise InvalidBlobUpload


class Existing(Enum):
    """What a blob that is already there means for one that is offered."""

    NONE = "write it"
    SAME = "it is there already: unchanged"
    REPLACE = "another one, of a mutable path: overwrite"
    CONFLICT = "another one, of an immutable path: refuse"


def compare(path: BlobPath, existing: Blob | None, digest: str, size: int) -> Existing:
    """Decides by digest and size (`blobs/put-again`, `blobs/assets-are-mutable`, `blobs/multipart-over-existing-
    ledger`).
    """
    if existing is None:
        return Existing.NONE
    if existing.digest == digest and existing.size == size:
        return Existing.SAME
    return Existing.CONFLICT if path.immutable else Existing.REPLACE


def conflict(path: BlobPath, existing: Blob) -> LedgerBlobImmutableConflict | ArtifactBlobImmutableConflict:
    """The refusal of another blob under an immutable path."""
    error = ArtifactBlobImmutableConflict if path.root == ARTIFACTS else LedgerBlobImmutableConflict
    return error(path=path.text, existingBytes=existing.size, existingDigest=existing.digest)
