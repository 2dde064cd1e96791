"""A scan of JSON text for repeated keys, before any value is built from it (spec action-ledger 11, step 1)."""

import json
import re

from .refusals import LedgerRefusal

MAX_DEPTH = 64
MAX_VALUES = 10_000

_TOKEN = re.compile(
    r'[ \t\n\r]*(?:(?P<string>"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*")'
    r"|(?P<scalar>true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<mark>[\[\]{},:]))"
)
_BLANK = re.compile(r"[ \t\n\r]*")

# What may come next. The scan keeps one of these, and a stack of the open containers.
_VALUE, _VALUE_OR_END, _KEY, _KEY_OR_END, _COLON, _AFTER = range(6)


def _syntax(text: str, at: int) -> LedgerRefusal:
    return LedgerRefusal("json-syntax", f"no JSON at character {at} of {len(text)}")


def scan_json(text: str) -> None:
    """Raises LedgerRefusal: duplicate-key (decoded names compared), complexity, or json-syntax. Builds no values."""
    at, values, expect = 0, 0, _VALUE
    # One entry an open container: the keys seen so far, or None for an array.
    open_containers: list[set[str] | None] = []
    while True:
        token = _TOKEN.match(text, at)
        if token is None:
            raise _syntax(text, at)
        at, kind = token.end(), token.lastgroup
        mark = token["mark"]
        if expect in (_KEY, _KEY_OR_END) and kind == "string":
            keys = open_containers[-1]
            key = json.loads(token["string"])
            if keys is None or key in keys:
                raise LedgerRefusal("duplicate-key", f"the key {key!r} is repeated")
            keys.add(key)
            expect = _COLON
            continue
        if expect == _COLON and mark == ":":
            expect = _VALUE
            continue
        if expect in (_VALUE, _VALUE_OR_END) and (kind != "mark" or mark in "[{"):
            values += 1
            if values > MAX_VALUES or len(open_containers) > MAX_DEPTH:
                raise LedgerRefusal("complexity", f"at most {MAX_VALUES} values, {MAX_DEPTH} deep")
            if kind == "mark":
                open_containers.append(None if mark == "[" else set())
                expect = _VALUE_OR_END if mark == "[" else _KEY_OR_END
                continue
            expect = _AFTER
        elif expect == _AFTER and mark == ",":
            expect = _VALUE if open_containers[-1] is None else _KEY
            continue
        elif (expect in (_AFTER, _VALUE_OR_END) and mark == "]" and open_containers[-1] is None) or (
            expect in (_AFTER, _KEY_OR_END) and mark == "}" and open_containers[-1] is not None
        ):
            open_containers.pop()
            expect = _AFTER
        else:
            raise _syntax(text, token.start())
        if not open_containers:
            blank = _BLANK.match(text, at)
            if blank is None or blank.end() != len(text):
                raise _syntax(text, at)
            return
