"""The command intake (spec state-plane-protocol 6)."""

from moorage.protocols.json_body import members
from moorage.protocols.wire import ExactReviewQueueUnavailable

from ..routing import Answer, Call, Result, Route


async def command_intake(call: Call) -> Result:
    """202 with the receipt; the comment version is durable before the answer."""
    return Answer.of(await call.queue.admit_command(members(call.body)))


routes = [
    Route(
        ("POST",),
        "/internal/exact-review/command-intake",
        command_intake,
        queue=True,
        failure=ExactReviewQueueUnavailable,
    )
]
