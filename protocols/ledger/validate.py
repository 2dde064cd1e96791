"""What a reader demands of a stored event before it believes it (spec action-ledger 11)."""

from typing import Any

from .canonical import Json, canonical_text, parse_json
from .duplicates import scan_json
from .events import SCHEMA, SCHEMA_VERSION, Event, build_event, event_input
from .numbers import is_number
from .parts import REBUILD
from .quick import QuickReader
from .refusals import LedgerRefusal
from .timestamps import timestamp_text

MAX_EVENT_BYTES = 1_048_576

_quick = QuickReader(SCHEMA, SCHEMA_VERSION, REBUILD)

_TEXTS = (
    "event_id",
    "event_key",
    "operation_id",
    "attempt_id",
    "idempotency_key_sha256",
    "semantic_sha256",
    "occurred_at",
    "occurred_at_source",
    "recorded_at",
    "event_type",
)


def _check_shape(record: dict[str, Any]) -> None:
    if record.get("schema") != SCHEMA or record.get("schema_version") != SCHEMA_VERSION:
        raise LedgerRefusal("schema", f"must be {SCHEMA}, version {SCHEMA_VERSION}", "schema")
    if isinstance(record["schema_version"], bool):
        raise LedgerRefusal("schema", "must be the number 1", "schema_version")
    for name in _TEXTS:
        if not isinstance(record.get(name), str):
            raise LedgerRefusal("schema", "must be text", name)
    if "parent_event_id" not in record or not (
        record["parent_event_id"] is None or isinstance(record["parent_event_id"], str)
    ):
        raise LedgerRefusal("schema", "must be a digest or null", "parent_event_id")
    if not is_number(record.get("phase_seq")):
        raise LedgerRefusal("schema", "must be a number", "phase_seq")
    for name in ("producer", "subject", "action", "privacy"):
        if not isinstance(record.get(name), dict):
            raise LedgerRefusal("schema", "must be an object", name)


def validate_record(record: Json) -> Event:
    """The event of a parsed record: every rule of spec 3 checked, the record rebuilt. Raises LedgerRefusal."""
    if not isinstance(record, dict):
        raise LedgerRefusal("not-object", "an event is an object")
    given_text = canonical_text(record)
    _check_shape(record)
    if record["parent_event_id"] == record["event_id"]:
        raise LedgerRefusal("self-parent", "an event is not its own parent", "parent_event_id")
    source = record["occurred_at_source"]
    if source not in ("source", "generated"):
        raise LedgerRefusal("occurrence-source", "must be source or generated", "occurred_at_source")
    timestamp_text(record["occurred_at"], "occurred_at")
    given = event_input(record)
    if source == "source":
        given["occurredAt"] = record["occurred_at"]
    rebuilt = build_event(given, recorded_at=record["recorded_at"], generated_at=record["occurred_at"])
    if rebuilt.event_id != record["event_id"]:
        raise LedgerRefusal("event-id", "is not the digest of repository and event key", "event_id")
    if rebuilt.record["semantic_sha256"] != record["semantic_sha256"]:
        raise LedgerRefusal("semantic-digest", "is not the digest of the event's content", "semantic_sha256")
    if rebuilt.line != given_text:
        raise LedgerRefusal("unknown-field", "holds unknown members or values that are not in normal form")
    return rebuilt


def parse_event_line(line: str) -> Event:
    """The event of one line, without its line feed: unique keys, every rule, exactly the canonical text."""
    return _quick.read(line) or parse_event_line_in_full(line)


def parse_event_line_in_full(line: str) -> Event:
    """`parse_event_line` without the quick answer; tests compare the two."""
    scan_json(line)
    event = validate_record(parse_json(line))
    if event.line != line:
        raise LedgerRefusal("not-canonical", "is not the canonical text of its event")
    return event


def parse_event_file(content: str) -> Event:
    """The event of a spool file's whole content: one line and its line feed."""
    line = content[:-1]
    if not content.endswith("\n") or not line or "\n" in line or line.endswith("\r"):
        raise LedgerRefusal("framing", "must be one line, ended by a line feed alone")
    return parse_event_line(line)


def parse_shard_text(content: str) -> list[Event]:
    """The events of a shard's content, in its order; empty content is no events. Refusals name the line."""
    if content == "":
        return []
    if not content.endswith("\n"):
        raise LedgerRefusal("framing", "must end with a line feed")
    events = []
    for number, line in enumerate(content[:-1].split("\n"), 1):
        if not line or line.endswith("\r"):
            raise LedgerRefusal("framing", "must be an event, ended by a line feed alone", f"line {number}")
        try:
            events.append(parse_event_line(line))
        except LedgerRefusal as refusal:
            raise refusal.at(f"line {number}") from None
    return events
