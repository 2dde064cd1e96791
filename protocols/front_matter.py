"""The reader of report headers that all report consumers share (spec state-plane-storage 8.1 to 8.4).

A header is the block between two `---` lines at the very start of the text. Its single values are authoritative;
a key that occurs twice in it, or that an unfenced metadata block of the body claims too, is ambiguous, and so is a
key that only the body has. Ambiguous means: do not act. Indented data, comments and list entries are never fields.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Final

from . import json_body
from .javascript import WHITE_SPACE, trim

_HEADER: Final = re.compile(r"---(\r?\n)(.*?)\r?\n---(?:\r?\n|\Z)", re.DOTALL)
_LINE_END: Final = re.compile(r"\r?\n")
_OPENING: Final = re.compile(r"---(\r?\n)")
# a lone CR or another line terminator of Unicode inside: no fence line
_FENCE: Final = re.compile("[ ]{0,3}(`{3,}|~{3,})([^\n\r\u2028\u2029]*)")
_CLOSER: Final = re.compile(rf"[\]}}][,{re.escape(WHITE_SPACE)}]*")


class Status(Enum):
    """What a header says of a key. Consumers treat `AMBIGUOUS` as "do not act", never as "absent"."""

    VALUE = "value"
    ABSENT = "absent"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True, slots=True)
class Reading:
    """The state of one key; `value` is there exactly when `status` is `VALUE`."""

    status: Status
    value: str | None = None

    def __post_init__(self) -> None:
        if (self.value is not None) is not (self.status is Status.VALUE):
            raise ValueError("a reading has a value exactly when its status is VALUE")


ABSENT: Final = Reading(Status.ABSENT)
AMBIGUOUS: Final = Reading(Status.AMBIGUOUS)


def split_lines(text: str) -> list[str]:
    """Returns the lines of `text`, cut at LF or CRLF; a lone CR is part of its line."""
    return _LINE_END.split(text)


def field_of(line: str) -> tuple[str, str] | None:
    """Returns key and raw value when `line` is a field line, else None (8.2).

    The key is everything before the first colon to the letter, inner and trailing spaces included.
    """
    if not line or line[0] in WHITE_SPACE or line[0] == "#" or is_list_entry(line):
        return None
    colon = line.find(":")
    return None if colon < 1 else (line[:colon], line[colon + 1 :])


def is_list_entry(line: str) -> bool:
    """Tells whether `line` begins with `-` followed by white space or nothing."""
    return line.startswith("-") and (len(line) == 1 or line[1] in WHITE_SPACE)


@dataclass(slots=True)
class FenceState:
    """Tracks Markdown code fences over lines, in order (8.3, rule 2)."""

    character: str = ""
    length: int = 0

    def feed(self, line: str) -> bool:
        """Returns whether `line` opens or closes a fence, or is a fence line inside an open one that closes it."""
        match = _FENCE.fullmatch(line)
        if match is None:
            return False
        run, rest = match[1], match[2]
        if not self.character:
            if run[0] == "`" and "`" in rest:
                return False
            self.character, self.length = run[0], len(run)
            return True
        if run[0] == self.character and len(run) >= self.length and not trim(rest):
            self.character, self.length = "", 0
            return True
        return False

    @property
    def open(self) -> bool:
        """Whether the lines now are inside a fence."""
        return bool(self.character)


@dataclass(frozen=True)
class FrontMatter:
    """A report's header, read once; ask it with `raw`, `decoded` or the derived readers."""

    has_header: bool
    fields: tuple[tuple[str, str], ...]
    """Field lines of the header in order: key and raw value."""
    competing: tuple[str, ...]
    """Keys that unfenced metadata blocks of the body claim, in the order found, without repetition."""
    body_keys: frozenset[str]
    """Keys of every field line of the body, fences included."""
    body_line: int = field(default=1)
    """Number of the first line behind the header, from 1."""

    @cached_property
    def _counts(self) -> Mapping[str, int]:
        return Counter(key for key, _ in self.fields)

    @cached_property
    def _values(self) -> Mapping[str, str]:
        return dict(self.fields)

    @cached_property
    def duplicates(self) -> tuple[str, ...]:
        """Keys that the header has more than once, equal values included."""
        return tuple(key for key, count in self._counts.items() if count > 1)

    @property
    def ambiguous(self) -> bool:
        """Whether the document as a whole is: a header key is duplicated or competing. Decision packets refuse it."""
        return bool(self.duplicates) or any(key in self._counts for key in self.competing)

    def raw(self, key: str) -> Reading:
        """Returns the state of `key` with the value as it stands behind the colon (8.4)."""
        if not self.has_header:
            return ABSENT
        if key in self.competing or self._counts.get(key, 0) > 1:
            return AMBIGUOUS
        if key in self._values:
            return Reading(Status.VALUE, self._values[key])
        return AMBIGUOUS if key in self.body_keys else ABSENT

    def decoded(self, key: str) -> Reading:
        """Returns the state of `key` with the value trimmed and unquoted; an empty value is ambiguous."""
        reading = self.raw(key)
        if reading.value is None:
            return reading
        value = decode_value(reading.value)
        return Reading(Status.VALUE, value) if value else AMBIGUOUS

    def strings(self, key: str) -> Reading | tuple[str, ...]:
        """Returns the string list of `key` (absent or empty: none), or `AMBIGUOUS`."""
        reading = self.raw(key)
        if reading.status is Status.AMBIGUOUS:
            return AMBIGUOUS
        return () if reading.value is None else tuple(string_list(decode_value(reading.value)))

    def boolean(self, key: str) -> Reading | bool:
        """Returns whether `key` is the word `true` in any case (absent: no), or `AMBIGUOUS`."""
        reading = self.decoded(key)
        if reading.status is Status.AMBIGUOUS:
            return AMBIGUOUS
        return reading.value is not None and reading.value.lower() == "true"


def decode_value(raw: str) -> str:
    """Returns a raw value trimmed and without one pair of enclosing double quotes; a lone quote stays."""
    value = trim(raw)
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] == '"' else value


def parse(text: str) -> FrontMatter:
    """Returns the front matter of a report. Any text is accepted; one without a header has only absent fields."""
    match = _HEADER.match(text)
    if match is None:
        return FrontMatter(False, (), (), frozenset())
    fields = tuple(pair for line in split_lines(match[2]) if (pair := field_of(line)) is not None)
    competing: dict[str, None] = {}
    body_keys: set[str] = set()
    _scan_body(split_lines(text[match.end() :]), competing, body_keys)
    return FrontMatter(True, fields, tuple(competing), frozenset(body_keys), text.count("\n", 0, match.end()) + 1)


def _scan_body(lines: list[str], competing: dict[str, None], body_keys: set[str]) -> None:
    fence = FenceState()
    candidate: dict[str, None] | None = {}
    for line in lines:
        pair = field_of(line)
        if pair is not None:
            body_keys.add(pair[0])
        if fence.feed(line):
            candidate = None
        elif fence.open:
            continue
        elif line == "---":
            competing.update(candidate or {})
            candidate = {}
        elif candidate is None:
            continue
        elif pair is not None:
            candidate[pair[0]] = None
        elif not keeps_candidate(line):
            candidate = None


def keeps_candidate(line: str) -> bool:
    """Tells whether a line that is no field may stand in a metadata block (8.3, rule 4); all else is prose."""
    return (
        not line
        or line[0] in WHITE_SPACE
        or line[0] in "#`~"
        or is_list_entry(line)
        or _CLOSER.fullmatch(line) is not None
    )


def string_list(value: str | None) -> list[str]:
    """Returns the strings of a decoded value: of a JSON array its texts, else its comma-separated parts.

    Absent, empty and `none` give nothing; empty parts are dropped.
    """
    if value is None or value in ("", "none"):
        return []
    entries = json_list(value)
    if entries is not None:
        return [entry for entry in entries if isinstance(entry, str)]
    return [part for entry in value.split(",") if (part := trim(entry))]


def json_list(value: str) -> list[object] | None:
    """Returns the JSON array that `value` spells, or None when it is none."""
    try:
        decoded = json_body.parse(value.encode("utf-8", "replace"))
    except json_body.NotJson:
        return None
    return decoded if isinstance(decoded, list) else None


def replace_field(text: str, key: str, value: str) -> str:
    """Returns `text` with the field set: the first line anywhere that starts with `<key>:` is replaced.

    Without such a line it is inserted behind the opening delimiter, with that delimiter's line end; a text that does
    not begin with one is returned unchanged. The bounds of the header are not looked at: a key that only the body has
    is replaced there (8.4, "Writer").
    """
    line = f"{key}: {value}"
    pattern = re.compile(rf"(?:\A|(?<=[\n\r\u2028\u2029])){re.escape(key)}:[^\n\r\u2028\u2029]*")
    found = pattern.search(text)
    if found is not None:
        return text[: found.start()] + line + text[found.end() :]
    match = _OPENING.match(text)
    if match is None:
        return text
    return text[: match.end()] + line + match[1] + text[match.end() :]


def set_in_header(text: str, key: str, value: str) -> str:
    """Returns `text` with every field line of `key` in the header set, whatever the body says.

    Without one the line is inserted as the header's first. The text must have a header.
    """
    match = _HEADER.match(text)
    if match is None:
        raise ValueError("the text has no header")
    line = f"{key}: {value}"
    pieces = re.split(r"(\r?\n)", match[2])
    named = [index for index in range(0, len(pieces), 2) if (field_of(pieces[index]) or ("",))[0] == key]
    for index in named:
        pieces[index] = line
    inserted = "" if named else line + match[1]
    return text[: match.start(2)] + inserted + "".join(pieces) + text[match.end(2) :]


def header_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields number (from 1) and text of the lines between the delimiters; nothing without a header."""
    match = _HEADER.match(text)
    if match is not None:
        yield from enumerate(split_lines(match[2]), 2)


def body_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yields number (from 1) and text of the lines behind the header; all lines without one."""
    match = _HEADER.match(text)
    start = match.end() if match is not None else 0
    yield from enumerate(split_lines(text[start:]), text.count("\n", 0, start) + 1)
