"""Shapes of what callers give when they record an event: the camelCase members of spec action-ledger 3."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict


class Subject(TypedDict):
    """What an event is about. `kind` is a `vocabulary.SubjectKind` or its value."""

    repository: str
    kind: str
    number: NotRequired[int]
    subjectId: NotRequired[str]
    clusterId: NotRequired[str]
    sourceRevision: NotRequired[str]
    recordPath: NotRequired[str]


class Action(TypedDict):
    """What was done and how it went. A `mutation` changed, or may have changed, something outside."""

    name: str
    status: str
    retryable: bool
    mutation: bool
    reasonCode: NotRequired[str]


class Learning(TypedDict):
    """What may be learned from it. `confidence` is from 0 to 1."""

    category: str
    signal: str
    ruleId: NotRequired[str]
    confidence: NotRequired[float]


class Evidence(TypedDict):
    """One thing that an event rests on. `sha256` is 64 hex digits, `runUrl` a public workflow run."""

    kind: str
    sha256: NotRequired[str]
    reportPath: NotRequired[str]
    runUrl: NotRequired[str]
    snapshotId: NotRequired[str]


class Privacy(TypedDict):
    """How far an event may be shown, and which fields were left out of it."""

    classification: Literal["public", "internal"]
    redactionVersion: str
    fieldsDropped: list[str]


class ReceiptOptions(TypedDict, total=False):
    """What may be given beside the essentials of a write. Identities are JSON trees; times are source timestamps."""

    operation: str
    operation_identity: Any
    attempt_identity: Any
    parent_event_id: str | None
    phase_seq: int
    learning: Learning | Mapping[str, Any]
    evidence: Sequence[Evidence | Mapping[str, Any]]
    attributes: Mapping[str, Any]
    privacy: Privacy | Mapping[str, Any]
    occurred_at: str


class EventOptions(ReceiptOptions, total=False):
    """What may be given beside the essentials of an event."""

    idempotency_identity: Any
