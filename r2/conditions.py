"""Conditions of `get` and `put` (spec durable-object-semantics 15.5 and 15.6). Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import Any, Final

from .arguments import is_headers, milliseconds, text_option, wrong_field
from .errors import InvalidCondition

_STRUCT: Final = "Conditional"


class Strength(Enum):
    STRONG = "strong"
    WEAK = "weak"
    WILDCARD = "wildcard"


@dataclass(frozen=True, slots=True)
class Etag:
    """One entity tag of a condition; `value` is bare, and empty for the wildcard."""

    strength: Strength
    value: str = ""

    def matches(self, etag: str, *, weakly: bool) -> bool:
        """Whether this is the tag `etag`. A weak one is, only where the comparison is weak (RFC 9110 8.8.3.2)."""
        if self.strength is Strength.WILDCARD:
            return True
        return self.value == etag and (weakly or self.strength is Strength.STRONG)


WILDCARD: Final = Etag(Strength.WILDCARD)


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold of the stored object. Times are milliseconds since 1970; None means not asked."""

    etag_matches: tuple[Etag, ...] | None = None
    etag_does_not_match: tuple[Etag, ...] | None = None
    uploaded_before: int | None = None
    uploaded_after: int | None = None
    seconds_granularity: bool = False

    def holds(self, etag: str, uploaded: int) -> bool:
        """Whether an object with this etag and upload time meets the condition."""
        matches = self.etag_matches is None or any(tag.matches(etag, weakly=False) for tag in self.etag_matches)
        differs = self.etag_does_not_match is None or not any(
            tag.matches(etag, weakly=True) for tag in self.etag_does_not_match
        )
        seen = self._cut(uploaded)
        after = (
            self.uploaded_after is None
            or self._cut(self.uploaded_after) < seen
            or (self.etag_does_not_match is not None and differs)
        )
        before = (
            self.uploaded_before is None
            or seen < self._cut(self.uploaded_before)
            or (self.etag_matches is not None and matches)
        )
        return matches and differs and after and before

    def holds_for_missing(self) -> bool:
        """Whether the absence of the object meets the condition. `r2-if-put-missing-object`"""
        return self.etag_matches is None and self.uploaded_after is None

    def _cut(self, ms: int) -> int:
        return ms - ms % 1000 if self.seconds_granularity else ms


CREATE_ONLY: Final = Condition(etag_does_not_match=(WILDCARD,))
"""Holds only where there is no object yet."""


def condition_of(value: Any, struct: str) -> Condition | None:
    """The condition in an `onlyIf` option (a dictionary or Headers); None when it asks nothing.

    TypeError for wrong types and quoted tags, InvalidCondition for headers that cannot be read. `struct` names the
    option's owner in texts.
    """
    if value is None:
        return None
    if isinstance(value, Condition):
        return value
    if is_headers(value):
        condition = _from_headers(value)
    elif isinstance(value, Mapping):
        condition = _from_options(value)
    else:
        raise wrong_field(struct, "onlyIf", "Conditional or Headers")
    return None if condition in (Condition(), Condition(seconds_granularity=True)) else condition


def _from_options(options: Mapping[str, Any]) -> Condition:
    def tags(field: str) -> tuple[Etag, ...] | None:
        text = text_option(options, field, _STRUCT)
        if text is None:
            return None
        if text.startswith('"') and text.endswith('"'):
            raise TypeError(f"Conditional ETag should not be wrapped in quotes ({text}).")
        return (WILDCARD,) if text == "*" else (Etag(Strength.STRONG, text),)

    def time(field: str) -> int | None:
        value = options.get(field)
        return None if value is None else milliseconds(value, field, _STRUCT)

    return Condition(
        etag_matches=tags("etagMatches"),
        etag_does_not_match=tags("etagDoesNotMatch"),
        uploaded_before=time("uploadedBefore"),
        uploaded_after=time("uploadedAfter"),
        seconds_granularity=bool(options.get("secondsGranularity", False)),
    )


def _from_headers(headers: Any) -> Condition:
    def tags(name: str) -> tuple[Etag, ...] | None:
        value = headers.get(name)
        if value is None:
            return None
        parsed = parse_etags(value)
        if not parsed:
            raise InvalidCondition(f"Invalid ETag in {name} header")
        return parsed

    def time(name: str) -> int | None:
        value = headers.get(name)
        return None if value is None else http_date(value)

    return Condition(
        etag_matches=tags("if-match"),
        etag_does_not_match=tags("if-none-match"),
        uploaded_before=time("if-unmodified-since"),
        uploaded_after=time("if-modified-since"),
        seconds_granularity=True,
    )


def http_date(text: str) -> int:
    """Milliseconds since 1970 of an HTTP date; TypeError when it is none."""
    try:
        parsed = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        raise TypeError(f"The value cannot be converted because it is not a valid Date: {text!r}") from None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=UTC)
    return round(parsed.timestamp() * 1000)


# Before the next tag: anything that is no quote, star, comma or W. The runtime skips what it does not know.
_NEXT: Final = re.compile(r'[^",*W]*(?P<mark>[",*W])')
_STARTS: Final = "This would otherwise indicate the start of a new {} etag."
_INSTEAD: Final = {
    "*": "Encountered a wildcard character '*' instead.",
    '"': f"Encountered a double quote character '\"' instead. {_STARTS.format('strong')}",
    "W": f"Encountered a weak quotation character 'W' instead. {_STARTS.format('weak')}",
}


def parse_etags(text: str) -> tuple[Etag, ...]:
    """The tags of an `If-Match` or `If-None-Match` field; empty when it holds none.

    A wildcard wins over all others. InvalidCondition for an unclosed quote, a missing comma and a weak tag that
    is not `W/"…"`. `r2-if-headers-unquoted-etag`
    """
    found: list[Etag] = []
    position, comma_needed = 0, False
    while '"' in (rest := text[position:]) or "*" in rest:
        match = _NEXT.match(text, position)
        if match is None:  # a quote or a star is ahead, so a mark is
            break
        mark, at = match["mark"], match.start("mark")
        if mark == ",":
            position, comma_needed = at + 1, False
            continue
        if comma_needed:
            raise InvalidCondition(f"Comma was expected to separate etags. {_INSTEAD[mark]}")
        quote, star = text.find('"', at), text.find("*", at)
        if star >= 0 and (quote < 0 or star < quote):
            return (WILDCARD,)
        closing = text.find('"', quote + 1)
        if closing < 0:
            raise InvalidCondition("Unclosed double quote for Etag")
        if mark == "W" and text[at : quote + 1] != 'W/"':
            raise InvalidCondition("Weak etags must start with W/ and their value must be quoted")
        strength = Strength.WEAK if mark == "W" else Strength.STRONG
        found.append(Etag(strength, text[quote + 1 : closing]))
        position, comma_needed = closing + 1, True
    return tuple(found)
