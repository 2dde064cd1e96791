"""Parked items, and the two ways out of there for an operator.

Spec state-plane-protocol 2.2 and 11.11 name the routes and their secret and describe no body. Two forms are taken:
the reference's operator names rows as it saw them (`items`), and what has changed since is skipped; `ids` are item
keys, as with the dead letters (11.7). *Recover fresh* lets the item be handed out again with fresh attempts;
*resolve* takes it out of the queue, with a note as its terminal fact.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from .dead_letters import MAX_CURSOR, RETENTION_MS, parse_ids
from .javascript import iso_time, to_safe_integer
from .queue.items import QueueItem, move
from .wire.queue import InvalidCursor, InvalidLane, InvalidLimit, InvalidParkedReviewItems

Action = Literal["recovered", "resolved"]
LANES: Final = ("review", "publication")
MAX_PAGE: Final = 50
DEFAULT_PAGE: Final = 20
MAX_RESOLVED: Final = 20
MAX_RECOVERED: Final = 5

__all__ = [
    "LANES",
    "MAX_RECOVERED",
    "MAX_RESOLVED",
    "RETENTION_MS",
    "Action",
    "Chosen",
    "Page",
    "cursor_of",
    "parse_chosen",
    "parse_page",
    "recovered",
    "wire",
]


@dataclass(frozen=True, slots=True)
class Page:
    """A page asked for: parked items of a lane after (creation, key), oldest first."""

    lane: str
    after: tuple[int, str]
    limit: int


@dataclass(frozen=True, slots=True)
class Chosen:
    """An item that an operator chose. `revision`: that of the row it was chosen by, None when only its key was
    given."""

    key: str
    revision: int | None = None

    def may_act_on(self, item: QueueItem | None) -> bool:
        """Whether `item`, found under the key, is parked and still what was chosen.

        By a row only reviews that no command asked for: whoever asked waits for an answer.
        """
        if item is None or item.state != "parked":
            return False
        if self.revision is None:
            return True
        return item.lane == "review" and item.revision == self.revision and not item.asked_by_command


def parse_chosen(members: Mapping[str, Any], most: int) -> list[Chosen]:
    """`items`, at most `most`, or `ids`. Raises InvalidParkedReviewItems, InvalidDeadLetterIds."""
    if "items" not in members:
        return [Chosen(key) for key in parse_ids(members)]
    rows = members["items"]
    if not isinstance(rows, list) or not 1 <= len(rows) <= most:
        raise InvalidParkedReviewItems
    chosen = [_row(row) for row in rows]
    if len({one.key for one in chosen}) != len(chosen):
        raise InvalidParkedReviewItems
    return chosen


def _row(row: Any) -> Chosen:
    if not isinstance(row, dict):
        raise InvalidParkedReviewItems
    key = row.get("item_key")
    revision, seen = (to_safe_integer(row.get(name), 1) for name in ("revision", "updated_at_ms"))
    if not isinstance(key, str) or not key or revision is None or seen is None:
        raise InvalidParkedReviewItems
    return Chosen(key, revision)


def cursor_of(item: QueueItem) -> str:
    """`<created at>|<item key>`."""
    return f"{item.created_at}|{item.key}"


def parse_page(members: Mapping[str, Any]) -> Page:
    """The page. Raises InvalidLane, InvalidLimit, InvalidCursor."""
    lane = members.get("lane", "review")
    if not isinstance(lane, str) or lane not in LANES:
        raise InvalidLane
    limit = to_safe_integer(members["limit"], 1, MAX_PAGE) if "limit" in members else DEFAULT_PAGE
    if limit is None:
        raise InvalidLimit
    cursor = members.get("cursor")
    if cursor is None:
        return Page(lane, (0, ""), limit)
    if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR:
        raise InvalidCursor
    created, bar, key = cursor.partition("|")
    if not bar or not created.isascii() or not created.isdigit() or len(created) > 16:
        raise InvalidCursor
    return Page(lane, (int(created), key), limit)


def wire(item: QueueItem) -> dict[str, Any]:
    """The row that operators read. `parked_until` (milliseconds) null: only an operator or a newer event wakes it."""
    failed = item.dispatch_failure
    first_failed_at = item.first_failed_at or (failed.at if failed else None)
    return {
        "item_key": item.key,
        "lane": item.lane,
        "revision": item.revision,
        "target_repo": item.decision.target_repo,
        "item_number": item.decision.item_number,
        "item_kind": item.decision.item_kind,
        **({"excluded_reason": "command_context"} if item.asked_by_command else {}),
        "parked_reason": item.parked_reason,
        "parked_until": item.parked_until,
        "parked_recovery_attempts": item.parked_recovery_attempts,
        "first_failed_at": None if first_failed_at is None else iso_time(first_failed_at),
        "last_failure_reason": (failed.failure_class if failed else None) or item.parked_reason,
        "created_at": iso_time(item.created_at),
        "updated_at": iso_time(item.updated_at),
        "updated_at_ms": item.updated_at,
        "item": {"key": item.key, "decision": item.decision.wire()},
    }


def recovered(item: QueueItem, now: int) -> QueueItem:
    """The item waiting again, with fresh attempts and recoveries. Raises ImpossibleTransition when not parked."""
    return move(
        item,
        "recover",
        now,
        next_attempt_at=now,
        waiting_since=now,
        attempts=0,
        parked_recovery_attempts=0,
    )
