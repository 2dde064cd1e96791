"""Dead letters: publications that failed for good, and the three ways out of there.

Spec state-plane-protocol 11.7; vectors `exact-review-publication/dead-letter-*`. *Replay* puts the old
publication back, *recover
fresh* makes a new review in its place, *resolve* closes the letter with a note.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET

from .javascript import iso_time, to_safe_integer, trim
from .queue.backoff import fnv1a
from .queue.decisions import Decision
from .queue.endings import fresh_review
from .queue.items import QueueItem
from .wire.dead_letters import (
    InvalidDeadLetterIds,
    InvalidDeadLetterStatus,
    InvalidIdempotencyKey,
    InvalidRecoveryGuard,
    InvalidResolutionNote,
)
from .wire.queue import InvalidCursor, InvalidLimit

Status = Literal["open", "replayed", "resolved"]
STATUSES: Final = ("open", "replayed", "resolved", "all")
MAX_PAGE: Final = 20
MAX_IDS: Final = 20
MAX_RECOVERIES: Final = 10
MAX_CURSOR: Final = 500
MAX_NOTE: Final = 500
RETENTION_MS: Final = 30 * 24 * 60 * 60 * 1000
RECOVERED_NOTE: Final = "recovered_fresh"

_KEY: Final = re.compile(r"[A-Za-z0-9:._-]{1,200}")
_INVENTORY: Final = re.compile(r"[0-9]{1,9}:[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One letter. Times in milliseconds; `item` as it was when it died."""

    dead_letter_id: str
    item: QueueItem
    reason_code: str
    attempts: int
    first_failed_at: int
    last_failed_at: int
    error_fingerprint: str | None
    status: Status = "open"
    replay_key: str | None = None
    resolution_note: str | None = None
    resolved_at: int | None = None

    @property
    def decision(self) -> Decision:
        """The publication that failed."""
        return self.item.held_decision or self.item.decision

    def wire(self, recovery_reason: str) -> dict[str, Any]:
        """The row that operators read."""
        decision = self.decision
        publication = decision.publication
        assert publication is not UNSET
        failed = {
            "reason_code": self.reason_code,
            "attempts": self.attempts,
            "first_failed_at": self.first_failed_at,
            "last_failed_at": self.last_failed_at,
            "error_fingerprint": self.error_fingerprint,
        }
        return {
            "dead_letter_id": self.dead_letter_id,
            "item_key": self.item.key,
            "revision": self.item.revision,
            "target_repo": decision.target_repo,
            "item_number": decision.item_number,
            "producer_run_id": publication.producer_run_id,
            "producer_run_attempt": publication.producer_run_attempt,
            "artifact_name": publication.artifact_name,
            **failed,
            "status": self.status,
            "replay_key": self.replay_key,
            "resolution_note": self.resolution_note,
            "resolved_at": self.resolved_at,
            "item": {"key": self.item.key, "decision": decision.wire()},
            "diagnostic": {
                **failed,
                "first_failed_at": iso_time(self.first_failed_at),
                "last_failed_at": iso_time(self.last_failed_at),
            },
            "fresh_recovery": {
                "mode": "fresh_review_only",
                "eligible": recovery_reason == "eligible",
                "reason": recovery_reason,
                "item_key": decision.target_key,
            },
        }


def letter_id(item: QueueItem) -> str:
    """`<item key>@revision:<n>`."""
    return f"{item.key}@revision:{item.revision}"


def recovery_reason(letter: DeadLetter, active_reviews: Collection[str]) -> str:
    """`eligible`, or why no fresh review can take the letter's place now. `active_reviews`: keys of the items
    in the queue."""
    if fresh_review(letter.item) is None:
        return "producer_decision_unavailable"
    if letter.decision.target_key in active_reviews:
        return "fresh_review_already_active"
    return "eligible"


def fresh_minimum(letter: DeadLetter) -> int:
    """The least revision of the fresh review: above the lease revision that the publication came from."""
    publication = letter.decision.publication
    return (publication.lease_revision or 0) + 1 if publication is not UNSET else 1


def replayed_item(letter: DeadLetter, now: int) -> QueueItem:
    """The publication as it was, waiting again with fresh attempts."""
    return QueueItem(
        letter.item.key, letter.decision, "pending", letter.item.revision, now, now, now, next_attempt_at=now
    )


def inventory_fingerprint(open_ids: Iterable[str]) -> str:
    """`<count>:<8 hex>` of the open ids: FNV-1a over the sorted ids, each followed by LF, by UTF-16 unit."""
    ids = sorted(open_ids, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    text = "".join(name + "\n" for name in ids)
    return f"{len(ids)}:{fnv1a(text):08x}"


@dataclass(frozen=True, slots=True)
class Page:
    """A page asked for: `status`, ids after `cursor`, `limit` rows."""

    status: str
    cursor: str
    limit: int


def parse_page(members: Mapping[str, Any]) -> Page:
    """The page. Raises InvalidDeadLetterStatus, InvalidLimit, InvalidCursor."""
    status = members.get("status", "open")
    if not isinstance(status, str) or status not in STATUSES:
        raise InvalidDeadLetterStatus
    limit = to_safe_integer(members["limit"], 1, MAX_PAGE) if "limit" in members else MAX_PAGE
    if limit is None:
        raise InvalidLimit
    return Page(status, parse_cursor(members), limit)


def parse_cursor(members: Mapping[str, Any]) -> str:
    """The text that the last page ended with, empty for the beginning. Raises InvalidCursor."""
    cursor = members.get("cursor")
    if cursor is None:
        return ""
    if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR:
        raise InvalidCursor
    return cursor


def parse_ids(members: Mapping[str, Any], most: int = MAX_IDS) -> list[str]:
    """`ids`, in order. Raises InvalidDeadLetterIds."""
    value = members.get("ids")
    if not isinstance(value, list) or not 1 <= len(value) <= most:
        raise InvalidDeadLetterIds
    ids = [trim(entry) if isinstance(entry, str) else "" for entry in value]
    if not all(ids) or len(set(ids)) != len(ids):
        raise InvalidDeadLetterIds
    return ids


def parse_idempotency_key(members: Mapping[str, Any]) -> str:
    """`idempotency_key`. Raises InvalidIdempotencyKey."""
    key = members.get("idempotency_key")
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidIdempotencyKey
    return key


def parse_note(members: Mapping[str, Any]) -> str:
    """`note`, trimmed. Raises InvalidResolutionNote."""
    note = members.get("note")
    text = trim(note) if isinstance(note, str) else ""
    if not 1 <= len(text) <= MAX_NOTE:
        raise InvalidResolutionNote
    return text


@dataclass(frozen=True, slots=True)
class RecoveryGuard:
    """What the caller saw when it decided: the open letters, and for each id its target and the target's other
    spellings."""

    fingerprint: str
    aliases: Mapping[str, tuple[str, ...]]
    targets: Mapping[str, str]


def _pairs(value: Any, member: str, ids: list[str]) -> dict[str, Any] | None:
    if not isinstance(value, list) or len(value) != len(ids):
        return None
    pairs = {str(entry.get("id")): entry.get(member) for entry in value if isinstance(entry, dict)}
    return pairs if set(pairs) == set(ids) else None


def parse_guard(members: Mapping[str, Any], ids: list[str]) -> RecoveryGuard | None:
    """The guard, or None when none of its three members is given. Raises InvalidRecoveryGuard."""
    names = ("inventory_fingerprint", "recovery_aliases", "recovery_targets")
    if not any(name in members for name in names):
        return None
    fingerprint = members.get("inventory_fingerprint")
    aliases = _pairs(members.get("recovery_aliases"), "aliases", ids)
    targets = _pairs(members.get("recovery_targets"), "target", ids)
    if (
        not isinstance(fingerprint, str)
        or not _INVENTORY.fullmatch(fingerprint)
        or aliases is None
        or targets is None
    ):
        raise InvalidRecoveryGuard
    try:
        return RecoveryGuard(
            fingerprint,
            msgspec.convert(aliases, dict[str, tuple[str, ...]]),
            msgspec.convert(targets, dict[str, str]),
        )
    except msgspec.ValidationError:
        raise InvalidRecoveryGuard from None
