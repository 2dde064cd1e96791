"""The event record: built from caller input, with its digests and its replay text (spec action-ledger 3, 4)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from .assembly import PARTS, line_text, part_text, replay_from_line, semantic_preimage
from .canonical import check, sha256_text
from .identity import event_id
from .numbers import integer
from .parts import (
    action_input,
    action_record,
    attribute_records,
    evidence_input,
    evidence_records,
    learning_input,
    learning_record,
    privacy_input,
    privacy_record,
    producer_input,
    producer_record,
    subject_input,
    subject_record,
)
from .refusals import LedgerRefusal
from .text import digest_text, event_key_text, machine_text
from .timestamps import timestamp_text

SCHEMA: Final = "clawsweeper.state-ledger-event.v1"
SCHEMA_VERSION: Final = 1

# No record of this length can meet a limit of spec 1.2: its members and arrays are bounded by their own rules.
_SURELY_WITHIN_LIMITS: Final = 262_144
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_DEFAULT_PRIVACY: Final = {"classification": "internal", "redactionVersion": "v1", "fieldsDropped": []}


@dataclass(frozen=True, slots=True)
class Event:
    """One event in normal form. `line` is its canonical text, the rest is in it; made by `Event.of_record` or read.

    `parent` is the event id of the causal parent, None for a root event; `producer` the stored producer object.
    """

    line: str
    event_id: str
    parent: str | None = field(compare=False)
    occurred_at: str = field(compare=False, repr=False)
    is_source_time: bool = field(compare=False, repr=False)
    producer: dict[str, Any] = field(compare=False, repr=False)
    # What is made from the line on demand: the record, the replay text.
    _made: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of_record(cls, record: dict[str, Any], line: str) -> "Event":
        """The event of a record in normal form and its canonical text."""
        event = cls(
            line,
            record["event_id"],
            record["parent_event_id"],
            record["occurred_at"],
            record["occurred_at_source"] == "source",
            record["producer"],
        )
        event._made["record"] = record
        return event

    @property
    def record(self) -> dict[str, Any]:
        """The wire object; not to be changed."""
        record: dict[str, Any] | None = self._made.get("record")
        if record is None:
            record = self._made["record"] = _decode(self.line)
        return record

    @property
    def replay_text(self) -> str:
        """What two writers of the same event agree on: the record without the writer's clocks (spec 4)."""
        text: str | None = self._made.get("replay")
        if text is None:
            text = self._made["replay"] = replay_from_line(self.record, self.line)
        return text


def build_event(given: Mapping[str, Any], *, recorded_at: str, generated_at: str | None = None) -> Event:
    """The event that camelCase input describes. Unknown members are ignored.

    `recorded_at` is the writer's clock (`timestamps.millisecond_text`). Without `occurredAt` the event has generated
    time: `generated_at`, or else `recorded_at`. Raises LedgerRefusal with the field and what would be right.
    """
    key = event_key_text(given.get("eventKey"), "eventKey")
    producer = producer_record(given.get("producer"))
    subject = subject_record(given.get("subject"))
    identifier = event_id(subject["repository"], key)
    parent = given.get("parentEventId")
    if parent is not None:
        parent = digest_text(parent, "parentEventId")
        if parent == identifier:
            raise LedgerRefusal("self-parent", "an event is not its own parent", "parentEventId")
    recorded = timestamp_text(recorded_at, "recorded_at")
    if "occurredAt" in given:
        occurred, source = timestamp_text(given["occurredAt"], "occurredAt"), "source"
    else:
        occurred = recorded if generated_at is None else timestamp_text(generated_at, "generated_at")
        source = "generated"
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "event_id": identifier,
        "event_key": key,
        "operation_id": digest_text(given.get("operationId"), "operationId"),
        "attempt_id": digest_text(given.get("attemptId"), "attemptId"),
        "parent_event_id": parent,
        "phase_seq": integer(given.get("phaseSeq"), 1, "phaseSeq"),
        "idempotency_key_sha256": digest_text(given.get("idempotencyKeySha256"), "idempotencyKeySha256"),
        "occurred_at": occurred,
        "occurred_at_source": source,
        "recorded_at": recorded,
        "event_type": machine_text(given.get("type"), "type"),
        "producer": producer,
        "subject": subject,
        "action": action_record(given.get("action")),
    }
    if given.get("learning") is not None:
        record["learning"] = learning_record(given["learning"])
    if given.get("evidence") is not None and given["evidence"] not in ([], ()):
        record["evidence"] = evidence_records(given["evidence"])
    if given.get("attributes") is not None:
        record["attributes"] = attribute_records(given["attributes"])
    privacy = given.get("privacy")
    record["privacy"] = privacy_record(_DEFAULT_PRIVACY if privacy is None else privacy)
    return finish_event(record)


def finish_event(record: dict[str, Any]) -> Event:
    """The event of a record in normal form: its semantic digest, its line. Raises the limits of spec 1.2."""
    texts: dict[str, str] = {name: part_text(record[name]) for name in PARTS if name in record}
    record["semantic_sha256"] = sha256_text(semantic_preimage(record, texts))
    line = line_text(record, texts)
    if len(line) > _SURELY_WITHIN_LIMITS:
        check(record)
    return Event.of_record(record, line)


def event_input(record: Mapping[str, Any]) -> dict[str, Any]:
    """The camelCase input that would build `record` again. Its occurrence is left to the caller."""
    given: dict[str, Any] = {
        "eventKey": record["event_key"],
        "operationId": record["operation_id"],
        "attemptId": record["attempt_id"],
        "parentEventId": record["parent_event_id"],
        "phaseSeq": record["phase_seq"],
        "idempotencyKeySha256": record["idempotency_key_sha256"],
        "type": record["event_type"],
        "producer": producer_input(record["producer"]),
        "subject": subject_input(record["subject"]),
        "action": action_input(record["action"]),
        "privacy": privacy_input(record["privacy"]),
    }
    if record.get("learning") is not None:
        given["learning"] = learning_input(record["learning"])
    if record.get("evidence") is not None:
        given["evidence"] = evidence_input(record["evidence"])
    if record.get("attributes") is not None:
        given["attributes"] = record["attributes"]
    return given
