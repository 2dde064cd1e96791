"""JSON and TOML values as the validation sees them.

A key that is absent and a key whose value is `null` are different things to the platform (an absent key is never of
the wrong type), hence `MISSING`.
"""

import json
from collections.abc import Mapping
from datetime import date, time
from enum import Enum
from typing import Final, TypeAlias, TypeGuard

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"
"""What `vars` may hold."""


class _Missing(Enum):
    MISSING = "missing"


MISSING: Final = _Missing.MISSING

Object: TypeAlias = dict[str, object]


def is_object(value: object) -> TypeGuard[dict[str, object]]:
    """True for a JSON object or TOML table."""
    return isinstance(value, dict)


def is_number(value: object) -> TypeGuard[int | float]:
    """True for a number; `true` and `false` are none, although Python counts them as such."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def get(container: Mapping[str, object], *keys: str) -> object:
    """The value below `keys`, or `MISSING` where a step is absent or not an object."""
    value: object = container
    for key in keys:
        if not isinstance(value, Mapping) or key not in value:
            return MISSING
        value = value[key]
    return value


def type_name(value: object) -> str:
    """The type of a value in the words of the format: `text`, `number`, `boolean`, `null`, `list`, `object`,
    `date`.
    """
    if value is MISSING:
        return "nothing"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, list):
        return "list"
    if isinstance(value, dict):
        return "object"
    return "date" if isinstance(value, date | time) else type(value).__name__


def has_type(value: object, wanted: str) -> bool:
    """Whether `value` is of the type `wanted` (names of `type_name`).

    `object` also takes lists, null and dates, as the platform's own check by JavaScript's `typeof` does: whatever
    more is required of them is checked apart.
    """
    actual = type_name(value)
    return actual == wanted or (wanted == "object" and actual in {"list", "null", "date"})


def show(value: object, limit: int = 80) -> str:
    """`value` as it would stand in a JSON file, cut to `limit` characters, for messages."""
    if value is MISSING:
        return "missing"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
