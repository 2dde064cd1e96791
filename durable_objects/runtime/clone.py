"""Copies of values: structured-clone rules for Python, in memory and as bytes (semantics 6.7 and 12.3).

`dumps`/`loads` are what storage keeps; `copy_value` is what crosses between objects. Plain values (None, bool, int,
float, str, bytes, lists and str-keyed dicts of these) take the fast way: MessagePack behind one marker byte. The rest
(cycles, shared containers, sets, dates, patterns, errors, other keys) is a table of nodes that refer to each other.
"""

import builtins
import datetime
import enum
import math
import re
from collections.abc import Callable
from types import NoneType
from typing import Any, Final

import msgspec

from .base import RpcTarget

_PLAIN: Final = b"\x00"
_GRAPH: Final = b"\x01"
_REF: Final = 1
_SCALARS: Final = frozenset({type(None), bool, float, str, bytes})
_LEAVES: Final = _SCALARS | {int}
_TEXT: Final = frozenset({str})
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


class DataCloneError(Exception):
    """A value cannot be copied; the text begins with `DataCloneError`, as on the platform."""

    name = "DataCloneError"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        return f"DataCloneError: {self.message}"


class Undefined:
    """JavaScript's `undefined`, for the few places where it differs from null. Falsy; one instance."""

    _instance: "Undefined | None" = None

    def __new__(cls) -> "Undefined":
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "undefined"


undefined: Final = Undefined()


def _refuse(value: object) -> DataCloneError:
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    return DataCloneError(f"{name} could not be cloned.")


def _is_plain(value: Any, seen: set[int], depth: int) -> bool:
    """Whether MessagePack keeps `value` as it is; an integer beyond its range still raises OverflowError there.

    The types of a container's items are gathered by C code; only containers inside containers cost a step.
    """
    kind = type(value)
    if kind in _LEAVES:
        return True
    if depth > 100 or (kind is not dict and kind is not list) or id(value) in seen:
        return False
    seen.add(id(value))
    if kind is dict:
        if not _TEXT.issuperset(map(type, value)):
            return False
        value = value.values()
    if _LEAVES.issuperset(map(type, value)):
        return True
    return all(type(item) in _LEAVES or _is_plain(item, seen, depth + 1) for item in value)


_encode = msgspec.msgpack.Encoder().encode
_decode_plain = msgspec.msgpack.Decoder().decode


class _Ref:
    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


def _ext_hook(code: int, data: memoryview) -> Any:
    if code != _REF:
        raise ValueError(f"stored value: unknown extension {code}")
    return _Ref(int.from_bytes(data, "big"))


_decode_graph = msgspec.msgpack.Decoder(ext_hook=_ext_hook).decode


def dumps(value: Any) -> bytes:
    """Returns the stored form of `value`.

    Raises DataCloneError for functions, modules, generators, coroutines and nesting beyond the interpreter's
    recursion limit. An instance of another class is stored as the dict of its public attributes; a tuple as a list.
    """
    if _is_plain(value, set(), 0):
        try:
            return _PLAIN + _encode(value)
        except (UnicodeEncodeError, OverflowError):
            pass  # a lone surrogate, or an integer of more than 64 bits
    try:
        return _GRAPH + _encode(_Graph().build(value))
    except RecursionError:
        raise DataCloneError("the value is nested too deeply") from None


def loads(data: bytes) -> Any:
    """Returns the value that `dumps` stored as `data`. Raises ValueError for anything else."""
    marker = data[:1]
    try:
        if marker == _PLAIN:
            return _decode_plain(memoryview(data)[1:])
        if marker == _GRAPH:
            return _revive(_decode_graph(memoryview(data)[1:]))
    except msgspec.DecodeError as error:
        raise ValueError(f"stored value: {error}") from None
    raise ValueError(f"stored value: unknown format {marker!r}")


class _Graph:
    """Turns a value into a list of nodes `[tag, payload]`; node 0 is the value."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.known: dict[int, int] = {}
        self.kept: list[Any] = []  # keeps ids unique while building

    def build(self, value: Any) -> list[Any]:
        root = self.item(value)
        if not isinstance(root, msgspec.msgpack.Ext):
            self.nodes = [["v", root]]
        return self.nodes

    def item(self, value: Any) -> Any:
        kind = type(value)
        if kind in _SCALARS and kind is not str:
            return value
        if kind is str and _encodable(value):
            return value
        if kind is int and _INT_MIN <= value <= _INT_MAX:
            return value
        index = self.known.get(id(value))
        if index is None:
            index = len(self.nodes)
            self.known[id(value)] = index
            self.kept.append(value)
            node: list[Any] = []
            self.nodes.append(node)
            node.extend(self.node(value))
        return msgspec.msgpack.Ext(_REF, index.to_bytes(4, "big"))

    def node(self, value: Any) -> tuple[str, Any]:
        match value:
            case str():
                return "w", value.encode("utf-8", "surrogatepass")
            case bool():
                return "v", bool(value)
            case int():
                return "i", str(int(value))
            case float():
                return "v", float(value)
            case list() | tuple():
                return "l", [self.item(item) for item in value]
            case dict():
                if all(type(key) is str and _encodable(key) for key in value):
                    return "d", {key: self.item(item) for key, item in value.items()}
                return "m", [[self.item(_key(key)), self.item(item)] for key, item in value.items()]
            case set() | frozenset():
                return "s", [self.item(_key(item)) for item in value]
            case bytearray() | memoryview() | bytes():
                return "v", bytes(value)
            case datetime.datetime():
                milliseconds = (_in_utc(value) - _EPOCH) // datetime.timedelta(milliseconds=1)
                return "t", [milliseconds, value.tzinfo is not None]
            case re.Pattern():
                return "r", [value.pattern, value.flags]
            case BaseException():
                attributes = {key: item for key, item in vars(value).items() if not key.startswith("_")}
                return "e", [_error_name(value), _error_message(value), self.item(attributes)]
            case Undefined():
                return "u", None
            case _ if type(value).__name__ == "Headers" and callable(getattr(value, "entries", None)):
                return "h", [list(pair) for pair in value]
            case _ if type(value).__name__ == "Blob" and isinstance(getattr(value, "_data", None), bytes):
                return "b", [value.type, value._data]
            case _ if (plain := _of_the_platform(value)) is not None:
                return self.node(plain)
            case _:
                return "d", {key: self.item(item) for key, item in _attributes(value).items()}


# What is as hashable when it comes back as it was when it went in.
_KEYS: Final = (str, int, float, bytes, memoryview, NoneType, datetime.datetime, re.Pattern, BaseException, Undefined)


def _key(value: Any) -> Any:
    """Returns `value`, a key of a dict or a member of a set, or raises DataCloneError: it could not be read back."""
    if isinstance(value, _KEYS):
        return value
    kind = type(value).__name__
    raise DataCloneError(f"a {kind} can be neither a key of a dict nor a member of a set: what comes back is mutable")


def _in_utc(moment: datetime.datetime) -> datetime.datetime:
    """Returns the moment in UTC. Raises DataCloneError at the ends of the calendar, where there is none."""
    try:
        return moment.astimezone(datetime.UTC)
    except (OverflowError, ValueError):
        raise DataCloneError(f"{moment} could not be cloned: it is outside the years 1 to 9999 in UTC") from None


def _encodable(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _of_the_platform(value: object) -> bytes | datetime.datetime | None:
    """What a value of the platform's own classes (`js.Date`, `js.Int16Array`) is stored as; None for another."""
    for name in ("to_bytes", "to_py"):
        method = getattr(type(value), name, None)
        if callable(method):
            plain = method(value)
            if isinstance(plain, bytes | datetime.datetime):
                return plain
    return None


def _attributes(value: object) -> dict[str, Any]:
    if callable(value) or isinstance(value, type) or not hasattr(value, "__dict__") or hasattr(value, "__next__"):
        raise _refuse(value)
    if isinstance(value, enum.Enum | RpcTarget):
        raise _refuse(value)  # what they are is in no attribute
    if hasattr(value, "__await__") or type(value).__module__ == "builtins":
        raise _refuse(value)
    return {key: item for key, item in vars(value).items() if not key.startswith("_")}


def _error_name(error: BaseException) -> str:
    name = getattr(error, "name", None)
    of_python = isinstance(error, ImportError | NameError | AttributeError)  # whose `name` is what was not found
    return name if isinstance(name, str) and not of_python else type(error).__name__


def _error_message(error: BaseException) -> str:
    message = getattr(error, "message", None)
    if isinstance(message, str):
        return message
    return str(error.args[0]) if len(error.args) == 1 else str(error)


def _revive(nodes: list[Any]) -> Any:
    made: list[Any] = [None] * len(nodes)
    for index, (tag, payload) in enumerate(nodes):  # containers first, so that cycles can refer to them
        made[index] = _empty(tag, payload)

    def item(value: Any) -> Any:
        return made[value.index] if type(value) is _Ref else value

    for index, (tag, payload) in enumerate(nodes):
        target = made[index]
        if tag == "l":
            target.extend(item(value) for value in payload)
        elif tag == "d":
            target.update((key, item(value)) for key, value in payload.items())
        elif tag == "s":
            target.update(item(value) for value in payload)
        elif tag == "m":
            target.update((item(key), item(value)) for key, value in payload)
    for index, (tag, payload) in enumerate(nodes):
        if tag == "e":  # at last: the node of its attributes comes after its own
            for key, value in item(payload[2]).items():
                setattr(made[index], key, value)
    return made[0]


def _empty(tag: str, payload: Any) -> Any:
    match tag:
        case "v":
            return payload
        case "l":
            return []
        case "d" | "m":
            return {}
        case "s":
            return set()
        case "w":
            return payload.decode("utf-8", "surrogatepass")
        case "i":
            return int(payload)
        case "t":
            moment = _EPOCH + datetime.timedelta(milliseconds=payload[0])
            return moment if payload[1] else moment.astimezone().replace(tzinfo=None)
        case "r":
            return re.compile(payload[0], payload[1])
        case "u":
            return undefined
        case "h":
            from .web import Headers

            return Headers([(name, value) for name, value in payload])
        case "b":
            from .web import Blob

            return Blob(payload[1], content_type=payload[0])
        case "e":
            return _revive_error(payload[0], payload[1])
    raise ValueError(f"stored value: unknown node {tag!r}")


def _revive_error(name: str, message: str) -> BaseException:
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except Exception:
            pass
    from .errors import RemoteError

    error = RemoteError(message, name)
    del error.remote
    return error


def copy_value(value: Any, foreign: Callable[[Any], Any] | None = None) -> Any:
    """Returns a copy of `value` that shares no mutable state with it.

    `foreign` is asked for what is no plain value (functions, streams, requests); without it, and when it raises,
    the result is DataCloneError. Containers that occur twice, or in a cycle, occur as often in the copy.
    """
    return copy_sized(value, foreign, None)[0]


def copy_sized(value: Any, foreign: Callable[[Any], Any] | None, limit: int | None) -> tuple[Any, int]:
    """Returns what `copy_value` returns, and the serialised size in bytes: a lower bound, counted up to `limit`.

    Beyond the limit the value is not copied and None stands for it.
    """
    if type(value) in _LEAVES:
        size = len(value) if isinstance(value, str | bytes) else 9
        return (value, size) if limit is None or size <= limit else (None, size + 5)
    if _is_plain(value, set(), 0):
        try:
            data = _encode(value)
        except (UnicodeEncodeError, OverflowError):
            pass
        else:
            if limit is not None and len(data) > limit:
                return None, len(data)
            return _decode_plain(data), len(data)
    size = 0 if limit is None else size_of(value, limit)
    if limit is not None and size > limit:
        return None, size
    try:
        return _copy(value, {}, foreign), size
    except RecursionError:
        raise DataCloneError("the value is nested too deeply") from None


def _copy(value: Any, memo: dict[int, Any], foreign: Callable[[Any], Any] | None) -> Any:
    kind = type(value)
    if kind in _SCALARS or kind is int:
        return value
    key = id(value)
    if key in memo:
        return memo[key]
    if kind is list or kind is tuple or (isinstance(value, list | tuple) and not hasattr(value, "_fields")):
        made: Any = []
        memo[key] = made
        for item in value:
            made.append(item if type(item) in _SCALARS else _copy(item, memo, foreign))
        return made
    if isinstance(value, dict):
        made = {}
        memo[key] = made
        for name, item in value.items():
            made[name if type(name) is str else _copy(_key(name), memo, foreign)] = (
                item if type(item) in _SCALARS else _copy(item, memo, foreign)
            )
        return made
    return _copy_other(value, memo, foreign)


def _copy_other(value: Any, memo: dict[int, Any], foreign: Callable[[Any], Any] | None) -> Any:
    made: Any
    match value:
        case str() | bool() | int() | float():
            for kind in (str, bool, int, float):
                if isinstance(value, kind):
                    return kind(value)
        case set() | frozenset():
            made = set()
            memo[id(value)] = made
            made.update(_copy(_key(item), memo, foreign) for item in value)
            return made
        case bytes() | bytearray() | memoryview():
            return bytes(value)
        case datetime.datetime():
            micro = value.microsecond - value.microsecond % 1000
            moment = value.replace(microsecond=micro)
            return moment if value.tzinfo is None else _in_utc(moment)
        case re.Pattern() | Undefined():
            return value
        case BaseException():
            made = _revive_error(_error_name(value), _error_message(value))
            memo[id(value)] = made
            for name, item in vars(value).items():
                if not name.startswith("_") and name not in {"name", "message"}:
                    setattr(made, name, _copy(item, memo, foreign))
            return made
    if foreign is not None:
        return foreign(value)
    raise _refuse(value)


def size_of(value: Any, limit: int) -> int:
    """A lower bound of the serialised size of `value` in bytes, counted until it passes `limit`."""
    total = 0
    stack = [value]
    seen: set[int] = set()
    while stack and total <= limit:
        item = stack.pop()
        if isinstance(item, str | bytes | bytearray):
            total += len(item) + 5
        elif isinstance(item, memoryview):
            total += item.nbytes + 5
        elif isinstance(item, dict | list | tuple | set | frozenset):
            if id(item) not in seen:
                seen.add(id(item))
                stack.extend(item)
                if isinstance(item, dict):
                    stack.extend(item.values())
                total += 5
        else:
            total += 9
    return total


def is_integral(number: float) -> bool:
    """Whether a float is a finite whole number."""
    return math.isfinite(number) and number == math.floor(number)
