"""`POST /internal/sweeps/<sweep>/<verb>`: a sweep state shared by many machines.

Verbs, bodies and who may ask them: `moorage.protocols.sweep.shared`. Answers are compact JSON with `word`, the status
word of the file engine; refusals have `error` too.
"""

import re
from collections.abc import Mapping
from typing import Any

from moorage.protocols.sweep.shared import MAX_DOCUMENT_BYTES, PREFIX, SWEEP_GRAMMAR, VERBS, Who
from moorage.protocols.wire.sweep import SweepStateNotConfigured, SweepStateUnavailable, SweepUsage

from ..routing import Answer, Auth, Call, Handler, Raw, Result, Route, Style

BINDING = "SWEEP_STATE"
JSON_HEADERS = {"content-type": "application/json", "cache-control": "no-store"}

_AUTH: dict[Who, Auth] = {"webhook": Auth.WEBHOOK, "operator": Auth.OPERATOR}
_NAME = re.compile(SWEEP_GRAMMAR + r"\Z").match


def _known(params: Mapping[str, str]) -> bool:
    return _NAME(params["sweep"]) is not None


def _verb(verb: str) -> Handler:
    async def handler(call: Call) -> Result:
        namespace: Any = getattr(call.env, BINDING, None)
        if namespace is None:
            raise SweepStateNotConfigured
        try:
            body = call.body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise SweepUsage(reason=f"the body is not JSON: byte {error.start} is not UTF-8") from None
        answer = await namespace.getByName(call.params["sweep"]).call(verb, body)
        if isinstance(answer["value"], str):
            # already JSON: numbers go out as they came in
            return Raw(answer["value"].encode("ascii"), answer["status"], JSON_HEADERS)
        return Answer.of(answer)

    return handler


routes = [
    Route(
        ("POST",),
        f"{PREFIX}{{sweep}}/{name}",
        _verb(name),
        auth=_AUTH[verb.who],
        style=Style.COMPACT,
        failure=SweepStateUnavailable,
        accepts=_known,
        transport_cap=MAX_DOCUMENT_BYTES,
    )
    for name, verb in VERBS.items()
]


def describe() -> Any:
    """What the OpenAPI document says about these routes."""
    from ..openapi import Description
    from .sweep_api import paths_and_schemas

    return Description(*paths_and_schemas())
