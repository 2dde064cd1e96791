"""Texts of SQL errors: `<sqlite text>[ at offset N]: <CODE>[ (extended: <CODE>)]` (semantics 9.10).

The standard module does not hand out SQLite's error offset. It is found from the text that the message quotes: where
that occurs once, it can be no other place. Where it occurs more often the statement is prepared again: for a syntax
error cut off behind each place, since the parser stops at the first token that cannot be; for a name with another
one in its place, since only the one that is meant changes the message. What stays open has no offset.
"""

import re
import sqlite3
from collections.abc import Callable
from typing import Final

MessageOf = Callable[[str], str]
"""What SQLite says of a text when it prepares it; empty when nothing is wrong."""

_PRIMARY: Final = {
    1: "SQLITE_ERROR", 2: "SQLITE_INTERNAL", 3: "SQLITE_PERM", 4: "SQLITE_ABORT", 5: "SQLITE_BUSY",
    6: "SQLITE_LOCKED", 7: "SQLITE_NOMEM", 8: "SQLITE_READONLY", 9: "SQLITE_INTERRUPT", 10: "SQLITE_IOERR",
    11: "SQLITE_CORRUPT",
    12: "SQLITE_NOTFOUND", 13: "SQLITE_FULL", 14: "SQLITE_CANTOPEN", 15: "SQLITE_PROTOCOL", 17: "SQLITE_SCHEMA",
    18: "SQLITE_TOOBIG", 19: "SQLITE_CONSTRAINT", 20: "SQLITE_MISMATCH", 21: "SQLITE_MISUSE", 22: "SQLITE_NOLFS",
    23: "SQLITE_AUTH", 25: "SQLITE_RANGE", 26: "SQLITE_NOTADB",
}  # fmt: skip
# Extended codes that the standard module of some Python versions cannot name.
_EXTENDED: Final = {
    2579: "SQLITE_CONSTRAINT_ROWID",
    2835: "SQLITE_CONSTRAINT_PINNED",
    3091: "SQLITE_CONSTRAINT_DATATYPE",
}
_SYNTAX: Final = (
    re.compile(r'near "(?P<token>.+)": syntax error\Z', re.DOTALL),
    re.compile(r'unrecognized token: "(?P<token>.+)"\Z', re.DOTALL),
)
_MADE: Final = re.compile(r"(?:table|view) (?P<token>.+) already exists\Z", re.DOTALL)
_NAMES: Final = (
    re.compile(r'no such column: "(?P<token>.+)"\Z', re.DOTALL),
    re.compile(r"no such column: (?P<token>.+)\Z", re.DOTALL),
    re.compile(r"no such function: (?P<token>.+)\Z", re.DOTALL),
    re.compile(r"ambiguous column name: (?P<token>.+)\Z", re.DOTALL),
    re.compile(r"wrong number of arguments to function (?P<token>\w+)\(\)\Z"),
    re.compile(r"too many arguments on function (?P<token>\w+)\Z"),
    re.compile(r"not authorized to use function: (?P<token>\w+)\Z"),
    re.compile(r"misuse of (?:aggregate|window function)(?: function)?:? (?P<token>\w+)\(\)\Z", re.DOTALL),
    re.compile(r"second argument to (?P<token>likelihood)\(\) must be a constant between 0\.0 and 1\.0\Z"),
)
# Columns that are set are looked up where SQLite notes no offset.
_CLAUSE: Final = re.compile(r"\b(?:SELECT|SET|WHERE|FROM|VALUES|RETURNING|BY)\b", re.IGNORECASE)
_SET_BEFORE: Final = re.compile(r"(?:\bSET\s*|,\s*)\Z", re.IGNORECASE)
_SET_BEHIND: Final = re.compile(r"\s*=(?!=)")


def describe(error: sqlite3.Error, text: str = "", message_of: MessageOf | None = None) -> str:
    """Returns the text that callers get; `text` is the statement, with what SQLite skips in front of it."""
    message = str(error)
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return _describe_module_error(error, message)
    primary = _PRIMARY.get(code & 0xFF, "SQLITE_ERROR")
    if primary == "SQLITE_TOOBIG":
        message = "string or blob too big"
    offset = _offset(message, text, message_of) if primary == "SQLITE_ERROR" else None
    where = f" at offset {offset}" if offset is not None else ""
    extended = ""
    if primary == "SQLITE_CONSTRAINT" and code > 0xFF:
        extended = f" (extended: {_EXTENDED.get(code, error.sqlite_errorname)})"
    return f"{message}{where}: {primary}{extended}"


def _describe_module_error(error: sqlite3.Error, message: str) -> str:
    if isinstance(error, sqlite3.DataError):
        return "string or blob too big: SQLITE_TOOBIG"
    if "null character" in message:
        return 'unrecognized token: "\\0": SQLITE_ERROR'
    return f"{message}: SQLITE_ERROR"


def _offset(message: str, text: str, message_of: MessageOf | None) -> int | None:
    """The place in `text`, in bytes, that the message is about; None where there is none, or it cannot be told."""
    if message == "too many SQL variables":
        marks = [match.start() for match in re.finditer(r"\?(?!\d)", text)]
        return marks[100] if len(marks) > 100 and "'" not in text else None
    place = _place(message, text, message_of)
    return None if place is None else len(text[:place].encode("utf-8", "replace"))


def _place(message: str, text: str, message_of: MessageOf | None) -> int | None:
    for pattern in _SYNTAX:
        if match := pattern.match(message):
            return _first_wrong(message, text, _found(match["token"], text), message_of)
    if match := _MADE.match(message):
        found = _found(match["token"], text)
        return found[0].start() if found else None  # what is made is named before what it is made of
    for pattern in _NAMES:
        if match := pattern.match(message):
            return _named(message, text, _found(match["token"], text), message_of)
    return None


def _found(token: str, text: str) -> list[re.Match[str]]:
    """Where a token stands as a whole; the parts of a qualified name may have quotes and blanks around them."""
    if not token[0].isalnum() and token[0] != "_":
        return list(re.finditer(re.escape(token), text))
    parts = r"\s*\.\s*".join(rf"[\[`\"]?{re.escape(part)}[\]`\"]?" for part in token.split("."))
    return list(re.finditer(rf"(?<![\w$.]){parts}(?![\w$])", text))


def _first_wrong(message: str, text: str, found: list[re.Match[str]], message_of: MessageOf | None) -> int | None:
    if len(found) > 1 and message_of is not None:
        found = [match for match in found if message_of(text[: match.end()]) == message][:1]
    return found[0].start() if len(found) == 1 else None


def _named(message: str, text: str, found: list[re.Match[str]], message_of: MessageOf | None) -> int | None:
    if len(found) > 1 and message_of is not None:
        other = "qqq"
        while other in text:
            other += "q"
        found = [
            match for match in found if message_of(text[: match.start()] + other + text[match.end() :]) != message
        ]
    if len(found) != 1:
        return None
    start, end = found[0].span()
    before = text[:start]
    clauses = _CLAUSE.findall(before)
    if clauses and clauses[-1].upper() == "SET" and _SET_BEFORE.search(before) and _SET_BEHIND.match(text, end):
        return None
    return start
