"""`POST /internal/ledger/<verb>`: the lock and the index of the ledger's imports in R2, and the removal of shards.

Verbs, bodies and who may ask them: `moorage.protocols.ledger.index`. The files themselves go through the blob routes.
"""

from typing import Any, Final

from moorage.durable_objects.objects.ledger_index import BINDING, OBJECT
from moorage.protocols.ledger.index import MAX_BODY_BYTES, PREFIX, VERBS, Who
from moorage.protocols.wire import WireError
from moorage.protocols.wire.ledger import (
    LedgerIncomplete,
    LedgerIndexNotConfigured,
    LedgerIndexUnavailable,
    LedgerLocked,
    LedgerLockLost,
    LedgerRebuildStale,
    LedgerReserved,
    LedgerSegmentNotFound,
    LedgerSegmentRefused,
)

from ..routing import MIB, Answer, Auth, Call, Handler, Result, Route

_AUTH: dict[Who, Auth] = {"webhook": Auth.WEBHOOK, "operator": Auth.OPERATOR}


def _verb(verb: str) -> Handler:
    async def handler(call: Call) -> Result:
        namespace: Any = getattr(call.env, BINDING, None)
        if namespace is None:
            raise LedgerIndexNotConfigured(reason=f"{BINDING} is not bound")
        return Answer.of(await namespace.getByName(OBJECT).call(verb, call.body))

    return handler


routes = [
    Route(
        ("POST",),
        PREFIX + name,
        _verb(name),
        auth=_AUTH[verb.who],
        failure=LedgerIndexUnavailable,
        transport_cap=MAX_BODY_BYTES if name == "reserve" else MIB,
    )
    for name, verb in VERBS.items()
]

TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "integer"}
TEXTS: Final = {"type": "array", "items": TEXT}


def _members(**members: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(members), "properties": members, "additionalProperties": False}


def _nullable(**schema: Any) -> dict[str, Any]:
    return {**schema, "type": [schema["type"], "null"]}


_LOCK: Final = _members(
    holder=_nullable(type="string"),
    token=NUMBER,
    expires_at={"type": "integer", "description": "ms since 1970"},
)
_OK: Final = _members(ok={"const": True})
_SET: Final = _members(digest=TEXT, state={"enum": ["reserved", "complete"]})

ANSWERS: Final[dict[str, dict[str, Any]]] = {
    "lock-acquire": _LOCK,
    "lock-renew": _LOCK,
    "lock-release": _OK,
    "reserve": _members(sets={"type": "array", "items": _SET}),
    "complete": _OK,
    "status": _members(
        sets=NUMBER,
        complete=NUMBER,
        events=NUMBER,
        rebuilt_at=_nullable(type="integer", description="when the last rebuild ended, ms since 1970"),
        unfinished={**TEXTS, "description": "reservations of incomplete sets, 100 at most"},
        lock=_LOCK,
    ),
    "rebuild": _members(
        generation=NUMBER,
        cursor=_nullable(type="string", description="where the next step goes on; null at the end"),
        read=NUMBER,
        damaged={**TEXTS, "description": "binding files that were passed over"},
    ),
    "prune": _members(
        removed=TEXTS,
        bytes=NUMBER,
        next=_nullable(type="string", description="`after` of the next step; null at the end"),
    ),
}
REFUSALS: Final[dict[str, tuple[type[WireError], ...]]] = {
    "lock-acquire": (LedgerLocked,),
    "lock-renew": (LedgerLockLost,),
    "lock-release": (LedgerLockLost,),
    "reserve": (LedgerLockLost, LedgerReserved),
    "complete": (LedgerLockLost, LedgerIncomplete),
    "status": (),
    "rebuild": (LedgerRebuildStale,),
    "prune": (LedgerSegmentNotFound, LedgerSegmentRefused),
}
"""What each verb can be refused with, beside a body that is not what it takes."""


def _error(*kinds: type[WireError]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "required": ["error"],
        "properties": {
            "error": {"enum": sorted(kind.code for kind in kinds)},
            "reason": TEXT,
            "refusal": {**TEXT, "description": "the ledger's own refusal class"},
            "where": {**TEXT, "description": "path or event id"},
            "lock": _LOCK,
        },
        "additionalProperties": False,
    }
    return {
        "description": "; ".join(_line(kind) for kind in kinds),
        "content": {"application/json": {"schema": schema}},
    }


def _line(kind: type[WireError]) -> str:
    """A refusal's code and its default message."""
    return f"{kind.code}: {(kind.__doc__ or '').splitlines()[0]}"


def describe() -> Any:
    """What the OpenAPI document says about these routes."""
    import msgspec

    from moorage.protocols.wire.ledger import LedgerUsage

    from ..openapi import Description

    bodies, components = msgspec.json.schema_components(
        [verb.body for verb in VERBS.values()], ref_template="#/components/schemas/Ledger{name}"
    )
    paths = {}
    for (name, verb), body in zip(VERBS.items(), bodies, strict=True):
        kinds: dict[int, list[type[WireError]]] = {400: [LedgerUsage]}
        for kind in REFUSALS[name]:
            kinds.setdefault(kind.status, []).append(kind)
        paths[PREFIX + name] = {
            "post": {
                "summary": verb.summary,
                "operationId": f"ledger-{name}",
                "tags": ["ledger"],
                "security": [{verb.who: []}],
                "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
                "responses": {
                    "200": {"description": "done", "content": {"application/json": {"schema": ANSWERS[name]}}},
                    **{str(status): _error(*found) for status, found in sorted(kinds.items())},
                },
            }
        }
    return Description(paths, {f"Ledger{name}": schema for name, schema in components.items()})
