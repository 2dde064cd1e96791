"""The routes of the state plane, one module a subject.

How to add a subject (`cursors` stands for its noun, the same at every level):

1. `protocols/wire/cursors.py`: one `WireError` class per code.
2. `protocols/cursors.py`: the rules, pure: they parse what came, decide, and raise those errors.
3. `durable_objects/objects/cursors.py`: a store over `ctx.storage` with a handed-in `now()` (milliseconds), and a
   mixin with the object's methods. Each is decorated with `moorage.protocols.wire.wire_method` and returns
   `moorage.protocols.wire.reply(value, status)`; a raised WireError becomes such a reply, so that it crosses the
   boundary as plain data. Add the mixin and the store, one line each, to `objects/exact_review_queue.py`.
4. `worker/routes/cursors.py`: coroutine functions that take one `Call` and a list `routes` of `Route`. Add the
   module to `SUBJECTS` below.

    async def read(call: Call) -> Result:
        return Answer.of(await call.queue.read_cursor(call.params["mode"]))

    routes = [Route(("GET",), "/internal/state/cursors/{mode}", read, queue=True, accepts=known_mode)]

A handler runs after: route found (404), secret configured (503), body read whole, signature (401), binding there
(503). It gets the bindings `call.env`, the verified bytes `call.body` and the path parameters `call.params`; it
returns a `dict` (200), an `Answer(value, status, headers)` or `Raw(bytes or chunks)`, or raises a `WireError`.
Bodies: `moorage.protocols.json_body` parses as the reference does (last member wins, lenient numbers). Anything
else that a handler raises is logged and answered as `route.failure` without a word of it.
"""

from collections.abc import Iterator
from types import ModuleType

from starlette.routing import BaseRoute

from ..routing import Route
from . import (
    artifact_receipts,
    blobs,
    cursors,
    dead_letters,
    etag_cache,
    health,
    intake,
    jobs,
    ledger,
    mutations,
    parked,
    publication,
    queue,
    records,
    sessions,
    snapshots,
    state_writer,
    sweep,
    webhook,
)

SUBJECTS: list[ModuleType] = [
    health,
    blobs,
    cursors,
    records,
    snapshots,
    state_writer,
    jobs,
    sweep,
    ledger,
    sessions,
    queue,
    intake,
    etag_cache,
    artifact_receipts,
    publication,
    dead_letters,
    parked,
    mutations,
    webhook,
]


def all_routes() -> Iterator[Route]:
    """Every route of every subject."""
    for subject in SUBJECTS:
        yield from subject.routes


def all_starlette_routes() -> Iterator[BaseRoute]:
    """Plain Starlette routes of subjects that export `starlette_routes` (pages, mounts); tried after all others.

    They see the raw path, undecoded, and check for themselves who is asking.
    """
    for subject in SUBJECTS:
        yield from getattr(subject, "starlette_routes", ())
