"""The job state machine as one table, and the decisions that come out of it.

Source: spec job-lifecycle 4 and 5; seed 003, "Allowed transitions". The SQL of every transition is generated from
`TRANSITIONS` (see `sql.py`), so the guard in the statement and the rule here cannot drift apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Status(StrEnum):
    """Where a job is. The last three are terminal: no rule leads out of them."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ACTIVE = (Status.QUEUED, Status.RUNNING)
TERMINAL = (Status.COMPLETED, Status.FAILED, Status.CANCELLED)


class FailureReason(StrEnum):
    """Why a failed job failed. `timeout` is legal in stored rows; no rule produces it (spec 2)."""

    RUNNER_ERROR = "runner-error"
    REPORT_INVALID = "report-invalid"
    TIMEOUT = "timeout"
    ABANDONED = "abandoned"
    JOB_FILE_MISSING = "job-file-missing"
    USER_FAILED = "user-failed"


class Exit(IntEnum):
    """Exit codes of the command line (spec 5)."""

    DONE = 0
    NOTHING = 1
    REFUSED = 2
    DUPLICATE = 3
    NONCE = 4
    NOT_FOUND = 5


class Trigger(StrEnum):
    """What may move a job."""

    CLAIM = "claim"
    CONTENT_MISSING = "content-missing"
    CANCEL = "cancel"
    FAIL = "fail"
    RECORD_COMPLETED = "record-completed-valid"
    RECORD_INVALID = "record-completed-invalid"
    RECORD_FAILED = "record-failed"
    REAP = "reap"
    DISABLE = "disable-cascade"
    SUPERSEDE = "supersede"


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table: from any of `sources` to `to`; `reason` is set on failed rows only.

    `exit` is the answer when it happens, `refused` when the job is in no source state. They are None for triggers
    that no verb of their own answers for (reap, cascade, supersede).
    """

    sources: tuple[Status, ...]
    to: Status
    reason: FailureReason | None = None
    exit: Exit | None = Exit.DONE
    refused: Exit | None = Exit.REFUSED

    @property
    def finishes(self) -> bool:
        """Whether the transition sets `finished_at`: every terminal one does."""
        return self.to in TERMINAL


_QUEUED, _RUNNING = (Status.QUEUED,), (Status.RUNNING,)

TRANSITIONS: dict[Trigger, Transition] = {
    Trigger.CLAIM: Transition(_QUEUED, Status.RUNNING, refused=Exit.NOTHING),
    Trigger.CONTENT_MISSING: Transition(
        _RUNNING, Status.FAILED, FailureReason.JOB_FILE_MISSING, exit=Exit.REFUSED, refused=Exit.NOTHING
    ),
    Trigger.CANCEL: Transition(ACTIVE, Status.CANCELLED),
    Trigger.FAIL: Transition(ACTIVE, Status.FAILED, FailureReason.USER_FAILED),
    Trigger.RECORD_COMPLETED: Transition(_RUNNING, Status.COMPLETED),
    Trigger.RECORD_INVALID: Transition(_RUNNING, Status.FAILED, FailureReason.REPORT_INVALID, exit=Exit.REFUSED),
    Trigger.RECORD_FAILED: Transition(_RUNNING, Status.FAILED, FailureReason.RUNNER_ERROR),
    Trigger.REAP: Transition(_RUNNING, Status.FAILED, FailureReason.ABANDONED, exit=None, refused=None),
    Trigger.DISABLE: Transition(_QUEUED, Status.CANCELLED, exit=None, refused=None),
    Trigger.SUPERSEDE: Transition(_QUEUED, Status.CANCELLED, exit=None, refused=None),
}

RECORDS = (Trigger.RECORD_COMPLETED, Trigger.RECORD_INVALID, Trigger.RECORD_FAILED)


@dataclass(frozen=True, slots=True)
class Decision:
    """What a trigger does to a job: nothing (`to` is None), or the next state. `why` says it in words."""

    to: Status | None
    failure_reason: FailureReason | None
    finished: bool
    exit: Exit | None
    why: str

    @property
    def allowed(self) -> bool:
        """Whether the job moves."""
        return self.to is not None


def decide(status: Status, trigger: Trigger, *, nonce_matches: bool = True) -> Decision:
    """What `trigger` does to a job in `status`.

    A record compares the nonce before the state, so a wrong nonce on a terminal job is `Exit.NONCE` (spec 16).
    """
    rule = TRANSITIONS[trigger]
    if trigger in RECORDS and not nonce_matches:
        return Decision(None, None, False, Exit.NONCE, "the nonce is not the job's")
    if status not in rule.sources:
        return Decision(None, None, False, rule.refused, f"a {status} job does not move by {trigger}")
    return Decision(rule.to, rule.reason, rule.finishes, rule.exit, f"{status} to {rule.to} by {trigger}")


def decide_claim(status: Status, *, content_present: bool) -> Decision:
    """What a claim does to a job in `status`.

    Without its content row the job is claimed and failed in one go; nothing is handed over (spec 14, step 4).
    """
    claimed = decide(status, Trigger.CLAIM)
    if not claimed.allowed or content_present:
        return claimed
    return decide(Status.RUNNING, Trigger.CONTENT_MISSING)


def expired(expires_at: int | None, now: int) -> bool:
    """Whether an expiry has passed: strictly before `now`, milliseconds; None never does (spec 15)."""
    return expires_at is not None and expires_at < now


def decide_reap(status: Status, expires_at: int | None, now: int) -> Decision:
    """What a reap at `now` does to a job in `status` with that expiry."""
    if not expired(expires_at, now):
        return Decision(None, None, False, None, "no armed expiry has passed")
    return decide(status, Trigger.REAP)
