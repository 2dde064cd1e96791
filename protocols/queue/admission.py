"""What an event does to the queue: a new item, a newer revision of one, or nothing.

Spec state-plane-protocol 11.1; vectors `exact-review-enqueue/*`. One key holds one item.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET

from .authority import is_stale
from .decisions import LOW_PRIORITY_ACTIONS, SCHEDULED_ACTIONS, Decision
from .items import HELD, QueueItem, move
from .settings import QueueSettings

DELIVERY_RETENTION_MS: Final = 7 * 24 * 60 * 60 * 1000
RESERVED_DELIVERY: Final = "__clawsweeper_sql_generation:"
GATED_TARGET: Final = "openclaw/clawhub"
ROUTES: Final = ("direct_webhook", "target_dispatcher")

_FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}")
# What a waiting request keeps when a newer event does not bring it
_KEPT: Final = ("additional_prompt", "codex_timeout_ms", "media_proof_timeout_ms", "proof_allowed_scenarios")
_COMMAND: Final = (
    "command_status_marker",
    "status_comment_id",
    "source_comment_id",
    "source_comment_updated_at",
    "command_body_digest",
    "command_origin",
    "source_comment_verified",
    "bay_journey_delivery_id",
)
_SOURCE: Final = (
    "source_head_sha",
    "source_base_sha",
    "source_head_verified",
    "source_authority_seq",
    "source_updated_at",
)


@dataclass(frozen=True, slots=True)
class Ingress:
    """Which of the two webhook routes brought an event; both carry the same fingerprint for the same event."""

    route: Literal["direct_webhook", "target_dispatcher"]
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Fold:
    """What to do with an event.

    `create`: a new item. `replace`: a newer revision of the one that is there; `withdraw` also takes it from
    its holder. `keep`:
    answered as queued, nothing changes. `dedupe`: answered with `answer`. `shed`: dropped for `reason`.
    """

    action: Literal["create", "replace", "withdraw", "keep", "dedupe", "shed"]
    answer: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None


def parse_ingress(value: Any, decision: Decision) -> Ingress | None:
    """The ingress, or None when it is malformed or belongs to no pull request event."""
    if not isinstance(value, dict) or not decision.is_pull_request or value.get("route") not in ROUTES:
        return None
    fingerprint = value.get("fingerprint")
    if not isinstance(fingerprint, str) or not _FINGERPRINT.fullmatch(fingerprint.lower()):
        return None
    return Ingress(value["route"], fingerprint.lower())


def edit_fingerprint(decision: Decision) -> str | None:
    """What an edit of a pull request comes to, as a digest; None for an edit that does not say everything.

    Content, base, head, draft state and the request's options count; the spelling of the repository, times,
    authority and
    delivery do not (`exact-review-enqueue/unchanged-edit`).
    """
    source = (
        decision.source_content_revision,
        decision.source_base_sha,
        decision.source_head_sha,
        decision.source_is_draft,
    )
    if not decision.is_pull_request or decision.source_action != "edited" or UNSET in source:
        return None
    options = [getattr(decision, name) for name in (*_KEPT, *_COMMAND)]
    meaning: list[Any] = [*source, decision.target_branch, decision.supersedes_in_progress]
    meaning += [None if option is UNSET else option for option in options]
    return hashlib.sha256(json.dumps(meaning).encode()).hexdigest()


def fold_review(
    present: QueueItem | None,
    decision: Decision,
    pending: int,
    settings: QueueSettings,
    cross_route: bool = False,
    unchanged_edit: bool = False,
) -> Fold:
    """What a review event does. `pending`: reviews that wait already; `cross_route`: the other route brought
    it already.

    The rate of scheduled reviews is the caller's, who holds the buckets: a scheduled `create` may still be shed.
    """
    scheduled = decision.source_action in SCHEDULED_ACTIONS
    if cross_route:
        return Fold("dedupe", {"dedupe_scope": "cross_route"})
    if scheduled and present is not None:
        scope = {"dedupe_scope": "scheduled_queue_item", "dedupe_reason": "item_already_pending_or_active"}
        return Fold("dedupe", scope)
    if scheduled or decision.source_action in LOW_PRIORITY_ACTIONS:
        if present is not None:
            return Fold("keep")
        return Fold("shed", reason="backpressure") if pending >= settings.pending_soft_limit else Fold("create")
    if present is not None and is_stale(present.decision, decision):
        return Fold("dedupe", {"stale_source": True})
    if unchanged_edit:
        scope = {"dedupe_scope": "semantic_edited", "dedupe_reason": "unchanged_pull_request_edit"}
        return Fold("dedupe", scope)
    if present is None:
        return Fold("create")
    if present.state in HELD and decision.supersedes_in_progress:
        return Fold("withdraw")
    return Fold("replace")


def merged(present: QueueItem, decision: Decision) -> Decision:
    """`decision` with what the waiting one knows and it does not.

    Only a decision that still waits is merged. A new command marker drops the old command's comment; a command that
    names no head keeps the waiting one's (`exact-review-lease/plain-event-keeps-waiting-command`).
    """
    waits = present.state not in HELD or present.has_newer_revision
    if not waits:
        return decision
    waiting = present.decision
    names = list(_KEPT)
    if decision.command_status_marker is UNSET:
        names += _COMMAND
    elif decision.is_pull_request and decision.source_head_sha is UNSET:
        names += _SOURCE
    kept = {
        name: getattr(waiting, name)
        for name in names
        if getattr(decision, name) is UNSET and getattr(waiting, name) is not UNSET
    }
    return msgspec.structs.replace(decision, **kept)


def _waits_until(
    now: int, waiting_since: int, settings: QueueSettings, not_before: int | None
) -> tuple[int, str | None]:
    """When a waiting review is next tried, and why not at once.

    The debounce is counted from the last event and bounded from the first; a dispatcher that backs off holds
    everything.
    """
    ready = min(now + settings.debounce_ms, max(now, waiting_since + settings.debounce_max_ms))
    if not_before is not None and not_before > ready:
        return not_before, "dispatcher_backoff"
    return ready, "dispatch_debounce" if ready > now else None


def new_review(
    decision: Decision, revision: int, now: int, settings: QueueSettings, not_before: int | None = None
) -> QueueItem:
    """A new item of the review lane. `not_before`: until when the dispatcher backs off."""
    ready, reason = _waits_until(now, now, settings, not_before)
    return QueueItem(
        decision.item_key, decision, "pending", revision, now, now, now, next_attempt_at=ready, backoff_reason=reason
    )


def new_publication(decision: Decision, revision: int, now: int) -> QueueItem:
    """A new item of the publication lane: due at once."""
    return QueueItem(decision.item_key, decision, "pending", revision, now, now, now, next_attempt_at=now)


def newer_revision(
    present: QueueItem,
    decision: Decision,
    revision: int,
    now: int,
    settings: QueueSettings,
    withdraw: bool = False,
    not_before: int | None = None,
) -> QueueItem:
    """`present` with a newer decision. A holder goes on unless `withdraw`; a waiting item starts over with its
    attempts."""
    decision = merged(present, decision)
    fresh: dict[str, Any] = {"decision": decision, "revision": revision}
    if present.state in HELD and not withdraw:
        return move(present, "replace", now, **fresh)
    since = present.waiting_since if present.state == "pending" else now
    ready, reason = _waits_until(now, since, settings, not_before)
    if present.lane == "publication":
        ready, reason = now, None
    fresh |= {"attempts": 0, "first_failed_at": None, "parked_recovery_attempts": 0}
    fresh |= {"waiting_since": since, "next_attempt_at": ready, "backoff_reason": reason, "dispatch_failure": None}
    return move(present, "withdraw" if withdraw else "replace", now, **fresh)
