"""What may differ from the recorded Durable Object observations, by rule and never by case.

A rule is asked about one difference: where it is, what was observed, what we gave. A case whose every difference is
allowed by a rule is counted as skipped under the rules' names; `test_do` checks that each rule is needed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where expectation and result differ. `path` holds keys and indexes; `operation` is the step's or
    program operation's record."""

    path: tuple[Any, ...]
    expected: Any
    got: Any
    case: dict[str, Any]
    operation: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """A named reason why differences of a kind may stand."""

    name: str
    why: str
    allows: Callable[[Difference], bool]


_OFFSET = re.compile(r" at offset \d+(?=: SQLITE_)")


def _offset_left_out(difference: Difference) -> bool:
    expected, got = difference.expected, difference.got
    return (
        isinstance(expected, str)
        and isinstance(got, str)
        and _OFFSET.search(expected) is not None
        and _OFFSET.search(got) is None
        and _OFFSET.sub("", expected) == got
    )


_EVERY_ROW = re.compile(r"SELECT [\w, *]+ FROM \w+", re.IGNORECASE)


def _row_count(difference: Difference) -> bool:
    """Rows visited and index entries written come on top of the rows that we count."""
    expected, got = difference.expected, difference.got
    position = next(
        (step for before, step in zip(difference.path, difference.path[1:], strict=False) if before == "reads"), None
    )
    reads = difference.operation.get("read", [])
    if type(expected) is not int or type(got) is not int or expected < got or position is None:
        return False
    if reads[position] == "rowsRead":
        return _EVERY_ROW.fullmatch(_statement(difference)) is None
    return reads[position] == "rowsWritten" and "INDEX" in str(difference.case["steps"]).upper()


def _statement(difference: Difference) -> str:
    """The text that an operation runs; for one that goes on with a remembered cursor, the text of that cursor."""
    if difference.operation.get("op") == "sql":
        return str(difference.operation["args"][0])
    programs = (step.get("run", []) for step in difference.case["steps"])
    named = (operation for program in programs for operation in program if operation.get("op") == "sql")
    return next((str(item["args"][0]) for item in named if item.get("as") == difference.operation.get("of")), "")


def _data_version(difference: Difference) -> bool:
    return difference.path[-1] == "data_version" and type(difference.got) is type(difference.expected) is int


def _parser_stack(difference: Difference) -> bool:
    return isinstance(difference.got, dict) and "parser stack overflow" in str(difference.got.get("err"))


def _proto(difference: Difference) -> bool:
    return bool(difference.path[-1] == "__proto__")


def _unspecified(difference: Difference) -> bool:
    return difference.operation.get("args") in (["ctx.facets"], ["ctx.exports"])


_JAVASCRIPT_TEXT = re.compile(
    r"Failed to execute '\w+' on '\w+': parameter \d is not of type '[\w ]+'\."
    r"|.+ could not be cloned\.",
)


def is_javascript_text(text: Any) -> bool:
    """Whether an error's text is of JavaScript's own making: a wrong argument, or a value that has no copy."""
    return isinstance(text, str) and _JAVASCRIPT_TEXT.fullmatch(text) is not None


def _wording(difference: Difference) -> bool:
    # An error for an error of the same class, where the text is of JavaScript's own making.
    return (
        "js" in difference.case.get("tags", ())
        and difference.path[-2:] == ("err", "message")
        and isinstance(difference.got, str)
        and is_javascript_text(difference.expected)
    )


def _beyond_local(difference: Difference) -> bool:
    operation = difference.operation.get("op", "")
    return "local" in difference.case.get("tags", ()) and operation in {
        "storage.onNextSessionRestoreBookmark",
        "storage.getBookmarkForTime",
    }


def _quirk(difference: Difference) -> bool:
    return "quirk" in difference.case.get("tags", ())


RULES: Final = (
    Rule("offset", "the standard module does not tell SQLite's error offset where it is ambiguous", _offset_left_out),
    Rule("row-counts", "the standard module does not tell rows visited, nor index entries written", _row_count),
    Rule("data-version", "the number is SQLite's own count of changes by other connections", _data_version),
    Rule("parser-stack", "SQLite before 3.46 parses at most about 90 nested parentheses", _parser_stack),
    Rule("object-key", "JavaScript objects cannot hold a key __proto__", _proto),
    Rule("unspecified", "members of ctx that no section of the specification describes", _unspecified),
    Rule("js-wording", "texts and classes of JavaScript's own argument errors", _wording),
    Rule("local-bookmarks", "bookmarks restore here; the real local runtime only throws", _beyond_local),
    Rule("quirk", "an accident that the specification says not to copy", _quirk),
)

# Values and operations that exist in JavaScript alone, or not yet here; the case is skipped before it runs further.
UNAVAILABLE: Final = {
    "symbol": "js-value",
    "request": "js-value",
    "BigInt": "js-value",
    "a key that is no scalar": "js-value",
    "a thrown value that is no error": "js-value",
}
