"""Publication (spec state-plane-protocol 11.8, 11.9, 11.11): batches, direct results, the lane's lists."""

from moorage.protocols.json_body import NotJson, members, parse_object
from moorage.protocols.publication.direct import MAX_BYTES
from moorage.protocols.wire import ExactReviewQueueUnavailable
from moorage.protocols.wire.publication import DirectPublicationPayloadTooLarge, InvalidDirectPublicationJson

from ..routing import Answer, Auth, Call, Result, Route

_BASE = "/internal/exact-review"


async def publication_results(call: Call) -> Result:
    """202 with the receipt of a direct publication; at most 4 MiB."""
    if len(call.body) > MAX_BYTES:
        raise DirectPublicationPayloadTooLarge(max_bytes=MAX_BYTES)
    try:
        body = parse_object(call.body)
    except NotJson:
        raise InvalidDirectPublicationJson from None
    return Answer.of(await call.queue.publish_directly(body))


async def list_publications(call: Call) -> Result:
    """200 `{ok, publications, next_cursor}`."""
    return Answer.of(await call.queue.list_publications(members(call.body)))


async def supersede(call: Call) -> Result:
    """200 `{ok, superseded, skipped}`."""
    return Answer.of(await call.queue.supersede_publications(members(call.body)))


async def reconcile(call: Call) -> Result:
    """200 with counts."""
    return Answer.of(await call.queue.reconcile_publications(members(call.body)))


async def claim_batch(call: Call) -> Result:
    """200 `{ok, claimed, batch, …}`."""
    return Answer.of(await call.queue.claim_batch(members(call.body)))


async def fetch_batch(call: Call) -> Result:
    """200 `{ok, batch, items, superseded}`."""
    return Answer.of(await call.queue.fetch_batch(members(call.body)))


async def heartbeat_batch(call: Call) -> Result:
    """200 `{ok, batch}`."""
    return Answer.of(await call.queue.heartbeat_batch(members(call.body)))


async def complete_batch(call: Call) -> Result:
    """200 `{ok, accepted, skipped, batch}`."""
    return Answer.of(await call.queue.complete_batch(members(call.body)))


async def lifecycle_inventory(call: Call) -> Result:
    """200 `{ok, lifecycle, next_cursor}`; the operator's."""
    return Answer.of(await call.queue.lifecycle_inventory(members(call.body)))


routes = [
    Route(("POST",), f"{_BASE}/{name}", handler, queue=True, failure=ExactReviewQueueUnavailable)
    for name, handler in (
        ("publication-results", publication_results),
        ("publications/list", list_publications),
        ("publications/supersede", supersede),
        ("publications/reconcile", reconcile),
        ("publication-batches/claim", claim_batch),
        ("publication-batches/fetch", fetch_batch),
        ("publication-batches/heartbeat", heartbeat_batch),
        ("publication-batches/complete", complete_batch),
    )
]
routes.append(
    Route(
        ("POST",),
        f"{_BASE}/lifecycle-audit/inventory",
        lifecycle_inventory,
        auth=Auth.OPERATOR,
        queue=True,
        failure=ExactReviewQueueUnavailable,
    )
)
