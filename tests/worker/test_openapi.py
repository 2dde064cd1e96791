"""`docs/openapi.json` is what the routes say, and names every route that its subjects have."""

import json
from pathlib import Path
from typing import Any

import openapi_spec_validator
import pytest
from openapi_spec_validator.validation.exceptions import OpenAPIValidationError

from moorage.worker import openapi
from moorage.worker.routes import SUBJECTS
from moorage.worker.routing import Auth, Route

PUBLISHED = Path(__file__).parents[2] / "docs" / "openapi.json"
KEYS = {Auth.NONE: [], Auth.WEBHOOK: ["webhook"], Auth.OPERATOR: ["operator"]}


def described_routes() -> list[Route]:
    return [route for subject in SUBJECTS if hasattr(subject, "describe") for route in subject.routes]


def test_the_published_document_is_up_to_date() -> None:
    assert PUBLISHED.read_text() == openapi.text(), "run: python -m moorage.worker.openapi > docs/openapi.json"


def test_every_route_is_described_with_its_authorisation() -> None:
    paths = openapi.document()["paths"]
    described = {(method.upper(), path) for path, item in paths.items() for method in item}
    assert described == {(method, route.path) for route in described_routes() for method in route.methods}
    for route in described_routes():
        for method in route.methods:
            operation = paths[route.path][method.lower()]
            assert [key for entry in operation["security"] for key in entry] == KEYS[route.auth], route.path


def test_references_lead_somewhere() -> None:
    document = openapi.document()
    schemas = document["components"]["schemas"]

    def look(value: Any) -> None:
        if isinstance(value, dict):
            reference = value.get("$ref", "")
            if isinstance(reference, str) and reference.startswith("#/components/schemas/"):
                assert reference.rpartition("/")[2] in schemas
            for inner in value.values():
                look(inner)
        elif isinstance(value, list):
            for inner in value:
                look(inner)

    look(document)
    json.dumps(document)


def test_the_document_is_openapi() -> None:
    openapi_spec_validator.validate(openapi.document())
    broken = openapi.document()
    del broken["info"]
    with pytest.raises(OpenAPIValidationError):
        openapi_spec_validator.validate(broken)
