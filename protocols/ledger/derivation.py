"""From what a writer knows to the input of an event: every identity derived (spec action-ledger 2, 7).

Raw identity trees are hashed and never stored. The recorder of a workflow run and the objects of the state plane
both come through here, so that the same facts give the same ids.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from .canonical import Json
from .identity import attempt_id, event_key, idempotency_key, operation_id
from .refusals import LedgerRefusal
from .vocabulary import PHASE_TYPES, REASONS, STATUSES

UNSET: Final[Any] = type("Unset", (), {"__repr__": lambda self: "UNSET"})()
"""An identity that was not given: null is one."""


def derived_input(
    *,
    producer: Mapping[str, Any],
    scope: str,
    identity: Json,
    type: str,
    subject: Mapping[str, Any],
    action: Mapping[str, Any],
    operation: str | None = None,
    operation_identity: Json = UNSET,
    attempt_identity: Json = UNSET,
    parent_event_id: str | None = None,
    phase_seq: int = 1,
    idempotency_identity: Json = UNSET,
    learning: Mapping[str, Any] | None = None,
    evidence: Sequence[Mapping[str, Any]] | None = None,
    attributes: Mapping[str, Any] | None = None,
    privacy: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """camelCase input for `events.build_event`. `producer`, `subject`, `action` … have their camelCase members.

    Raises LedgerRefusal: type for a `subject` or an `action` that is no object, missing-idempotency for a mutation
    that names no outside effect, and what `canonical.check` raises for an identity.
    """
    for name, given in (("subject", subject), ("action", action)):
        if not isinstance(given, Mapping):
            raise LedgerRefusal("type", "must be an object", name)
    if action.get("mutation") is True and idempotency_identity is UNSET:
        raise LedgerRefusal("missing-idempotency", "a mutation names its outside effect", "idempotency_identity")
    operation = scope.split(".", 1)[0] if operation is None else operation
    operation_identity = subject if operation_identity is UNSET else operation_identity
    if attempt_identity is UNSET:
        attempt_identity = {name: producer[name] for name in ("repository", "workflow", "runId", "runAttempt")}
    operation_digest = operation_id(subject.get("repository"), operation, operation_identity)
    attempt_digest = attempt_id(operation_digest, attempt_identity)
    key = event_key(
        scope,
        {
            "attemptId": attempt_digest,
            "phaseSeq": phase_seq,
            "producer": {"job": producer["job"], "component": producer["component"]},
            "identity": identity,
        },
    )
    if idempotency_identity is UNSET:
        idempotency_identity = {"operationId": operation_digest, "scope": scope, "identity": identity}
    return {
        "eventKey": key,
        "operationId": operation_digest,
        "attemptId": attempt_digest,
        "parentEventId": parent_event_id,
        "phaseSeq": phase_seq,
        "idempotencyKeySha256": idempotency_key(idempotency_identity),
        "type": type,
        "producer": producer,
        "subject": subject,
        "action": action,
        "learning": learning,
        "evidence": evidence,
        "attributes": attributes,
        "privacy": privacy,
    }


def phase_transition(
    phase: str, status: str, identity: Json, *, retryable: bool, mutation: bool, reason_code: str | None = None
) -> dict[str, Any]:
    """`scope`, `type`, `identity` and `action` of a transition of a phase, for `derived_input`.

    Raises phase-type, phase-status, phase-reason for words outside the vocabulary.
    """
    if phase not in PHASE_TYPES:
        raise LedgerRefusal("phase-type", f"{phase!r} is no phase; see vocabulary.Phase", "phase")
    if status not in STATUSES:
        raise LedgerRefusal("phase-status", f"{status!r} is no status; see vocabulary.Status", "status")
    # members of an enumeration count as their values
    phase, status = str(phase), str(status)
    inner: dict[str, Any] = {"phase": phase, "status": status, "identity": identity}
    action: dict[str, Any] = {"name": phase, "status": status, "retryable": retryable, "mutation": mutation}
    if reason_code is not None:
        if reason_code not in REASONS:
            raise LedgerRefusal("phase-reason", f"{reason_code!r} is no reason; see vocabulary.Reason", "reason_code")
        inner["reasonCode"] = action["reasonCode"] = str(reason_code)
    return {"scope": phase, "type": phase, "identity": inner, "action": action}
