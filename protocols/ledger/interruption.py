"""What a killed run left open, and the events that close it (spec action-ledger 14)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .canonical import canonical_text
from .events import Event
from .identity import event_key, idempotency_key
from .parts import evidence_input, privacy_input, producer_input, subject_input
from .refusals import LedgerRefusal

REASONS: Final = ("timeout", "cancelled", "workflow_failed")
SCOPE: Final = "workflow.interrupted"
AGGREGATE_ORDINAL: Final = 1_000_000

_RECOVERABLE = frozenset({"review.batch", "review.item", "review.retry", "apply.batch", "apply.action"})
_ATTEMPTED = frozenset({"mutation_attempted", "dispatch_attempted"})
_OUTCOMES = frozenset({"mutation_accepted", "mutation_rejected", "mutation_outcome_unknown"})
_UNKNOWN = frozenset({"mutation_outcome_unknown", "dispatch_outcome_unknown"})
# What a subject is, its revision and record aside.
_SUBJECT_IDENTITY = ("repository", "kind", "subjectId", "number", "clusterId")


def _type(event: Event) -> str:
    return str(event.record["event_type"])


def _status(event: Event) -> str:
    return str(event.record["action"]["status"])


def _completion(event: Event) -> object:
    return event.record.get("attributes", {}).get("completion_reason")


def _seq(event: Event) -> tuple[int, str]:
    return event.record["phase_seq"], event.event_id


def _is_start(event: Event) -> bool:
    return _status(event) == "started" and _type(event) in _RECOVERABLE


def _is_uncertain(event: Event) -> bool:
    return _status(event) == "started" and _in(_completion(event), _ATTEMPTED)


def _in(value: object, values: frozenset[str]) -> bool:
    return isinstance(value, str) and value in values


def _is_aggregate(event: Event) -> bool:
    kind = _type(event)
    return kind in ("review.batch", "apply.batch") or (
        kind == "review.retry" and event.record["subject"]["kind"] == "workflow"
    )


def _subject(event: Event) -> str:
    subject = subject_input(event.record["subject"])
    return canonical_text({name: subject[name] for name in _SUBJECT_IDENTITY if name in subject})


def _attempt(event: Event) -> tuple[str, str]:
    return event.record["operation_id"], event.record["attempt_id"]


def _lifecycle(event: Event) -> tuple[str, str, str, str]:
    return *_attempt(event), _type(event), _subject(event)


def _closes(event: Event, start: Event) -> bool:
    if event.record["phase_seq"] <= start.record["phase_seq"] or _status(event) == "started":
        return False
    same_key = event.record["idempotency_key_sha256"] == start.record["idempotency_key_sha256"]
    if _is_uncertain(start):
        return event.parent == start.event_id and same_key
    if _type(start) in ("apply.action", "review.item") and _in(_completion(event), _OUTCOMES) and not same_key:
        return False
    return not (_type(event) == "apply.action" and _status(event) == "executed")


@dataclass(frozen=True, slots=True)
class Closing:
    """One event to record: camelCase input without occurrence, for the start it closes."""

    start: Event
    given: Mapping[str, Any]


class OpenAttempts:
    """The events of one producer while its open starts are being closed.

    `starts` gives them in the order of spec 14; `closing` answers for one of them, or None when it is closed by now;
    `add` makes a written event count for the later ones.
    """

    def __init__(self, events: Iterable[Event], reason: str) -> None:
        if reason not in REASONS:
            raise LedgerRefusal("interrupt-reason", f"must be one of {', '.join(REASONS)}", "reason")
        self._reason = reason
        self._events = list(events)

    def starts(self) -> list[Event]:
        """Recoverable starts: uncertain ones first, aggregates last; then by phase ordinal and id."""
        starts = [event for event in self._events if _is_start(event)]
        return sorted(
            starts, key=lambda event: (0 if _is_uncertain(event) else 2 if _is_aggregate(event) else 1, *_seq(event))
        )

    def add(self, event: Event) -> None:
        """Counts an event that was just written."""
        self._events.append(event)

    def _of_attempt(self, start: Event) -> list[Event]:
        key = _attempt(start)
        return sorted((event for event in self._events if _attempt(event) == key), key=_seq)

    def _is_closed(self, start: Event, attempt: Sequence[Event]) -> bool:
        key = _lifecycle(start)
        return any(_closes(event, start) for event in attempt if _lifecycle(event) == key)

    def closing(self, start: Event) -> Closing | None:
        """The event that closes `start`, or None when something already does."""
        attempt = self._of_attempt(start)
        if self._is_closed(start, attempt):
            return None
        aggregate, subject, key = _is_aggregate(start), _subject(start), _lifecycle(start)
        receipts = [
            event
            for event in attempt
            if event.event_id != start.event_id
            and _is_uncertain(event)
            and (aggregate or _subject(event) == subject)
            and not self._is_closed(event, attempt)
        ]
        lifecycle = [event for event in attempt if _lifecycle(event) == key and event.event_id != start.event_id]
        relevant = [event for event in (attempt if aggregate else lifecycle) if event.record["action"]["mutation"]]
        unknown = next((event for event in reversed(relevant) if _in(_completion(event), _UNKNOWN)), None)
        start_uncertain = _is_uncertain(start)
        uncertain = start_uncertain or bool(receipts) or unknown is not None
        occurred = start_uncertain or bool(relevant) or bool(receipts)
        parent = self._parent(start, receipts, unknown, lifecycle)
        return Closing(start, self._input(start, parent, attempt, uncertain=uncertain, occurred=occurred))

    @staticmethod
    def _parent(start: Event, receipts: Sequence[Event], unknown: Event | None, lifecycle: Sequence[Event]) -> Event:
        if _is_uncertain(start):
            return start
        if receipts:
            return receipts[-1]
        if unknown is not None:
            return unknown
        if _type(start) == "apply.action":
            mutation = next((event for event in reversed(lifecycle) if event.record["action"]["mutation"]), None)
            if mutation is not None:
                return mutation
        outcome = next((event for event in reversed(lifecycle) if _in(_completion(event), _OUTCOMES)), None)
        return outcome or start

    def _input(
        self, start: Event, parent: Event, attempt: Sequence[Event], *, uncertain: bool, occurred: bool
    ) -> dict[str, Any]:
        record, kind = start.record, _type(start)
        used = {event.record["phase_seq"] for event in attempt}
        seq = max(
            AGGREGATE_ORDINAL if _is_aggregate(start) else 0, record["phase_seq"] + 1, parent.record["phase_seq"] + 1
        )
        while seq in used:
            seq += 1
        subject = subject_input(record["subject"])
        if _is_uncertain(start) or kind == "apply.action":
            idempotency = record["idempotency_key_sha256"]
        else:
            idempotency = idempotency_key(
                {
                    "operationId": record["operation_id"],
                    "slot": "interrupted_terminal",
                    "eventType": kind,
                    "subject": {name: subject[name] for name in _SUBJECT_IDENTITY if name in subject},
                }
            )
        if uncertain:
            completion = "dispatch_outcome_unknown" if kind == "review.retry" else "mutation_outcome_unknown"
        else:
            completion = self._reason
        attributes: dict[str, Any] = {"completion_reason": completion, "failed_count": 1, "partial": True}
        if occurred:
            attributes["action_count"] = 1
        identity = {"startEventId": start.event_id, "reasonCode": self._reason, "mutationOccurred": occurred}
        given: dict[str, Any] = {
            "eventKey": event_key(SCOPE, identity),
            "operationId": record["operation_id"],
            "attemptId": record["attempt_id"],
            "parentEventId": parent.event_id,
            "phaseSeq": seq,
            "idempotencyKeySha256": idempotency,
            "type": kind,
            "producer": producer_input(record["producer"]),
            "subject": subject,
            "action": {
                "name": kind,
                "status": "cancelled" if self._reason == "cancelled" else "failed",
                "reasonCode": self._reason,
                "retryable": not uncertain,
                "mutation": occurred,
            },
            "attributes": attributes,
            "privacy": privacy_input(record["privacy"]),
        }
        if "evidence" in record:
            given["evidence"] = evidence_input(record["evidence"])
        return given
