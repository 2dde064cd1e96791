"""Reading SQL text before it runs: where one statement ends, whether it writes, how many parameters it has."""

import re
import sqlite3
from dataclasses import dataclass
from functools import lru_cache

_TOKEN = re.compile(
    r"""(?P<space>\s+)|(?P<line>--[^\n]*)|(?P<block>/\*.*?(?:\*/|\Z))
    |(?P<text>'(?:[^']|'')*(?:'|\Z))|(?P<name>"(?:[^"]|"")*(?:"|\Z))|(?P<tick>`(?:[^`]|``)*(?:`|\Z))
    |(?P<bracket>\[[^\]]*(?:\]|\Z))|(?P<semi>;)|(?P<named>[:@$][A-Za-z_\x80-\U0010ffff$][\w$\x80-\U0010ffff]*)|(?P<mark>\?\d*)|(?P<word>[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)|(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_BLANK = frozenset({"space", "line", "block"})
_TRANSACTION_WORDS = frozenset({"BEGIN", "COMMIT", "END", "ROLLBACK", "SAVEPOINT", "RELEASE"})


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a text: what is handed to SQLite, its first keyword in upper case, and its offset in the
    text. `before` is what SQLite would skip in front of it: comments and blank space, which count in error offsets.
    """

    sql: str
    keyword: str
    offset: int
    before: str = ""

    @property
    def controls_transaction(self) -> bool:
        """Whether it is one of the statements that user code may not run (semantics 9.11)."""
        return self.keyword in _TRANSACTION_WORDS


def _complete(text: str) -> bool:
    """Whether a text ends with a statement, by SQLite's own rule; what it cannot be handed counts as blank."""
    try:
        return sqlite3.complete_statement(text)
    except ValueError:
        return sqlite3.complete_statement(text.encode("utf-8", "replace").decode().replace("\0", " "))


@lru_cache(maxsize=1024)
def split(text: str) -> tuple[Statement, ...]:
    """Returns the statements of `text` in order.

    A last element with an empty keyword stands for a text, or a tail after a semicolon, that holds only comments or
    further semicolons; blank space after the last semicolon is no statement. The end of a trigger's body is found by
    SQLite's own rule.
    """
    found: list[Statement] = []
    start, keyword, first_token, began = 0, "", -1, 0
    no_statement = False

    def before() -> str:
        # SQLite is handed what follows a statement's semicolon, after spaces and line feeds.
        skipped = text[began:first_token]
        return skipped.lstrip(" \n") if found else skipped

    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        if kind in _BLANK:
            no_statement = no_statement or kind != "space"
            continue
        if first_token < 0:
            if kind == "semi":
                start = match.end()
                no_statement = True
                continue
            first_token = match.start()
            keyword = match.group().upper() if kind == "word" else match.group()
        if kind == "semi" and (keyword not in {"CREATE", "EXPLAIN"} or _complete(text[start : match.end()])):
            found.append(Statement(text[first_token : match.end()], keyword, first_token, before()))
            start, keyword, first_token, began = match.end(), "", -1, match.end()
            no_statement = False
    if first_token >= 0:
        found.append(Statement(text[first_token:], keyword, first_token, before()))
    elif not found or no_statement:
        found.append(Statement("", "", len(text)))
    return tuple(found)


def new_name(sql: str) -> str | None:
    """Returns the name that an `ALTER TABLE … RENAME TO name` gives, unquoted; None for any other statement."""
    tokens = [match for match in _TOKEN.finditer(sql) if match.lastgroup not in _BLANK]
    words = [match.group().upper() for match in tokens]
    for index in range(len(tokens) - 2):
        if words[index : index + 2] == ["RENAME", "TO"]:
            name = tokens[index + 2]
            text = name.group()
            if name.lastgroup in {"text", "name", "tick"}:
                return text[1:-1].replace(text[0] * 2, text[0])
            return text[1:-1] if name.lastgroup == "bracket" else text
    return None


@lru_cache(maxsize=1024)
def parameter_names(sql: str) -> tuple[str, ...]:
    """Returns the names of `:a`, `@b` and `$c` in the order SQLite numbers them, without their first character.

    Empty when there are none, or when `?` stands beside them: the standard module can bind only one kind by name.
    """
    names: dict[str, None] = {}
    for match in _TOKEN.finditer(sql):
        if match.lastgroup == "mark":
            return ()
        if match.lastgroup == "named":
            names[match.group()] = None
    plain = [name[1:] for name in names]
    # `:a` and `@a` are two parameters with one name there.
    return tuple(plain) if len(set(plain)) == len(plain) else ()
