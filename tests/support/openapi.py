"""Holds what is sent and answered against the OpenAPI document."""

import json
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from moorage.worker import openapi


class Contract:
    """The document, and checks of values against the schemas in it."""

    def __init__(self) -> None:
        self.document = openapi.document()
        self._registry = Registry().with_resource("urn:api", DRAFT202012.create_resource(self.document))

    def operation(self, path: str, method: str = "post") -> Any:
        """What the document says about one route."""
        return self.document["paths"][path][method]

    def check_body(self, path: str, value: Any) -> None:
        """The body of a POST is what the document describes."""
        content = self.operation(path)["requestBody"]["content"]
        self._check(content["application/json"]["schema"], value, f"{path} body")

    def check_answer(self, path: str, status: int, value: Any, method: str = "post") -> None:
        """An answer in JSON has a status and a shape that the document describes; other content is not looked at."""
        responses = self.operation(path, method)["responses"]
        assert str(status) in responses, (path, status, value)
        response = responses[str(status)]
        if "$ref" in response:
            response = self.document["components"]["responses"][response["$ref"].rpartition("/")[2]]
        content = response["content"]
        if "application/json" in content:
            self._check(content["application/json"]["schema"], value, f"{path} {status}")

    def _check(self, schema: Any, value: Any, what: str) -> None:
        # references are relative to the document
        text = json.dumps(schema).replace('"#/components', '"urn:api#/components')
        errors = list(Draft202012Validator(json.loads(text), registry=self._registry).iter_errors(value))
        assert errors == [], (what, value)
