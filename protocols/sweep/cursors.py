"""Cursors: how they are ordered, and when one may move (spec sweep-state 5, cursor-advance)."""

import re
from typing import Final

from .document import Json, Malformed

_DIGITS: Final = re.compile(r"[0-9]+\Z").match


def precedes(left: str, right: str) -> bool:
    """Whether `left` comes before `right`: by number when both are ASCII digits only, else by code point."""
    if _DIGITS(left) and _DIGITS(right):
        # by length and then digit by digit: no limit on the number of digits
        a, b = left.lstrip("0"), right.lstrip("0")
        return (len(a), a) < (len(b), b)
    return left < right


def may_move(current: Json, to: str) -> bool:
    """Whether a cursor may go from `current` to `to`: never back; the same again is allowed; null lets any in.

    A stored number is compared through its text.
    """
    return current is None or not precedes(to, str(current))


def entry_of(sources: dict[str, Json], source: str) -> dict[str, Json]:
    """The entry of `source`, empty when there is none. Raises Malformed when it is no map."""
    entry = sources.get(source, {})
    if not isinstance(entry, dict):
        raise Malformed(f"the entry of source {source!r} must be a map")
    return entry


def cursor_of(source: Json) -> Json:
    """The cursor in a source's entry with its JSON type; null when there is no entry, no map or no cursor."""
    return source.get("cursor") if isinstance(source, dict) else None
