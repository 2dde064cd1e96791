"""What the lanes bind their identities to, and what never goes in (the seed's "Identity and replay").

Each lane is a frozen value that gives the identity trees for `Recorder`: the logical operation, the attempt, and the
outside effect. Candidate order, checkpoints, list indexes, outcomes and reasons define no effect, so they have no
field here, or one that the effect leaves out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from .canonical import canonical_digest
from .events import Event
from .identity import idempotency_key
from .numbers import integer
from .paths import data_path
from .refusals import LedgerRefusal
from .text import digest_text, machine_text, repository_text
from .vocabulary import SUBJECT_KINDS

# How often a repair may requeue itself. A lane may set a lower bound.
MAX_REQUEUE_DEPTH: Final = 5

Identity = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Item:
    """An issue, pull request or other subject as it was observed. `source_revision` is its `updated_at` or head."""

    repository: str
    kind: str
    number: int
    source_revision: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "repository", repository_text(self.repository))
        object.__setattr__(self, "source_revision", machine_text(self.source_revision, "source_revision"))
        integer(self.number, 1, "number")
        if self.kind not in SUBJECT_KINDS:
            raise LedgerRefusal("subject-kind", f"must be one of {', '.join(sorted(SUBJECT_KINDS))}", "kind")

    def identity(self) -> Identity:
        """The item at its revision."""
        return {
            "repository": self.repository,
            "kind": str(self.kind),
            "number": self.number,
            "sourceRevision": self.source_revision,
        }

    def subject(self) -> Identity:
        """Subject of the item's events."""
        return self.identity()


def command_attempt_id(repository: str, workflow: str, run_id: str) -> str:
    """Durable id of an explicit replay: the same for every attempt of its workflow run, and no other run's."""
    return canonical_digest(
        {
            "repository": repository_text(repository),
            "workflow": machine_text(workflow, "workflow", 128),
            "runId": machine_text(run_id, "run_id"),
        }
    )


@dataclass(frozen=True, slots=True)
class CommandLane:
    """One command in one version of a comment; `replay` is the `command_attempt_id` of an explicit replay.

    The replay's id is part of operation, attempt, effect, dispatch claim and receipt key, so that a replay neither
    reuses nor blocks what the first run did. Without one, all are the command's own.
    """

    repository: str
    comment_id: str
    comment_version: str
    command: str
    replay: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "repository", repository_text(self.repository))
        for name in ("comment_id", "comment_version", "command"):
            object.__setattr__(self, name, machine_text(getattr(self, name), name))
        if self.replay is not None:
            object.__setattr__(self, "replay", digest_text(self.replay, "replay"))

    def operation_identity(self) -> Identity:
        """The logical command."""
        identity = {
            "repository": self.repository,
            "commentId": self.comment_id,
            "commentVersion": self.comment_version,
            "command": self.command,
        }
        return identity if self.replay is None else {**identity, "commandAttemptId": self.replay}

    def attempt_identity(self, run_id: str, run_attempt: int) -> Identity:
        """One execution. Retries of a replay's run stay one attempt."""
        if self.replay is not None:
            return {"commandAttemptId": self.replay}
        return {"runId": machine_text(run_id, "run_id"), "runAttempt": integer(run_attempt, 1, "run_attempt")}

    def effect_identity(self, effect: str) -> Identity:
        """One outside write of the command, named by what it does: `close_issue`, `comment`."""
        return {**self.operation_identity(), "effect": machine_text(effect, "effect")}

    def dispatch_claim(self, workflow: str) -> str:
        """Key that claims the dispatch of a worker."""
        return idempotency_key({**self.operation_identity(), "dispatch": machine_text(workflow, "workflow", 128)})

    def receipt_key(self, worker: str) -> str:
        """Key of a worker's receipt."""
        return idempotency_key({**self.operation_identity(), "receipt": machine_text(worker, "worker")})


@dataclass(frozen=True, slots=True)
class ReviewLane:
    """The review of one selected item. Its start is written when its processing begins, not when it is selected."""

    item: Item

    def operation_identity(self) -> Identity:
        """Repository, kind, number and the observed `updated_at`."""
        return self.item.identity()

    def effect_identity(self, effect: str, content_sha256: str) -> Identity:
        """One publication of the review: what it does and the digest of what it publishes."""
        return {
            **self.item.identity(),
            "effect": machine_text(effect, "effect"),
            "contentSha256": digest_text(content_sha256, "content_sha256"),
        }


@dataclass(frozen=True, slots=True)
class RepairRequeue:
    """A repair that queues itself again. `job_path` is the original source path, wherever the job is sealed."""

    source_run_id: str
    job_path: str
    authorization_sha256: str
    depth: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "source_run_id", machine_text(self.source_run_id, "source_run_id"))
        object.__setattr__(self, "job_path", data_path(self.job_path, "job_path"))
        object.__setattr__(
            self, "authorization_sha256", digest_text(self.authorization_sha256, "authorization_sha256")
        )
        integer(self.depth, 0, "depth")

    def next(self, source_run_id: str, limit: int = MAX_REQUEUE_DEPTH) -> "RepairRequeue":
        """The requeue after this one, from the run that does it. Raises requeue-depth before another dispatch."""
        if self.depth >= limit:
            raise LedgerRefusal("requeue-depth", f"a repair is requeued at most {limit} times", "depth")
        return replace(self, source_run_id=source_run_id, depth=self.depth + 1)

    def effect_identity(self) -> Identity:
        """Source run, source job path, authorization and depth."""
        return {
            "sourceRunId": self.source_run_id,
            "jobPath": self.job_path,
            "authorizationSha256": self.authorization_sha256,
            "requeueDepth": self.depth,
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """What an apply or a retry acts on: an item, the review's content and the decision packet, by digest."""

    item: Item
    review_content_sha256: str
    decision_packet_sha256: str

    def __post_init__(self) -> None:
        for name in ("review_content_sha256", "decision_packet_sha256"):
            object.__setattr__(self, name, digest_text(getattr(self, name), name))

    def identity(self) -> Identity:
        """Item, revision and both digests."""
        return {
            **self.item.identity(),
            "reviewContentSha256": self.review_content_sha256,
            "decisionPacketSha256": self.decision_packet_sha256,
        }


@dataclass(frozen=True, slots=True)
class ApplyLane:
    """Applying one decision. Checkpoint and batch may name the operation; they never name the effect."""

    decision: Decision
    checkpoint: str | None = None
    batch: str | None = None

    def operation_identity(self) -> Identity:
        """The decision, and the checkpoint and batch that it is applied in."""
        identity = self.decision.identity()
        for name, value in (("checkpoint", self.checkpoint), ("batch", self.batch)):
            if value is not None:
                identity[name] = machine_text(value, name)
        return identity

    def effect_identity(self, effect: str) -> Identity:
        """One write to the item, by the decision alone."""
        return {**self.decision.identity(), "effect": machine_text(effect, "effect")}


class DispatchState(StrEnum):
    """What earlier receipts say about dispatching a failed review again."""

    open = "open"
    dispatched = "dispatched"
    unknown = "unknown"


@dataclass(frozen=True, slots=True)
class DispatchDecision:
    """Whether a failed review may be dispatched, and by which event that was decided (None without any receipt)."""

    state: DispatchState
    event_id: str | None

    @property
    def may_dispatch(self) -> bool:
        """True unless a dispatch was accepted for this decision, or one of unknown outcome waits for an operator."""
        return self.state is DispatchState.open


RECONCILED_ABSENT: Final = "dispatch_reconciled_absent"
RECONCILED_PRESENT: Final = "dispatch_reconciled_present"
_CLOSED_BY: Final = {
    "dispatch_accepted": DispatchState.dispatched,
    "dispatch_rejected": DispatchState.open,
    "dispatch_outcome_unknown": DispatchState.unknown,
    RECONCILED_ABSENT: DispatchState.open,
    RECONCILED_PRESENT: DispatchState.dispatched,
}
# What happened is known before what is not; nothing is open while a word says otherwise.
_MOST_CLOSED: Final = (DispatchState.dispatched, DispatchState.unknown, DispatchState.open)


@dataclass(frozen=True, slots=True)
class FailedReviewDispatch:
    """The dispatch of a failed review's retry. A changed review record is another decision, with other receipts."""

    decision: Decision

    def effect_identity(self) -> Identity:
        """The decision, as a retry dispatch."""
        return {**self.decision.identity(), "effect": "retry_dispatch"}

    def decide(self, events: Iterable[Event]) -> DispatchDecision:
        """What the item's events say. Their order does not matter.

        An attempt without outcome, or of unknown outcome, closes its exact source revision for every decision, until
        an operator records what became of the run; automatic retry never repeats it. Where an attempt was settled
        twice, by its dispatcher and by an operator who did not wait for that, the word that keeps more closed counts.
        """
        key = idempotency_key(self.effect_identity())
        receipts = [event for event in events if self._is_receipt(event)]
        settled: dict[str | None, list[Event]] = {}
        for event in sorted(receipts, key=_receipt_order):
            if not _is_attempt(event):
                settled.setdefault(event.parent, []).append(event)
        found: dict[DispatchState, DispatchDecision] = {}
        for attempt in sorted(filter(_is_attempt, receipts), key=_receipt_order):
            words = {_CLOSED_BY[_completion(event)]: event for event in _last_words(attempt, settled)}
            state = next((state for state in _MOST_CLOSED if state in words), DispatchState.unknown)
            if state is DispatchState.unknown or attempt.record["idempotency_key_sha256"] == key:
                found[state] = DispatchDecision(state, words.get(state, attempt).event_id)
        for state in (DispatchState.unknown, DispatchState.dispatched):
            if state in found:
                return found[state]
        return found.get(DispatchState.open, DispatchDecision(DispatchState.open, None))

    def _is_receipt(self, event: Event) -> bool:
        subject, item = event.record["subject"], self.decision.item
        return (
            event.record["event_type"] == "review.retry"
            and subject["repository"] == item.repository
            and subject["kind"] == item.kind
            and subject.get("number") == item.number
            and subject.get("source_revision") == item.source_revision
            and (_is_attempt(event) or _completion(event) in _CLOSED_BY)
        )

    def retry_count(self, events: Iterable[Event]) -> int:
        """Durable number of retries of this revision: dispatches that were accepted, or found to have been."""
        wanted = {"dispatch_accepted", RECONCILED_PRESENT}
        return len({event.event_id for event in events if self._is_receipt(event) and _completion(event) in wanted})


def _completion(event: Event) -> str:
    return str(event.record.get("attributes", {}).get("completion_reason", ""))


def _is_attempt(event: Event) -> bool:
    return _completion(event) == "dispatch_attempted" and bool(event.record["action"]["status"] == "started")


def _receipt_order(event: Event) -> tuple[int, str]:
    return event.record["phase_seq"], event.event_id


def _last_words(attempt: Event, settled: Mapping[str | None, Sequence[Event]]) -> Iterator[Event]:
    """The ends of the chains that hang on an attempt: its outcome, or an operator's reconciliation of it.

    An accepted outcome is an end whatever hangs on it: nobody's word takes back what happened.
    """
    pending, seen = [attempt], {attempt.event_id}
    while pending:
        at = pending.pop()
        following = [event for event in settled.get(at.event_id, ()) if event.event_id not in seen]
        seen.update(event.event_id for event in following)
        pending += following
        if at is not attempt and (not following or _completion(at) == "dispatch_accepted"):
            yield at
