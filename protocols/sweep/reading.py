"""Reads the YAML subset of the state file (sweep state schema, "YAML subset"; spec sweep-state 10).

Differences from the reference engine, by the schema's letter: a comment may follow a value (SW-4), indentation is two
spaces a level and nothing else (SW-3), a bare token that is no number and no constant is no value (SW-5).
Nothing here recurses, so that depth is bounded by the text alone; JSON on one line is bounded by the JSON parser.
"""

import json
import math
import re
from typing import Any, Final

# All lines at once, for speed: the lines that the engine itself writes most, in five groups (blanks, key, text
# without escapes, other scalar, JSON), and any other line whole, in the sixth.
_LINES: Final = re.compile(
    r'( *)([A-Za-z_][A-Za-z0-9_.-]*|"[^"\\\x00-\x1f]*"):'
    r'(?: (?:("[^"\\\x00-\x1f]*")|(null|true|false|-?[0-9]{1,15})|([\[{][^\n]*[\]}])))?(?:\n|\Z)'
    r"|([^\n]*)(?:\n|\Z)"
).findall
_AFTER_VALUE: Final = re.compile(r"[ \t]*\Z|[ \t]+#").match
_COMMENT: Final = re.compile(r"[ \t]+#")
_NUMBER: Final = re.compile(r"-?[0-9]+((?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)\Z").match
# what cannot begin a plain key in YAML; a dash only before a blank (a block sequence) or two more (a marker)
_NO_BARE_KEY: Final = re.compile(r"""[][{},#&*!|>'"%@`?]|-(?:[ \t]|\Z|--)""").match

# the last three are how floats that are not finite are written; recorded in `upsert-nonfinite`
_CONSTANTS: Final[dict[str, Any]] = {
    "null": None,
    "true": True,
    "false": False,
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
}
_OPEN: Final = object()


class SubsetError(ValueError):
    """The text is not in the subset. `line` counts from 1; `reason` says what was expected."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


_decoder: Final = json.JSONDecoder(parse_float=_finite)


def parse_json(text: str) -> Any:
    """The JSON value of `text`: a repeated member's last value counts, NaN and Infinity are read. Raises ValueError.

    For `--json`, `--counts`, `--source-map` and legacy files, so that they are read as the file's own values are.
    """
    try:
        return _decoder.decode(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _inline(text: str, what: str = "value") -> tuple[Any, int]:
    try:
        return _decoder.raw_decode(text)
    except RecursionError:
        raise ValueError(f"the {what} is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"the {what} is not JSON on one line: {error.msg}") from None


def _scalar(token: str) -> Any:
    if token in _CONSTANTS:
        return _CONSTANTS[token]
    number = _NUMBER(token)
    if number is None:
        raise ValueError(f"{token[:40]!r} is no value: texts are double-quoted, other values are JSON")
    return _finite(token) if number[1] else int(token)


def _value(rest: str) -> Any:
    text = rest.lstrip(" \t")
    if not text or (text[0] == "#" and text != rest):
        return _OPEN
    if text[0] in '"[{':
        value, end = _inline(text)
        if not _AFTER_VALUE(text, end):
            raise ValueError(f"{text[end : end + 40]!r} follows the value; only a comment after a blank may")
        return value
    return _scalar(_COMMENT.split(text, 1)[0].rstrip(" \t"))


def _entry(line: str) -> tuple[int, str, Any] | None:
    """Indentation, key and value of a line; None for a blank line or a comment. Raises ValueError."""
    body = line.lstrip(" ")
    content = body.lstrip(" \t")
    if not content or content[0] == "#":
        return None
    if body[0] == "\t":
        raise ValueError("indentation is by spaces, not by tabs")
    indent = len(line) - len(body)
    if body[0] == '"':
        quoted, end = _inline(body, "quoted key")
        if body[end : end + 1] != ":":
            raise ValueError("a colon must follow the quoted key directly")
        return indent, quoted, _value(body[end + 1 :])
    key, colon, rest = body.partition(":")
    key = key.rstrip(" \t")
    if not colon or not key or _NO_BARE_KEY(key) or _COMMENT.search(key):
        raise ValueError("an entry is a key, a colon and a value")
    return indent, key, _value(rest)


def parse(text: str) -> dict[str, Any]:
    """The mapping that `text` holds; of a repeated key the last value counts, whole. Raises SubsetError.

    A key with neither a value nor entries under it is an empty map (`yaml-empty-value`).
    """
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    root: dict[str, Any] = {}
    levels: list[dict[str, Any]] = [root]
    opened: dict[str, Any] | None = None
    names: dict[str, str] = {}
    value: Any
    for number, (blanks, head, plain, bare, inline, other) in enumerate(_LINES(text), 1):
        if head:
            indent = len(blanks)
            key = names.get(head)
            if key is None:
                key = names[head] = head[1:-1] if head[0] == '"' else head
            if plain:
                value = plain[1:-1]
            elif bare:
                value = _CONSTANTS[bare] if bare in _CONSTANTS else int(bare)
            elif inline:
                try:
                    value, end = _inline(inline)
                    if end != len(inline):
                        value = _value(inline)
                except ValueError as error:
                    raise SubsetError(number, str(error)) from None
            else:
                value = _OPEN
        else:
            try:
                entry = _entry(other)
            except ValueError as error:
                raise SubsetError(number, str(error)) from None
            if entry is None:
                continue
            indent, key, value = entry
        depth = indent >> 1
        if indent & 1 or depth > len(levels) or (depth == len(levels) and opened is None):
            raise SubsetError(number, f"{indent} spaces are no indentation of this place; a level is two spaces")
        if depth == len(levels):
            assert opened is not None
            levels.append(opened)
        elif depth < len(levels) - 1:
            del levels[depth + 1 :]
        if value is _OPEN:
            opened = levels[depth][key] = {}
        else:
            opened = None
            levels[depth][key] = value
    return root
