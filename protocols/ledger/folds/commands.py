"""Current state of each command, and what its writes came to."""

from collections.abc import Iterable
from typing import Any

from ..events import Event
from .chronology import is_terminal, subject_name, summary, unique

_OUTCOMES = {
    "mutation_attempted": "open",
    "mutation_accepted": "accepted",
    "mutation_rejected": "rejected",
    "mutation_outcome_unknown": "unknown",
    "dispatch_attempted": "open",
    "dispatch_accepted": "accepted",
    "dispatch_rejected": "rejected",
    "dispatch_outcome_unknown": "unknown",
}


def command_states(events: Iterable[Event]) -> dict[str, Any]:
    """By operation id: the last transition, whether it is finished, its attempts, and each write's outcome.

    `mutated` is true unless every write is known to have been rejected: what may have happened counts.
    """
    states: dict[str, Any] = {}
    unreceipted: set[str] = set()
    for event in unique(events, ("command.",)):
        record = event.record
        operation = record["operation_id"]
        state = states.setdefault(
            operation,
            {
                "subject": subject_name(record["subject"]),
                "attempts": [],
                "writes": {},
                "last": None,
                "finished": False,
                "retryable": False,
            },
        )
        if record["attempt_id"] not in state["attempts"]:
            state["attempts"].append(record["attempt_id"])
        outcome = _OUTCOMES.get(str(record.get("attributes", {}).get("completion_reason")))
        if outcome is not None:
            state["writes"][record["idempotency_key_sha256"]] = outcome
        elif record["action"]["mutation"]:
            unreceipted.add(operation)
        if record["event_type"] != "command.mutation":
            state["last"] = summary(event)
            state["finished"] = is_terminal(record["action"]["status"])
            state["retryable"] = record["action"]["retryable"]
    for operation, state in states.items():
        written = any(outcome != "rejected" for outcome in state["writes"].values())
        state["mutated"] = written or operation in unreceipted
    return states
