"""Ranges of `get` (spec durable-object-semantics 15.7). Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .arguments import is_headers, number_text, wrong_field
from .errors import RangeError, RangeNotSatisfiable

_UNIT: Final = re.compile(r" *bytes *=", re.IGNORECASE)
_SPAN: Final = re.compile(r" *([0-9]+)? *- *([0-9]+)? *", re.ASCII)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of an object that exists: `length` bytes from `offset`."""

    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """A range as it was asked for, before the object's size is known."""

    offset: int | None = None
    length: int | None = None
    suffix: int | None = None

    def resolve(self, size: int) -> Span:
        """The bytes meant, in an object of `size` bytes; RangeNotSatisfiable when there are none."""
        if self.suffix is not None:
            length = min(self.suffix, size)
            offset = size - length
            if self.suffix <= 0:
                raise RangeNotSatisfiable
        else:
            offset = 0 if self.offset is None else self.offset
            length = size - offset if self.length is None else self.length
        length = min(length, size - offset)
        # of an empty object no range can be served, a suffix included
        if length <= 0:
            raise RangeNotSatisfiable
        return Span(offset, length)


@dataclass(frozen=True, slots=True)
class RangeHeader:
    """A Range field. It is honoured when it holds one satisfiable range and otherwise ignored."""

    text: str

    def resolve(self, size: int) -> Span:
        """The bytes meant, or the whole object. `r2-range-from-headers-odd`"""
        spans = _satisfiable(self.text, size)
        return spans[0] if len(spans) == 1 else Span(0, size)


def range_of(value: Any, struct: str = "GetOptions") -> RangeRequest | RangeHeader | None:
    """The range in a `range` option (a dictionary or Headers); None when it asks for the whole object.

    RangeError for negative and fractional numbers, TypeError for wrong types and for a suffix with anything else.
    """
    if value is None:
        return None
    if is_headers(value):
        field = value.get("range")
        return None if field is None else RangeHeader(str(field))
    if not isinstance(value, Mapping):
        raise wrong_field(struct, "range", "Range or Headers")
    offset = _number(value, "offset", "Invalid range. Starting offset ({})", "Invalid range. Starting offset ({})")
    length = _number(value, "length", "Invalid range. Length ({})", "Invalid range. Length ({})")
    if value.get("suffix") is not None:
        if offset is not None:
            raise TypeError("Suffix is incompatible with offset.")
        if length is not None:
            raise TypeError("Suffix is incompatible with length.")
    suffix = _number(value, "suffix", "Invalid suffix. Suffix ({})", "Invalid range. Suffix ({})")
    return RangeRequest(offset, length, suffix)


def _number(options: Mapping[str, Any], field: str, negative: str, fraction: str) -> int | None:
    value = options.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise wrong_field("Range", field, "number")
    if not value >= 0:
        raise RangeError(f"{negative.format(number_text(value))} must be greater than or equal to 0.")
    if isinstance(value, float) and not value.is_integer():
        raise RangeError(f"{fraction.format(number_text(value))} must be an integer, not floating point.")
    return int(value)


def _satisfiable(text: str, size: int) -> list[Span]:
    """The ranges of a Range field when all of them can be served; else, and when one is the whole object, none."""
    unit = _UNIT.match(text)
    if unit is None:
        return []
    spans: list[Span] = []
    for piece in text[unit.end() :].split(","):
        match = _SPAN.fullmatch(piece)
        if match is None or match[1] is match[2] is None:
            return []
        if match[1] is None:
            suffix = int(match[2])
            if suffix >= size:
                return []
            if suffix:
                spans.append(Span(size - suffix, suffix))
            continue
        start = int(match[1])
        end = size - 1 if match[2] is None else min(int(match[2]), size - 1)
        if start >= size or (match[2] is not None and start > int(match[2])):
            return []
        spans.append(Span(start, end - start + 1))
    return spans
