"""Values bound to a statement (platform: D1, type conversion)."""

import math
from typing import Any

from moorage.durable_objects.runtime.web import js_string

from ...workers.js.binary import buffer_bytes
from ...workers.js.errors import JsException
from ..values import is_buffer


def bound(value: Any) -> Any:
    """What the statement gets: booleans become 1 and 0, bytes and lists of byte values a BLOB.

    Raises JsException `D1_TYPE_ERROR` for everything that is no number, text, bytes, boolean or None.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if is_buffer(value):
        return buffer_bytes(value)
    if isinstance(value, list) and all(type(item) is int and 0 <= item <= 255 for item in value):
        return bytes(value)
    text = js_string(value) if isinstance(value, list | dict) else str(value)
    raise JsException(f"D1_TYPE_ERROR: Type '{_type_name(value)}' not supported for value '{text}'")


def _type_name(value: Any) -> str:
    return "object" if isinstance(value, dict | list) else type(value).__name__


def shown(value: Any) -> Any:
    """A value of a row as results show it: a BLOB is a list of byte values, as on the platform."""
    return list(value) if isinstance(value, bytes) else value
