"""Stage states and transitions as a table (spec session-manifest 6)."""

from enum import Enum
from typing import Final

from .errors import TransitionRefused


class Status(Enum):
    """The seven states."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"
    STALE = "stale"
    INTERRUPTED = "interrupted"


class Event(Enum):
    """What happens to a stage."""

    BEGIN = "an attempt begins"
    SUCCEED = "success"
    FAIL = "failure"
    SKIP = "self-skip"
    INTERRUPT = "cancellation that was handled"
    INVALIDATE = "invalidation"


TRANSITIONS: Final[dict[tuple[Event, Status | None], Status]] = {
    # None: the stage has no record
    **{(Event.BEGIN, status): Status.RUNNING for status in (None, *Status)},
    (Event.SUCCEED, Status.RUNNING): Status.SUCCEEDED,
    (Event.FAIL, Status.RUNNING): Status.FAILED,
    (Event.SKIP, Status.RUNNING): Status.SKIPPED,
    (Event.INTERRUPT, Status.RUNNING): Status.INTERRUPTED,
    (Event.INVALIDATE, Status.SUCCEEDED): Status.STALE,
}

TERMINAL: Final = frozenset({Status.SUCCEEDED, Status.FAILED, Status.SKIPPED, Status.INTERRUPTED})
"""How an attempt ends. Only another attempt leaves these, and invalidation leaves `succeeded`."""

COMPLETE: Final = frozenset({Status.SUCCEEDED, Status.SKIPPED})
"""What an excluded prefix may be (spec session-manifest 7)."""


def after(event: Event, status: Status | None, stage: str = "stage") -> Status:
    """The state after `event`. Raises TransitionRefused for what the table does not have."""
    found = TRANSITIONS.get((event, status))
    if found is None:
        raise TransitionRefused(
            f"{stage}: {event.value} is refused while it is {status.value if status else 'unknown'}"
        )
    return found
