"""Global functions: numbers and URIs as text, `structuredClone`; and `js.Math`."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote, unquote

from moorage.durable_objects.runtime.clone import DataCloneError as RuntimeDataCloneError
from moorage.durable_objects.runtime.clone import copy_value
from moorage.durable_objects.runtime.web import URL, Headers, JsBytes, URLSearchParams, js_string, to_platform

from .binary import ArrayBuffer, DataView, TypedArray, Uint8Array
from .dates import Date
from .errors import DataCloneError, JsException
from .objects import Map, Number, RegExp, Set, to_number

# ECMAScript 19.2.6: what a URI may hold as it is, beyond letters and digits.
_UNRESERVED: Final = "-_.!~*'()"
_RESERVED: Final = ";/?:@&=+$,#"
_RESERVED_ESCAPE: Final = re.compile("(" + "|".join(f"%{ord(letter):02x}" for letter in _RESERVED) + ")", re.I)
_ESCAPES: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+|%")


class Math:
    """`js.Math`: Python's functions under the same names, and those that differ."""

    PI, E = math.pi, math.e
    LN2, LN10, LOG2E, LOG10E = math.log(2), math.log(10), 1 / math.log(2), 1 / math.log(10)
    SQRT2, SQRT1_2 = math.sqrt(2), math.sqrt(0.5)
    abs, floor, ceil, trunc, sqrt, cbrt, hypot = (
        abs,
        math.floor,
        math.ceil,
        math.trunc,
        math.sqrt,
        math.cbrt,
        math.hypot,
    )
    sin, cos, tan, asin, acos, atan, atan2 = (
        math.sin, math.cos, math.tan, math.asin, math.acos, math.atan, math.atan2,
    )  # fmt: skip
    sinh, cosh, tanh, asinh, acosh, atanh = math.sinh, math.cosh, math.tanh, math.asinh, math.acosh, math.atanh
    exp, expm1, log1p, log2, log10, pow = math.exp, math.expm1, math.log1p, math.log2, math.log10, math.pow

    @staticmethod
    def log(number: float) -> float:
        if number == 0:
            return -math.inf
        return math.log(number) if number > 0 else math.nan

    @staticmethod
    def max(*numbers: Any) -> Any:
        return max(numbers, default=-math.inf)

    @staticmethod
    def min(*numbers: Any) -> Any:
        return min(numbers, default=math.inf)

    @staticmethod
    def random() -> float:
        return random.random()

    @staticmethod
    def round(number: float) -> int:
        """Halves go up: -1.5 is -1."""
        return math.floor(number + 0.5)

    @staticmethod
    def sign(number: float) -> int:
        return (number > 0) - (number < 0)


def parseInt(text: Any, radix: int = 10) -> float | int:
    source = str(text)
    if radix in {0, 10, 16} and (hexadecimal := re.match(r"\s*([+-]?)0[xX]([0-9a-fA-F]+)", source)):
        return int(hexadecimal[1] + hexadecimal[2], 16)
    radix = radix or 10
    digits = "0123456789abcdefghijklmnopqrstuvwxyz"[:radix]
    found = re.match(rf"\s*([+-]?[{digits}]+)", source, re.IGNORECASE)
    return int(found[1], radix) if found else math.nan


def parseFloat(text: Any) -> float:
    found = re.match(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", str(text))
    return float(found[1]) if found else math.nan


def isNaN(value: Any) -> bool:
    return math.isnan(to_number(value))


def isFinite(value: Any) -> bool:
    return math.isfinite(to_number(value))


def encodeURIComponent(text: Any) -> str:
    return _encoded(text, _UNRESERVED)


def encodeURI(text: Any) -> str:
    return _encoded(text, _UNRESERVED + _RESERVED)


def _encoded(text: Any, safe: str) -> str:
    try:
        return quote(js_string(text), safe=safe)
    except UnicodeEncodeError:
        raise _malformed() from None


def decodeURIComponent(text: Any) -> str:
    """Raises a URIError (`JsException`) for escapes that are none, or no UTF-8."""
    return _decoded(text, unquote_strict)


def decodeURI(text: Any) -> str:
    """Leaves the escapes of characters that separate parts of a URI."""

    def keeping(escapes: str) -> str:
        pieces = _RESERVED_ESCAPE.split(escapes)  # every second one is such an escape
        return "".join(piece if place % 2 else unquote_strict(piece) for place, piece in enumerate(pieces))

    return _decoded(text, keeping)


def unquote_strict(escapes: str) -> str:
    return unquote(escapes, errors="strict")


def _decoded(text: Any, convert: Callable[[str], str]) -> str:
    def replace(found: re.Match[str]) -> str:
        if found[0] == "%":
            raise _malformed()
        try:
            return convert(found[0])
        except UnicodeDecodeError:
            raise _malformed() from None

    return _ESCAPES.sub(replace, js_string(text))


def _malformed() -> JsException:
    return JsException("URI malformed", "URIError")


def structuredClone(value: Any, options: Any = None) -> Any:
    """A copy all the way down that answers to JavaScript's spellings. DataCloneError for functions and the like."""
    try:
        return _clone(value, {})
    except RuntimeDataCloneError as error:
        raise error if isinstance(error, DataCloneError) else DataCloneError(error.message) from error


def _clone(value: Any, seen: dict[int, Any]) -> Any:
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, Map):
        mapping = seen[id(value)] = Map()
        for key, item in value.items():
            mapping[_clone(key, seen)] = _clone(item, seen)
        return mapping
    if isinstance(value, Set):
        return Set(_clone(item, seen) for item in value)
    if isinstance(value, Uint8Array | ArrayBuffer):
        return type(value)(value)
    if isinstance(value, TypedArray):
        return type(value)(ArrayBuffer(value.to_bytes()))
    if isinstance(value, DataView):
        return DataView(ArrayBuffer(value.to_bytes()))
    if isinstance(value, Date):
        return Date(value.value)
    if isinstance(value, RegExp):
        return RegExp(value.source, value.flags)
    if isinstance(value, Number):
        return Number(value)
    if isinstance(value, URL | URLSearchParams | Headers):
        raise DataCloneError(f"{type(value).__name__} could not be cloned.")
    if isinstance(value, dict):
        copy = seen[id(value)] = to_platform({})
        for key, item in value.items():
            copy[key] = _clone(item, seen)
        return copy
    if isinstance(value, list | tuple):
        items = seen[id(value)] = to_platform([])
        items.extend(_clone(item, seen) for item in value)
        return items
    return JsBytes(value) if isinstance(value, bytes) else to_platform(copy_value(value))


__all__ = [
    "Math",
    "decodeURI",
    "decodeURIComponent",
    "encodeURI",
    "encodeURIComponent",
    "isFinite",
    "isNaN",
    "parseFloat",
    "parseInt",
    "structuredClone",
]
