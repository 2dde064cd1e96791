"""Direct publication: a plan in form, and what it does to the record tuple.

Spec state-plane-protocol 11.9; vectors `exact-review-publication/direct-*`. The holder of a live claim writes
the record itself;
record, lease and lifecycle change together.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from msgspec import UNSET

from ..javascript import ABSENT, to_safe_integer, trim
from ..queue.decisions import (
    PUBLISH,
    DirectLifecycle,
    InvalidDecision,
    LifecyclePlan,
    Publication,
    parse_lifecycle_plan,
)
from ..queue.items import QueueItem
from ..records import (
    RecordId,
    decode_base64,
    digest_of,
    packet_reference_holds,
    repository_slug,
    simple_header,
    tuple_path,
)
from ..records.tuples import Operation
from ..wire.publication import DirectPublicationSourceShaRequired

MAX_BYTES: Final = 4 * 1024 * 1024
MAX_FILE_BYTES: Final = 2 * 1024 * 1024
MAX_OPERATIONS: Final = 4
MODE: Final = "100644"
PLAN_RETENTION_MS: Final = 7 * 24 * 60 * 60 * 1000

_TARGET: Final = re.compile(r"([A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+)#([1-9][0-9]{0,15})")
_FENCE: Final = re.compile(
    r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+#[1-9][0-9]{0,15}(?:@publish:[0-9]{1,30}:[1-9][0-9]{0,15})?"
)
_SHA: Final = re.compile(r"[0-9a-f]{40}")
_FAILED: Final = frozenset({"failure", "cancelled", "retryable_failure", "permanent_failure"})
_OTHER: Final[Mapping[str, str]] = {"items": "closed", "closed": "items"}


class InvalidPlan(ValueError):
    """A member of the plan is malformed or contradicts another one; the message names it."""


@dataclass(frozen=True, slots=True)
class DirectPlan:
    """A plan in form. `operations` are those that were sent; `tuple_operations` adds what follows from them."""

    canonical_target_key: str
    fence_key: str
    revision: int
    claim_generation: int
    source_sha: str
    slug: str
    number: int
    operations: tuple[Operation, ...]
    total_bytes: int
    lifecycle: LifecyclePlan | None = field(default=None)

    @property
    def fingerprint(self) -> str:
        """What the fence and revision are bound to: source, paths and digests."""
        meaning = [
            self.canonical_target_key.lower(),
            self.source_sha,
            sorted((operation.path, operation.digest) for operation in self.operations),
        ]
        return hashlib.sha256(json.dumps(meaning).encode()).hexdigest()

    def operations_json(self) -> str:
        """Paths, sizes and digests, without content."""
        return json.dumps(
            [
                {
                    "path": operation.path,
                    "bytes": len(operation.content or b""),
                    "digest": operation.digest,
                    "deleted": operation.deletes,
                }
                for operation in self.operations
            ]
        )


def _must(holds: bool, message: str) -> None:
    if not holds:
        raise InvalidPlan(message)


def _text(members: Mapping[str, Any], name: str) -> str:
    value = members.get(name)
    return trim(value) if isinstance(value, str) else ""


def _count(members: Mapping[str, Any], name: str) -> int:
    number = to_safe_integer(members.get(name, ABSENT), minimum=1)
    if number is None:
        raise InvalidPlan(f"{name} must be an integer of at least 1")
    return number


def parse_plan(members: Mapping[str, Any]) -> DirectPlan:
    """The plan. Raises InvalidPlan, and DirectPublicationSourceShaRequired for a plan whose only fault is its
    lack of one."""
    target, fence = _text(members, "canonicalTargetKey"), _text(members, "fenceKey")
    match = _TARGET.fullmatch(target)
    if match is None:
        raise InvalidPlan("canonicalTargetKey must be owner/name#number")
    _must(bool(_FENCE.fullmatch(fence)), "fenceKey must be an item key")
    revision = _count(members, "revision")
    source = members.get("sourceSha")
    if source is not None:
        _must(isinstance(source, str) and bool(_SHA.fullmatch(source)), "sourceSha must be 40 lower-case hex digits")
    generation = _identity(members.get("identity"), target, fence, revision)
    try:
        lifecycle = parse_lifecycle_plan(members["lifecycle"]) if "lifecycle" in members else None
        slug = repository_slug(match[1])
    except (InvalidDecision, ValueError) as error:
        raise InvalidPlan(str(error)) from None
    number = int(match[2])
    operations = _operations(members.get("operations"), slug, number)
    total = sum(len(operation.content or b"") for operation in operations)
    _must(total <= MAX_BYTES, f"at most {MAX_BYTES} bytes in all")
    _must(
        to_safe_integer(members.get("totalBytes", ABSENT)) == total,
        "totalBytes must be the sum of the operations' bytes",
    )
    if source is None:
        raise DirectPublicationSourceShaRequired
    return DirectPlan(target, fence, revision, generation, source, slug, number, operations, total, lifecycle)


def as_publication(item: QueueItem, plan: DirectPlan, outcome: str) -> QueueItem:
    """The lease once its holder has written the record: a publication of the holder's own run.

    The record is durable, what follows it is not yet: if the holder falls silent now, the publication is handed out
    and not the review again. Plan and outcome are saved on the *lease* decision, since ingress may replace
    the item's. Raises InvalidPlan for a claim without an attempt, which names no artifact.
    """
    decision = item.held_decision or item.decision
    publication, run, attempt = decision.publication, item.claimed_run_id, item.claimed_run_attempt
    if publication is UNSET:
        if run is None or attempt is None:
            raise InvalidPlan("the claim must name its run_attempt")
        publication = Publication(
            artifact_name=f"exact-review-{run}-{attempt}",
            producer_run_id=run,
            producer_run_attempt=attempt,
            source_sha=plan.source_sha,
            item_key=plan.fence_key,
            protocol_version=2,
            lease_revision=plan.revision,
            claim_generation=plan.claim_generation,
            live_proceeded=True,
            live_terminal_noop=False,
            live_terminal_missing=False,
            live_guarded_open=False,
            producer_decision=decision,
        )
    if plan.lifecycle is not None:
        saved = DirectLifecycle(
            plan.lifecycle, outcome, plan.canonical_target_key.lower(), plan.fence_key, plan.revision
        )
        publication = msgspec.structs.replace(publication, direct_lifecycle=saved)
    held = msgspec.structs.replace(
        decision, source_action=PUBLISH, supersedes_in_progress=False, publication=publication
    )
    newest = item.decision if item.has_newer_revision else held
    return msgspec.structs.replace(item, decision=newest, lease_decision=held)


def terminal_disposition(found: DirectLifecycle, outcome: str, buried: bool, told: str | None) -> str:
    """How the publication ended: a dead letter, what its publisher told, or what its receipt and plan say.

    `outcome`: of the completion, or its kind in a batch.
    """
    if buried:
        return "dead_letter"
    if told is not None:
        return told
    if outcome in _FAILED:
        return "failure"
    if found.receipt_outcome == "superseded":
        return "superseded"
    return "review_completed_routed" if found.plan.kind.startswith("router") else found.plan.kind


def _identity(value: Any, target: str, fence: str, revision: int) -> int:
    if not isinstance(value, dict):
        raise InvalidPlan("identity must be an object")
    repeated = (_text(value, "canonicalTargetKey"), _text(value, "fenceKey"), _count(value, "revision"))
    _must(repeated == (target, fence, revision), "identity must repeat target, fence and revision")
    return _count(value, "claimGeneration")


def _operations(value: Any, slug: str, number: int) -> tuple[Operation, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_OPERATIONS:
        raise InvalidPlan(f"operations must be a list of 1 to {MAX_OPERATIONS}")
    operations = tuple(_operation(entry, slug, number) for entry in value)
    _must(len({operation.section for operation in operations}) == len(operations), "each path once")
    return operations


def _operation(entry: Any, slug: str, number: int) -> Operation:
    if not isinstance(entry, dict) or not isinstance(entry.get("path"), str):
        raise InvalidPlan("an operation has a path")
    path = entry["path"]
    try:
        record = RecordId.parse(path)
    except ValueError as error:
        raise InvalidPlan(str(error)) from None
    _must(
        record.section != "commits" and path == tuple_path(slug, record.section, number),
        f"{path} is not of the target",
    )
    deleted = entry.get("deleted")
    _must(isinstance(deleted, bool), "deleted must be true or false")
    _must(entry.get("mode") == MODE or (deleted is True and entry.get("mode") is None), f"mode must be {MODE}")
    size = to_safe_integer(entry.get("bytes", ABSENT), maximum=MAX_FILE_BYTES)
    _must(size is not None, f"bytes must be an integer of at most {MAX_FILE_BYTES}")
    if deleted:
        _must(size == 0 and not entry.get("contentBase64"), "a deletion has no bytes")
        return Operation(record.section, path, None, None, None)
    content = decode_base64(entry.get("contentBase64"))
    if content is None or len(content) != size:
        raise InvalidPlan("contentBase64 must be strict base64 of exactly `bytes` bytes")
    try:
        content.decode()
    except UnicodeDecodeError:
        raise InvalidPlan("content must be UTF-8") from None
    return Operation(record.section, path, None, content, digest_of(content))


def tuple_operations(plan: DirectPlan, stored_packet_digest: str | None) -> tuple[Operation, ...]:
    """The sections that change: those of the plan, and what follows from them, each once.

    Writing `items` tombstones `closed` and the reverse; writing `closed` tombstones the plan; a primary
    without a packet
    reference tombstones the packet; deleting the primary deletes plan and packet. Raises InvalidPlan when the
    operations
    contradict that, or a report names another packet than the one there is.
    """
    changes = {operation.section: operation for operation in plan.operations}
    written = [section for section in ("items", "closed") if section in changes and not changes[section].deletes]
    _must(len(written) < 2, "items and closed cannot both have content")
    if written:
        primary = written[0]
        _tombstone(changes, plan, _OTHER[primary])
        if primary == "closed":
            _tombstone(changes, plan, "plans")
        _check_packet(changes, plan, primary, stored_packet_digest)
    elif any(section in changes for section in ("items", "closed")):
        _tombstone(changes, plan, "plans")
        _tombstone(changes, plan, "decision-packets")
    return tuple(
        changes[section] for section in ("items", "closed", "plans", "decision-packets") if section in changes
    )


def _tombstone(changes: dict[str, Operation], plan: DirectPlan, section: str) -> None:
    given = changes.get(section)
    _must(given is None or given.deletes, f"{section} cannot have content in this plan")
    changes[section] = Operation(section, tuple_path(plan.slug, section, plan.number), None, None, None)


def _check_packet(changes: dict[str, Operation], plan: DirectPlan, primary: str, stored: str | None) -> None:
    text = (changes[primary].content or b"").decode()
    path = tuple_path(plan.slug, "decision-packets", plan.number)
    fields = simple_header(text)
    named = {fields.get("decision_packet_sha256"), fields.get("decision_packet_path")} - {None, "none"}
    if not named:
        _tombstone(changes, plan, "decision-packets")
        return
    given = changes.get("decision-packets")
    digest = given.digest if given is not None else stored
    _must(packet_reference_holds(text, path, digest), "the report must name the decision packet's digest and path")
