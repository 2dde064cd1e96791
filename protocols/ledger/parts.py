"""The parts of an event: each built from camelCase input, and rebuilt from its stored form (spec action-ledger 3)."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from .canonical import Json, canonical_text
from .numbers import boolean, integer, unit_interval
from .paths import data_path
from .refusals import LedgerRefusal
from .text import digest_text, machine_text, repository_text
from .urls import run_url
from .vocabulary import ATTRIBUTES, CLASSIFICATIONS, SUBJECT_KINDS, AttributeKind
from .whitespace import trim

MAX_COLLECTION: Final = 64


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


def learning_record(given: object) -> dict[str, Any]:
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


def evidence_records(given: object) -> list[dict[str, Any]]:
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


def privacy_record(given: object) -> dict[str, Any]:
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


def evidence_input(records: object) -> list[dict[str, Any]]:
    """camelCase input of stored evidence."""
    entries = _list(records, "evidence")
    return [_camel(entry, _CAMEL_EVIDENCE, f"evidence[{at}]") for at, entry in enumerate(entries)]


def privacy_input(record: Mapping[str, Any]) -> dict[str, Any]:
    """camelCase input of stored privacy."""
    return _camel(record, _CAMEL_PRIVACY, "privacy")


def learning_input(record: Mapping[str, Any]) -> dict[str, Any]:
    return _camel(record, {"rule_id": "ruleId"}, "learning")


def action_input(record: Mapping[str, Any]) -> dict[str, Any]:
    return _camel(record, {"reason_code": "reasonCode"}, "action")


def _stored_evidence(stored: Any) -> list[dict[str, Any]]:
    if stored == []:
        raise LedgerRefusal("collection-size", "an event without evidence has no such member", "evidence")
    return evidence_records(evidence_input(stored))


# The rule that rebuilds each part of a record from its stored form.
REBUILD: Final[Mapping[str, Callable[[Any], Any]]] = {
    "producer": lambda stored: producer_record(producer_input(stored)),
    "subject": lambda stored: subject_record(subject_input(stored)),
    "action": lambda stored: action_record(action_input(stored)),
    "learning": lambda stored: learning_record(learning_input(stored)),
    "evidence": _stored_evidence,
    "attributes": attribute_records,
    "privacy": lambda stored: privacy_record(privacy_input(stored)),
}
