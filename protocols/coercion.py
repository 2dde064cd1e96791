"""How the record and ticket routes read texts, where `protocols.javascript` tells how they read numbers.

Clients exist that send 15 where a text is meant, so the recorded answers depend on this (`records/bad-delivery-ids`).
"""

import math
import re

from .javascript import ABSENT, trim


def utf16_length(text: str) -> int:
    """Returns the length in UTF-16 units, which is what length limits of the wire format count."""
    return len(text) + sum(character > "\uffff" for character in text)


def to_text(value: object) -> str:
    """Returns the text of a JSON value; null, false, 0, NaN and an absent field (`ABSENT`) are the empty text."""
    if value is ABSENT or value is None or value is False or value == 0 or value == "":
        return ""
    return _string(value)


def trimmed_text(value: object) -> str:
    """Returns `to_text(value)` trimmed: how repository slugs, sections, commit ids and ticket members are read."""
    return trim(to_text(value))


def _string(value: object) -> str:
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number_text(value)
    if isinstance(value, list):
        return ",".join(_string(entry) for entry in value)
    return "[object Object]"


def _number_text(value: float) -> str:
    if math.isnan(value):
        return ""
    if value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    return re.sub(r"e([+-])0*(\d)", r"e\1\2", repr(value))
