"""An event's texts, put together from the canonical texts of its parts (spec action-ledger 3, 4).

Every top-level value of a record is a digest, a timestamp, machine text, a safe integer or null: none needs escaping.
So the line, the semantic preimage and the replay text are concatenations, and each part is canonicalised once.
Tests compare all three with `canonical.canonical_text` of the same objects.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from .canonical import canonical_text

# Members that are objects or arrays; a record may lack the optional ones.
PARTS: Final = ("action", "attributes", "evidence", "learning", "privacy", "producer", "subject")


_encode = msgspec.json.Encoder(order="sorted").encode


def part_text(value: Any) -> str:
    """Canonical text of a part in normal form. Its texts need no escaping; only fractions need the full writer."""
    if _has_fraction(value):
        return canonical_text(value)
    return _encode(value).decode()


def _has_fraction(value: Any) -> bool:
    if type(value) is dict:
        return any(map(_has_fraction, value.values()))
    if type(value) is list:
        return any(map(_has_fraction, value))
    return type(value) is float


def _member(name: str, text: str | None) -> str:
    return "" if text is None else f'"{name}":{text},'


def _null_or_text(value: str | None) -> str:
    return "null" if value is None else f'"{value}"'


def semantic_preimage(record: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """The text whose digest is `semantic_sha256`; `texts` holds the canonical text of each part that is present."""
    source = record["occurred_at_source"]
    occurred = f'"occurred_at":"{record["occurred_at"]}",' if source == "source" else ""
    return (
        f'{{"occurrence":{{{occurred}"occurred_at_source":"{source}"}},"semantic":{{"action":{texts["action"]},'
        f'"attempt_id":"{record["attempt_id"]}",{_member("attributes", texts.get("attributes"))}'
        f'"event_type":"{record["event_type"]}",{_member("evidence", texts.get("evidence"))}'
        f'"idempotency_key_sha256":"{record["idempotency_key_sha256"]}",{_member("learning", texts.get("learning"))}'
        f'"operation_id":"{record["operation_id"]}","parent_event_id":{_null_or_text(record["parent_event_id"])},'
        f'"phase_seq":{record["phase_seq"]},"privacy":{texts["privacy"]},"producer":{texts["producer"]},'
        f'"subject":{texts["subject"]}}}}}'
    )


def line_text(record: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """Canonical text of the whole record."""
    return (
        f'{{"action":{texts["action"]},"attempt_id":"{record["attempt_id"]}",'
        f'{_member("attributes", texts.get("attributes"))}"event_id":"{record["event_id"]}",'
        f'"event_key":"{record["event_key"]}","event_type":"{record["event_type"]}",'
        f"{_member('evidence', texts.get('evidence'))}"
        f'"idempotency_key_sha256":"{record["idempotency_key_sha256"]}",{_member("learning", texts.get("learning"))}'
        f'"occurred_at":"{record["occurred_at"]}","occurred_at_source":"{record["occurred_at_source"]}",'
        f'"operation_id":"{record["operation_id"]}","parent_event_id":{_null_or_text(record["parent_event_id"])},'
        f'"phase_seq":{record["phase_seq"]},"privacy":{texts["privacy"]},"producer":{texts["producer"]},'
        f'"recorded_at":"{record["recorded_at"]}","schema":"{record["schema"]}",'
        f'"schema_version":{record["schema_version"]},"semantic_sha256":"{record["semantic_sha256"]}",'
        f'"subject":{texts["subject"]}}}'
    )


def replay_from_line(record: Mapping[str, Any], line: str) -> str:
    """The line without `recorded_at`, and without a generated `occurred_at`.

    No value holds a quote, so the members can only match themselves.
    """
    text = line.replace(f'"recorded_at":"{record["recorded_at"]}",', "", 1)
    if record["occurred_at_source"] != "source":
        text = text.replace(f'"occurred_at":"{record["occurred_at"]}",', "", 1)
    return text
