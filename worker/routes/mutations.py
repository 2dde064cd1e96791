"""The receipts of writes to the code host, for whoever takes them over into a ledger."""

from moorage.protocols.json_body import members
from moorage.protocols.wire import ExactReviewQueueUnavailable

from ..routing import Answer, Call, Result, Route


async def listing(call: Call) -> Result:
    """200 `{ok, events, next_cursor, open, today}`."""
    return Answer.of(await call.queue.list_mutation_events(members(call.body)))


routes = [
    Route(
        ("POST",),
        "/internal/exact-review/mutation-events/list",
        listing,
        queue=True,
        failure=ExactReviewQueueUnavailable,
    )
]
