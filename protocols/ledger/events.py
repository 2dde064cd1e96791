"""The event record: built from caller input, with its digests, and its replay text (spec action-ledger 3, 4)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from .canonical import Json, canonical_text, check, sha256_text
from .identity import event_id
from .numbers import boolean, integer, unit_interval
from .paths import data_path
from .refusals import LedgerRefusal
from .text import digest_text, event_key_text, machine_text, repository_text
from .timestamps import timestamp_text
from .urls import run_url
from .vocabulary import ATTRIBUTES, CLASSIFICATIONS, SUBJECT_KINDS, AttributeKind
from .whitespace import trim

SCHEMA: Final = "clawsweeper.state-ledger-event.v1"
SCHEMA_VERSION: Final = 1
MAX_COLLECTION: Final = 64

# Outside the semantic part: names of the record itself and its clocks.
_ENVELOPE = frozenset(
    {
        "schema",
        "schema_version",
        "event_id",
        "event_key",
        "semantic_sha256",
        "occurred_at",
        "occurred_at_source",
        "recorded_at",
    }
)
_DEFAULT_PRIVACY: Final = {"classification": "internal", "redactionVersion": "v1", "fieldsDropped": []}


@dataclass(frozen=True, slots=True)
class Event:
    """One event in normal form. `record` is the wire object (not to be changed), `line` its canonical text."""

    record: dict[str, Any]
    line: str
    _replay: list[str] = field(default_factory=list, repr=False, compare=False)

    @property
    def event_id(self) -> str:
        """Digest of repository and key."""
        return str(self.record["event_id"])

    @property
    def parent(self) -> str | None:
        """Event id of the causal parent; None for a root event."""
        parent: str | None = self.record["parent_event_id"]
        return parent

    @property
    def producer(self) -> dict[str, Any]:
        """The producer object of the record."""
        producer: dict[str, Any] = self.record["producer"]
        return producer

    @property
    def is_source_time(self) -> bool:
        """Whether `occurred_at` was supplied by the caller."""
        return bool(self.record["occurred_at_source"] == "source")

    @property
    def replay_text(self) -> str:
        """What two writers of the same event agree on: the record without the writer's clocks (spec 4)."""
        if not self._replay:
            self._replay.append(replay_text(self.record))
        return self._replay[0]


def replay_text(record: Mapping[str, Any]) -> str:
    """Canonical text without `recorded_at`, and without a generated `occurred_at`."""
    dropped = {"recorded_at"} if record["occurred_at_source"] == "source" else {"recorded_at", "occurred_at"}
    return canonical_text({name: value for name, value in record.items() if name not in dropped})


def semantic_digest(record: Mapping[str, Any]) -> str:
    """Digest that binds everything an event says, its source time included (spec 4)."""
    source = record["occurred_at_source"]
    occurrence = {"occurred_at_source": source}
    if source == "source":
        occurrence["occurred_at"] = record["occurred_at"]
    semantic = {name: value for name, value in record.items() if name not in _ENVELOPE}
    return sha256_text(canonical_text({"occurrence": occurrence, "semantic": semantic}))


def _object(value: object, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise LedgerRefusal("type", "must be an object", where)
    return value


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise LedgerRefusal("type", "must be an array", where)
    return list(value)


def _machine_members(
    source: Mapping[str, Any], target: dict[str, Any], prefix: str, names: Mapping[str, str]
) -> None:
    """Copies optional machine texts; null and the empty string count as absent."""
    for given, stored in names.items():
        value = source.get(given)
        if value is not None and value != "":
            target[stored] = machine_text(value, f"{prefix}.{given}")


def producer_record(given: object) -> dict[str, Any]:
    """The stored producer object of camelCase input."""
    source = _object(given, "producer")
    return {
        "repository": repository_text(source.get("repository"), "producer.repository"),
        "sha": machine_text(source.get("sha"), "producer.sha"),
        "workflow": machine_text(source.get("workflow"), "producer.workflow", 128),
        "job": machine_text(source.get("job"), "producer.job", 128),
        "run_id": machine_text(source.get("runId"), "producer.runId"),
        "run_attempt": integer(source.get("runAttempt"), 1, "producer.runAttempt"),
        "component": machine_text(source.get("component"), "producer.component"),
    }


def subject_record(given: object) -> dict[str, Any]:
    """The stored subject object of camelCase input; empty optional texts count as absent."""
    source = _object(given, "subject")
    kind = source.get("kind")
    if not isinstance(kind, str) or kind not in SUBJECT_KINDS:
        raise LedgerRefusal("subject-kind", f"must be one of {', '.join(sorted(SUBJECT_KINDS))}", "subject.kind")
    record: dict[str, Any] = {
        "repository": repository_text(source.get("repository"), "subject.repository"),
        "kind": str(kind),
    }
    _machine_members(
        source,
        record,
        "subject",
        {"subjectId": "subject_id", "clusterId": "cluster_id", "sourceRevision": "source_revision"},
    )
    if "number" in source:
        record["number"] = integer(source["number"], 1, "subject.number")
    path = source.get("recordPath")
    if path is not None and path != "":
        record["record_path"] = data_path(path, "subject.recordPath")
    return record


def action_record(given: object) -> dict[str, Any]:
    """The stored action object of camelCase input."""
    source = _object(given, "action")
    record: dict[str, Any] = {
        "name": machine_text(source.get("name"), "action.name"),
        "status": machine_text(source.get("status"), "action.status"),
        "retryable": boolean(source.get("retryable"), "action.retryable"),
        "mutation": boolean(source.get("mutation"), "action.mutation"),
    }
    _machine_members(source, record, "action", {"reasonCode": "reason_code"})
    return record


def _learning_record(given: object) -> dict[str, Any]:
    source = _object(given, "learning")
    record: dict[str, Any] = {
        "category": machine_text(source.get("category"), "learning.category"),
        "signal": machine_text(source.get("signal"), "learning.signal"),
    }
    _machine_members(source, record, "learning", {"ruleId": "rule_id"})
    if "confidence" in source:
        record["confidence"] = unit_interval(source["confidence"], "learning.confidence")
    return record


def _evidence_record(given: object, where: str) -> dict[str, Any]:
    source = _object(given, where)
    record: dict[str, Any] = {"kind": machine_text(source.get("kind"), f"{where}.kind")}
    if "sha256" in source:
        record["sha256"] = digest_text(source["sha256"], f"{where}.sha256")
    if "reportPath" in source:
        record["report_path"] = data_path(source["reportPath"], f"{where}.reportPath")
    if "runUrl" in source:
        record["run_url"] = run_url(source["runUrl"], f"{where}.runUrl")
    if "snapshotId" in source:
        record["snapshot_id"] = machine_text(source["snapshotId"], f"{where}.snapshotId")
    return record


def _evidence_records(given: object) -> list[dict[str, Any]]:
    entries = _list(given, "evidence")
    if len(entries) > MAX_COLLECTION:
        raise LedgerRefusal("collection-size", f"at most {MAX_COLLECTION} entries", "evidence")
    records = [_evidence_record(entry, f"evidence[{index}]") for index, entry in enumerate(entries)]
    # The texts are ASCII by their forms, so text order is byte order.
    return sorted(records, key=canonical_text) if len(records) > 1 else records


def _attribute_scalar(kind: AttributeKind, value: object, where: str) -> Json:
    match kind:
        case AttributeKind.positive_integer:
            return integer(value, 1, where)
        case AttributeKind.non_negative_integer:
            return integer(value, 0, where)
        case AttributeKind.boolean:
            return boolean(value, where)
        case AttributeKind.unit_interval:
            return unit_interval(value, where)
        case AttributeKind.machine_text:
            return machine_text(value, where)


def attribute_records(given: object) -> dict[str, Any]:
    """The stored attributes: allowlisted names, values of the kind that the name has."""
    record: dict[str, Any] = {}
    for given_name, value in _object(given, "attributes").items():
        name = trim(given_name) if isinstance(given_name, str) else ""
        kind = ATTRIBUTES.get(name)
        where = f"attributes.{name}"
        if kind is None:
            raise LedgerRefusal("attribute-key", "is not on the allowlist of attributes", where)
        if isinstance(value, list | tuple):
            if len(value) > MAX_COLLECTION:
                raise LedgerRefusal("collection-size", f"at most {MAX_COLLECTION} values", where)
            record[name] = [_attribute_scalar(kind, item, f"{where}[{at}]") for at, item in enumerate(value)]
        else:
            record[name] = _attribute_scalar(kind, value, where)
    return record


def _privacy_record(given: object) -> dict[str, Any]:
    source = _object(given, "privacy")
    classification = source.get("classification")
    if not isinstance(classification, str) or classification not in CLASSIFICATIONS:
        raise LedgerRefusal("classification", "must be public or internal", "privacy.classification")
    dropped = _list(source.get("fieldsDropped"), "privacy.fieldsDropped")
    if len(dropped) > MAX_COLLECTION:
        raise LedgerRefusal("collection-size", f"at most {MAX_COLLECTION} fields", "privacy.fieldsDropped")
    return {
        "classification": str(classification),
        "redaction_version": machine_text(source.get("redactionVersion"), "privacy.redactionVersion"),
        "fields_dropped": sorted({machine_text(name, "privacy.fieldsDropped") for name in dropped}),
    }


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
        record["learning"] = _learning_record(given["learning"])
    if given.get("evidence") is not None and given["evidence"] != []:
        record["evidence"] = _evidence_records(given["evidence"])
    if given.get("attributes") is not None:
        record["attributes"] = attribute_records(given["attributes"])
    privacy = given.get("privacy")
    record["privacy"] = _privacy_record(_DEFAULT_PRIVACY if privacy is None else privacy)
    record["semantic_sha256"] = semantic_digest(record)
    return Event(record, canonical_text(record))


_CAMEL_PRODUCER = {"run_id": "runId", "run_attempt": "runAttempt"}
_CAMEL_SUBJECT = {
    "subject_id": "subjectId",
    "cluster_id": "clusterId",
    "source_revision": "sourceRevision",
    "record_path": "recordPath",
}
_CAMEL_EVIDENCE = {"report_path": "reportPath", "run_url": "runUrl", "snapshot_id": "snapshotId"}
_CAMEL_PRIVACY = {"redaction_version": "redactionVersion", "fields_dropped": "fieldsDropped"}


def _camel(record: object, names: Mapping[str, str], where: str) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in _object(record, where).items()}


def producer_input(record: Mapping[str, Any]) -> dict[str, Any]:
    """camelCase input of a stored producer."""
    return _camel(record, _CAMEL_PRODUCER, "producer")


def subject_input(record: Mapping[str, Any]) -> dict[str, Any]:
    """camelCase input of a stored subject."""
    return _camel(record, _CAMEL_SUBJECT, "subject")


def evidence_input(records: list[Any]) -> list[dict[str, Any]]:
    """camelCase input of stored evidence."""
    return [_camel(entry, _CAMEL_EVIDENCE, f"evidence[{at}]") for at, entry in enumerate(records)]


def privacy_input(record: Mapping[str, Any]) -> dict[str, Any]:
    """camelCase input of stored privacy."""
    return _camel(record, _CAMEL_PRIVACY, "privacy")


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
        "action": _camel(record["action"], {"reason_code": "reasonCode"}, "action"),
        "privacy": privacy_input(record["privacy"]),
    }
    if record.get("learning") is not None:
        given["learning"] = _camel(record["learning"], {"rule_id": "ruleId"}, "learning")
    if record.get("evidence") is not None:
        given["evidence"] = evidence_input(_list(record["evidence"], "evidence"))
    if record.get("attributes") is not None:
        given["attributes"] = record["attributes"]
    return given


def check_record_limits(record: Json) -> None:
    """The limits of spec 1.2 on a whole record."""
    check(record)
