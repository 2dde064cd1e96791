"""Events for tests of the ledger's rules, and strategies that make them."""

from typing import Any

from hypothesis import strategies as st

from moorage.protocols.ledger.events import Event, build_event
from moorage.protocols.ledger.identity import attempt_id, event_key, idempotency_key, operation_id
from moorage.protocols.ledger.vocabulary import PHASE_TYPES, STATUSES

NOW = "2026-07-12T10:00:00.000Z"
PRODUCER = {
    "repository": "openclaw/clawsweeper",
    "sha": "0123456789abcdef0123456789abcdef01234567",
    "workflow": "sweep.yml",
    "job": "review",
    "runId": "100",
    "runAttempt": 1,
    "component": "review_lane.run_review.default",
}
IDENTITY = {
    "repository": "openclaw/clawsweeper",
    "sha": PRODUCER["sha"],
    "producer": PRODUCER["component"],
    "workflow": "sweep.yml",
    "job": "review",
    "runId": "100",
    "runAttempt": 1,
    "partitionDate": "2026-07-12",
}


def given_event(index: int = 1, **changes: Any) -> dict[str, Any]:
    """camelCase input of the `index`-th event of one operation."""
    operation = operation_id("openclaw/openclaw", "review", {"number": 42})
    return {
        "eventKey": event_key("review.item", {"index": index}),
        "operationId": operation,
        "attemptId": attempt_id(operation, {"attempt": 1}),
        "parentEventId": None,
        "phaseSeq": index,
        "idempotencyKeySha256": idempotency_key({"index": index}),
        "type": "review.item",
        "producer": PRODUCER,
        "subject": {"repository": "openclaw/openclaw", "kind": "issue", "number": 42},
        "action": {"name": "review.item", "status": "completed", "retryable": False, "mutation": False},
        **changes,
    }


def an_event(index: int = 1, *, now: str = NOW, **changes: Any) -> Event:
    """The event of `given_event`."""
    return build_event(given_event(index, **changes), recorded_at=now)


def an_action(status: str = "completed", *, mutation: bool = False, **more: Any) -> dict[str, Any]:
    """An action's input."""
    return {"name": "step", "status": status, "retryable": False, "mutation": mutation, **more}


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: not x.is_integer() or 0 < abs(x) < 2**53)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=30,
)

machine_texts = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.:/@+\-]{0,40}", fullmatch=True)


@st.composite
def event_sets(draw: st.DrawFn) -> list[Event]:
    """Up to 25 unique events of one producer, with parents among the earlier ones and both kinds of time."""
    made: list[Event] = []
    for index in range(1, draw(st.integers(1, 25)) + 1):
        changes: dict[str, Any] = {
            "type": draw(st.sampled_from(sorted(PHASE_TYPES))),
            "action": an_action(draw(st.sampled_from(sorted(STATUSES))), mutation=draw(st.booleans())),
        }
        has_parent: bool = draw(st.booleans())
        if made and has_parent:
            changes["parentEventId"] = draw(st.sampled_from(made)).event_id
        if draw(st.booleans()):
            second = draw(st.integers(0, 3))
            changes["occurredAt"] = (
                f"2026-07-12T10:00:0{second}{draw(st.sampled_from(['', '.5', '.50', '.123456789']))}Z"
            )
        if draw(st.booleans()):
            changes["attributes"] = {"duration_ms": draw(st.integers(0, 2**53 - 1)), "model": "m"}
        made.append(an_event(index, **changes))
    return made
