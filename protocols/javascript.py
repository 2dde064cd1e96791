"""The rules of the reference's language that show on the wire: white space, texts, numbers, times.

The state plane's clients and vectors were made against a JavaScript Worker; where a field is "lenient" (spec
state-plane-protocol 1) it is lenient in exactly these ways.
"""

import math
import re
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

MAX_SAFE_INTEGER: Final = 2**53 - 1
ABSENT: Final = msgspec.UNSET
"""A member that is not there: not a number, as distinct from null, which is 0."""

WHITE_SPACE: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_RADIX: Final = {"0x": (16, "0123456789abcdef"), "0o": (8, "01234567"), "0b": (2, "01")}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def trim(text: str) -> str:
    """`text` without leading and trailing white space, of which U+FEFF is one and U+0085 and U+001C are not."""
    return text.strip(WHITE_SPACE)


def utf16_length(text: str) -> int:
    """Returns the length in UTF-16 units, which is what length limits of the wire format count."""
    return len(text) + sum(character > "\uffff" for character in text)


def to_text(value: object) -> str:
    """Returns the text of a JSON value; null, false, 0, NaN and an absent field (`ABSENT`) are the empty text.

    Clients exist that send 15 where a text is meant: the record and ticket routes read their texts so.
    """
    if value is ABSENT or value is None or value is False or value == 0 or value == "" or value != value:
        return ""
    return _text_of(value)


def trimmed_text(value: object) -> str:
    """Returns `to_text(value)` trimmed: how repository slugs, sections, commit ids and ticket members are read."""
    return trim(to_text(value))


def _text_of(value: object) -> str:
    """The text of a JSON value: of an array its members' texts with commas between them, however deep they nest."""
    if isinstance(value, str):
        return value
    texts: list[str] = []
    left = [value]
    while left:
        entry = left.pop()
        if isinstance(entry, list):
            for index in range(len(entry) - 1, -1, -1):
                left.append(entry[index])
                if index:
                    left.append(",")
        else:
            texts.append(_scalar_text(entry))
    return "".join(texts)


def _scalar_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    if isinstance(value, int | float):
        return number_text(value)
    return "[object Object]"


def number_text(value: int | float) -> str:
    """`value`, which counts as a double, as `Number.prototype.toString` writes it."""
    if abs(value) <= MAX_SAFE_INTEGER and value == int(value):
        return str(int(value))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    sign = "-" if number < 0 else ""
    # the shortest digits that read back as the number, as Python's repr finds them too
    mantissa, _, exponent = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    tail = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{tail}e{point - 1:+d}"


def to_number(value: Any) -> float | int:
    """`value`, as parsed from JSON, as a number; NaN for what is none.

    Text is trimmed and may be decimal, 0x, 0o or 0b, or empty (0); true is 1, false and null 0; an array of one
    member is that member; an absent member (`ABSENT`) and an object are not numbers. Integers come back as `int`,
    exactly.
    """
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if value is None:
        return 0
    if isinstance(value, list):
        return to_number(_text_of(value))
    if not isinstance(value, str):
        return math.nan
    text = trim(value)
    if not text:
        return 0
    base = _RADIX.get(text[:2].lower())
    if base is not None:
        digits = text[2:].lower()
        if not digits or any(digit not in base[1] for digit in digits) or len(digits) > 400:
            return math.nan
        return int(digits, base[0])
    if text in {"Infinity", "+Infinity"}:
        return math.inf
    if text == "-Infinity":
        return -math.inf
    if not _DECIMAL.fullmatch(text):
        return math.nan
    number = float(text)
    if number.is_integer():
        # beyond 2^53 a float has lost the digits, and is refused by every integer check all the same
        return int(number)
    return number


def to_safe_integer(value: Any, minimum: int = 0, maximum: int = MAX_SAFE_INTEGER) -> int | None:
    """`value` through `to_number`, when that is an integer within [minimum, maximum]; else None."""
    number = to_number(value)
    if isinstance(number, int) and minimum <= number <= maximum:
        return number
    return None


def iso_time(milliseconds: int) -> str:
    """`milliseconds` since 1970 as `2026-08-01T10:00:00.000Z`. Years 0 to 9999; OverflowError beyond."""
    seconds, rest = divmod(milliseconds, 1000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}.{rest:03d}Z"
    except ValueError as error:
        raise OverflowError(str(error)) from None
