"""Completion kinds as data, and the form of a completion. Spec state-plane-protocol 11.5."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..javascript import ABSENT, to_safe_integer, trim
from ..wire.queue import (
    CompletionOutcomeMismatch,
    FailureKindMismatch,
    FailureKindWithoutFailure,
    InvalidClaimGeneration,
    InvalidDirectLifecycleRequeue,
    InvalidFailureKind,
    InvalidLeaseRevision,
    InvalidLifecycleTerminalDisposition,
    InvalidOutcome,
    InvalidPublicationCompletion,
    InvalidRequeueLatest,
    InvalidRequeueLatestOutcome,
    InvalidRetryAt,
    InvalidRetryKind,
    InvalidRunAttempt,
    MissingLeaseOrRun,
    RetryKindWithoutFailure,
    RetryKindWithoutRetryAt,
)
from .backoff import MAX_RETRY_AHEAD_MS
from .leases import optional_count, run_id_of, text_of
from .times import parse_time

Outcome = Literal["success", "failure", "cancelled"]
OUTCOMES: Final = frozenset({"success", "failure", "cancelled"})
RetryKind = Literal["coordination", "throttle"]
Effect = Literal["end", "refresh", "retry"]


@dataclass(frozen=True, slots=True)
class Kind:
    """What a completion kind does, its reasons, and the outcome that each reason needs.

    `end`: the item is done. `refresh`: done, and a fresh review takes its place. `retry`: a failure, tried again
    within the budget of its reason (`budgets`).
    """

    effect: Effect
    outcomes: Mapping[str, Outcome]
    counter: str


def _reasons(outcome: Outcome, *reasons: str) -> dict[str, Outcome]:
    return dict.fromkeys(reasons, outcome)


KINDS: Final[Mapping[str, Kind]] = {
    "published": Kind("end", _reasons("success", "publication_applied"), "published"),
    "superseded": Kind(
        "end", _reasons("success", "remote_newer_tuple", "remote_closed", "live_terminal"), "superseded"
    ),
    "refresh_required": Kind(
        "refresh",
        _reasons("success", "artifact_unavailable", "artifact_expired", "close_coverage_retry"),
        "refreshed",
    ),
    "deferred": Kind("end", _reasons("success", "close_coverage_deferred"), "deferred"),
    "retryable_failure": Kind(
        "retry",
        {
            **_reasons(
                "failure",
                "github_rate_limit",
                "github_transient",
                "state_contention",
                "workflow_cancelled",
                "artifact_unavailable",
                "unknown_failure",
            ),
            **_reasons("success", "review_lease_active"),
        },
        "retried",
    ),
    "permanent_failure": Kind(
        "retry",
        _reasons(
            "failure",
            "invalid_artifact",
            "missing_record_tuple",
            "tuple_protocol_invalid",
            "policy_invariant",
            "unknown_failure",
            "retry_exhausted",
        ),
        "retried",
    ),
}
FAILURE_KINDS: Final = frozenset({"github_rate_limit", "github_transient"})
DISPOSITIONS: Final = frozenset(
    {
        "review_completed_routed",
        "superseded",
        "requeue",
        "dead_letter",
        "target_closed",
        "target_missing",
        "policy_noop",
        "guarded_open",
        "failure",
    }
)
DEFAULT_KINDS: Final[Mapping[Outcome, tuple[str, str]]] = {
    "success": ("published", "publication_applied"),
    "failure": ("retryable_failure", "unknown_failure"),
    "cancelled": ("retryable_failure", "workflow_cancelled"),
}
_FINGERPRINT: Final = re.compile(r"[A-Za-z0-9:._-]{1,200}")


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion in form. `lease_revision`, `item_key` and `claim_generation` are None under protocol 1.

    `retry_at` in milliseconds.
    """

    lease_id: str
    item_key: str | None
    lease_revision: int | None
    claim_generation: int | None
    run_id: str
    run_attempt: int | None
    outcome: Outcome
    requeue_latest: bool = False
    direct_lifecycle_requeue: bool = False
    disposition: str | None = None
    retry_at: int | None = None
    retry_kind: RetryKind | None = None
    failure_kind: str | None = None
    kind: str | None = None
    reason: str | None = None
    fingerprint: str | None = None

    @property
    def protocol(self) -> int:
        """1 by the lease id alone, 2 with the whole tuple."""
        return 1 if self.item_key is None else 2


def parse_kind(members: Mapping[str, Any], kind: Any, reason: Any) -> tuple[str, str, str | None]:
    """Kind, reason and fingerprint that go together; an empty fingerprint is none.

    Raises InvalidPublicationCompletion.
    """
    known = KINDS.get(kind) if isinstance(kind, str) else None
    if known is None or not isinstance(reason, str) or reason not in known.outcomes:
        raise InvalidPublicationCompletion
    fingerprint = text_of(members, "error_fingerprint")
    if fingerprint and not _FINGERPRINT.fullmatch(fingerprint):
        raise InvalidPublicationCompletion
    return kind, reason, fingerprint or None


def _completion_of(members: Mapping[str, Any], outcome: str) -> tuple[str, str, str | None] | tuple[None, None, None]:
    """What a publisher says of its result; nothing when none of the members is given, not even as null."""
    if not any(name in members for name in ("completion_kind", "reason_code", "error_fingerprint")):
        return None, None, None
    kind, reason, fingerprint = parse_kind(members, members.get("completion_kind"), members.get("reason_code"))
    if KINDS[kind].outcomes[reason] != outcome:
        raise CompletionOutcomeMismatch
    return kind, reason, fingerprint


def _failure_kind(members: Mapping[str, Any], outcome: str) -> str | None:
    if "failure_kind" not in members:
        return None
    kind = members["failure_kind"]
    if not isinstance(kind, str) or kind not in FAILURE_KINDS:
        raise InvalidFailureKind
    if outcome != "failure":
        raise FailureKindWithoutFailure
    return kind


def _retry_kind(members: Mapping[str, Any], outcome: str, retry_at: int | None) -> RetryKind | None:
    if "retry_kind" not in members:
        return None
    kind = members["retry_kind"]
    if kind not in ("coordination", "throttle"):
        raise InvalidRetryKind
    if outcome != "failure":
        raise RetryKindWithoutFailure
    if retry_at is None:
        raise RetryKindWithoutRetryAt
    return kind  # type: ignore[no-any-return]


def _flag(members: Mapping[str, Any], name: str, error: type[Exception]) -> bool:
    value = members.get(name, False)
    if not isinstance(value, bool):
        raise error
    return value


def parse_retry_at(members: Mapping[str, Any], now: int) -> int | None:
    """`retry_at` in milliseconds, or None. Raises InvalidRetryAt."""
    if "retry_at" not in members:
        return None
    at = parse_time(members["retry_at"])
    if at is None or at > now + MAX_RETRY_AHEAD_MS:
        raise InvalidRetryAt
    return at


def _lease_revision(members: Mapping[str, Any], key: str) -> tuple[int | None, int | None]:
    revision = optional_count(members, "lease_revision", InvalidLeaseRevision)
    if bool(key) != (revision is not None):
        raise InvalidLeaseRevision
    if not key and "claim_generation" in members:
        raise InvalidLeaseRevision
    generation = optional_count(members, "claim_generation", InvalidClaimGeneration)
    if key and generation is None:
        raise InvalidClaimGeneration
    return revision, generation


def parse_completion(members: Mapping[str, Any], now: int) -> Completion:
    """The completion. Raises the 400s of spec state-plane-protocol 11.5 that concern its form, in the order of the
    members below; one that is null is given."""
    lease_id, key = text_of(members, "lease_id"), text_of(members, "item_key")
    if not lease_id or not text_of(members, "run_id"):
        raise MissingLeaseOrRun
    run = run_id_of(members)
    revision, generation = _lease_revision(members, key)
    attempt = optional_count(members, "run_attempt", InvalidRunAttempt)
    outcome = members.get("outcome")
    outcome = "success" if outcome is None or outcome == "" else outcome
    if not isinstance(outcome, str) or outcome not in OUTCOMES:
        raise InvalidOutcome
    failure_kind = _failure_kind(members, outcome)
    kind, reason, fingerprint = _completion_of(members, outcome)
    if failure_kind is not None and kind is not None and (kind, reason) != ("retryable_failure", failure_kind):
        raise FailureKindMismatch
    requeue = _flag(members, "requeue_latest", InvalidRequeueLatest)
    drift = _flag(members, "direct_lifecycle_requeue", InvalidDirectLifecycleRequeue)
    disposition = members.get("lifecycle_terminal_disposition")
    if "lifecycle_terminal_disposition" in members and not (
        isinstance(disposition, str) and disposition in DISPOSITIONS
    ):
        raise InvalidLifecycleTerminalDisposition
    if requeue and outcome != "success":
        raise InvalidRequeueLatestOutcome
    retry_at = parse_retry_at(members, now)
    return Completion(
        lease_id=lease_id,
        item_key=key or None,
        lease_revision=revision,
        claim_generation=generation,
        run_id=run,
        run_attempt=attempt,
        outcome=outcome,  # type: ignore[arg-type]
        requeue_latest=requeue,
        direct_lifecycle_requeue=drift,
        disposition=disposition,
        retry_at=retry_at,
        retry_kind=_retry_kind(members, outcome, retry_at),
        failure_kind=failure_kind,
        kind=kind,
        reason=reason,
        fingerprint=fingerprint,
    )


def parse_runs(value: Any, most: int) -> list[tuple[str, int | None]] | None:
    """Runs as `{run_id, run_attempt?}` or bare ids, each once; None when malformed or more than `most`."""
    if not isinstance(value, list) or len(value) > most:
        return None
    runs: dict[tuple[str, int | None], None] = {}
    for entry in value:
        raw = entry.get("run_id") if isinstance(entry, dict) else entry
        text = trim(raw) if isinstance(raw, str) else str(raw) if isinstance(raw, int) else ""
        if isinstance(raw, bool) or not re.fullmatch(r"[0-9]{1,30}", text):
            return None
        attempt = None
        if isinstance(entry, dict) and entry.get("run_attempt") is not None:
            attempt = to_safe_integer(entry["run_attempt"], minimum=1)
            if attempt is None:
                return None
        runs[text, attempt] = None
    return list(runs)


@dataclass(frozen=True, slots=True)
class TerminalRun:
    """A run that ended, as the caller saw it. `claimed_run_attempt`: None for a claim that named none."""

    run_id: str
    run_attempt: int
    claimed_run_attempt: int | None
    claim_generation: int
    outcome: Outcome


def parse_terminal_runs(value: Any, most: int) -> list[TerminalRun] | None:
    """The ended runs, each once; None when malformed or more than `most`."""
    if not isinstance(value, list) or len(value) > most:
        return None
    runs: dict[TerminalRun, None] = {}
    for entry in value:
        if not isinstance(entry, dict):
            return None
        named = parse_runs([entry], 1)
        attempt, claimed = to_safe_integer(entry.get("run_attempt", ABSENT), minimum=1), None
        if entry.get("claimed_run_attempt") is not None:
            claimed = to_safe_integer(entry["claimed_run_attempt"], minimum=1)
            if claimed is None:
                return None
        generation = to_safe_integer(entry.get("claim_generation", ABSENT))
        outcome = entry.get("outcome")
        if not named or attempt is None or generation is None:
            return None
        if not isinstance(outcome, str) or outcome not in OUTCOMES:
            return None
        runs[TerminalRun(named[0][0], attempt, claimed, generation, outcome)] = None  # type: ignore[arg-type]
    return list(runs)
