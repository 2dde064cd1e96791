"""A quick yes for event lines that are exactly what a writer makes; everything else takes the full reading.

The answer is a record or None, never a refusal: None only means that `validate.parse_event_line` has to look. A line
is accepted when its parts, each checked, put together again give the very same line, and its digests hold. A line
that equals its own reconstruction repeats no key. Producers, actions, privacy and learning repeat, so their readings
are remembered; subjects, attributes and evidence do not, and are checked by `quickparts`.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw, UnsetType

from .assembly import line_text, semantic_preimage
from .canonical import MAX_SAFE_INTEGER, canonical_text, parse_json
from .quickparts import QUICK_PARTS, is_plain_machine_text
from .refusals import LedgerRefusal
from .text import event_key_text
from .timestamps import timestamp_text

# Beyond this the limits of spec 1.2 might be met; the full reading counts.
MAX_QUICK_CHARACTERS = 65_536

_DIGESTS = re.compile("[0-9a-f]{384}")


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    action: Raw
    attempt_id: str
    event_id: str
    event_key: str
    event_type: str
    idempotency_key_sha256: str
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
    subject: Raw
    attributes: Raw | UnsetType = UNSET
    evidence: Raw | UnsetType = UNSET
    learning: Raw | UnsetType = UNSET


_decode = msgspec.json.Decoder(_Line).decode

Rebuild = Callable[[Any], Any]


class QuickReader:
    """Reads lines quickly. `rebuild` maps each part's name to the rule that rebuilds its stored form."""

    def __init__(self, schema: str, version: int, rebuild: Mapping[str, Rebuild]) -> None:
        self._schema = schema
        self._version = version
        self._rebuild = dict(rebuild)
        self._part = lru_cache(maxsize=4096)(self._read_part)
        self._scope = lru_cache(maxsize=4096)(_is_plain_scope)
        self._timestamp = lru_cache(maxsize=4096)(_is_plain_timestamp)

    def _read_part(self, name: str, raw: bytes) -> tuple[str, Any] | None:
        """Canonical text and value of a part, None when it is not in normal form."""
        try:
            text = raw.decode()
            value = self._rebuild[name](parse_json(text))
            return (text, value) if canonical_text(value) == text else None
        except (LedgerRefusal, UnicodeDecodeError):
            return None

    def read(self, line: str) -> dict[str, Any] | None:
        """The record of `line`, which is then known to be canonical and valid; None to have it read in full."""
        if len(line) > MAX_QUICK_CHARACTERS:
            return None
        try:
            found = _decode(line)
        except (msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
            return None
        record: dict[str, Any] = {
            "schema": found.schema,
            "schema_version": found.schema_version,
            "event_id": found.event_id,
            "event_key": found.event_key,
            "operation_id": found.operation_id,
            "attempt_id": found.attempt_id,
            "parent_event_id": found.parent_event_id,
            "phase_seq": found.phase_seq,
            "idempotency_key_sha256": found.idempotency_key_sha256,
            "occurred_at": found.occurred_at,
            "occurred_at_source": found.occurred_at_source,
            "recorded_at": found.recorded_at,
            "event_type": found.event_type,
        }
        texts: dict[str, str] = {}
        for name, raw in (
            ("producer", found.producer),
            ("subject", found.subject),
            ("action", found.action),
            ("learning", found.learning),
            ("evidence", found.evidence),
            ("attributes", found.attributes),
            ("privacy", found.privacy),
        ):
            if raw is UNSET:
                continue
            quick = QUICK_PARTS.get(name)
            data = bytes(raw)
            value = None if quick is None else quick(data)
            if value is not None:
                texts[name], record[name] = data.decode(), value
                continue
            part = self._part(name, data)
            if part is None:
                return None
            # Copies: what is remembered must not change with a caller's event.
            texts[name], record[name] = part[0], _copy(part[1])
        record["semantic_sha256"] = found.semantic_sha256
        return record if self._holds(found, record, texts, line) else None

    def _holds(self, found: _Line, record: Mapping[str, Any], texts: Mapping[str, str], line: str) -> bool:
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
            or not self._timestamp(found.occurred_at)
            or not self._timestamp(found.recorded_at)
            or line_text(record, texts) != line
        ):
            return False
        sha256 = hashlib.sha256
        key = f"{record['subject']['repository']}\n{found.event_key}".encode()
        if sha256(key).hexdigest() != found.event_id:
            return False
        return sha256(semantic_preimage(record, texts).encode()).hexdigest() == found.semantic_sha256


def _copy(value: Any) -> Any:
    if type(value) is dict:
        return {name: list(member) if type(member) is list else member for name, member in value.items()}
    return [dict(member) for member in value]


def _is_plain_scope(scope: str) -> bool:
    try:
        return event_key_text(f"{scope}:{'0' * 64}") == f"{scope}:{'0' * 64}"
    except LedgerRefusal:
        return False


def _is_plain_timestamp(text: str) -> bool:
    try:
        return timestamp_text(text) == text
    except LedgerRefusal:
        return False
