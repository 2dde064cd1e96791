"""JSON Schema for the reports of a shared queue, by the `jsonschema` library."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from moorage.protocols.jobs.errors import Refused
from moorage.protocols.jobs.schemas import CANONICAL

# The library takes long to import, and most servers never see a report: it is loaded with the first one.
if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from referencing import Registry


@functools.cache
def _registry() -> Registry[Any]:
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    empty: Registry[Any] = Registry()
    return empty.with_resources(
        (address, DRAFT202012.create_resource(schema)) for address, schema in CANONICAL.items()
    )


@functools.lru_cache(maxsize=128)
def _validator(text: str) -> Draft202012Validator:
    from jsonschema import Draft202012Validator

    schema = json.loads(text)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, registry=_registry())


def validate(schema: Mapping[str, Any], instance: object) -> str | None:
    """None when the instance is valid, else what is wrong and where. Nothing is fetched.

    Raises `Refused("extension-invalid")` for a schema that is not usable.
    """
    from jsonschema.exceptions import SchemaError, best_match
    from referencing.exceptions import Unresolvable

    try:
        found = best_match(_validator(json.dumps(schema)).iter_errors(instance))
    except SchemaError as error:
        raise Refused("extension-invalid", f"the report schema is not valid: {error.message}") from error
    except Unresolvable as error:
        raise Refused("extension-invalid", f"the report schema refers to {error.ref}, which is unknown") from error
    return None if found is None else f"{found.json_path}: {found.message[:300]}"
