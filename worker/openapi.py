"""The OpenAPI document of the routes that Moorage adds to the state plane: `python -m moorage.worker.openapi`.

A route module takes part by exporting `describe() -> Description`. `docs/openapi.json` is what this prints.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .routes import SUBJECTS


@dataclass(frozen=True, slots=True)
class Description:
    """What one subject adds: path items by path, and component schemas by name."""

    paths: Mapping[str, Any]
    schemas: Mapping[str, Any] = field(default_factory=dict)


SECURITY = {
    "webhook": {
        "type": "apiKey",
        "in": "header",
        "name": "signature-input",
        "description": "HTTP Message Signature (RFC 9421), `hmac-sha256`, keyid `webhook`, over @method, @path, "
        "@query and content-digest; or version 1, `x-clawsweeper-exact-review-signature` over the body",
    },
    "operator": {
        "type": "apiKey",
        "in": "header",
        "name": "signature-input",
        "description": "The same with the operator's secret, keyid `operator`",
    },
}
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string", "description": "stable code"}, "message": {"type": "string"}},
}


def _common(name: str, description: str) -> tuple[str, dict[str, Any]]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return name, {"description": description, "content": error}


RESPONSES = {
    "401": _common("Unauthorized", "the signature was refused; `reason` says why, in version 2"),
    "404": _common("NotFound", "no such path: a name in it may be of another form"),
    "413": _common("TooLarge", "the body is above the route's limit"),
    "500": _common("Failed", "it failed; internals are in the log alone"),
    "503": _common("NotConfigured", "a secret or a binding is missing, or the object could not answer"),
}
"""What every route may answer beside what its subject describes; 401 only where there is a signature."""


def _completed(item: Mapping[str, Any]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for method, operation in item.items():
        common = {
            status: {"$ref": f"#/components/responses/{name}"}
            for status, (name, _) in RESPONSES.items()
            if status != "401" or operation["security"]
        }
        responses = {**common, **operation["responses"]}
        whole[method] = {**operation, "responses": dict(sorted(responses.items()))}
    return whole


def document() -> dict[str, Any]:
    """The whole document. Raises ValueError when two subjects describe one path, or one schema differently."""
    paths: dict[str, Any] = {}
    schemas: dict[str, Any] = {"Error": ERROR}
    for subject in SUBJECTS:
        describe = getattr(subject, "describe", None)
        if describe is None:
            continue
        found: Description = describe()
        for path, item in found.paths.items():
            if path in paths:
                raise ValueError(f"{path} is described twice")
            paths[path] = _completed(item)
        for name, schema in found.schemas.items():
            if schemas.setdefault(name, schema) != schema:
                raise ValueError(f"the schema {name} is described twice, and differently")
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Moorage state plane: engines",
            "version": "1",
            "description": "Routes that Moorage adds. Errors are an object with a stable code in `error`.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": dict(RESPONSES.values()),
            "securitySchemes": SECURITY,
        },
    }


def text() -> str:
    """The document as it lies in `docs/openapi.json`."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(text(), end="")
