"""Artifact receipts (spec state-plane-protocol 8): lookup and store."""

from moorage.protocols.json_body import members
from moorage.protocols.wire import ExactReviewQueueUnavailable

from ..routing import Answer, Call, Result, Route

_BASE = "/internal/exact-review/artifact-cache/receipt"


async def lookup(call: Call) -> Result:
    """200 `{ok, hit, receipt}`."""
    return Answer.of(await call.queue.lookup_artifact_receipt(members(call.body)))


async def store(call: Call) -> Result:
    """201 `{ok, deduped, receipt}`."""
    return Answer.of(await call.queue.store_artifact_receipt(members(call.body)))


routes = [
    Route(("POST",), f"{_BASE}/{operation.__name__}", operation, queue=True, failure=ExactReviewQueueUnavailable)
    for operation in (lookup, store)
]
