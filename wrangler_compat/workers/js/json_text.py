"""`js.JSON`: text without spaces, numbers as JavaScript writes them, objects that can be read by attribute."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any

from moorage.durable_objects.runtime.web import js_string, to_platform
from moorage.durable_objects.runtime.web.values import number_string

from .errors import JsSyntaxError, JsTypeError
from .objects import Map, Set


class JSON:
    @staticmethod
    def parse(text: Any, reviver: Callable[[str, Any], Any] | None = None) -> Any:
        """The value of a JSON text; a SyntaxError of the platform (`JsException`) when it is none.

        `reviver(key, value)` replaces each member, inner ones first, and the whole under the empty key.
        """
        try:
            value = to_platform(json.loads(js_string(text), parse_constant=_refuse))
        except ValueError as error:
            raise JsSyntaxError(str(error)) from None
        return value if reviver is None else _revived("", value, reviver)

    @staticmethod
    def stringify(value: Any, replacer: Any = None, space: Any = None) -> str | None:
        """The text of a value; None for a function.

        `replacer` is a list of the keys to keep, or a function `(key, value)` that gives what is written instead.
        `space` is a number of blanks or a text.
        """
        plain = _plain("", value, replacer, ())
        if plain is _DROPPED:
            return None
        indent: str | int | None = space if isinstance(space, str) and space else None
        if isinstance(space, int | float) and space >= 1:
            indent = min(int(space), 10)
        pad = " " * indent if isinstance(indent, int) else indent
        written: list[str] = []
        _write(plain, written, pad or "", "\n")
        return "".join(written)


def _refuse(name: str) -> Any:
    raise ValueError(f"Unexpected token {name}")


_HALF = re.compile("[\ud800-\udfff]")
_DROPPED = object()


def _write(value: Any, written: list[str], pad: str, line: str) -> None:
    """Text as `JSON.stringify` writes it; `line` is what begins a line at this depth."""
    if isinstance(value, str):
        # a half of a surrogate pair is no text: it is escaped (well-formed JSON.stringify)
        written.append(_HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", encode_basestring(value)))
    elif value is None or isinstance(value, bool):
        written.append({None: "null", True: "true", False: "false"}[value])
    elif isinstance(value, float):
        written.append(number_string(value))
    elif isinstance(value, int):
        written.append(str(value))
    else:
        inner = line + pad
        mapping = isinstance(value, dict)
        written.append("{" if mapping else "[")
        for place, item in enumerate(value):
            written.append(("," if place else "") + (inner if pad else ""))
            if mapping:
                _write(item, written, pad, inner)
                written.append(": " if pad else ":")
                item = value[item]
            _write(item, written, pad, inner)
        written.append((line if pad and value else "") + ("}" if mapping else "]"))


def _revived(key: str, value: Any, reviver: Callable[[str, Any], Any]) -> Any:
    if isinstance(value, dict):
        for name in list(value):
            value[name] = _revived(name, value[name], reviver)
    elif isinstance(value, list):
        value[:] = [_revived(str(place), item, reviver) for place, item in enumerate(value)]
    return reviver(key, value)


def _plain(key: str, value: Any, replacer: Any, above: tuple[int, ...]) -> Any:
    to_json = getattr(value, "toJSON", None)
    if callable(to_json):
        value = to_json()
    if callable(replacer):
        value = replacer(key, value)
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return float(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, datetime.datetime):
        from .dates import Date

        return Date(value).toISOString()
    if id(value) in above:
        raise JsTypeError("Converting circular structure to JSON")
    above = (*above, id(value))
    if isinstance(value, Map | Set):
        return {}  # what they hold is no property
    if isinstance(value, dict):
        kept = replacer if isinstance(replacer, list) else None
        names = ((js_string(name), item) for name, item in value.items())
        pairs = ((name, _plain(name, item, replacer, above)) for name, item in names if kept is None or name in kept)
        return {name: item for name, item in pairs if item is not _DROPPED}
    if isinstance(value, list | tuple):
        items = (_plain(str(place), item, replacer, above) for place, item in enumerate(value))
        return [None if item is _DROPPED else item for item in items]
    if callable(value):
        return _DROPPED
    return {}
