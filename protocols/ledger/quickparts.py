"""Quick checks of the parts that differ from event to event: subject, attributes, evidence.

Each says whether a decoded part is in normal form: every text passes its rule as it stands. That its spelling is
canonical is for the caller to see, who has the whole line written again. What is not surely in normal form is left
to the full rules.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from .canonical import MAX_SAFE_INTEGER, number_text
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
class Subject(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A stored subject as it is decoded."""

    cluster_id: str | UnsetType = UNSET
    kind: str
    number: int | UnsetType = UNSET
    record_path: str | UnsetType = UNSET
    repository: str
    source_revision: str | UnsetType = UNSET
    subject_id: str | UnsetType = UNSET


class Evidence(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A stored entry of evidence as it is decoded."""

    kind: str
    report_path: str | UnsetType = UNSET
    run_url: str | UnsetType = UNSET
    sha256: str | UnsetType = UNSET
    snapshot_id: str | UnsetType = UNSET


_encode = msgspec.json.Encoder(order="sorted").encode


@lru_cache(maxsize=4096)
def is_plain_machine_text(text: str) -> bool:
    """Whether `text` is machine text in normal form."""
    return _MACHINE.fullmatch(text) is not None and not is_confidential(text)


def _absent_or_plain(text: str | UnsetType) -> bool:
    return text is UNSET or is_plain_machine_text(text)


def is_plain_subject(found: Subject) -> bool:
    """Whether a subject is in normal form."""
    return (
        found.kind in SUBJECT_KINDS
        and _REPOSITORY.fullmatch(found.repository) is not None
        and (found.number is UNSET or 1 <= found.number <= MAX_SAFE_INTEGER)
        and _absent_or_plain(found.source_revision)
        and _absent_or_plain(found.subject_id)
        and _absent_or_plain(found.cluster_id)
        and (found.record_path is UNSET or is_plain_data_path(found.record_path))
    )


def is_plain_evidence(found: list[Evidence]) -> bool:
    """Whether evidence is in normal form and its entries are sorted."""
    if not 1 <= len(found) <= MAX_COLLECTION:
        return False
    for entry in found:
        if (
            not is_plain_machine_text(entry.kind)
            or not _absent_or_plain(entry.snapshot_id)
            or not (entry.sha256 is UNSET or is_digest(entry.sha256))
            or not (entry.report_path is UNSET or is_plain_data_path(entry.report_path))
            or not (entry.run_url is UNSET or _RUN_URL.fullmatch(entry.run_url))
        ):
            return False
    if len(found) == 1:
        return True
    texts = [_encode(entry) for entry in found]
    return texts == sorted(texts)


def _is_plain_integer(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_SAFE_INTEGER


def _is_plain_fraction(value: Any) -> bool:
    """Whether a number from 0 to 1 is written by the encoder as it is in canonical text."""
    if type(value) is int:
        return value in (0, 1)
    return type(value) is float and 0 < value < 1 and _encode(value).decode() == number_text(value)


# Whether a scalar of a kind is in normal form.
_SCALARS: Mapping[AttributeKind, Callable[[Any], bool]] = {
    AttributeKind.positive_integer: lambda value: _is_plain_integer(value) and value > 0,
    AttributeKind.non_negative_integer: _is_plain_integer,
    AttributeKind.boolean: lambda value: type(value) is bool,
    AttributeKind.unit_interval: _is_plain_fraction,
    AttributeKind.machine_text: lambda value: type(value) is str and is_plain_machine_text(value),
}
_CHECKS: Final = {name: _SCALARS[kind] for name, kind in ATTRIBUTES.items()}


def are_plain_attributes(found: dict[str, Any]) -> bool:
    """Whether attributes are in normal form."""
    for name, member in found.items():
        check = _CHECKS.get(name)
        if check is None:
            return False
        if type(member) is list:
            if len(member) > MAX_COLLECTION or not all(map(check, member)):
                return False
        elif not check(member):
            return False
    return True
