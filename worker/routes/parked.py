"""Parked items; the operator's (spec state-plane-protocol 2.2, 11.11)."""

from moorage.protocols.json_body import members
from moorage.protocols.wire import ExactReviewQueueUnavailable

from ..routing import Answer, Auth, Call, Result, Route

_BASE = "/internal/exact-review/parked-reviews"


async def listing(call: Call) -> Result:
    """200 `{ok, parked_reviews, next_cursor}`."""
    return Answer.of(await call.queue.list_parked(members(call.body)))


async def recover_fresh(call: Call) -> Result:
    """200 `{ok, recovered, deduped, skipped}`."""
    return Answer.of(await call.queue.recover_parked(members(call.body)))


async def resolve(call: Call) -> Result:
    """200 `{ok, resolved, skipped}`."""
    return Answer.of(await call.queue.resolve_parked(members(call.body)))


routes = [
    Route(("POST",), f"{_BASE}/{name}", handler, auth=Auth.OPERATOR, queue=True, failure=ExactReviewQueueUnavailable)
    for name, handler in (("list", listing), ("recover-fresh", recover_fresh), ("resolve", resolve))
]
