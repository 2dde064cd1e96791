"""Python values that also answer to the spellings of JavaScript objects.

On the platform a value that is not pure Python is a JavaScript object behind a proxy; programs therefore call
`.to_py()`, read `.length` or `row.column`, and unpack `.object_values()`. These subclasses of `dict`, `list` and
`bytes` behave as the plain types everywhere and answer those spellings too (spec python-workers-api 1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any


class JsDict(dict[Any, Any]):
    """A dictionary whose string keys are attributes as well; methods of `dict` win over keys of the same name."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(name) from None

    def to_py(self, **_options: Any) -> dict[Any, Any]:
        """A plain dictionary, converted all the way down."""
        plain = to_plain(self)
        assert isinstance(plain, dict)
        return plain

    def object_keys(self) -> JsList:
        return JsList(str(key) for key in self)

    def object_values(self) -> JsList:
        return JsList(self.values())

    def object_entries(self) -> JsList:
        return JsList(JsList((str(key), value)) for key, value in self.items())

    def as_object_map(self, **_options: Any) -> JsDict:
        return self

    def as_py_json(self) -> JsDict:
        return self


class JsList(list[Any]):
    """A list with `.length`, `.to_py()` and the array methods that programs call on results."""

    __slots__ = ()

    @property
    def length(self) -> int:
        return len(self)

    def to_py(self, **_options: Any) -> list[Any]:
        """A plain list, converted all the way down."""
        plain = to_plain(self)
        assert isinstance(plain, list)
        return plain

    def object_values(self) -> JsList:
        return JsList(self)

    def object_keys(self) -> JsList:
        return JsList(str(place) for place in range(len(self)))

    def object_entries(self) -> JsList:
        return JsList(JsList((str(place), value)) for place, value in enumerate(self))

    def as_py_json(self) -> JsList:
        return self

    def push(self, *values: Any) -> int:
        self.extend(values)
        return len(self)

    def includes(self, value: Any) -> bool:
        return value in self

    def join(self, separator: str = ",") -> str:
        return separator.join("" if value is None else js_string(value) for value in self)

    def slice(self, start: int | None = None, end: int | None = None) -> JsList:
        return JsList(self[start:end])

    def map(self, function: Callable[[Any], Any]) -> JsList:
        return JsList(function(value) for value in self)

    def filter(self, function: Callable[[Any], Any]) -> JsList:
        return JsList(value for value in self if function(value))

    def forEach(self, function: Callable[[Any], Any]) -> None:
        for value in self:
            function(value)


class JsBytes(bytes):
    """Bytes that also answer as a `Uint8Array` or an `ArrayBuffer`. They cannot be written to."""

    __slots__ = ()

    @property
    def length(self) -> int:
        return len(self)

    @property
    def byteLength(self) -> int:
        return len(self)

    @property
    def byteOffset(self) -> int:
        return 0

    @property
    def buffer(self) -> JsBytes:
        return self

    def to_py(self, **_options: Any) -> memoryview:
        """A view of the bytes, as the platform's conversion gives."""
        return memoryview(self)

    def to_bytes(self) -> bytes:
        return bytes(self)

    def to_memoryview(self) -> memoryview:
        return memoryview(self)

    def to_string(self, encoding: str = "utf-8") -> str:
        return self.decode(encoding)

    def slice(self, start: int | None = None, end: int | None = None) -> JsBytes:
        return JsBytes(self[start:end])

    def subarray(self, start: int | None = None, end: int | None = None) -> JsBytes:
        return JsBytes(self[start:end])


def to_platform(value: Any) -> Any:
    """`value` with its dictionaries, lists and bytes replaced, all the way down, by the classes of this module.

    Cycles keep their shape.
    """
    try:
        return _to_platform(value)
    except RecursionError:
        return _cyclic_to_platform(value, {})


def _to_platform(value: Any) -> Any:
    kind = type(value)
    if kind is str or kind is int or value is None or kind is bool or kind is float:
        return value
    if kind is dict:
        return JsDict({key: _to_platform(item) for key, item in value.items()})
    if kind is list or kind is tuple:
        return JsList([_to_platform(item) for item in value])
    if kind is bytes:
        return JsBytes(value)
    return value


def _cyclic_to_platform(value: Any, seen: dict[int, Any]) -> Any:
    if id(value) in seen:
        return seen[id(value)]
    if type(value) is dict:
        mapping = seen[id(value)] = JsDict()
        for key, item in value.items():
            mapping[key] = _cyclic_to_platform(item, seen)
        return mapping
    if type(value) is list or type(value) is tuple:
        items = seen[id(value)] = JsList()
        items.extend(_cyclic_to_platform(item, seen) for item in value)
        return items
    return JsBytes(value) if type(value) is bytes else value


def to_plain(value: Any) -> Any:
    """The opposite of `to_platform`; cycles keep their shape."""
    return _to_plain(value, {})


def _to_plain(value: Any, seen: dict[int, Any]) -> Any:
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, dict):
        mapping: dict[Any, Any] = {}
        seen[id(value)] = mapping
        for key, item in value.items():
            mapping[key] = _to_plain(item, seen)
        return mapping
    if isinstance(value, list):
        items: list[Any] = []
        seen[id(value)] = items
        items.extend(_to_plain(item, seen) for item in value)
        return items
    if isinstance(value, JsBytes):
        return bytes(value)
    return value


def js_string(value: Any) -> str:
    """`value` as JavaScript's `String()` spells it: `true`, `undefined` for None, `1` for 1.0, `a,b` for a list."""
    if isinstance(value, str):
        return str(value)
    if value is None:
        return "undefined"
    if value is True:
        return "true"
    if value is False:
        return "false"
    if isinstance(value, float):
        return number_string(value)
    if isinstance(value, list | tuple):
        return ",".join("" if item is None else js_string(item) for item in value)
    if isinstance(value, dict):
        return "[object Object]"
    return str(value)


def number_string(value: float) -> str:
    """A double as ECMAScript's Number::toString spells it: shortest digits, exponent from 1e21 and below 1e-6."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = whole + ("" if fraction == "0" else fraction)
    point = len(whole) + int(exponent or 0)
    stripped = digits.lstrip("0")
    point -= len(digits) - len(stripped)
    digits = stripped.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return sign + digits + "0" * (point - count)
    if 0 < point <= 21:
        return sign + digits[:point] + "." + digits[point:]
    if -6 < point <= 0:
        return sign + "0." + "0" * -point + digits
    power = f"e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return sign + digits[0] + ("." + digits[1:] if count > 1 else "") + power


def pairs_of(value: Any) -> Iterator[tuple[Any, Any]]:
    """Key and value pairs of a mapping or of an iterable of two-item sequences; TypeError for anything else."""
    items = getattr(value, "items", None)
    source: Iterable[Any] = items() if callable(items) else value
    for pair in source:
        if isinstance(pair, str) or len(pair) != 2:
            raise TypeError("Expected pairs of a name and a value")
        yield pair[0], pair[1]


__all__ = [
    "JsBytes",
    "JsDict",
    "JsList",
    "js_string",
    "number_string",
    "pairs_of",
    "to_plain",
    "to_platform",
]
