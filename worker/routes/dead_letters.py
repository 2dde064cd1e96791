"""Dead letters (spec state-plane-protocol 11.7): replay with the webhook secret, everything else is the
operator's."""

from moorage.protocols.json_body import members
from moorage.protocols.wire import ExactReviewQueueUnavailable

from ..routing import Answer, Auth, Call, Result, Route

_BASE = "/internal/exact-review/dead-letters"


async def listing(call: Call) -> Result:
    """200 `{ok, dead_letters, next_cursor}`."""
    return Answer.of(await call.queue.list_dead_letters(members(call.body)))


async def replay(call: Call) -> Result:
    """200 `{ok, replayed, deduped, skipped}`."""
    return Answer.of(await call.queue.replay_dead_letters(members(call.body)))


async def recover_fresh(call: Call) -> Result:
    """200 `{ok, recovered, deduped, skipped, unparked}`."""
    return Answer.of(await call.queue.recover_dead_letters(members(call.body)))


async def resolve(call: Call) -> Result:
    """200 `{ok, resolved, skipped, unparked}`."""
    return Answer.of(await call.queue.resolve_dead_letters(members(call.body)))


routes = [
    Route(("POST",), f"{_BASE}/{name}", handler, auth=auth, queue=True, failure=ExactReviewQueueUnavailable)
    for name, handler, auth in (
        ("list", listing, Auth.OPERATOR),
        ("replay", replay, Auth.WEBHOOK),
        ("recover-fresh", recover_fresh, Auth.OPERATOR),
        ("resolve", resolve, Auth.OPERATOR),
    )
]
