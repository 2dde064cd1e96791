"""What an operator does with the review queue: dead letters, parked items, the receipts of its writes outside.

Spec state-plane-protocol 2.2, 11.7. Replay is signed with the webhook secret, everything else with the operator's.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from .errors import InvalidAnswer

if TYPE_CHECKING:
    from .http import Http

_BASE: Final = "/internal/exact-review"
MAX_IDS: Final = 20
MAX_RECOVERIES: Final = 10


def _pages(http: "Http", path: str, member: str, given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every answer of a list, page by page. Raises InvalidAnswer for one that does not go on."""
    cursor: Any = None
    while True:
        answer = http.json("POST", f"{_BASE}/{path}", given if cursor is None else {**given, "cursor": cursor})
        if not isinstance(answer.get(member), list):
            raise InvalidAnswer(f"{path}: `{member}` must be an array")
        yield answer
        following = answer.get("next_cursor")
        if following is None:
            return
        if following == cursor:
            raise InvalidAnswer(f"{path}: the cursor does not move on")
        cursor = following


def _lots(ids: Sequence[str], most: int) -> Iterator[list[str]]:
    for start in range(0, len(ids), most):
        yield list(ids[start : start + most])


def _act(http: "Http", path: str, ids: Sequence[str], most: int, **members: Any) -> dict[str, int]:
    """Calls `path` for the ids, in lots; the sums of the counts."""
    total: dict[str, int] = {}
    for lot in _lots(list(dict.fromkeys(ids)), most):
        answer = http.json("POST", f"{_BASE}/{path}", {"ids": lot, **members})
        for name, value in answer.items():
            if isinstance(value, int) and not isinstance(value, bool):
                total[name] = total.get(name, 0) + value
    return total


class DeadLetters:
    """Dead letters. `http` is signed with the operator's secret, but for `replay`: with the webhook secret."""

    def __init__(self, http: "Http") -> None:
        self._http = http

    def list(self, status: str = "open") -> Iterator[dict[str, Any]]:
        """The letters by id; `status` is open, replayed, resolved or all."""
        for page in _pages(self._http, "dead-letters/list", "dead_letters", {"status": status}):
            yield from page["dead_letters"]

    def replay(self, ids: Sequence[str], idempotency_key: str) -> dict[str, int]:
        """Puts the publications back as they were: counts `replayed`, `deduped`, `skipped`."""
        return _act(self._http, "dead-letters/replay", ids, MAX_IDS, idempotency_key=idempotency_key)

    def recover(self, ids: Sequence[str], idempotency_key: str) -> dict[str, int]:
        """Makes fresh reviews in their place: counts `recovered`, `deduped`, `skipped`, `unparked`."""
        return _act(self._http, "dead-letters/recover-fresh", ids, MAX_RECOVERIES, idempotency_key=idempotency_key)

    def resolve(self, ids: Sequence[str], note: str) -> dict[str, int]:
        """Closes them with a note of at most 500 characters: counts `resolved`, `skipped`, `unparked`."""
        return _act(self._http, "dead-letters/resolve", ids, MAX_IDS, note=note)


class Parked:
    """Parked items. `http` is signed with the operator's secret."""

    def __init__(self, http: "Http") -> None:
        self._http = http

    def list(self, lane: str = "review") -> Iterator[dict[str, Any]]:
        """The items of a lane (`review`, `publication`), oldest first."""
        for page in _pages(self._http, "parked-reviews/list", "parked_reviews", {"lane": lane}):
            yield from page["parked_reviews"]

    def recover(self, keys: Sequence[str], idempotency_key: str) -> dict[str, int]:
        """Lets them be handed out again with fresh attempts: counts `recovered`, `deduped`, `skipped`."""
        return _act(self._http, "parked-reviews/recover-fresh", keys, MAX_IDS, idempotency_key=idempotency_key)

    def resolve(self, keys: Sequence[str], note: str) -> dict[str, int]:
        """Takes them out of the queue with a note of at most 500 characters: counts `resolved`, `skipped`."""
        return _act(self._http, "parked-reviews/resolve", keys, MAX_IDS, note=note)


class Mutations:
    """Receipts of the queue's writes to the code host, as canonical lines of the action ledger."""

    def __init__(self, http: "Http") -> None:
        self._http = http

    def today(self) -> str:
        """The service's day, UTC, `YYYY-MM-DD`."""
        found = self._http.json("POST", f"{_BASE}/mutation-events/list", {"limit": 1}).get("today")
        if not isinstance(found, str):
            raise InvalidAnswer("mutation-events/list: `today` must be a day")
        return found

    def pages(self, before: str | None = None) -> Iterator[dict[str, Any]]:
        """Pages `{events: [{seq, partition_date, line}], open, today, …}`, in the order they were written.

        With `before` only what is filed under an earlier day, and `open` counts those attempts without outcome alone.
        """
        given: dict[str, Any] = {} if before is None else {"before": before}
        yield from _pages(self._http, "mutation-events/list", "events", given)
