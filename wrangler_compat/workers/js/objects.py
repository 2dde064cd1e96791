"""`Object`, `Array`, `Map`, `Set`, `Number` and `RegExp`: the containers and wrappers that programs pass around."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from moorage.durable_objects.runtime.web import JsDict, JsList, js_string


def members(value: Any) -> dict[str, Any]:
    """The own enumerable properties of a value, as a dictionary."""
    if value is None:
        raise TypeError("Cannot convert undefined or null to object")
    if isinstance(value, Map | Set):
        return {}
    if isinstance(value, dict):
        return {js_string(key): item for key, item in value.items()}
    if isinstance(value, list | tuple | str):
        return {str(place): item for place, item in enumerate(value)}
    entries = getattr(value, "object_entries", None)
    if callable(entries):
        return {js_string(key): item for key, item in entries()}
    return {key: item for key, item in getattr(value, "__dict__", {}).items() if not key.startswith("_")}


class Object:
    """`js.Object`: only its functions are used; `Object.new()` is an empty object."""

    @staticmethod
    def new(value: Any = None) -> Any:
        return JsDict() if value is None else value

    @staticmethod
    def fromEntries(entries: Any) -> JsDict:
        pairs = entries.items() if isinstance(entries, dict) else entries
        return JsDict((js_string(pair[0]), pair[1]) for pair in (tuple(pair) for pair in pairs))

    @staticmethod
    def entries(value: Any) -> JsList:
        return JsList(JsList(pair) for pair in members(value).items())

    @staticmethod
    def keys(value: Any) -> JsList:
        return JsList(members(value))

    @staticmethod
    def values(value: Any) -> JsList:
        return JsList(members(value).values())

    @staticmethod
    def assign(target: Any, *sources: Any) -> Any:
        for source in sources:
            if source is not None:
                for key, item in members(source).items():
                    if isinstance(target, dict):
                        target[key] = item
                    else:
                        setattr(target, key, item)
        return target

    @staticmethod
    def freeze(value: Any) -> Any:
        return value

    @staticmethod
    def hasOwn(value: Any, name: Any) -> bool:
        return js_string(name) in members(value)


class Array:
    """`js.Array`; arrays themselves are lists."""

    @staticmethod
    def new(*items: Any) -> JsList:
        if len(items) == 1 and isinstance(items[0], int) and not isinstance(items[0], bool):
            return JsList([None] * items[0])
        return JsList(items)

    @staticmethod
    def of(*items: Any) -> JsList:
        return JsList(items)

    @staticmethod
    def from_(items: Iterable[Any], function: Callable[..., Any] | None = None) -> JsList:
        return JsList(items) if function is None else JsList(function(item) for item in items)

    @staticmethod
    def isArray(value: Any) -> bool:
        return isinstance(value, list)


class Map(dict[Any, Any]):
    """`js.Map`; a dictionary with `set`, `has`, `delete`, `size` and iteration in the order of insertion."""

    @classmethod
    def new(cls, entries: Any = None) -> Map:
        pairs = entries.items() if isinstance(entries, dict) else entries or ()
        return cls((pair[0], pair[1]) for pair in (tuple(pair) for pair in pairs))

    @property
    def size(self) -> int:
        return len(self)

    def set(self, key: Any, value: Any) -> Map:
        self[key] = value
        return self

    def has(self, key: Any) -> bool:
        return key in self

    def delete(self, key: Any) -> bool:
        if key in self:
            del self[key]
            return True
        return False

    def entries(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.items())

    def forEach(self, function: Callable[..., Any]) -> None:
        for key, value in list(self.items()):
            function(value, key, self)

    def to_py(self, **_options: Any) -> dict[Any, Any]:
        return {key: item.to_py() if hasattr(item, "to_py") else item for key, item in self.items()}

    def as_object_map(self, **_options: Any) -> Map:
        return self


class Set(set[Any]):
    """`js.Set`; a set with `has`, `delete` and `size`."""

    @classmethod
    def new(cls, items: Iterable[Any] | None = None) -> Set:
        return cls(items or ())

    @property
    def size(self) -> int:
        return len(self)

    def has(self, value: Any) -> bool:
        return value in self

    def delete(self, value: Any) -> bool:
        if value in self:
            self.discard(value)
            return True
        return False

    def values(self) -> Iterator[Any]:
        return iter(self)

    keys = values

    def forEach(self, function: Callable[..., Any]) -> None:
        for value in list(self):
            function(value, value, self)

    def to_py(self, **_options: Any) -> set[Any]:
        return set(self)


class Number(float):
    """`js.Number`; `Number.new("1234")` is an object around a number, `.valueOf()` and `.to_py()` the number."""

    MAX_SAFE_INTEGER = 2**53 - 1
    MIN_SAFE_INTEGER = -(2**53 - 1)
    EPSILON = 2.0**-52

    def __new__(cls, value: Any = 0) -> Number:
        return super().__new__(cls, to_number(value))

    @classmethod
    def new(cls, value: Any = 0) -> Number:
        return cls(value)

    def valueOf(self) -> int | float:
        return int(self) if self.is_integer() else float(self)

    def to_py(self, **_options: Any) -> int | float:
        return self.valueOf()

    def toString(self, radix: int = 10) -> str:
        return js_string(self.valueOf())

    def toFixed(self, digits: int = 0) -> str:
        return f"{float(self):.{digits}f}"

    @staticmethod
    def isInteger(value: Any) -> bool:
        if isinstance(value, bool):
            return False
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())

    @staticmethod
    def isSafeInteger(value: Any) -> bool:
        return Number.isInteger(value) and abs(value) <= Number.MAX_SAFE_INTEGER

    @staticmethod
    def isNaN(value: Any) -> bool:
        return isinstance(value, float) and value != value


def to_number(value: Any) -> float:
    """JavaScript's `Number()` for what programs give it: NaN for text that is no number."""
    if value is None:
        return 0.0
    if isinstance(value, str):
        return _number_of_text(value.strip())
    if hasattr(value, "valueOf") and not isinstance(value, int | float):
        value = value.valueOf()
    return float(value)


def _number_of_text(text: str) -> float:
    if not text:
        return 0.0
    try:
        if text[:2].lower() in {"0x", "0o", "0b"}:
            return float(int(text, 0))
        if _DECIMAL.match(text):
            return float(text)
    except ValueError:
        pass
    infinite = {"Infinity": 1, "+Infinity": 1, "-Infinity": -1}.get(text)
    return float("nan") if infinite is None else infinite * float("inf")


_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)


class Match(JsList):
    """What `exec` gives: a list of the match and its groups."""

    __slots__ = ("_found",)

    def __init__(self, found: re.Match[str]) -> None:
        super().__init__([found[0], *found.groups()])
        self._found = found

    @property
    def index(self) -> Any:
        return self._found.start()

    @property
    def input(self) -> str:
        return self._found.string

    @property
    def groups(self) -> JsDict | None:
        return JsDict(self._found.groupdict()) or None


class RegExp:
    """`js.RegExp` over Python's `re`; the flags `g i m s u y` are understood, the syntax is Python's."""

    __slots__ = ("flags", "lastIndex", "pattern", "source")

    def __init__(self, source: str, flags: str = "") -> None:
        self.source = source
        self.flags = flags
        self.lastIndex = 0
        bits = (re.I if "i" in flags else 0) | (re.M if "m" in flags else 0) | (re.S if "s" in flags else 0)
        # (?<name>…) is (?P<name>…) in Python
        self.pattern = re.compile(re.sub(r"\(\?<(?![=!])", "(?P<", source), bits)

    @classmethod
    def new(cls, source: Any, flags: str = "") -> RegExp:
        return cls(source.source if isinstance(source, RegExp) else str(source), flags)

    def test(self, text: str) -> bool:
        return self.pattern.search(str(text)) is not None

    def exec(self, text: str) -> Match | None:
        """The match and its groups, with `.index`, `.input` and the named `.groups`; None without one."""
        start = self.lastIndex if "g" in self.flags or "y" in self.flags else 0
        found = self.pattern.search(str(text), start)
        if found is None:
            self.lastIndex = 0
            return None
        if "g" in self.flags or "y" in self.flags:
            self.lastIndex = found.end()
        return Match(found)

    def toString(self) -> str:
        return f"/{self.source}/{self.flags}"

    __str__ = toString
