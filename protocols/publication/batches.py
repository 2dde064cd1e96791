"""Publication batches: their forms and their states. Spec state-plane-protocol 11.8."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from ..javascript import ABSENT, iso_time, to_safe_integer, trim
from ..queue.completions import KINDS, parse_kind, parse_retry_at
from ..wire.publication import InvalidBatchClaim, InvalidBatchCompletions, InvalidBatchIdentity
from ..wire.queue import InvalidPublicationCompletion, InvalidRetryAt

State = Literal["leased", "completed", "expired"]
MAX_ITEMS: Final = 100
_ID: Final = re.compile(r"[A-Za-z0-9._:/@-]{1,200}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


class BatchItem(msgspec.Struct, frozen=True):
    """One publication of a batch; `terminal_outcome` None while it is being published."""

    item_key: str
    revision: int
    claim_generation: int
    terminal_outcome: str | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch as stored. Times in milliseconds."""

    batch_id: str
    state: State
    lease_owner: str
    lease_expires_at: int
    configured_batch_size: int
    attempt: int
    created_at: int
    completed_at: int | None
    state_commit_sha: str | None
    failure_fingerprint: str | None
    items: tuple[BatchItem, ...]

    def wire(self) -> dict[str, Any]:
        """The batch as clients read it."""
        return {
            "batch_id": self.batch_id,
            "state": self.state,
            "lease_owner": self.lease_owner,
            "lease_expires_at": iso_time(self.lease_expires_at),
            "configured_batch_size": self.configured_batch_size,
            "attempt": self.attempt,
            "created_at": iso_time(self.created_at),
            "completed_at": None if self.completed_at is None else iso_time(self.completed_at),
            "state_commit_sha": self.state_commit_sha,
            "failure_fingerprint": self.failure_fingerprint,
            "items": [msgspec.to_builtins(item) for item in self.items],
        }


@dataclass(frozen=True, slots=True)
class BatchClaim:
    """A claim in form; `dispatch_id` names the hand-out that it answers, if any."""

    claim_id: str
    lease_owner: str
    max_items: int
    dispatch_id: str | None


def _identifier(members: Mapping[str, Any], name: str) -> str | None:
    value = members.get(name)
    text = trim(value) if isinstance(value, str) else ""
    return text if _ID.fullmatch(text) else None


def parse_claim(members: Mapping[str, Any]) -> BatchClaim:
    """The claim. Raises InvalidBatchClaim."""
    claim, owner = _identifier(members, "claim_id"), _identifier(members, "lease_owner")
    most = to_safe_integer(members.get("max_items", ABSENT), 1, MAX_ITEMS)
    dispatch = _identifier(members, "dispatch_id")
    if (
        claim is None
        or owner is None
        or most is None
        or (dispatch is None and members.get("dispatch_id") is not None)
    ):
        raise InvalidBatchClaim
    return BatchClaim(claim, owner, most, dispatch)


def parse_identity(members: Mapping[str, Any]) -> tuple[str, str]:
    """Batch and owner. Raises InvalidBatchIdentity."""
    batch, owner = _identifier(members, "batch_id"), _identifier(members, "lease_owner")
    if batch is None or owner is None:
        raise InvalidBatchIdentity
    return batch, owner


@dataclass(frozen=True, slots=True)
class BatchCompletion:
    """What became of one item: a completion kind with its reason.

    `retry_at` in milliseconds. `attempted` False: a rate limit stood before the item, which is no failure of it.
    """

    item_key: str
    revision: int
    claim_generation: int
    kind: str
    reason: str
    fingerprint: str | None
    retry_at: int | None = None
    attempted: bool = True


def parse_items(value: Any) -> list[tuple[dict[str, Any], str, int, int]]:
    """Entries that name an item with revision and generation, each item once. Raises InvalidBatchCompletions."""
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_ITEMS:
        raise InvalidBatchCompletions
    entries = []
    for entry in value:
        if not isinstance(entry, dict) or not isinstance(entry.get("item_key"), str):
            raise InvalidBatchCompletions
        revision = to_safe_integer(entry.get("revision", ABSENT), minimum=1)
        generation = to_safe_integer(entry.get("claim_generation", ABSENT), minimum=1)
        if revision is None or generation is None:
            raise InvalidBatchCompletions
        entries.append((entry, entry["item_key"], revision, generation))
    if len({key for _, key, _, _ in entries}) != len(entries):
        raise InvalidBatchCompletions
    return entries


def parse_completions(members: Mapping[str, Any], now: int) -> tuple[list[BatchCompletion], str | None]:
    """What became of the items, and the commit that holds them. Raises InvalidBatchCompletions.

    A reason may be left out where its kind has one only, or is `superseded` (`remote_newer_tuple`). An item is not
    `attempted` for a `github_rate_limit` with its `retry_at` only.
    """
    completions = []
    for entry, key, revision, generation in parse_items(members.get("items")):
        kind = entry.get("terminal_outcome")
        row = KINDS.get(kind) if isinstance(kind, str) else None
        if row is None:
            raise InvalidBatchCompletions
        reason = entry.get("reason_code")
        if reason is None and row.effect == "end":
            reason = next(iter(row.outcomes))
        try:
            kind, reason, fingerprint = parse_kind(entry, kind, reason)
            retry_at = parse_retry_at(entry, now)
        except (InvalidPublicationCompletion, InvalidRetryAt):
            raise InvalidBatchCompletions from None
        attempted = entry.get("attempted", True)
        if not isinstance(attempted, bool) or not (attempted or (reason == "github_rate_limit" and retry_at)):
            raise InvalidBatchCompletions
        completions.append(BatchCompletion(key, revision, generation, kind, reason, fingerprint, retry_at, attempted))
    commit = members.get("state_commit_sha")
    if commit is not None and not (isinstance(commit, str) and _COMMIT.fullmatch(commit)):
        raise InvalidBatchCompletions
    return completions, commit
