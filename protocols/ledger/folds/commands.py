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

    `mutated` is true when a write was accepted, is open or of unknown outcome: what may have happened counts.
    """
    states: dict[str, Any] = {}
    for event in unique(events):
        record = event.record
        if not record["event_type"].startswith("command."):
            continue
        state = states.setdefault(
            record["operation_id"],
            {"subject": subject_name(record["subject"]), "attempts": [], "writes": {}, "mutated": False},
        )
        if record["attempt_id"] not in state["attempts"]:
            state["attempts"].append(record["attempt_id"])
        outcome = _OUTCOMES.get(str(record.get("attributes", {}).get("completion_reason")))
        if outcome is not None:
            state["writes"][record["idempotency_key_sha256"]] = outcome
        if record["event_type"] != "command.mutation":
            state["last"] = summary(event)
            state["finished"] = is_terminal(record["action"]["status"])
            state["retryable"] = record["action"]["retryable"]
        state["mutated"] = state["mutated"] or (record["action"]["mutation"] and outcome not in ("rejected",))
    for state in states.values():
        state["mutated"] = any(outcome != "rejected" for outcome in state["writes"].values()) or (
            not state["writes"] and state["mutated"]
        )
        state.setdefault("last", None)
        state.setdefault("finished", False)
        state.setdefault("retryable", False)
    return states
