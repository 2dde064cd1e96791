"""The description of the sweep routes for the OpenAPI document: bodies from their types, answers by hand."""

from typing import Any, Final

import msgspec

from moorage.protocols.sweep import Word
from moorage.protocols.sweep.shared import PREFIX, SWEEP_GRAMMAR, VERBS
from moorage.protocols.wire import WireError
from moorage.protocols.wire.sweep import (
    SweepCursorRefused,
    SweepDocumentCorrupt,
    SweepExists,
    SweepItemInvalid,
    SweepLeaseLost,
    SweepLocked,
    SweepNotFound,
)

TEXT: Final[dict[str, Any]] = {"type": "string"}
NUMBER: Final[dict[str, Any]] = {"type": "integer"}
TEXTS: Final[dict[str, Any]] = {"type": "array", "items": TEXT}

REFUSALS: Final[dict[str, tuple[type[WireError], ...]]] = {
    "read": (SweepNotFound,),
    "validate": (),
    "upsert-item": (SweepLeaseLost, SweepItemInvalid),
    "upsert-items": (SweepLeaseLost, SweepItemInvalid),
    "cursor-get": (),
    "cursor-advance": (SweepLeaseLost, SweepCursorRefused, SweepItemInvalid),
    "lease-acquire": (SweepLocked,),
    "lease-release": (SweepLeaseLost,),
    "run-record": (SweepItemInvalid,),
    "import-legacy": (SweepItemInvalid,),
    "export": (SweepNotFound,),
    "import": (SweepDocumentCorrupt, SweepExists, SweepItemInvalid),
}
"""What each verb can be refused with, beside a body that is not what it takes."""


def _object(**members: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(members), "properties": members}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _word(*words: Word) -> dict[str, Any]:
    return {"enum": [word.value for word in words]}


def _ok(**members: Any) -> dict[str, Any]:
    return _object(word=_word(Word.OK), **members)


def _payload(**members: Any) -> dict[str, Any]:
    return _ok(payload=_object(**members))


LEASE: Final = _object(writer=TEXT, timestamp=TEXT, ttl_minutes=NUMBER)
RECLAIMED: Final = _object(previous_writer=TEXT, previous_timestamp={})

ANSWERS: Final[dict[str, dict[str, Any]]] = {
    "read": _ok(payload=_object(schema_version={}, sources={"type": "object"}, items={"type": "object"})),
    "validate": _payload(downgraded=TEXTS),
    "upsert-item": _ok(),
    "upsert-items": _payload(upserted=NUMBER),
    "cursor-get": _payload(cursor={}),
    "cursor-advance": _ok(),
    "lease-acquire": {
        "oneOf": [
            _object(word=_word(Word.OK), token=NUMBER, lease=LEASE),
            _object(word=_word(Word.STALE_RECLAIMED), payload=RECLAIMED, token=NUMBER, lease=LEASE),
        ]
    },
    "lease-release": _ok(),
    "run-record": _ok(),
    "import-legacy": _payload(cursors_imported=NUMBER, items_imported=NUMBER),
    "export": _ok(document={**TEXT, "description": "the state file's text"}),
    "import": _payload(items=NUMBER, sources=NUMBER),
}

SCHEMAS: Final[dict[str, Any]] = {
    "SweepRefusal": {
        "type": "object",
        "required": ["error", "word", "reason"],
        "properties": {
            "error": {"enum": sorted({kind.code for kinds in REFUSALS.values() for kind in kinds})},
            "word": _word(*(word for word in Word if word not in (Word.OK, Word.STALE_RECLAIMED))),
            "reason": TEXT,
            "lease": {"description": "of LOCKED: the lease that is in the way", "type": "object"},
        },
    },
    "SweepUsage": _object(error={"const": "sweep_usage"}, reason=TEXT),
}


def _json(schema: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _operation(verb: str, body: Any) -> dict[str, Any]:
    refused = {"400": {"description": "the body is not what the verb takes", **_json(_ref("SweepUsage"))}}
    for status in sorted({kind.status for kind in REFUSALS[verb]}):
        codes = ", ".join(kind.code for kind in REFUSALS[verb] if kind.status == status)
        refused[str(status)] = {"description": codes, **_json(_ref("SweepRefusal"))}
    return {
        "summary": VERBS[verb].summary,
        "operationId": f"sweeps-{verb}",
        "tags": ["sweeps"],
        "parameters": [
            {
                "name": "sweep",
                "in": "path",
                "required": True,
                "description": "name of the shared sweep; one of another form is 404",
                "schema": {**TEXT, "pattern": f"^{SWEEP_GRAMMAR}$"},
            }
        ],
        "security": [{VERBS[verb].who: []}],
        "requestBody": {"required": True, **_json(body)},
        "responses": {"200": {"description": "done", **_json(ANSWERS[verb])}, **refused},
    }


def paths_and_schemas() -> tuple[dict[str, Any], dict[str, Any]]:
    """The path items of the sweep routes, and the component schemas that they refer to."""
    verbs = list(VERBS)
    bodies, components = msgspec.json.schema_components(
        [VERBS[verb].body for verb in verbs], ref_template="#/components/schemas/Sweep{name}"
    )
    paths = {
        f"{PREFIX}{{sweep}}/{verb}": {"post": _operation(verb, body)}
        for verb, body in zip(verbs, bodies, strict=True)
    }
    return paths, {**{f"Sweep{name}": schema for name, schema in components.items()}, **SCHEMAS}
