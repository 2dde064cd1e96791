"""Parked items, and the two ways out of there for an operator.

Spec state-plane-protocol 2.2 and 11.11 name the routes and their secret and describe no body: the forms here are
those of the dead letters (11.7). *Recover fresh* lets the item be handed out again with fresh attempts; *resolve*
takes it out of the queue, with a note as its terminal fact.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from .dead_letters import MAX_CURSOR, MAX_PAGE, RETENTION_MS
from .javascript import to_safe_integer
from .queue.items import QueueItem, move
from .wire.queue import InvalidCursor, InvalidLane, InvalidLimit

Action = Literal["recovered", "resolved"]
LANES: Final = ("review", "publication")

__all__ = ["LANES", "RETENTION_MS", "Action", "Page", "cursor_of", "parse_page", "recovered", "wire"]


@dataclass(frozen=True, slots=True)
class Page:
    """A page asked for: parked items of a lane after (creation, key), oldest first."""

    lane: str
    after: tuple[int, str]
    limit: int


def cursor_of(item: QueueItem) -> str:
    """`<created at>|<item key>`."""
    return f"{item.created_at}|{item.key}"


def parse_page(members: Mapping[str, Any]) -> Page:
    """The page. Raises InvalidLane, InvalidLimit, InvalidCursor."""
    lane = members.get("lane", "review")
    if not isinstance(lane, str) or lane not in LANES:
        raise InvalidLane
    limit = to_safe_integer(members["limit"], 1, MAX_PAGE) if "limit" in members else MAX_PAGE
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
    """The row that operators read. Times in milliseconds; `parked_until` null: only an operator or a newer event
    wakes it."""
    return {
        "item_key": item.key,
        "lane": item.lane,
        "revision": item.revision,
        "target_repo": item.decision.target_repo,
        "item_number": item.decision.item_number,
        "parked_reason": item.parked_reason,
        "parked_until": item.parked_until,
        "parked_recovery_attempts": item.parked_recovery_attempts,
        "first_failed_at": item.first_failed_at,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
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
