"""The review queue (spec state-plane-protocol 11): events, leases, reconcile, statistics, source authority.

What the holder of a lease calls needs no signature: the full lease tuple authorises it (2.3).
"""

import hashlib
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import parse_qs

from moorage.protocols.json_body import NotJson, members, parse_object
from moorage.protocols.wire import ExactReviewQueueUnavailable, Reply

from ..routing import Answer, Auth, Call, Result, Route

_BASE = "/internal/exact-review"


async def enqueue(call: Call) -> Result:
    """202 with what became of the event."""
    return Answer.of(await call.queue.enqueue(members(call.body), hashlib.sha256(call.body).hexdigest()))


async def claim(call: Call) -> Result:
    """200 with the decision of the lease."""
    return Answer.of(await call.queue.claim_lease(members(call.body)))


async def heartbeat(call: Call) -> Result:
    """200 `{ok, phase, lease_heartbeat_at}`."""
    return Answer.of(await call.queue.heartbeat_lease(members(call.body)))


async def complete(call: Call) -> Result:
    """200 `{ok, requeued}`."""
    return Answer.of(await call.queue.complete_lease(members(call.body)))


async def claimed_runs(call: Call) -> Result:
    """200 `{runs}`."""
    return Answer.of(await call.queue.claimed_runs(members(call.body)))


async def reconcile(call: Call) -> Result:
    """200 with counts; a body that is no JSON object is `invalid_json` here."""
    try:
        body: dict[str, Any] | None = parse_object(call.body)
    except NotJson:
        body = None
    return Answer.of(await call.queue.reconcile(body))


async def source_authority(call: Call) -> Result:
    """200 `{ok, source_authority_seq}`."""
    return Answer.of(await call.queue.reserve_source_authority(members(call.body)))


async def state_writer_progress(call: Call) -> Result:
    """202 `{ok: false, accepted: false}`."""
    return Answer.of(await call.queue.state_writer_progress(members(call.body)))


def _finalization(operation: str) -> Callable[[Call], Coroutine[Any, Any, Result]]:
    async def handler(call: Call) -> Result:
        reply: Reply = await call.queue.terminal_finalization(operation, members(call.body))
        return Answer.of(reply)

    return handler


async def stats(call: Call) -> Result:
    """200 with the statistics of the queue; for everybody."""
    return Answer.of(await call.queue.queue_stats())


async def item(call: Call) -> Result:
    """200 with the status of one issue or pull request; for everybody."""
    query = parse_qs(call.query.decode("utf-8", "replace"), keep_blank_values=True)
    repository, number = (query.get(name, [None])[0] for name in ("target_repo", "item_number"))
    return Answer.of(await call.queue.item_status(repository, number))


def _route(name: str, handler: Callable[[Call], Coroutine[Any, Any, Result]], auth: Auth = Auth.WEBHOOK) -> Route:
    return Route(("POST",), f"{_BASE}/{name}", handler, auth=auth, queue=True, failure=ExactReviewQueueUnavailable)


def _read(path: str, handler: Callable[[Call], Coroutine[Any, Any, Result]]) -> Route:
    return Route(("GET",), path, handler, auth=Auth.NONE, queue=True, failure=ExactReviewQueueUnavailable)


routes = [
    _route("enqueue", enqueue),
    _route("claim", claim, Auth.NONE),
    _route("heartbeat", heartbeat, Auth.NONE),
    _route("complete", complete, Auth.NONE),
    _route("claimed-runs", claimed_runs),
    _route("reconcile", reconcile),
    _route("source-authority", source_authority),
    _route("state-writer-progress", state_writer_progress, Auth.NONE),
    *(
        _route(f"terminal-finalization/{operation}", _finalization(operation), Auth.NONE)
        for operation in ("attempt", "retry", "skip")
    ),
    _read("/api/exact-review-queue", stats),
    _read("/api/exact-review-queue/item", item),
]
