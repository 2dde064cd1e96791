"""Numbers as ECMAScript reads them from text, and the number kinds of event fields."""

import math
import re

from .canonical import MAX_SAFE_INTEGER
from .refusals import LedgerRefusal
from .whitespace import trim

_DECIMAL = re.compile(r"[+-]?(?:Infinity|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)", re.ASCII)
_RADIX = re.compile(r"0(?:[xX]([0-9a-fA-F]+)|[bB]([01]+)|[oO]([0-7]+))")


def es_number(text: str) -> float:
    """`Number(text)` of ECMAScript: NaN when the text is no number, 0 when it is empty."""
    text = trim(text)
    if not text:
        return 0.0
    radix = _RADIX.fullmatch(text)
    try:
        if radix:
            hexadecimal, binary, octal = radix.groups()
            return float(int(hexadecimal, 16) if hexadecimal else int(binary, 2) if binary else int(octal, 8))
        return float(text) if _DECIMAL.fullmatch(text) else math.nan
    except OverflowError:
        return math.inf


def is_number(value: object) -> bool:
    """Whether `value` is a JSON number (booleans are none)."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def integer(value: object, minimum: int, where: str) -> int:
    """A safe integer of at least `minimum` (0 or 1). Raises positive-integer or non-negative-integer."""
    if (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and (isinstance(value, int) or value.is_integer())
        and minimum <= value <= MAX_SAFE_INTEGER
        and not (value == 0 and math.copysign(1.0, value) < 0 and isinstance(value, float))
    ):
        return int(value)
    code = "positive-integer" if minimum else "non-negative-integer"
    raise LedgerRefusal(code, f"must be an integer from {minimum} to {MAX_SAFE_INTEGER}", where)


def unit_interval(value: object, where: str) -> int | float:
    """A number from 0 to 1. Raises unit-interval."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return int(value) if value == int(value) and math.copysign(1.0, value) > 0 else value
    raise LedgerRefusal("unit-interval", "must be a number from 0 to 1", where)


def boolean(value: object, where: str) -> bool:
    """A boolean. Raises boolean."""
    if isinstance(value, bool):
        return value
    raise LedgerRefusal("boolean", "must be true or false", where)
