"""The syntax of `.dev.vars` and `.env` files, and the expansion of references in the latter (wrangler configuration
5).

python-dotenv is close, but not the same: it keeps a `#` that follows a value without a blank, knows no backtick
quotes and no `NAME: value`, decodes every escape within double quotes and `\\'` within single ones, and its
expansion reads the process's environment. A secret with a `#` or a backslash would then differ between the platform
and here.
"""

import re
from collections.abc import Mapping

# JavaScript's white space, which is what the platform's parser goes by; a byte-order mark counts
_BLANK = " \t\n\v\f\r\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f"
_BLANK += "\u205f\u3000\ufeff"
_SPACES = re.compile(f"[{_BLANK}]*")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")
_QUOTES = "'\"`"


def parse_dotenv(text: str) -> dict[str, str]:
    """The variables of a file, in order; of a name that stands twice the last value counts. Never raises.

    A line that is no assignment is skipped, as on the platform.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    result: dict[str, str] = {}
    position = 0
    while position < len(text):
        assignment = _assignment(text, position)
        if assignment is not None:
            name, value, position = assignment
            result[name] = value
        end = text.find("\n", position)
        position = len(text) if end < 0 else end + 1
    return result


def _assignment(text: str, start: int) -> tuple[str, str, int] | None:
    """Name, value and end of the assignment that begins with the line at `start` (blank lines before it are
    passed).
    """
    begin = _skip(text, start)
    if text.startswith("export", begin):
        after = _skip(text, begin + len("export"))
        if after > begin + len("export"):
            found = _named(text, after)
            if found is not None:
                return found
    return _named(text, begin)


def _named(text: str, start: int) -> tuple[str, str, int] | None:
    match = _NAME.match(text, start)
    if match is None:
        return None
    after = _skip(text, match.end())
    if text.startswith("=", after):
        value, end = _value(text, after + 1)
        return match[0], value, end
    # `NAME: value` needs the colon right behind the name, and a blank behind the colon
    colon = match.end()
    if text.startswith(":", colon) and _skip(text, colon + 1) > colon + 1:
        value, end = _value(text, colon + 2)
        return match[0], value, end
    return None


def _value(text: str, start: int) -> tuple[str, int]:
    begin = _skip(text, start)
    if begin < len(text) and text[begin] in _QUOTES:
        quoted = _quoted(text, begin)
        if quoted is not None:
            return quoted
    end = next((place for place in range(start, len(text)) if text[place] in "#\n"), len(text))
    value = text[start:end].strip(_BLANK)
    if len(value) > 1 and value[0] in _QUOTES and value[0] == value[-1]:
        return _unescape(value[1:-1], value[0]), end
    return _unescape(value, value[:1]), end


def _quoted(text: str, begin: int) -> tuple[str, int] | None:
    """The value within the quotes at `begin`, if nothing but blanks and a comment follows the closing one on its
    line.

    A quote behind a backslash closes only where no other does.
    """
    quote = text[begin]
    escaped: list[int] = []
    place = begin + 1
    closing = []
    while (place := text.find(quote, place)) >= 0:
        if text[place - 1] != "\\" or place - 1 == begin:
            closing = [place]
            break
        escaped.append(place)
        place += 1
    for end in (*closing, *reversed(escaped)):
        rest = text[end + 1 :].partition("\n")[0].strip(_BLANK)
        if not rest or rest.startswith("#"):
            return _unescape(text[begin + 1 : end], quote), end + 1
    return None


def _unescape(value: str, quote: str) -> str:
    return value.replace("\\n", "\n").replace("\\r", "\r") if quote == '"' else value


def _skip(text: str, start: int) -> int:
    match = _SPACES.match(text, start)
    return match.end() if match else start


_REFERENCE = re.compile(r"\$(?:\{([^{}$]*?)(:\+|\+|:-|-)|\{([^{}]+)\}|([A-Za-z_][A-Za-z0-9_]*))")


def expand(values: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Replaces references in the values of `.env` files, in order; quotes make no difference by then.

    `$NAME`, `${NAME}`, `${NAME:-default}`, `${NAME-default}`, `${NAME:+other}`, `${NAME+other}`; an empty value
    counts as absent, and an absent name without a default as empty. `\\$` is a dollar sign. A name refers to
    `environment`, else to the values before it. A value of `environment` is taken as it is, also for the name
    itself.
    """
    result: dict[str, str] = {}
    for name, value in values.items():
        own = environment.get(name)
        result[name] = own if own else _Expansion(value, {**result, **environment}).run()
    return result


class _Expansion:
    """One pass over a value. What was put in is not looked at again, so that no value can refer to itself."""

    def __init__(self, text: str, names: Mapping[str, str]) -> None:
        self.text = text
        self.names = names
        self.place = 0

    def run(self, *, nested: bool = False) -> str:
        """Expands up to the end, or, nested, up to the closing brace, which is consumed."""
        parts: list[str] = []
        while self.place < len(self.text):
            char = self.text[self.place]
            if nested and char == "}":
                self.place += 1
                return "".join(parts)
            if self.text.startswith("\\$", self.place):
                parts.append("$")
                self.place += 2
                continue
            reference = _REFERENCE.match(self.text, self.place) if char == "$" else None
            if reference is None:
                parts.append(char)
                self.place += 1
            else:
                parts.append(self._reference(reference))
        return "".join(parts)

    def _reference(self, match: re.Match[str]) -> str:
        self.place = match.end()
        if match[2] is None:
            return self.names.get(match[3] or match[4], "")
        value, other = self.names.get(match[1], ""), self.run(nested=True)
        if match[2] in (":+", "+"):
            return other if value else ""
        return value or other
