"""A quick yes for event lines that are exactly what a writer makes; everything else takes the full reading.

The answer is an event or None, never a refusal: None only means that `validate.parse_event_line` has to look. A line
is accepted when its parts, each checked, are written to the very same line again, and its digests hold. A line that
equals its own reconstruction repeats no key. Producers, actions, privacy and learning repeat, so their readings are
remembered by their bytes; subjects, attributes and evidence do not, and are checked by `quickparts`.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from .canonical import MAX_SAFE_INTEGER, canonical_text, parse_json
from .events import Event
from .quickparts import (
    Evidence,
    Subject,
    are_plain_attributes,
    is_plain_evidence,
    is_plain_machine_text,
    is_plain_subject,
)
from .refusals import LedgerRefusal
from .text import event_key_text
from .timestamps import is_timestamp

# Beyond this the limits of spec 1.2 might be met; the full reading counts.
MAX_QUICK_CHARACTERS = 65_536

_DIGESTS = re.compile("[0-9a-f]{384}")


# Members of these three in the order of their bytes: the encoder keeps it.
class _Line(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    action: Raw
    attempt_id: str
    attributes: dict[str, Any] | UnsetType = UNSET
    event_id: str
    event_key: str
    event_type: str
    evidence: list[Evidence] | UnsetType = UNSET
    idempotency_key_sha256: str
    learning: Raw | UnsetType = UNSET
    occurred_at: str
    occurred_at_source: str
    operation_id: str
    parent_event_id: str | None
    phase_seq: int
    privacy: Raw
    producer: Raw
    recorded_at: str
    schema: str
    schema_version: int
    semantic_sha256: str
    subject: Subject


class _Semantic(msgspec.Struct, omit_defaults=True, kw_only=True):
    action: Raw
    attempt_id: str
    attributes: dict[str, Any] | UnsetType
    event_type: str
    evidence: list[Evidence] | UnsetType
    idempotency_key_sha256: str
    learning: Raw | UnsetType
    operation_id: str
    parent_event_id: str | None
    phase_seq: int
    privacy: Raw
    producer: Raw
    subject: Subject


class _Occurrence(msgspec.Struct):
    occurred_at: str | UnsetType
    occurred_at_source: str


class _Preimage(msgspec.Struct):
    occurrence: _Occurrence
    semantic: _Semantic


_decode = msgspec.json.Decoder(_Line).decode
_encode = msgspec.json.Encoder(order="sorted").encode

Rebuild = Callable[[Any], Any]


class QuickReader:
    """Reads lines quickly. `rebuild` maps each part's name to the rule that rebuilds its stored form."""

    def __init__(self, schema: str, version: int, rebuild: Mapping[str, Rebuild]) -> None:
        self._schema = schema
        self._version = version
        self._rebuild = dict(rebuild)
        self._part = lru_cache(maxsize=4096)(self._read_part)
        self._scope = lru_cache(maxsize=4096)(_is_plain_scope)

    def _read_part(self, name: str, raw: bytes) -> Any:
        """Value of a part, None when it is not in normal form."""
        try:
            text = raw.decode()
            value = self._rebuild[name](parse_json(text))
            return value if canonical_text(value) == text else None
        except (LedgerRefusal, UnicodeDecodeError):
            return None

    def read(self, line: str) -> Event | None:
        """The event of `line`, which is then known to be canonical and valid; None to have it read in full."""
        if len(line) > MAX_QUICK_CHARACTERS:
            return None
        try:
            data = line.encode()
            found = _decode(data)
            if _encode(found) != data:
                return None
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            return None
        producer = self._part("producer", bytes(found.producer))
        if (
            producer is None
            or self._part("action", bytes(found.action)) is None
            or self._part("privacy", bytes(found.privacy)) is None
            or (found.learning is not UNSET and self._part("learning", bytes(found.learning)) is None)
            or not is_plain_subject(found.subject)
            or (found.attributes is not UNSET and not are_plain_attributes(found.attributes))
            or (found.evidence is not UNSET and not is_plain_evidence(found.evidence))
            or not self._holds(found)
        ):
            return None
        # A copy: what is remembered must not change with a caller's event.
        return Event(
            line,
            found.event_id,
            found.parent_event_id,
            found.occurred_at,
            found.occurred_at_source == "source",
            dict(producer),
        )

    def _holds(self, found: _Line) -> bool:
        parent = found.parent_event_id
        scope, colon, digest = found.event_key.rpartition(":")
        digests = (
            found.event_id + found.operation_id + found.attempt_id + found.idempotency_key_sha256 + digest
            + (parent or found.event_id)
        )  # fmt: skip
        if (
            found.schema != self._schema
            or found.schema_version != self._version
            or parent == found.event_id
            or not 1 <= found.phase_seq <= MAX_SAFE_INTEGER
            or len(found.operation_id) != 64
            or len(found.attempt_id) != 64
            or len(found.idempotency_key_sha256) != 64
            or len(digest) != 64
            or (parent is not None and len(parent) != 64)
            or not _DIGESTS.fullmatch(digests)
            or not colon
            or not self._scope(scope)
            or not is_plain_machine_text(found.event_type)
            or found.occurred_at_source not in ("source", "generated")
            or not is_timestamp(found.occurred_at)
            or not is_timestamp(found.recorded_at)
        ):
            return False
        sha256 = hashlib.sha256
        key = f"{found.subject.repository}\n{found.event_key}".encode()
        if sha256(key).hexdigest() != found.event_id:
            return False
        return sha256(_semantic_preimage(found)).hexdigest() == found.semantic_sha256


def _semantic_preimage(found: _Line) -> bytes:
    is_source = found.occurred_at_source == "source"
    return _encode(
        _Preimage(
            _Occurrence(found.occurred_at if is_source else UNSET, found.occurred_at_source),
            _Semantic(
                action=found.action,
                attempt_id=found.attempt_id,
                attributes=found.attributes,
                event_type=found.event_type,
                evidence=found.evidence,
                idempotency_key_sha256=found.idempotency_key_sha256,
                learning=found.learning,
                operation_id=found.operation_id,
                parent_event_id=found.parent_event_id,
                phase_seq=found.phase_seq,
                privacy=found.privacy,
                producer=found.producer,
                subject=found.subject,
            ),
        )
    )


def _is_plain_scope(scope: str) -> bool:
    try:
        return event_key_text(f"{scope}:{'0' * 64}") == f"{scope}:{'0' * 64}"
    except LedgerRefusal:
        return False
