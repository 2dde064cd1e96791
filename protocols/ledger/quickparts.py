"""Quick checks of the parts that differ from event to event: subject, attributes, evidence.

Each takes a part's bytes and gives its value, or None when the full rules have to look. A value is given only when
the part's own encoding gives the same bytes again, its members in canonical order, and every text passes its rule as
it stands; fractions are left to the full rules, since their canonical spelling is not the encoder's.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from .canonical import MAX_SAFE_INTEGER
from .confidential import is_confidential
from .paths import is_plain_data_path
from .text import is_digest
from .vocabulary import ATTRIBUTES, SUBJECT_KINDS, AttributeKind

MAX_COLLECTION: Final = 64

_MACHINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,255}")
_REPOSITORY = re.compile(r"[a-z0-9_][a-z0-9_.-]*/[a-z0-9_][a-z0-9_.-]*")
_NAME = r"(?!\.\.?/)[A-Za-z0-9_.\-]+"
_RUN_URL = re.compile(rf"https://github\.com/{_NAME}/{_NAME}/actions/runs/[0-9]+")


# Members in the order of their bytes: the encoder keeps it.
class _Subject(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    cluster_id: str | UnsetType = UNSET
    kind: str
    number: int | UnsetType = UNSET
    record_path: str | UnsetType = UNSET
    repository: str
    source_revision: str | UnsetType = UNSET
    subject_id: str | UnsetType = UNSET


class _Evidence(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    kind: str
    report_path: str | UnsetType = UNSET
    run_url: str | UnsetType = UNSET
    sha256: str | UnsetType = UNSET
    snapshot_id: str | UnsetType = UNSET


_decode = msgspec.json.decode
_encode = msgspec.json.Encoder(order="sorted").encode
_decode_subject = msgspec.json.Decoder(_Subject).decode
_decode_evidence = msgspec.json.Decoder(list[_Evidence]).decode


@lru_cache(maxsize=4096)
def is_plain_machine_text(text: str) -> bool:
    """Whether `text` is machine text in normal form."""
    return _MACHINE.fullmatch(text) is not None and not is_confidential(text)


def _absent_or_plain(text: str | UnsetType) -> bool:
    return text is UNSET or is_plain_machine_text(text)


def quick_subject(data: bytes) -> dict[str, Any] | None:
    """A subject in normal form."""
    try:
        found = _decode_subject(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if (
        _encode(found) != data
        or found.kind not in SUBJECT_KINDS
        or not _REPOSITORY.fullmatch(found.repository)
        or not (found.number is UNSET or 1 <= found.number <= MAX_SAFE_INTEGER)
        or not _absent_or_plain(found.source_revision)
        or not _absent_or_plain(found.subject_id)
        or not _absent_or_plain(found.cluster_id)
        or not (found.record_path is UNSET or is_plain_data_path(found.record_path))
    ):
        return None
    value: dict[str, Any] = _decode(data)
    return value


def quick_evidence(data: bytes) -> list[dict[str, Any]] | None:
    """Evidence in normal form, its entries sorted."""
    try:
        found = _decode_evidence(data)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    if not 1 <= len(found) <= MAX_COLLECTION or _encode(found) != data:
        return None
    for entry in found:
        if (
            not is_plain_machine_text(entry.kind)
            or not _absent_or_plain(entry.snapshot_id)
            or not (entry.sha256 is UNSET or is_digest(entry.sha256))
            or not (entry.report_path is UNSET or is_plain_data_path(entry.report_path))
            or not (entry.run_url is UNSET or _RUN_URL.fullmatch(entry.run_url))
        ):
            return None
    if len(found) > 1:
        texts = [_encode(entry) for entry in found]
        if texts != sorted(texts):
            return None
    value: list[dict[str, Any]] = _decode(data)
    return value


def _is_plain_integer(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_SAFE_INTEGER


# Whether a scalar of a kind is in normal form; fractions never are, here.
_SCALARS: Mapping[AttributeKind, Callable[[Any], bool]] = {
    AttributeKind.positive_integer: lambda value: _is_plain_integer(value) and value > 0,
    AttributeKind.non_negative_integer: _is_plain_integer,
    AttributeKind.boolean: lambda value: type(value) is bool,
    AttributeKind.unit_interval: lambda value: type(value) is int and value in (0, 1),
    AttributeKind.machine_text: lambda value: type(value) is str and is_plain_machine_text(value),
}
_CHECKS: Final = {name: _SCALARS[kind] for name, kind in ATTRIBUTES.items()}


def quick_attributes(data: bytes) -> dict[str, Any] | None:
    """Attributes in normal form."""
    try:
        value = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if type(value) is not dict or _encode(value) != data:
        return None
    for name, member in value.items():
        check = _CHECKS.get(name)
        if check is None:
            return None
        if type(member) is list:
            if len(member) > MAX_COLLECTION or not all(map(check, member)):
                return None
        elif not check(member):
            return None
    return value


QUICK_PARTS: Final[Mapping[str, Callable[[bytes], Any]]] = MappingProxyType(
    {"subject": quick_subject, "evidence": quick_evidence, "attributes": quick_attributes}
)
