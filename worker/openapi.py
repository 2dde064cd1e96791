"""The OpenAPI document of the routes that Moorage adds to the state plane: `python -m moorage.worker.openapi`.

A route module takes part by exporting `describe() -> Description`. `docs/openapi.json` is what this prints.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moorage.protocols.wire import (
    InvalidSignature,
    NotFound,
    RequestBodyTimeout,
    RequestBodyTooLarge,
    WireError,
)

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


_ERROR = {"$ref": "#/components/schemas/Error"}


def _json(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _refused(*errors: type[WireError]) -> dict[str, Any]:
    """The schema of an answer with one of the router's own codes."""
    return {"allOf": [_ERROR, {"properties": {"error": {"enum": [error.code for error in errors]}}}]}


@dataclass(frozen=True, slots=True)
class Common:
    """What the router itself may answer on every route."""

    name: str
    description: str
    schema: Mapping[str, Any] = field(default_factory=lambda: _ERROR)

    def response(self) -> dict[str, Any]:
        """The response component."""
        return {"description": self.description, **_json(self.schema)}

    def beside(self, response: Mapping[str, Any]) -> dict[str, Any]:
        """The response that a subject describes under the same status, with the router's as an alternative."""
        schema = response["content"]["application/json"]["schema"]
        description = f"{response['description']}; or {self.description}"
        return {**response, "description": description, **_json({"anyOf": [schema, self.schema]})}


RESPONSES = {
    "401": Common(
        "Unauthorized", "the signature was refused; `reason` says why, in version 2", _refused(InvalidSignature)
    ),
    "404": Common("NotFound", "no such path: a name in it may be of another form", _refused(NotFound)),
    "408": Common("Timeout", "the body did not come in time", _refused(RequestBodyTimeout)),
    "413": Common("TooLarge", "the body is above the route's limit", _refused(RequestBodyTooLarge)),
    "500": Common("Failed", "it failed; internals are in the log alone"),
    "503": Common("NotConfigured", "a secret or a binding is missing, or the object could not answer"),
}
"""By status, what every route may answer beside what its subject describes; 401 only where there is a signature."""


def _completed(item: Mapping[str, Any]) -> dict[str, Any]:
    whole: dict[str, Any] = {}
    for method, operation in item.items():
        responses = dict(operation["responses"])
        for status, common in RESPONSES.items():
            if status in responses:
                responses[status] = common.beside(responses[status])
            elif status != "401" or operation["security"]:
                responses[status] = {"$ref": f"#/components/responses/{common.name}"}
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
            "responses": {common.name: common.response() for common in RESPONSES.values()},
            "securitySchemes": SECURITY,
        },
    }


def text() -> str:
    """The document as it lies in `docs/openapi.json`."""
    return json.dumps(document(), indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    print(text(), end="")
