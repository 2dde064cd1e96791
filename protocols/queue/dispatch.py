"""Handing an item out: the payload, what a refusal means, and the dispatcher's own state.

Spec state-plane-protocol 11.2; `exact-review-lease/dispatch-*`, `workflow-paused`, `target-*`.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET

from .backoff import fnv1a, outage_delay, parked_recovery, review_delay, spread, within_reach
from .decisions import Decision
from .items import DispatchFailure, QueueItem, move
from .settings import QueueSettings

EVENT_TYPE: Final = "clawsweeper_item"
PROTOCOL_VERSION: Final = 2
_OPTIONS: Final = (
    ("codex_timeout_ms", "codex_timeout_ms"),
    ("media_proof_timeout_ms", "media_proof_timeout_ms"),
    ("command_status_marker", "command_status_marker"),
    ("status_comment_id", "status_comment_id"),
    ("review_acknowledgement_comment_id", "review_acknowledgement_comment_id"),
    ("additional_prompt", "additional_prompt"),
    ("proof_allowed_scenarios", "proof_allowed_scenarios"),
)
_CODE: Final = re.compile(r"[A-Za-z0-9_.\[\]-]{1,100}")

MAX_ADMISSION_RETRIES: Final = 8

FailureClass = Literal["permanent_rejection", "github_outage", "rate_limit", "authorization"]


class Dispatcher(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Whether hand-outs go on. `blocked` and `paused` hold everything until `retry_at` (milliseconds)."""

    state: Literal["active", "paused", "blocked"] = "active"
    reason: str | None = None
    workflow_state: str | None = None
    checked_at: int | None = None
    retry_at: int | None = None
    last_pass_at: int | None = None
    consecutive_failures: int = 0
    failure: DispatchFailure | None = None

    def holds_until(self, now: int) -> int | None:
        """Until when nothing is handed out, or None."""
        return self.retry_at if self.retry_at is not None and self.retry_at > now else None


def lease(item: QueueItem, lease_id: str, now: int, settings: QueueSettings) -> QueueItem:
    """`item` handed out under a new lease, which keeps the decision that is handed out."""
    lasts = settings.dispatch_lease_ms if item.lane == "review" else settings.publication_dispatch_lease_ms
    return move(
        item,
        "dispatch",
        now,
        lease_id=lease_id,
        lease_revision=item.revision,
        lease_decision=item.decision,
        lease_expires_at=now + lasts,
        dispatched_at=now,
        dispatch_failure=None,
    )


def payload(item: QueueItem) -> dict[str, Any]:
    """The `client_payload` of the repository dispatch: ten members at most, as the code host allows."""
    decision = item.held_decision or item.decision
    claim: dict[str, Any] = {
        "protocol_version": PROTOCOL_VERSION,
        "item_key": item.key,
        "lease_revision": item.lease_revision,
    }
    if decision.source_head_sha is not UNSET:
        claim["source_head_sha"] = decision.source_head_sha
    value = {
        "queue_lease_id": item.lease_id,
        "queue_claim": claim,
        "target_repo": decision.target_repo,
        "target_branch": decision.target_branch,
        "item_number": decision.item_number,
        "item_kind": decision.item_kind,
        "source_event": decision.source_event,
        "source_action": decision.source_action,
        "supersedes_in_progress": decision.supersedes_in_progress,
    }
    if options := review_options(decision):
        value["review_options"] = options
    return value


def review_options(decision: Decision) -> dict[str, Any]:
    """The options of the request that were given; for publications also the publication."""
    options = {
        wire: getattr(decision, name)
        for name, wire in _OPTIONS
        if getattr(decision, name) is not UNSET and getattr(decision, name) != ""
    }
    if decision.publication is not UNSET:
        options["publication"] = msgspec.to_builtins(decision.publication)
    return options


def classify(status: int | None, message: str, retry_after: str | None, remaining: str | None) -> FailureClass:
    """What a refused dispatch means. `status` None: no answer came.

    A status below 400 is an answer that was none (a redirection, a page in place of JSON): no item is to blame.
    429, and 403 with a rate limit's signs, are rate limits; other 401, 403 and 404 are a matter of credentials.
    """
    if status is None or status < 400 or status >= 500 or status in {408, 409}:
        return "github_outage"
    limited = "rate limit" in message.lower() or retry_after is not None or remaining == "0"
    if status == 429 or (status == 403 and limited):
        return "rate_limit"
    return "authorization" if status in {401, 403, 404} else "permanent_rejection"


def validation_detail(body: Any) -> dict[str, list[str]] | None:
    """Fields and codes of the code host's validation errors, safe to show; None when it named none."""
    errors = body.get("errors") if isinstance(body, Mapping) else None
    if not isinstance(errors, list):
        return None
    found: dict[str, list[str]] = {"validation_fields": [], "validation_codes": []}
    for error in errors[:20]:
        for name, member in (("validation_fields", "field"), ("validation_codes", "code")):
            value = error.get(member) if isinstance(error, Mapping) else None
            if isinstance(value, str) and _CODE.fullmatch(value) and value not in found[name]:
                found[name].append(value)
    return found if any(found.values()) else None


def failure(status: int | None, failure_class: str, detail: dict[str, list[str]] | None, now: int) -> DispatchFailure:
    """The failure with its fingerprint, which is the same for the same trouble."""
    parts = [",".join((detail or {}).get(name, [])) or "none" for name in ("validation_fields", "validation_codes")]
    known = "none" if status is None else status
    fingerprint = f"dispatch-{fnv1a(':'.join([failure_class, str(known), *parts])):08x}"
    return DispatchFailure(status, failure_class, now, fingerprint, detail)


def after_failure(item: QueueItem, failed: DispatchFailure, now: int) -> QueueItem:
    """A handed-out item whose dispatch failed: parked when the code host refused it for good, else waiting as
    before."""
    if failed.failure_class == "permanent_rejection":
        return move(item, "park", now, parked_reason="dispatch_rejected", dispatch_failure=failed)
    return move(item, "give_back", now, next_attempt_at=now, backoff_reason=None, dispatch_failure=failed)


def undone(item: QueueItem, now: int) -> QueueItem:
    """A leased item that was never dispatched, waiting as before."""
    return move(item, "give_back", now, next_attempt_at=now, backoff_reason=None)


def blocked(
    dispatcher: Dispatcher, failed: DispatchFailure, now: int, unit: float, retry_at: int | None
) -> Dispatcher:
    """The dispatcher after a failure that concerns everything; `retry_at`: what the code host demanded, honoured
    within two hours."""
    failures = dispatcher.consecutive_failures + 1
    at = now + outage_delay(failures, unit)
    return msgspec.structs.replace(
        dispatcher,
        state="blocked",
        reason=f"dispatch_{failed.failure_class}",
        retry_at=max(at, within_reach(retry_at, now)),
        consecutive_failures=failures,
        failure=failed,
        checked_at=now,
    )


def paused(dispatcher: Dispatcher, workflow_state: str, now: int, unit: float, settings: QueueSettings) -> Dispatcher:
    """The dispatcher while the workflow is not active; looked at again after about a minute."""
    return msgspec.structs.replace(
        dispatcher,
        state="paused",
        reason="workflow_not_active",
        workflow_state=workflow_state,
        checked_at=now,
        retry_at=now + spread(settings.paused_retry_ms, unit),
    )


def active(dispatcher: Dispatcher, now: int) -> Dispatcher:
    """The dispatcher after the workflow was seen active."""
    return msgspec.structs.replace(
        dispatcher, state="active", reason=None, workflow_state="active", checked_at=now, retry_at=None
    )


def passed(dispatcher: Dispatcher, now: int) -> Dispatcher:
    """The dispatcher after a pass that handed something out; the next one is `pass_interval_ms` later."""
    return msgspec.structs.replace(dispatcher, last_pass_at=now)


def succeeded(dispatcher: Dispatcher) -> Dispatcher:
    """The dispatcher after a hand-out that was taken."""
    return msgspec.structs.replace(dispatcher, consecutive_failures=0, failure=None)


def admission_retry(item: QueueItem, now: int, unit: float) -> QueueItem:
    """A waiting item whose target could not be looked at, or has another head than expected: later, at last
    parked."""
    attempts = item.attempts + 1
    if attempts >= MAX_ADMISSION_RETRIES:
        wait = parked_recovery(item.parked_recovery_attempts)
        until = None if wait is None else now + wait
        return move(
            item, "park", now, attempts=attempts, parked_reason="admission_retry_exhausted", parked_until=until
        )
    at = now + review_delay(attempts, unit)
    return move(item, "defer", now, attempts=attempts, next_attempt_at=at, backoff_reason="admission_retry")
