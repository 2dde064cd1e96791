"""JavaScript's string conversion, where the platform's API applies it to whatever user code passes."""

import datetime
import inspect
import math
import re
from typing import Any

from moorage.protocols.javascript import number_text

from .clone import Undefined


def well_formed(text: str) -> str:
    """Returns text that has an UTF-8 form: a lone surrogate becomes three U+FFFD, one for each of its bytes."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return "".join("\ufffd\ufffd\ufffd" if "\ud800" <= char <= "\udfff" else char for char in paired)
    return text


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
        case float():
            return "NaN" if math.isnan(value) else number_text(value)
        case datetime.datetime():
            moment = value.astimezone(datetime.UTC)
            return moment.strftime("%a %b %d %Y %H:%M:%S GMT+0000 (Coordinated Universal Time)")
        case list() | tuple():
            return ",".join("" if item is None or isinstance(item, Undefined) else text_of(item) for item in value)
        case dict():
            return "[object Object]"
        case set() | frozenset():
            return "[object Set]"
        case re.Pattern():
            return f"/{value.pattern}/"
        case BaseException():
            name = getattr(value, "name", None)
            kind = name if isinstance(name, str) else type(value).__name__
            return f"{'Error' if kind == 'Exception' else kind}: {value}"
        case bytes() | bytearray() | memoryview():
            return ",".join(str(byte) for byte in bytes(value))
    to_text = getattr(value, "toString", None)
    if callable(to_text):
        return str(to_text())
    if inspect.isroutine(value) or isinstance(value, type):
        return f"function {value.__name__}() {{ [native code] }}"
    # what Python writes of itself holds an address, which is another one after a restart
    return "[object Object]" if _shows_an_address(type(value)) else str(value)


def _shows_an_address(kind: Any) -> bool:
    return kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__
