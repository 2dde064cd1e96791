"""Text of a configuration file to plain values.

JSON files may hold comments and trailing commas, and nothing else beyond JSON (wrangler configuration 1). The
comments and the trailing commas are overwritten with blanks of the same length and the standard parser does the
rest, so that line and column of an error are those of the file. The JSON5 parsers accept single quotes, bare
keys, hexadecimal numbers and Infinity, which the platform refuses, and take a hundred times as long.
"""

import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NoReturn

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_COMMA = re.compile(rf"{_STRING}|,(?=\s*[\]}}])", re.DOTALL)


class SyntaxProblem(ValueError):
    """The text is not in the format of its file. `line` and `column` count from 1; 0 where the place is not known."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        place = f" (line {line}, column {column})" if line else ""
        super().__init__(f"{message}{place}")
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Parsed:
    """`value`, and the names of keys that stood twice in one object (the last one counts, as on the platform)."""

    value: object
    duplicate_keys: tuple[str, ...] = field(default=())


def parse_config(data: bytes | str, name: PurePath | str) -> Parsed:
    """Parses the contents of the file `name`; the ending decides the format (`.toml`, else JSON with comments).

    Raises SyntaxProblem for text that is not UTF-8 or not in that format.
    """
    if isinstance(data, bytes):
        try:
            data = data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise SyntaxProblem(f"not UTF-8 at byte {error.start}") from None
    data = data.removeprefix("\ufeff")
    parse: Callable[[str], Parsed] = _parse_toml if PurePath(name).suffix == ".toml" else parse_jsonc
    try:
        return parse(data)
    except RecursionError:
        raise SyntaxProblem("nested too deeply") from None


def parse_jsonc(text: str) -> Parsed:
    """Parses JSON with `//` and `/* */` comments and trailing commas. Raises SyntaxProblem."""
    plain = _COMMA.sub(_blank_comma, _COMMENT.sub(_blank_comment, text))
    duplicates: list[str] = []

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        result: dict[str, object] = {}
        for key, value in items:
            if key in result:
                duplicates.append(key)
            result[key] = value
        return result

    try:
        value = json.loads(plain, object_pairs_hook=pairs, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise SyntaxProblem(error.msg, error.lineno, error.colno) from None
    except SyntaxProblem:
        raise
    except ValueError as error:  # an integer with more digits than Python converts
        raise SyntaxProblem(str(error)) from None
    return Parsed(value, tuple(dict.fromkeys(duplicates)))


def _blank_comment(match: re.Match[str]) -> str:
    found = match[0]
    if found.startswith('"'):
        return found
    if found.startswith("/*") and (len(found) < 4 or not found.endswith("*/")):
        line = match.string.count("\n", 0, match.start()) + 1
        column = match.start() - match.string.rfind("\n", 0, match.start())
        raise SyntaxProblem("a comment is not closed", line, column)
    return re.sub(r"[^\n]", " ", found)


def _blank_comma(match: re.Match[str]) -> str:
    if match[0] != ",":
        return match[0]
    # a comma with nothing before it, as in `[,]`, is no trailing comma
    before = match.string[: match.start()].rstrip()
    return "," if before.endswith(("{", "[", ",")) else " "


def _refuse_constant(name: str) -> NoReturn:
    raise SyntaxProblem(f"{name} is not a JSON value")


def _parse_toml(text: str) -> Parsed:
    try:
        return Parsed(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise SyntaxProblem(str(error)) from None
