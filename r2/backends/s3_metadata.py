"""How an object's metadata travels through S3, whose own is lower-case ASCII names with ASCII values.

Custom metadata that S3 can carry as it is is carried so, and other S3 programs see it. All else is in one entry of
user metadata, `moorage`: the version, the upload time in milliseconds, the checksum that the writer gave, custom
metadata with other names or characters, and whether a content type was given at all (S3 makes one up).
"""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from ..backend import Draft, Record
from ..metadata import HttpMetadata

ENTRY: Final = "moorage"
_PLAIN_NAME: Final = re.compile(r"[a-z0-9][a-z0-9_-]*", re.ASCII)
_PLAIN_VALUE: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?", re.ASCII)
_FIELDS: Final = {
    "contentType": "ContentType",
    "contentLanguage": "ContentLanguage",
    "contentDisposition": "ContentDisposition",
    "contentEncoding": "ContentEncoding",
    "cacheControl": "CacheControl",
}
STORAGE_CLASSES: Final = {"Standard": "STANDARD", "InfrequentAccess": "STANDARD_IA"}
_CLASS_NAMES: Final = {store: name for name, store in STORAGE_CLASSES.items() if name != "Standard"}


def encode_entry(value: Mapping[str, Any]) -> str:
    """`value` as text of a header: JSON, deflated when that is shorter, in URL-safe base64."""
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()
    packed = zlib.compress(plain, 9)
    return "z" + _base64(packed) if len(packed) < len(plain) else "j" + _base64(plain)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decode_entry(text: str) -> dict[str, Any]:
    """What `encode_entry` was given; empty for anything else, which is an object that another program wrote."""
    try:
        data = base64.urlsafe_b64decode(text[1:] + "=" * (-len(text[1:]) % 4))
        if text[:1] == "z":
            engine = zlib.decompressobj()
            data = engine.decompress(data, 65_536)
        value = json.loads(data)
    except (ValueError, zlib.error):
        return {}
    return value if isinstance(value, dict) else {}


def request_fields(
    draft: Draft, *, version: str, uploaded: int | None, checksums: Mapping[str, str]
) -> dict[str, Any]:
    """The arguments of PutObject and CreateMultipartUpload that carry the metadata.

    `uploaded` is None where it is not known yet; the store's own time is used then.
    """
    http = draft.http.stored()
    fields: dict[str, Any] = {_FIELDS[name]: value for name, value in http.items() if name in _FIELDS}
    entry: dict[str, Any] = {"v": version}
    if uploaded is not None:
        entry["u"] = uploaded
    if checksums:
        entry["c"] = dict(checksums)
    if draft.http.contentType is None:
        entry["n"] = 1
    if draft.http.cacheExpiry is not None:
        fields["Expires"] = datetime.fromtimestamp(draft.http.cacheExpiry // 1000, UTC)
        if draft.http.cacheExpiry % 1000:
            entry["e"] = draft.http.cacheExpiry
    metadata: dict[str, str] = {}
    other: dict[str, str] = {}
    for name, value in draft.custom.items():
        carried = _PLAIN_NAME.fullmatch(name) and _PLAIN_VALUE.fullmatch(value) and name != ENTRY
        (metadata if carried else other)[name] = value
    if other:
        entry["m"] = other
    metadata[ENTRY] = encode_entry(entry)
    fields["Metadata"] = metadata
    if draft.storage_class in STORAGE_CLASSES:
        fields["StorageClass"] = STORAGE_CLASSES[draft.storage_class]
    return fields


def bare_etag(text: str) -> str:
    """An etag without its quotes."""
    return text.removeprefix("W/").strip('"')


def version_without_entry(etag: str, modified: int) -> str:
    """A version of an object that another program wrote: 32 hex digits of its etag and time.

    Of the time's second: stores give more in a listing than in the answer of HEAD.
    """
    return hashlib.sha256(f"{etag} {modified // 1000}".encode()).hexdigest()[:32]


def milliseconds_of(moment: datetime) -> int:
    """Milliseconds since 1970 of the store's time."""
    return round(moment.timestamp() * 1000)


def record_of(key: str, answer: Mapping[str, Any], size: int) -> Record:
    """The record in the answer of HeadObject or GetObject."""
    metadata = {name.lower(): value for name, value in answer.get("Metadata", {}).items()}
    entry = decode_entry(metadata.pop(ENTRY, ""))
    etag = bare_etag(answer["ETag"])
    modified = milliseconds_of(answer["LastModified"])
    texts = {name: answer.get(field) for name, field in _FIELDS.items()}
    if entry.get("n"):
        texts["contentType"] = None
    expires = answer.get("Expires")
    expiry = entry.get("e", milliseconds_of(expires) if isinstance(expires, datetime) else None)
    return Record(
        key,
        entry.get("v") or answer.get("VersionId") or version_without_entry(etag, modified),
        size,
        etag,
        entry.get("u", modified),
        entry.get("c", {}),
        HttpMetadata(**texts, cacheExpiry=expiry),
        {**metadata, **entry.get("m", {})},
        _CLASS_NAMES.get(answer.get("StorageClass", ""), ""),
    )


def listed_record(key: str, item: Mapping[str, Any]) -> Record:
    """The record of an entry of a listing, which carries no metadata."""
    etag = bare_etag(item["ETag"])
    modified = milliseconds_of(item["LastModified"])
    return Record(
        key,
        version_without_entry(etag, modified),
        item["Size"],
        etag,
        modified,
        storage_class=_CLASS_NAMES.get(item.get("StorageClass", ""), ""),
    )
