"""The shared words of events: types, statuses, reasons, subject kinds, attributes (spec action-ledger 5)."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class AttributeKind(StrEnum):
    """What an attribute holds. The values are the names of the published vocabulary."""

    positive_integer = "positive-integer"
    non_negative_integer = "non-negative-integer"
    boolean = "boolean"
    unit_interval = "unit-interval"
    machine_text = "machine-text"


_FAMILIES = {
    "review": "started! completed! failed! published! batch item retry log_publication comment_publication",
    "command": "claimed! dispatched! completed! failed! skipped! received classified claim_refreshed progress "
    "mutation wait requeue recover",
    "repair": "planned! executed! validated! reviewed! published! intake dispatch plan execute validate review "
    "publish postflight requeue recover queue blocked failed",
    "apply": "planned! executed! blocked! failed! action batch publish",
}
_OPERATIONS = (
    "workflow.attempt dispatch.lifecycle retry.lifecycle queue.lifecycle notification.delivery notification.planned "
    "notification.skipped notification.retried notification.sent! notification.failed! publication.lifecycle "
    "status.lifecycle dashboard.lifecycle session.lifecycle session.registered! session.phase_changed! "
    "session.completed! session.blocked! session.cancelled projection.failed!"
)
_EVIDENCE = (
    "gitcrawl.snapshot gitcrawl.query gitcrawl.binding proof.stage proof.binding evidence.gitcrawl_bound! "
    "evidence.proof_stage_completed!"
)
# `!` marks the older names, which readers accept and the phase helper refuses.
_MARKED: dict[str, tuple[str, ...]] = {
    **{family: tuple(f"{family}.{name}" for name in names.split()) for family, names in _FAMILIES.items()},
    "operations": tuple(_OPERATIONS.split()),
    "evidence": tuple(_EVIDENCE.split()),
}

FAMILIES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {family: tuple(name.rstrip("!") for name in names) for family, names in _MARKED.items()}
)
EVENT_TYPES: Final = frozenset(name for names in FAMILIES.values() for name in names)
PHASE_TYPES: Final = frozenset(name for names in _MARKED.values() for name in names if not name.endswith("!"))


class Phase(StrEnum):
    """Event types that new writers use: what ran. How it went is the status."""

    review_batch = "review.batch"
    review_item = "review.item"
    review_retry = "review.retry"
    review_log_publication = "review.log_publication"
    review_comment_publication = "review.comment_publication"
    command_received = "command.received"
    command_classified = "command.classified"
    command_claim_refreshed = "command.claim_refreshed"
    command_progress = "command.progress"
    command_mutation = "command.mutation"
    command_wait = "command.wait"
    command_requeue = "command.requeue"
    command_recover = "command.recover"
    repair_intake = "repair.intake"
    repair_dispatch = "repair.dispatch"
    repair_plan = "repair.plan"
    repair_execute = "repair.execute"
    repair_validate = "repair.validate"
    repair_review = "repair.review"
    repair_publish = "repair.publish"
    repair_postflight = "repair.postflight"
    repair_requeue = "repair.requeue"
    repair_recover = "repair.recover"
    repair_queue = "repair.queue"
    repair_blocked = "repair.blocked"
    repair_failed = "repair.failed"
    apply_action = "apply.action"
    apply_batch = "apply.batch"
    apply_publish = "apply.publish"
    workflow_attempt = "workflow.attempt"
    dispatch_lifecycle = "dispatch.lifecycle"
    retry_lifecycle = "retry.lifecycle"
    queue_lifecycle = "queue.lifecycle"
    notification_delivery = "notification.delivery"
    notification_planned = "notification.planned"
    notification_skipped = "notification.skipped"
    notification_retried = "notification.retried"
    publication_lifecycle = "publication.lifecycle"
    status_lifecycle = "status.lifecycle"
    dashboard_lifecycle = "dashboard.lifecycle"
    session_lifecycle = "session.lifecycle"
    session_cancelled = "session.cancelled"
    gitcrawl_snapshot = "gitcrawl.snapshot"
    gitcrawl_query = "gitcrawl.query"
    gitcrawl_binding = "gitcrawl.binding"
    proof_stage = "proof.stage"
    proof_binding = "proof.binding"


class Status(StrEnum):
    """Transition or outcome of a phase. `published` is kept for what its declared outside destination shows."""

    blocked = "blocked"
    cached = "cached"
    cancelled = "cancelled"
    claimed = "claimed"
    classified = "classified"
    completed = "completed"
    dispatched = "dispatched"
    executed = "executed"
    failed = "failed"
    in_progress = "in_progress"
    planned = "planned"
    published = "published"
    queued = "queued"
    received = "received"
    recovered = "recovered"
    refreshed = "refreshed"
    registered = "registered"
    released = "released"
    requeued = "requeued"
    retried = "retried"
    scheduled = "scheduled"
    sent = "sent"
    skipped = "skipped"
    started = "started"
    unchanged = "unchanged"
    validated = "validated"
    waiting = "waiting"
    yielded = "yielded"


class Reason(StrEnum):
    """Why a phase ended as it did."""

    accepted = "accepted"
    already_complete = "already_complete"
    already_exists = "already_exists"
    already_processed = "already_processed"
    append_failed = "append_failed"
    authorization_failed = "authorization_failed"
    cancelled = "cancelled"
    capacity_exhausted = "capacity_exhausted"
    completed = "completed"
    content_unchanged = "content_unchanged"
    dependency_pending = "dependency_pending"
    dry_run = "dry_run"
    duplicate = "duplicate"
    exception = "exception"
    invalid_input = "invalid_input"
    lease_active = "lease_active"
    manual = "manual"
    mutation_guard = "mutation_guard"
    no_changes = "no_changes"
    not_applicable = "not_applicable"
    not_found = "not_found"
    policy_blocked = "policy_blocked"
    published = "published"
    rate_limited = "rate_limited"
    recovered_stale_claim = "recovered_stale_claim"
    retry_exhausted = "retry_exhausted"
    retry_scheduled = "retry_scheduled"
    runtime_budget = "runtime_budget"
    selected = "selected"
    source_changed = "source_changed"
    stale = "stale"
    state_changed = "state_changed"
    superseded = "superseded"
    timeout = "timeout"
    unavailable = "unavailable"
    validation_failed = "validation_failed"
    worker_lost = "worker_lost"
    workflow_failed = "workflow_failed"


class SubjectKind(StrEnum):
    """What an event is about."""

    issue = "issue"
    pull_request = "pull_request"
    cluster = "cluster"
    command = "command"
    workflow = "workflow"
    repository = "repository"
    notification = "notification"
    commit = "commit"
    queue_item = "queue_item"
    deployment = "deployment"
    publication = "publication"


STATUSES: Final = frozenset(map(str, Status))
REASONS: Final = frozenset(map(str, Reason))
SUBJECT_KINDS: Final = frozenset(map(str, SubjectKind))
CLASSIFICATIONS: Final = frozenset({"public", "internal"})

_ATTRIBUTES = {
    AttributeKind.positive_integer: "attempt batch_size shard_count",
    AttributeKind.non_negative_integer: "action_count batch_index candidate_count closed_count comment_count "
    "cost_usd_micros duration_ms failed_count finding_count input_tokens item_count lease_duration_ms log_count "
    "output_tokens processed_count published_count queue_depth result_count retry_count retry_delay_ms shard_index "
    "skipped_count validation_count wait_duration_ms warning_count",
    AttributeKind.boolean: "cached coverage_complete final_attempt partial",
    AttributeKind.unit_interval: "coverage_ratio",
    AttributeKind.machine_text: "cache_mode completion_reason delivery_kind dispatch_kind log_kind model phase "
    "publication_kind queue_kind query_version reasoning_effort review_mode state status_kind validation_kind "
    "work_kind workflow_phase",
}
ATTRIBUTES: Final[Mapping[str, AttributeKind]] = MappingProxyType(
    {name: kind for kind, names in _ATTRIBUTES.items() for name in names.split()}
)
