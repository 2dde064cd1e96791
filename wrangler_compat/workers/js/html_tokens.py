"""Splits HTML into tokens as it arrives (HTML Standard 13.2.5). Joined again, their `raw` is the text unchanged.

No tree is built: end tags that the standard implies do not appear, and character references stay as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

MAX_TOKEN: Final = 4 * 1024 * 1024
"""The longest tag or comment, in characters."""

_SPACE: Final = "\t\n\f\r "
_NAME: Final = re.compile(r"[A-Za-z][^\t\n\f\r />]*")
_SKIPPED: Final = re.compile(r"[\t\n\f\r /]*")
_ATTRIBUTE: Final = re.compile(r"=?[^\t\n\f\r />=]*")
_EQUALS: Final = re.compile(r"[\t\n\f\r ]*=[\t\n\f\r ]*")
_UNQUOTED: Final = re.compile(r"[^\t\n\f\r >]*")
_COMMENT_END: Final = re.compile(r"--!?>")
_DOCTYPE: Final = re.compile(
    r"<!doctype[\t\n\f\r ]*([^\t\n\f\r >]*)"
    r"(?:[\t\n\f\r ]+(public|system)[\t\n\f\r ]*(?:\"([^\">]*)\"?|'([^'>]*)'?)?"
    r"(?:[\t\n\f\r ]*(?:\"([^\">]*)\"?|'([^'>]*)'?))?)?",
    re.IGNORECASE,
)
_SCRIPT_STEP: Final = re.compile(r"<!--|-->|<(/?)script(?=[\t\n\f\r />])", re.IGNORECASE)
_OPENINGS: Final = ("<!--", "<!doctype", "<![cdata[")
_HELD: Final = 16
"""Characters of raw text that wait for more: longer than any end tag's name with what must follow it."""

# Elements of HTML whose content is text alone.
RAW: Final = frozenset({"title", "textarea", "style", "xmp", "iframe", "noembed", "noframes", "noscript", "script"})


@dataclass(slots=True)
class Attribute:
    """`raw` is how it stands in the tag; `value` is what stands between its quotes."""

    name: str
    value: str
    raw: str


@dataclass(slots=True)
class StartTag:
    raw: str
    name: str
    attributes: list[Attribute] = field(default_factory=list)
    self_closing: bool = False


@dataclass(slots=True)
class EndTag:
    raw: str
    name: str


@dataclass(slots=True)
class Text:
    """A piece of a text; `last` is true for the empty piece at its end."""

    raw: str
    last: bool = False


@dataclass(slots=True)
class Comment:
    raw: str
    text: str


@dataclass(slots=True)
class Doctype:
    raw: str
    name: str | None
    public_id: str | None
    system_id: str | None


@dataclass(slots=True)
class Other:
    """What means nothing, `</>` say; it passes as it is."""

    raw: str


Token = StartTag | EndTag | Text | Comment | Doctype | Other


class TokenTooLong(ValueError):
    """A tag or a comment that does not end within `MAX_TOKEN` characters."""


class Tokenizer:
    """`feed(text)` gives the tokens that are complete, `close()` the rest.

    After a start tag the caller may set `raw_until` to its name (content is text up to its end tag) and `foreign`
    (the content is SVG or MathML, where `<![CDATA[` begins text).
    """

    def __init__(self) -> None:
        self._buffer = ""
        self._at = 0  # what lies before it has been handed out
        self._failed_at = 0
        self._in_text = False
        self._script = "data"
        self.raw_until: str | None = None
        self.foreign = False

    def feed(self, text: str) -> Iterator[Token]:
        self._buffer += text
        # what was incomplete is looked at again only when a good part has come, so that the work stays in proportion
        if self._failed_at > 4096 and len(self._buffer) < self._failed_at * 1.25:
            return
        yield from self._tokens(final=False)
        self._buffer, self._at = self._buffer[self._at :], 0

    def close(self) -> Iterator[Token]:
        yield from self._tokens(final=True)
        yield from self._end_text()

    def _end_text(self) -> Iterator[Token]:
        if self._in_text:
            self._in_text = False
            yield Text("", last=True)

    def _text(self, end: int) -> Iterator[Token]:
        raw, self._at = self._buffer[self._at : end], end
        if raw:
            self._in_text = True
            yield Text(raw)

    def _tokens(self, *, final: bool) -> Iterator[Token]:
        self._failed_at = 0
        size = len(self._buffer)
        while self._at < size:
            if self.raw_until is not None:
                yield from self._text(self._raw_text(final))
                if self.raw_until is not None:
                    return
                continue
            place = self._buffer.find("<", self._at)
            yield from self._text(size if place < 0 else place)
            if place < 0:
                return
            found = self._markup(final)
            if found is None:
                if not final:
                    if size - self._at > MAX_TOKEN:
                        raise TokenTooLong(f"a tag or a comment of more than {MAX_TOKEN} characters")
                    self._failed_at = size - self._at
                    return
                found = Other(self._buffer[self._at :])
            if isinstance(found, Text):
                yield from self._text(self._at + len(found.raw))
            else:
                self._at += len(found.raw)
                yield from self._end_text()
                yield found

    # Raw text.

    def _raw_text(self, final: bool) -> int:
        """Where the text ends that can be handed out; `raw_until` is None afterwards if its end tag follows."""
        name = self.raw_until
        assert name is not None
        size = len(self._buffer)
        if name == "plaintext":
            return size
        end, safe = (self._script_end if name == "script" else self._end_of)(name)
        if end is not None:
            self.raw_until = None
            self._script = "data"
            return end
        return size if final else max(self._at, safe)

    def _end_of(self, name: str) -> tuple[int | None, int]:
        found = re.compile(rf"</{name}(?=[{_SPACE}/>])", re.IGNORECASE).search(self._buffer, self._at)
        return (None if found is None else found.start()), len(self._buffer) - _HELD

    def _script_end(self, _name: str) -> tuple[int | None, int]:
        """Where the end tag of a script begins, and up to where nothing can change any more.

        Inside `<!--` and a further `<script` an end tag is content.
        """
        state = kept = self._script
        safe = len(self._buffer) - _HELD
        place = self._at
        while (step := _SCRIPT_STEP.search(self._buffer, place)) is not None:
            place = step.end()
            match step[0].lower():
                case "<!--":
                    place = step.start() + 2  # its dashes may be those of an end
                    state = "escaped" if state == "data" else state
                case "-->":
                    state = "data"
                case "<script":
                    state = "double" if state == "escaped" else state
                case _ if state == "double":
                    state = "escaped"
                case _:
                    return step.start(), safe
            if step.end() <= safe:
                kept = state
            else:
                safe = min(safe, step.start())
        self._script = kept
        return None, safe

    # Markup.

    def _markup(self, final: bool) -> Token | None:
        """The token at the place, which is a `<`; None when it is not complete."""
        buffer, at = self._buffer, self._at
        following = buffer[at + 1 : at + 2]
        if following.isascii() and following.isalpha():
            return self._tag(at + 1)
        if following == "/":
            after = buffer[at + 2 : at + 3]
            if after.isascii() and after.isalpha():
                tag = self._tag(at + 2)
                return None if tag is None else EndTag(tag.raw, tag.name)
            if after == ">":
                return Other("</>")
            return self._bogus(at + 2, final) if after else None
        if following == "!":
            return self._declaration(final)
        if following == "?":
            return self._bogus(at + 1, final)
        return Text("<") if following or final else None

    def _tag(self, start: int) -> StartTag | None:
        buffer, size = self._buffer, len(self._buffer)
        place = _end(_NAME, buffer, start)
        name = buffer[start:place].lower()
        attributes: list[Attribute] = []
        while True:
            before, place = place, _end(_SKIPPED, buffer, place)
            if place >= size:
                return None
            if buffer[place] == ">":
                slash = place > before and buffer[place - 1] == "/"  # and not the end of a value
                return StartTag(buffer[self._at : place + 1], name, attributes, self_closing=slash)
            begin = place
            place = _end(_ATTRIBUTE, buffer, place)
            key, value = buffer[begin:place].lower(), ""
            if (equals := _EQUALS.match(buffer, place)) is not None:
                place = equals.end()
                if place >= size:
                    return None
                if buffer[place] in "\"'":
                    closing = buffer.find(buffer[place], place + 1)
                    if closing < 0:
                        return None
                    value, place = buffer[place + 1 : closing], closing + 1
                else:
                    ended = _end(_UNQUOTED, buffer, place)
                    value, place = buffer[place:ended], ended
            if place >= size:
                return None
            attributes.append(Attribute(key, value, buffer[begin:place]))

    def _declaration(self, final: bool) -> Token | None:
        buffer, at = self._buffer, self._at
        opening = buffer[at : at + 9].lower()
        if opening.startswith("<!--"):
            return self._comment(final)
        if not final and any(known.startswith(opening) for known in _OPENINGS):
            return None
        if self.foreign and opening == "<![cdata[":
            stop = buffer.find("]]>", at + 9)
            if stop >= 0:
                return Text(buffer[at : stop + 3])
            return Text(buffer[at:]) if final else None
        if opening == "<!doctype":
            stop = buffer.find(">", at)
            if stop < 0 and not final:
                return None
            return _doctype(buffer[at:] if stop < 0 else buffer[at : stop + 1])
        return self._bogus(at + 2, final)

    def _comment(self, final: bool) -> Token | None:
        buffer, at = self._buffer, self._at
        for abrupt in ("<!-->", "<!--->"):
            if buffer.startswith(abrupt, at):
                return Comment(abrupt, "")
        if not final and len(buffer) - at < 6:
            return None
        end = _COMMENT_END.search(buffer, at + 4)
        if end is not None:
            return Comment(buffer[at : end.end()], buffer[at + 4 : end.start()])
        return Comment(buffer[at:], buffer[at + 4 :]) if final else None

    def _bogus(self, start: int, final: bool) -> Token | None:
        stop = self._buffer.find(">", start)
        if stop >= 0:
            return Comment(self._buffer[self._at : stop + 1], self._buffer[start:stop])
        return Comment(self._buffer[self._at :], self._buffer[start:]) if final else None


def _end(pattern: re.Pattern[str], text: str, place: int) -> int:
    """Where a pattern ends that always matches at `place`."""
    found = pattern.match(text, place)
    assert found is not None
    return found.end()


def _doctype(raw: str) -> Doctype:
    found = _DOCTYPE.match(raw)
    assert found is not None
    name, keyword = found[1].lower() or None, (found[2] or "").lower()
    first = found[3] if found[3] is not None else found[4]
    second = found[5] if found[5] is not None else found[6]
    if keyword == "system":
        return Doctype(raw, name, None, first)
    return Doctype(raw, name, first, second) if keyword else Doctype(raw, name, None, None)
