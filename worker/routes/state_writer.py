"""`POST /internal/state-writer/acquire`, `heartbeat`, `release` (spec state-plane-protocol 10)."""

from moorage.protocols.json_body import members
from moorage.protocols.wire import ExactReviewQueueUnavailable

from ..routing import MIB, Answer, Call, Result, Route

BASE = "/internal/state-writer"


async def acquire(call: Call) -> Result:
    """200 with the ticket, queued or leased; asking again is polling."""
    return Answer.of(await call.queue.acquire_state_writer(members(call.body)))


async def heartbeat(call: Call) -> Result:
    """200 with the ticket and its new end."""
    return Answer.of(await call.queue.heartbeat_state_writer(members(call.body)))


async def release(call: Call) -> Result:
    """200, also the second time."""
    return Answer.of(await call.queue.release_state_writer(members(call.body)))


routes = [
    Route(
        ("POST",),
        f"{BASE}/{handler.__name__}",
        handler,
        queue=True,
        failure=ExactReviewQueueUnavailable,
        transport_cap=MIB,
    )
    for handler in (acquire, heartbeat, release)
]
