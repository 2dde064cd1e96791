"""JSON Schema for reports, by the `jsonschema` library (extra `jobs`), loaded when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moorage.protocols.jobs.errors import Refused
from moorage.protocols.jobs.schemas import CANONICAL


def validate(schema: Mapping[str, Any], instance: object) -> str | None:
    """None when the instance is valid, else what is wrong and where, in one line.

    References are resolved among the canonical schemas and inside the schema itself; nothing is fetched.
    Raises `Refused("extension-invalid")` for a schema that is not usable, and when the library is missing.
    """
    try:
        from jsonschema import Draft202012Validator
        from jsonschema.exceptions import SchemaError, best_match
        from referencing import Registry
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT202012
    except ImportError as error:
        raise Refused(
            "extension-invalid", "report schemas need the extra `jobs`: pip install moorage[jobs]"
        ) from error

    resources = ((address, DRAFT202012.create_resource(value)) for address, value in CANONICAL.items())
    try:
        Draft202012Validator.check_schema(dict(schema))
        validator = Draft202012Validator(dict(schema), registry=Registry().with_resources(resources))
        found = best_match(validator.iter_errors(instance))
    except SchemaError as error:
        raise Refused("extension-invalid", f"the report schema is not valid: {error.message}") from error
    except Unresolvable as error:
        raise Refused("extension-invalid", f"the report schema refers to {error.ref}, which is unknown") from error
    return None if found is None else f"{found.json_path}: {found.message[:300]}"
