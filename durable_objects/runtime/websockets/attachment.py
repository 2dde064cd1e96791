"""Attachments: a value kept beside a socket while its object sleeps (semantics 13.6).

The limit is on the platform's own serialised form, so its size is computed here; what is kept is our form.
"""

import datetime
import re
from typing import Any, Final

from ..clone import Undefined, dumps, loads
from ..errors import DurableObjectError
from ..web.values import to_platform

MAX_ATTACHMENT_BYTES: Final = 16_384
_HEADER: Final = 2
_SMI: Final = range(-(2**30), 2**30)
_INDEX: Final = re.compile(r"(?:0|[1-9][0-9]{0,9})\Z")


def serialize(value: Any) -> bytes:
    """The stored form of an attachment.

    Raises DataCloneError for what cannot be copied, and an error for more than 16,384 bytes.
    """
    stored = dumps(value)
    size = serialized_size(value)
    if size > MAX_ATTACHMENT_BYTES:
        raise DurableObjectError(
            f"A WebSocket 'attachment' cannot be larger than {MAX_ATTACHMENT_BYTES} bytes."
            f"'attachment' was {size} bytes."
        )
    return stored


def deserialize(stored: bytes | None) -> Any:
    """A fresh copy of the attachment; None when there is none, or undefined was stored."""
    if stored is None:
        return None
    value = loads(stored)
    return None if isinstance(value, Undefined) else to_platform(value)


def serialized_size(value: Any) -> int:
    """How many bytes V8's serialisation (version 15) of `value` has.

    Exact for null, booleans, numbers, text, lists, dictionaries with text keys, sets, dates and bytes (counted as
    `Uint8Array`); errors are counted without their stack.
    """
    writer = _Size()
    writer.value(value)
    return writer.total


def _varint(number: int) -> int:
    return max(1, (number.bit_length() + 6) // 7)


def _zigzag(number: int) -> int:
    return _varint(number * 2 if number >= 0 else -number * 2 - 1)


class _Size:
    def __init__(self) -> None:
        self.total = _HEADER
        self.seen: dict[int, int] = {}

    def text(self, text: str) -> None:
        count = len(text)
        if text.isascii() or max(text) <= "\xff":
            self.total += 1 + _varint(count) + count
            return
        size = 2 * (count + sum(character > "\uffff" for character in text))
        if (self.total + 1 + _varint(size)) % 2:
            self.total += 1  # two-byte text begins at an even place
        self.total += 1 + _varint(size) + size

    def value(self, value: Any) -> None:
        if value is None or isinstance(value, bool | Undefined):
            self.total += 1
        elif isinstance(value, int | float):
            whole = isinstance(value, int) or (value.is_integer() and not (value == 0 and str(value)[0] == "-"))
            self.total += 1 + (_zigzag(int(value)) if whole and int(value) in _SMI else 8)
        elif isinstance(value, str):
            self.text(value)
        elif id(value) in self.seen:
            self.total += 1 + _varint(self.seen[id(value)])
        else:
            self.seen[id(value)] = len(self.seen)
            self._object(value)

    def _object(self, value: Any) -> None:
        if isinstance(value, bytes | bytearray | memoryview):
            size = value.nbytes if isinstance(value, memoryview) else len(value)
            self.seen[-len(self.seen)] = len(self.seen)  # the buffer behind the view counts too
            self.total += 1 + _varint(size) + size + 2 + 1 + _varint(size) + 1
        elif isinstance(value, list | tuple):
            self.total += 1 + 2 * _varint(len(value)) + 2
            for item in value:
                self.value(item)
        elif isinstance(value, set | frozenset):
            self.total += 2 + _varint(len(value))
            for item in value:
                self.value(item)
        elif isinstance(value, datetime.datetime):
            self.total += 9
        elif isinstance(value, re.Pattern):
            self.total += 2
            self.text(value.pattern)
        elif isinstance(value, BaseException):
            self.total += 4
            self.text(str(value))
        elif isinstance(value, dict):
            self._properties(value, mapping=not all(isinstance(key, str) for key in value))
        else:
            self._properties({key: item for key, item in vars(value).items() if key[:1] != "_"}, mapping=False)

    def _properties(self, members: dict[Any, Any], *, mapping: bool) -> None:
        self.total += 2 + _varint(len(members) * (2 if mapping else 1))
        for key, item in members.items():
            if not mapping and _INDEX.match(key) and int(key) in _SMI:
                self.total += 1 + _zigzag(int(key))
            else:
                self.value(key)
            self.value(item)
