"""Writes the YAML subset in its one canonical form (sweep state schema, "YAML subset"; spec sweep-state 10)."""

import json
import math
import re
from collections.abc import Mapping
from json.encoder import encode_basestring
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

_MANY: Final = 64

_SECOND_LEVEL: Final[dict[str, tuple[str, ...]]] = {"lease": LEASE_ORDER, "last_run": RUN_ORDER}

_BARE_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z").match
# Beyond what JSON escapes: DEL and C1 (SW-7), line and paragraph separator, which YAML 1.1 takes for line breaks,
# and what no YAML text may hold: lone surrogates and the two noncharacters of the first plane.
_BEYOND_JSON: Final = "\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff"
_ESCAPED: Final = re.compile(f"[{_BEYOND_JSON}]")
_PLAIN: Final = re.compile(f'[^"\\\\\x00-\x1f{_BEYOND_JSON}]*\\Z').match
_PRINTABLE: Final = re.compile("[ -~]*\\Z").match
_SPLIT_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]").search


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"


_encode: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True).encode


def _json(value: Any) -> str:
    text = encode_basestring(value) if isinstance(value, str) else _encode(value)
    if _PRINTABLE(text):
        return text
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


class _Heads:
    """The keys of maps in their order, each with its text and colon; kept, since most maps of a state are alike."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], list[tuple[str, str]]] = {}

    def of(self, mapping: Mapping[str, Any], order: tuple[str, ...], indent: str) -> list[tuple[str, str]]:
        """Every key of `mapping` and its text before the value: those of `order` first, the rest by code point."""
        if order is not FIELD_ORDER or len(mapping) > _MANY:
            return self._made(mapping, order, indent)
        names = (indent, *mapping)
        known = self._known.get(names)
        if known is None:
            known = self._known[names] = self._made(mapping, order, indent)
        return known

    @staticmethod
    def _made(mapping: Mapping[str, Any], order: tuple[str, ...], indent: str) -> list[tuple[str, str]]:
        first = [key for key in order if key in mapping]
        rest = sorted(key for key in mapping if key not in order)
        return [(key, f"{indent}{key if _BARE_KEY(key) else quote(key)}:") for key in first + rest]


def emit(document: Mapping[str, Any]) -> str:
    """The canonical text of `document`, which ends with a line feed; empty for an empty document.

    Raises TypeError for what is no JSON value, ValueError for a text that cannot be written.
    """
    parts: list[str] = []
    heads = _Heads()
    # a stack in place of recursion: a document may be as deep as its text allows
    stack = [(iter(heads.of(document, DOCUMENT_ORDER, "")), document, "")]
    while stack:
        entries, mapping, indent = stack[-1]
        for key, head in entries:
            value = mapping[key]
            if isinstance(value, str):
                parts.append(f'{head} "{value}"\n' if _PLAIN(value) else f"{head} {_json(value)}\n")
                continue
            if not isinstance(value, dict):
                text = _scalar(value)
            elif not value:
                text = "{}"
            else:
                parts.append(f"{head}\n")
                order = FIELD_ORDER if indent else _SECOND_LEVEL.get(key, ())
                deeper = indent + "  "
                stack.append((iter(heads.of(value, order, deeper)), value, deeper))
                break
            parts.append(f"{head} {text}\n")
        else:
            stack.pop()
    return "".join(parts)
