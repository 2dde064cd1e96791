"""Writes the YAML subset in its one canonical form (sweep state schema, "YAML subset"; spec sweep-state 10)."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

DOCUMENT_ORDER: Final = ("schema_version", "lease", "sources", "items", "last_run")
LEASE_ORDER: Final = ("writer", "timestamp", "ttl_minutes")
RUN_ORDER: Final = ("timestamp", "outcome", "writer", "counts")
FIELD_ORDER: Final = (
    "source",
    "status",
    "sensitive",
    "title",
    "url",
    "body",
    "quote",
    "fix_ref",
    "verified_merge_sha",
    "verified_at",
)
"""The order of every map below the second level: a source, an item, `counts`, maps in items."""

_SECOND_LEVEL: Final[dict[str, tuple[str, ...]]] = {"lease": LEASE_ORDER, "last_run": RUN_ORDER}

_BARE_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z").match
# Beyond what JSON escapes: DEL and C1 (SW-7), line and paragraph separator, which YAML 1.1 takes for line breaks,
# and what no YAML text may hold: lone surrogates and the two noncharacters of the first plane.
_BEYOND_JSON: Final = "\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff"
_ESCAPED: Final = re.compile(f"[{_BEYOND_JSON}]")
_PLAIN: Final = re.compile(f'[^"\\\\\x00-\x1f{_BEYOND_JSON}]*\\Z').match
_SPLIT_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]").search


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if _SPLIT_PAIR(text):
        raise ValueError("a text holds the two halves of one character apart; written, they would become one")
    return _ESCAPED.sub(_escape, text)


def quote(text: str) -> str:
    """`text` as a double-quoted string that JSON and YAML read alike. Raises ValueError for a split pair."""
    return f'"{text}"' if _PLAIN(text) else _json(text)


def _float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "nan" if value != value else "inf" if value > 0 else "-inf"


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, list):
        return _json(value)
    raise TypeError(f"a state file holds JSON values, not {type(value).__name__}")


def _ordered(mapping: Mapping[str, Any], order: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for key in order:
        if key in mapping:
            yield key, mapping[key]
    for key in sorted(mapping):
        if key not in order:
            yield key, mapping[key]


def emit(document: Mapping[str, Any]) -> str:
    """The canonical text of `document`, which ends with a line feed; empty for an empty document.

    Raises TypeError for what is no JSON value, ValueError for a text that cannot be written.
    """
    lines: list[str] = []
    keys: dict[str, str] = {}
    # a stack in place of recursion: a document may be as deep as its text allows
    stack: list[tuple[Iterator[tuple[str, Any]], str]] = [(_ordered(document, DOCUMENT_ORDER), "")]
    while stack:
        entries, indent = stack[-1]
        for key, value in entries:
            head = keys.get(key)
            if head is None:
                head = keys[key] = key if _BARE_KEY(key) else quote(key)
            if isinstance(value, str):
                lines.append(f"{indent}{head}: {quote(value)}\n")
            elif isinstance(value, dict):
                if value:
                    lines.append(f"{indent}{head}:\n")
                    order = FIELD_ORDER if indent else _SECOND_LEVEL.get(key, ())
                    stack.append((_ordered(value, order), indent + "  "))
                    break
                lines.append(f"{indent}{head}: {{}}\n")
            else:
                lines.append(f"{indent}{head}: {_scalar(value)}\n")
        else:
            stack.pop()
    return "".join(lines)
