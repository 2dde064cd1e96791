"""JSON read without leniency, and written in one way only.

Reading: one object, UTF-8 without a byte-order mark, no member twice, nothing after it, no NaN or infinity, no half
of a surrogate pair, which could not be written again. Writing: members sorted by code point, no insignificant space,
UTF-8, one line feed at the end of a document.
"""

import json
import re
from typing import Any, Final

_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]").search


class NotStrict(ValueError):
    """The bytes are not what is read here; the text says where or why."""


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise NotStrict(f"member {twice[:80]!r} is there twice")
    return value


def _refuse(text: str) -> Any:
    raise NotStrict(f"{text} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise NotStrict(f"{text[:40]} is too large")
    return value


_decoder: Final = json.JSONDecoder(object_pairs_hook=_members, parse_constant=_refuse, parse_float=_finite)


def parse_object(data: bytes) -> dict[str, Any]:
    """The one JSON object in `data`. Raises NotStrict."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotStrict(f"byte {error.start} is not UTF-8") from None
    try:
        value = _decoder.decode(text)
    except NotStrict:
        raise
    except (ValueError, RecursionError) as error:
        raise NotStrict(f"it is not JSON: {str(error) or 'nested too deeply'}") from None
    if not isinstance(value, dict):
        raise NotStrict("it is not a JSON object")
    if _SURROGATE(text) and not _encodes(value):
        raise NotStrict("a text holds half of a surrogate pair")
    return value


def _encodes(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def canonical(value: Any) -> bytes:
    """Deterministic JSON (spec session-manifest 3). ValueError for what JSON cannot say, lone surrogates included."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8")


def document(value: Any) -> bytes:
    """`canonical` with one final line feed: a remote document (spec session-manifest 9)."""
    return canonical(value) + b"\n"
