"""JavaScript's string conversion, where the platform's API applies it to whatever user code passes."""

import datetime
from typing import Any

from .clone import Undefined


def text_of(value: Any) -> str:
    """Returns what `String(value)` gives: `true`, `5` for 5.0, `1,2` for a list, `[object Object]` for a dict."""
    match value:
        case str():
            return str(value)
        case None:
            return "null"
        case Undefined():
            return "undefined"
        case bool():
            return "true" if value else "false"
        case float() if value.is_integer() and abs(value) < 1e21:
            return str(int(value))
        case float():
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(repr(value), repr(value))
        case datetime.datetime():
            moment = value.astimezone(datetime.UTC)
            return moment.strftime("%a %b %d %Y %H:%M:%S GMT+0000 (Coordinated Universal Time)")
        case list() | tuple():
            return ",".join("" if item is None or isinstance(item, Undefined) else text_of(item) for item in value)
        case dict():
            return "[object Object]"
        case bytes() | bytearray() | memoryview():
            return ",".join(str(byte) for byte in bytes(value))
    to_text = getattr(value, "toString", None)
    return str(to_text()) if callable(to_text) else str(value)
