"""`GET` and `PUT /internal/state/cursors/<mode>` (spec state-plane-protocol 5)."""

from collections.abc import Mapping

from moorage.protocols.cursors import is_mode
from moorage.protocols.json_body import members
from moorage.protocols.wire.cursors import FanoutCursorStoreUnavailable

from ..routing import MIB, Answer, Call, Result, Route

PATH = "/internal/state/cursors/{mode}"


def _known(params: Mapping[str, str]) -> bool:
    return is_mode(params["mode"])


async def read(call: Call) -> Result:
    """200 with the cursor's state."""
    return Answer.of(await call.queue.read_cursor(call.params["mode"]))


async def write(call: Call) -> Result:
    """202 with the new state; a body that is no JSON object has no members (`cursors/body-forms`)."""
    return Answer.of(await call.queue.write_cursor(call.params["mode"], members(call.body)))


routes = [
    Route(
        (method,), PATH, handler, queue=True, failure=FanoutCursorStoreUnavailable, accepts=_known, transport_cap=MIB
    )
    for method, handler in (("GET", read), ("PUT", write))
]
