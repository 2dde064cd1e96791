"""`js.JSON`: text without spaces, numbers as JavaScript writes them, objects that can be read by attribute."""

from __future__ import annotations

import datetime
import json
import math
from typing import Any

from moorage.durable_objects.runtime.web import js_string, to_platform

from .errors import JsSyntaxError, JsTypeError


class JSON:
    @staticmethod
    def parse(text: Any) -> Any:
        """The value of a JSON text; a SyntaxError of the platform (`JsException`) when it is none."""
        try:
            return to_platform(json.loads(js_string(text), parse_constant=_refuse))
        except ValueError as error:
            raise JsSyntaxError(str(error)) from None

    @staticmethod
    def stringify(value: Any, replacer: Any = None, space: Any = None) -> str | None:
        """The text of a value; None for a function. `space` is a number of blanks or a text."""
        plain = _plain(value, replacer if isinstance(replacer, list) else None, ())
        if plain is _DROPPED:
            return None
        indent: str | int | None = space if isinstance(space, str) and space else None
        if isinstance(space, int | float) and space >= 1:
            indent = min(int(space), 10)
        separators = (",", ":") if indent is None else (",", ": ")
        return json.dumps(plain, separators=separators, indent=indent, ensure_ascii=False)


def _refuse(name: str) -> Any:
    raise ValueError(f"Unexpected token {name}")


_DROPPED = object()


def _plain(value: Any, keys: list[Any] | None, above: tuple[int, ...]) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 1e21 else float(value)
    if isinstance(value, int):
        return int(value)
    to_json = getattr(value, "toJSON", None)
    if callable(to_json):
        return _plain(to_json(), keys, above)
    if isinstance(value, datetime.datetime):
        from .dates import Date

        return Date(value).toISOString()
    if id(value) in above:
        raise JsTypeError("Converting circular structure to JSON")
    above = (*above, id(value))
    if isinstance(value, dict):
        pairs = ((js_string(key), _plain(item, keys, above)) for key, item in value.items())
        return {key: item for key, item in pairs if item is not _DROPPED and (keys is None or key in keys)}
    if isinstance(value, list | tuple):
        items = (_plain(item, keys, above) for item in value)
        return [None if item is _DROPPED else item for item in items]
    if callable(value):
        return _DROPPED
    return {}
