"""HTTP and custom metadata (spec durable-object-semantics 15.9)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from email.utils import formatdate
from typing import Any, Final

from .arguments import date_of, is_headers, milliseconds, text_of, well_formed, wrong_field
from .conditions import http_date
from .errors import MetadataTooLarge

MAX_CUSTOM_METADATA: Final = 2048
"""Local limit, observed (`r2-custom-metadata-2048-limit`); the hosted service documents 8,192."""

HEADERS: Final = {
    "contentType": "content-type",
    "contentLanguage": "content-language",
    "contentDisposition": "content-disposition",
    "contentEncoding": "content-encoding",
    "cacheControl": "cache-control",
}


@dataclass(frozen=True, slots=True)
class HttpMetadata:
    """Header fields kept with an object. `cacheExpiry` is milliseconds since 1970; None means not set."""

    contentType: str | None = None
    contentLanguage: str | None = None
    contentDisposition: str | None = None
    contentEncoding: str | None = None
    cacheControl: str | None = None
    cacheExpiry: int | None = None

    def stored(self) -> dict[str, str | int]:
        """The fields that are set, for keeping."""
        return {name: value for name in _NAMES if (value := getattr(self, name)) is not None}

    def shown(self) -> dict[str, Any]:
        """The fields that are set, as the API gives them: `cacheExpiry` is a UTC datetime."""
        shown: dict[str, Any] = dict(self.stored())
        if self.cacheExpiry is not None:
            shown["cacheExpiry"] = date_of(self.cacheExpiry)
        return shown


_NAMES: Final = tuple(field.name for field in fields(HttpMetadata))
NO_HTTP_METADATA: Final = HttpMetadata()


def http_metadata_of(value: Any, struct: str) -> HttpMetadata:
    """HTTP metadata of an option: a dictionary, or Headers, of which other fields are ignored. TypeError for other
    types.
    """
    if value is None:
        return HttpMetadata()
    if is_headers(value):
        texts = {name: value.get(header) for name, header in HEADERS.items()}
        expires = value.get("expires")
        return HttpMetadata(**texts, cacheExpiry=None if expires is None else http_date(expires))
    if not isinstance(value, Mapping):
        raise wrong_field(struct, "httpMetadata", "HttpMetadata or Headers")
    texts = {name: None if value.get(name) is None else text_of(value[name]) for name in HEADERS}
    expiry = value.get("cacheExpiry")
    return HttpMetadata(
        **texts, cacheExpiry=None if expiry is None else milliseconds(expiry, "cacheExpiry", "HttpMetadata")
    )


def write_http_metadata(metadata: HttpMetadata, headers: Any) -> None:
    """Sets the fields that exist on `headers` (anything with `set(name, value)`, or a mutable mapping)."""
    values = {header: getattr(metadata, name) for name, header in HEADERS.items()}
    if metadata.cacheExpiry is not None:
        values["expires"] = formatdate(metadata.cacheExpiry / 1000, usegmt=True)
    put = getattr(headers, "set", None)
    if not callable(put):
        put = getattr(headers, "__setitem__", None)
    if not callable(put):
        raise TypeError("Failed to execute 'writeHttpMetadata' on 'R2Object': parameter 1 is not of type 'Headers'.")
    for name, value in values.items():
        if value is not None:
            put(name, value)


def custom_metadata_of(value: Any, struct: str) -> dict[str, str]:
    """Custom metadata of an option: a dictionary whose names and values become text. TypeError for other types."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong_field(struct, "customMetadata", "object")
    return {well_formed(str(name)): text_of(item) for name, item in value.items()}


def _stored_length(text: str) -> int:
    """Units of UTF-16, doubly when one is outside Latin-1. `r2-custom-metadata-unicode-counts-double`"""
    units = len(text.encode("utf-16-le")) // 2
    return units * 2 if any(character > "\xff" for character in text) else units


def check_custom_metadata(metadata: Mapping[str, str]) -> None:
    """MetadataTooLarge when names and values together exceed the limit."""
    total = sum(_stored_length(name) + _stored_length(value) for name, value in metadata.items())
    if total > MAX_CUSTOM_METADATA:
        raise MetadataTooLarge
