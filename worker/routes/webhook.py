"""The code host's webhook (spec state-plane-protocol 2.4): signed by the code host, durable before it is
acknowledged."""

import hashlib
from typing import Any

from moorage.protocols.github_webhook import Command, Ignored, Review, interpret, read_policy
from moorage.protocols.json_body import NotJson, parse_object
from moorage.protocols.wire import ExactReviewQueueUnavailable, InvalidJson

from ..routing import Answer, Auth, Call, Result, Route

_PATH = "/github/webhook"


async def information(call: Call) -> Result:
    """What this path is."""
    return {"ok": True, "service": "clawsweeper-github-webhook"}


async def webhook(call: Call) -> Result:
    """202: what became of the delivery; what asks for nothing is acknowledged with the reason."""
    try:
        payload = parse_object(call.body)
    except NotJson:
        raise InvalidJson from None
    event, delivery = call.header("x-github-event") or "", call.header("x-github-delivery")
    if event == "ping":
        return Answer({"ok": True, "event": "ping", "delivery": delivery}, 202)
    asked = interpret(event, payload, read_policy(lambda name: getattr(call.env, name, None)))
    if isinstance(asked, Ignored):
        return Answer({"ok": True, "accepted": False, "reason": asked.reason}, 202)
    if isinstance(asked, Command):
        return Answer.of(await call.queue.admit_command(asked.intake))
    return await _enqueue(call, asked, delivery)


async def _enqueue(call: Call, asked: Review, delivery: str | None) -> Result:
    """A pull request event first takes its place among the events of all of them, then goes to the queue."""
    members: dict[str, Any] = {"delivery_id": delivery, "decision": asked.decision}
    if asked.ingress is not None:
        members["ingress"] = asked.ingress
    if asked.installation_id is not None:
        reservation = await call.queue.reserve_source_authority({**members, "installation_id": asked.installation_id})
        if reservation["status"] != 200:
            return Answer.of(reservation)
        members["decision"] = {
            **asked.decision,
            "sourceAuthoritySeq": reservation["value"]["source_authority_seq"],
        }
    return Answer.of(await call.queue.enqueue(members, hashlib.sha256(call.body).hexdigest()))


routes = [
    Route(("GET",), _PATH, information, auth=Auth.NONE),
    Route(("POST",), _PATH, webhook, auth=Auth.HUB, failure=ExactReviewQueueUnavailable),
]
