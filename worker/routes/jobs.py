"""`POST /internal/jobs/<queue>/<verb>` and the event stream of a shared job queue.

Verbs, paths and who may ask them: `moorage.protocols.jobs.routes`. `record` is authorised by the job's own nonce.
"""

import asyncio
import json
import re
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from moorage.durable_objects.objects.jobs import BINDING, REGISTRY
from moorage.protocols.jobs.errors import Refused
from moorage.protocols.jobs.routes import EVENTS_PATH, PREFIX, QUEUE_GRAMMAR, VERB_AUTH, Who
from moorage.protocols.json_body import NotJson, parse_object
from moorage.protocols.wire.jobs import JobQueueNotConfigured, wire_refusal

from ..routing import MIB, Answer, Auth, Call, Handler, Raw, Result, Route

RECORD_CAP = 4 * MIB
"""Bytes of a record that are read at most: anybody may send one."""
STREAM_PAUSE_SECONDS = 15
"""How long an idle stream is silent before a comment keeps proxies from closing it."""

_AUTH: dict[Who, Auth] = {"webhook": Auth.WEBHOOK, "operator": Auth.OPERATOR, "nobody": Auth.NONE}
_QUEUE = re.compile(QUEUE_GRAMMAR + r"\Z")
STORES = ("install", "targets", "agent")


def _known(params: Mapping[str, str]) -> bool:
    return _QUEUE.match(params["queue"]) is not None


def _stub(call: Call) -> Any:
    namespace = getattr(call.env, BINDING, None)
    if namespace is None:
        raise JobQueueNotConfigured
    return namespace.getByName(call.params["queue"])


def _body(call: Call) -> dict[str, Any]:
    try:
        return parse_object(call.body or b"{}")
    except NotJson as error:
        raise wire_refusal(Refused("usage", f"the body must be a JSON object: {error}")) from error


def _verb(verb: str) -> Handler:
    async def handler(call: Call) -> Result:
        stub = _stub(call)
        return Answer.of(await stub.call(verb, _body(call)))

    return handler


async def record(call: Call) -> Result:
    """200 with the run's events. Nobody signs this, so the queue must be known before its object is touched."""
    body = _body(call)
    queue = call.params["queue"]
    stub = _stub(call)
    if not await getattr(call.env, BINDING).getByName(REGISTRY).knows(queue):
        raise wire_refusal(Refused("not-found", f"no queue {queue}"))
    return Answer.of(await stub.call("record", body))


def _stored(name: str) -> Handler:
    async def handler(call: Call) -> Result:
        return Answer.of(await getattr(_stub(call), name)(_body(call)))

    return handler


async def claim(call: Call) -> Result:
    """200 with the handover or null. With `waitSeconds` the request is held; a caller who hangs up gets no job."""
    stub, token, body = _stub(call), secrets.token_hex(8), _body(call)
    work = stub.claim(body, token)
    if not body.get("waitSeconds"):
        return Answer.of(await work)
    return Answer.of(await _unless_gone(call, work, lambda: stub.abandon(token)))


async def _unless_gone(call: Call, work: Awaitable[Any], abandon: Callable[[], Awaitable[Any]]) -> Any:
    """What `work` gives. When the client hangs up first, `abandon` ends it, and its answer goes nowhere."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(call.gone())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            await abandon()
        return await task
    finally:
        gone.cancel()


async def stream(call: Call) -> Result:
    """Server-sent events from after `Last-Event-ID` (0 without one); with `?from=now` from now on.

    A mark without data gives the number to resume from before the first event comes.
    """
    stub = _stub(call)
    given = call.header("last-event-id") or "0"
    after = int(given) if given.isascii() and given.isdigit() and len(given) < 16 else 0
    newest = await stub.events(-1, 0, "")
    if newest["status"] != 200:
        return Answer.of(newest)
    if call.query == b"from=now":
        after = newest["value"]["last"]
    headers = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-store"}
    return Raw(_events(call, stub, after), headers=headers)


async def _events(call: Call, stub: Any, after: int) -> AsyncIterator[bytes]:
    yield f"retry: 2000\nid: {after}\n\n".encode()
    token = secrets.token_hex(8)
    gone = asyncio.ensure_future(call.gone())
    try:
        while not gone.done():
            task = asyncio.ensure_future(stub.events(after, STREAM_PAUSE_SECONDS, token))
            await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                await stub.abandon(token)
            reply = await task
            if reply["status"] != 200:
                return
            answer = reply["value"]
            after = answer["last"]
            lines = [
                f"id: {entry['seq']}\nevent: {entry['event']['type']}\ndata: {_line(entry['event'])}\n\n"
                for entry in answer["events"]
            ]
            yield ("".join(lines) or ": still here\n\n").encode()
    finally:
        gone.cancel()


def _line(event: Mapping[str, Any]) -> str:
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


_HANDLERS: dict[str, Handler] = {"claim": claim, "record": record, **{name: _stored(name) for name in STORES}}

routes = [
    Route(
        ("POST",),
        f"{PREFIX}{{queue}}/{verb}",
        _HANDLERS.get(verb) or _verb(verb),
        auth=_AUTH[who],
        accepts=_known,
        transport_cap=RECORD_CAP if verb == "record" else 16 * MIB,
    )
    for verb, who in VERB_AUTH.items()
]
routes.append(Route(("GET",), EVENTS_PATH, stream, accepts=_known))


def describe() -> Any:
    """What the OpenAPI document says about these routes."""
    from ..openapi import Description
    from .jobs_api import paths_and_schemas

    return Description(*paths_and_schemas())
