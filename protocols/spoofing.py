"""The advisory inventory of header lookalikes: wider than any decision, and used by none.

For every key of a report's header it lists each place outside the header's own field where the key also appears:
a line of the body, a line in a fenced example, a line of an unfenced metadata block, nested data. Spelling is
compared leniently, because a person who looks for spoofing wants to see the near misses too: any case, quoted or
emphasised, behind the marks of lists, tasks, quotations, tables and comments, in compatibility forms (fullwidth
letters and colons), with invisible characters in between, and behind what other readers take for a line's end.
Decisions read `protocols.front_matter`, never this.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from .front_matter import FenceState, body_lines, field_of, header_lines, keeps_candidate, parse
from .javascript import WHITE_SPACE

_SPACE: Final = f"[{re.escape(WHITE_SPACE)}]"
_MARKS: Final = re.compile(rf"{_SPACE}*(?:\|{_SPACE}*|(?:[-*+>#;]+|//+|<!--|\[[ xX]\]|\d+[.)]){_SPACE}+)*[{{,]?")
_LONGEST_NAME: Final = 300
"""Only so much of a piece is looked at: names are short, and a report may have lines of megabytes."""
_NAME: Final = re.compile(r"[\"'`*]*([^\s\"'`*:=|][^\"'`:=|]*?)[\"'`*]*\s*[:=]")
_CELL: Final = re.compile(rf"{_SPACE}*\|[\s\"'`*]*([^\s\"'`*:=|][^\"'`:=|]*?)[\s\"'`*]*\|")
_OTHER_LINE_ENDS: Final = re.compile("[\r\v\f\x1c-\x1e\x85\u2028\u2029]")


class Place(Enum):
    """Where a lookalike stands."""

    DUPLICATE = "duplicate field of the header"
    BODY_LINE = "body line"
    FENCED = "fenced example"
    BLOCK = "unfenced block"
    NESTED = "nested data"


@dataclass(frozen=True, slots=True)
class Sighting:
    """One lookalike: the header's key, where it stands, its line number from 1 and the line itself."""

    key: str
    place: Place
    line: int
    text: str


def inventory(report: str) -> tuple[Sighting, ...]:
    """Returns every lookalike of the header's keys in a report, in line order; nothing without a header."""
    header = parse(report)
    if not header.has_header:
        return ()
    keys = {_fold(key): key for key, _ in reversed(header.fields)}
    return tuple(sorted((*_in_header(report, keys), *_in_body(report, keys)), key=lambda found: found.line))


def _plain(text: str) -> str:
    """Returns `text` in compatibility form (NFKC) and without the characters that are not seen (category Cf)."""
    if text.isascii():
        return text
    return "".join(
        character for character in unicodedata.normalize("NFKC", text) if unicodedata.category(character) != "Cf"
    )


def _fold(name: str) -> str:
    return _plain(name).strip().strip("_").casefold().replace("-", "_")


def _names_of(line: str) -> Iterator[str]:
    """Yields the folded names that a line seems to set, one for each piece that may pass for a line."""
    for piece in _OTHER_LINE_ENDS.split(line):
        plain = _plain(piece[:_LONGEST_NAME])
        marks = _MARKS.match(plain)
        match = _NAME.match(plain, marks.end() if marks is not None else 0) or _CELL.match(plain)
        if match is not None:
            yield _fold(match[1])


def _in_header(report: str, keys: dict[str, str]) -> Iterator[Sighting]:
    seen: set[str] = set()
    for number, line in header_lines(report):
        pair = field_of(line)
        own = None if pair is None else _fold(pair[0])
        for key in _keys_in(line, keys):
            if keys.get(own or "") != key:
                yield Sighting(key, Place.NESTED, number, line)
        if own is not None and own in keys:
            if own in seen:
                yield Sighting(keys[own], Place.DUPLICATE, number, line)
            seen.add(own)


def _in_body(report: str, keys: dict[str, str]) -> Iterator[Sighting]:
    fence = FenceState()
    lines = list(body_lines(report))
    blocks = _block_lines([line for _, line in lines])
    for (number, line), in_block in zip(lines, blocks, strict=True):
        if fence.feed(line):
            continue
        if fence.open:
            place = Place.FENCED
        elif field_of(line) is None:
            place = Place.NESTED
        else:
            place = Place.BLOCK if in_block else Place.BODY_LINE
        for key in _keys_in(line, keys):
            yield Sighting(key, place, number, line)


def _keys_in(line: str, keys: dict[str, str]) -> list[str]:
    """Returns the header's keys that a line seems to set, each once."""
    return list(dict.fromkeys(keys[name] for name in _names_of(line) if name in keys))


def _block_lines(lines: list[str]) -> list[bool]:
    """Tells of each line whether an unfenced block of metadata has it.

    A block is what lies between two `---` lines, prose or not, which is wider than the reader's candidates; and what
    follows the header up to a `---` line, as far as no prose was met: the rest of a header that was cut off.
    """
    fence = FenceState()
    result = [False] * len(lines)
    start, prose = 0, len(lines)
    for index, line in enumerate(lines):
        if fence.feed(line) or fence.open:
            prose = min(prose, index)
        elif line.rstrip() == "---":
            end = min(index, prose)
            result[start:end] = [True] * max(0, end - start)
            start, prose = index + 1, len(lines)
        elif start == 0 and prose == len(lines) and field_of(line) is None and not keeps_candidate(line):
            prose = index
    return result
