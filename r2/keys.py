"""Object names and list cursors (spec durable-object-semantics 15.4, 15.10, limits table)."""

import base64
import re
from typing import Any, Final

from .arguments import MISSING, text_of, wrong_parameter
from .errors import InvalidObjectName

MAX_KEY_BYTES: Final = 1024
_LAST_CHARACTER: Final = "\U0010ffff"
_NOT_BASE64: Final = re.compile(r"[^A-Za-z0-9+/]")


def key_of(value: Any, cls: str, method: str, expected: str = "string") -> str:
    """The object name that `value` stands for: text, or a number or boolean in its text form. TypeError for all
    else.
    """
    if value is MISSING or value is None or not isinstance(value, str | int | float):
        raise wrong_parameter(cls, method, 1, expected)
    return text_of(value)


def check_key(key: str) -> None:
    """InvalidObjectName when `key` is longer than 1,024 bytes in UTF-8. `r2-key-multibyte-limit`"""
    if len(key) > MAX_KEY_BYTES or len(key.encode()) > MAX_KEY_BYTES:
        raise InvalidObjectName


def last_key_below(prefix: str) -> str:
    """The greatest name that begins with `prefix`, as far as its length allows: a cursor past a whole group."""
    return prefix + _LAST_CHARACTER * max(1, (MAX_KEY_BYTES - len(prefix.encode())) // 4)


def successor(prefix: bytes) -> bytes | None:
    """The least byte string above every one that begins with `prefix`; None when there is none (empty prefix)."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,)) if kept else None


def encode_cursor(position: str) -> str:
    """The cursor of a page that ended at `position`: the next page begins strictly after it."""
    return base64.b64encode(position.encode()).decode()


def decode_cursor(cursor: str) -> str:
    """The position in a cursor. Never fails: what is no cursor decodes to some position. `r2-list-bad-cursor`"""
    text = _NOT_BASE64.sub("", cursor.replace("-", "+").replace("_", "/").partition("=")[0])
    if len(text) % 4 == 1:
        text = text[:-1]
    return base64.b64decode(text + "=" * (-len(text) % 4)).decode("utf-8", "replace")
