"""Claim and heartbeat: their forms, and what they do to a lease.

Spec state-plane-protocol 11.3, 11.4; vectors `exact-review-lease/*`. A lease is authorised by its full tuple,
not by a signature.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ..javascript import to_safe_integer, trim
from ..wire.queue import (
    ClaimProtocolMismatch,
    InvalidClaimGeneration,
    InvalidLeasePhase,
    InvalidLeaseRevision,
    InvalidRunAttempt,
    InvalidRunId,
    InvalidSourceHeadSha,
    LeaseAlreadyClaimed,
    LeaseDecisionUnavailable,
    LeaseNotActive,
    MissingLeaseOrRun,
    MissingLeaseTuple,
    MissingRunAttempt,
    StaleRunAttempt,
)
from .items import HELD, QueueItem, move, silence_deadline
from .settings import QueueSettings

PHASES: Final = frozenset({"review", "finalizing", "status"})
_RUN: Final = re.compile(r"[0-9]{1,30}")
_SHA: Final = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim in form. `item_key` and `lease_revision` are both None under protocol 1."""

    lease_id: str
    item_key: str | None
    lease_revision: int | None
    run_id: str
    run_attempt: int | None

    @property
    def protocol(self) -> int:
        """1 by the lease id alone, 2 with key and revision."""
        return 1 if self.item_key is None else 2


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat in form."""

    lease_id: str
    item_key: str
    lease_revision: int
    run_id: str
    run_attempt: int | None
    claim_generation: int | None
    source_head_sha: str | None
    phase: str


def text_of(members: Mapping[str, Any], name: str) -> str:
    """A trimmed text member; a number is its digits, anything else is empty."""
    value = members.get(name)
    if isinstance(value, str):
        return trim(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def optional_count(members: Mapping[str, Any], name: str, error: type[Exception]) -> int | None:
    """An integer of at least 1, or None where the member is absent. Raises `error` when it is something else."""
    if name not in members:
        return None
    number = to_safe_integer(members[name], minimum=1)
    if number is None:
        raise error
    return number


def run_id_of(members: Mapping[str, Any]) -> str:
    """The run's digits. Raises InvalidRunId."""
    run = text_of(members, "run_id")
    if not _RUN.fullmatch(run):
        raise InvalidRunId
    return run


def parse_claim(members: Mapping[str, Any]) -> Claim:
    """The claim. Raises MissingLeaseOrRun, InvalidRunId, InvalidLeaseRevision, InvalidRunAttempt."""
    lease_id, key = text_of(members, "lease_id"), text_of(members, "item_key")
    if not lease_id or not text_of(members, "run_id"):
        raise MissingLeaseOrRun
    run = run_id_of(members)
    revision = optional_count(members, "lease_revision", InvalidLeaseRevision)
    if bool(key) != (revision is not None):
        raise InvalidLeaseRevision
    return Claim(lease_id, key or None, revision, run, optional_count(members, "run_attempt", InvalidRunAttempt))


def parse_heartbeat(members: Mapping[str, Any]) -> Heartbeat:
    """The heartbeat. Raises the form's own refusals, in the order of spec state-plane-protocol 11.4."""
    lease_id, key = text_of(members, "lease_id"), text_of(members, "item_key")
    if not lease_id or not key or not text_of(members, "run_id"):
        raise MissingLeaseTuple
    revision = optional_count(members, "lease_revision", InvalidLeaseRevision)
    if revision is None:
        raise InvalidLeaseRevision
    run = run_id_of(members)
    attempt = optional_count(members, "run_attempt", InvalidRunAttempt)
    generation = optional_count(members, "claim_generation", InvalidClaimGeneration)
    head = None
    if members.get("source_head_sha") is not None:
        head = text_of(members, "source_head_sha").lower()
        if not _SHA.fullmatch(head):
            raise InvalidSourceHeadSha
    phase = members.get("phase", "review")
    if not isinstance(phase, str) or phase not in PHASES:
        raise InvalidLeasePhase
    return Heartbeat(lease_id, key, revision, run, attempt, generation, head, phase)


def is_dead(item: QueueItem, grace_ms: int, now: int) -> bool:
    """Whether a held item's lease has ended by time."""
    deadline = silence_deadline(item, grace_ms)
    return deadline is None or deadline <= now


def claim(item: QueueItem | None, request: Claim, now: int, settings: QueueSettings) -> QueueItem:
    """`item` under its claim; the caller has looked it up by lease id and given back what had expired.

    The same run and attempt again renew the lease; a higher attempt takes it over with a generation one higher.
    Raises the 409s of spec state-plane-protocol 11.3.
    """
    if item is None or item.state not in HELD or item.batch_id is not None:
        raise LeaseNotActive
    if request.protocol == 2 and (item.key != request.item_key or item.lease_revision != request.lease_revision):
        raise LeaseNotActive
    generation = 1
    if item.state == "leased":
        generation = _generation_of_repeated(item, request)
    if item.held_decision is None:
        raise LeaseDecisionUnavailable
    taken_over = item.claim_generation != generation
    return move(
        item,
        "claim",
        now,
        claimed_run_id=request.run_id,
        claimed_run_attempt=request.run_attempt,
        claim_generation=generation,
        claim_protocol_version=request.protocol,
        claimed_at=now if taken_over else item.claimed_at,
        lease_expires_at=now + settings.execution_lease_ms,
        lease_heartbeat_at=None if taken_over or item.lease_heartbeat_at is None else now,
        lease_phase=None if taken_over else item.lease_phase,
    )


def _generation_of_repeated(item: QueueItem, request: Claim) -> int:
    if item.claimed_run_id != request.run_id:
        raise LeaseAlreadyClaimed
    if item.claim_protocol_version != request.protocol:
        raise ClaimProtocolMismatch
    held, generation = item.claimed_run_attempt, item.claim_generation or 1
    if request.run_attempt == held:
        return generation
    if request.run_attempt is None:
        raise MissingRunAttempt
    if held is not None and request.run_attempt < held:
        raise StaleRunAttempt
    return generation + 1


def claim_answer(item: QueueItem) -> dict[str, Any]:
    """What the holder of a lease is told (spec state-plane-protocol 11.3)."""
    decision = item.held_decision
    if decision is None:
        raise LeaseDecisionUnavailable
    return {
        "ok": True,
        "claimed": True,
        "protocol_version": item.claim_protocol_version,
        "item_key": item.key,
        "lease_revision": item.lease_revision,
        "claim_generation": item.claim_generation,
        "decision": decision.wire(),
    }


def heartbeat(item: QueueItem | None, request: Heartbeat, now: int) -> QueueItem:
    """`item` after a sign of life; the lease itself is never extended. Raises LeaseNotActive on any mismatch.

    The phase `status` looks without being one.
    """
    if item is None or item.state != "leased" or item.batch_id is not None:
        raise LeaseNotActive
    held = (item.key, item.lease_revision, item.claimed_run_id)
    if held != (request.item_key, request.lease_revision, request.run_id):
        raise LeaseNotActive
    if request.run_attempt is not None and request.run_attempt != item.claimed_run_attempt:
        raise LeaseNotActive
    if request.claim_generation is not None and request.claim_generation != item.claim_generation:
        raise LeaseNotActive
    decision = item.held_decision
    head = decision.source_head_sha if decision is not None else None
    if isinstance(head, str) and head != request.source_head_sha:
        raise LeaseNotActive
    if request.phase == "status":
        return item
    return msgspec.structs.replace(item, lease_heartbeat_at=now, lease_phase=request.phase, updated_at=now)
