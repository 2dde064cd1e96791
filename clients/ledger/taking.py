"""Taking the state plane's own mutation receipts over into a spool, from where they go the way of all events."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.validate import parse_event_line

from .recorder import Recorder

if TYPE_CHECKING:
    from ..review_queue import Mutations


def take(mutations: "Mutations", recorder: Recorder, before: str | None = None) -> Iterator[str]:
    """Spools every receipt of the days before `before` (default: the service's today); the ids, one by one.

    A day is taken whole or not at all, since finalising a spool seals each day's producer. Taking again changes
    nothing. Raises LedgerRefusal: day-open while an attempt of those days has no outcome, and what
    `validate.parse_event_line` and `Recorder.store` raise.
    """
    today = mutations.today()
    if before is None:
        before = today
    elif before > today:
        raise LedgerRefusal("day-open", f"only whole days are taken, and {today} is not over", "before")
    for page in mutations.pages(before):
        if page.get("open") != 0:
            raise LedgerRefusal(
                "day-open", f"{page.get('open')} writes have no outcome yet; take them in a few minutes", before
            )
        for row in page["events"]:
            yield _stored(recorder, row)


def _stored(recorder: Recorder, row: dict[str, Any]) -> str:
    if not (
        isinstance(row, dict) and isinstance(row.get("line"), str) and isinstance(row.get("partition_date"), str)
    ):
        raise LedgerRefusal("not-object", "must be {seq, partition_date, line}", "events")
    event = parse_event_line(row["line"])
    return recorder.store(event, row["partition_date"]).event_id
