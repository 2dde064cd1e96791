"""Values of the Durable Object vectors: arguments into Python, results and expectations into one comparable form.

Python has one kind of number, one byte string and one mapping; expectations are folded accordingly: ArrayBuffer and
typed arrays, Map and object compare equal. It has one empty value, too, but for `undefined` of the runtime: an
expected undefined may be None here, or a member that is not there; an expected null is None.
"""

import asyncio
import datetime
import json
import math
import re
from typing import Any, Final

from moorage.durable_objects.runtime import undefined

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
ERRORS: Final[dict[str, type[Exception]]] = {
    "Error": Exception, "RangeError": ValueError, "TypeError": TypeError, "SyntaxError": SyntaxError,
}  # fmt: skip
_ERROR_NAMES: Final = {"Exception": "Error", "ValueError": "RangeError", "RuntimeError": "Error"}
_FLAGS: Final = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}
"""Flags of a regular expression that Python has, too."""
UNDEFINED: Final = "<undefined>"


class Custom:
    """The class of `{"$": "custom"}`."""

    def __init__(self, attributes: dict[str, Any]) -> None:
        self.__dict__.update(attributes)


class JavaScriptOnly(Exception):
    """The case needs a value that exists in JavaScript alone."""


class MyError(Exception):
    """What `throwCustom` throws."""

    name = "MyError"


def decode(value: Any, variables: dict[str, Any], clock: Any) -> Any:
    """Returns the Python value of an argument."""
    if isinstance(value, list):
        return [decode(item, variables, clock) for item in value]
    if not isinstance(value, dict):
        return value
    if "$" not in value:
        return {key: decode(item, variables, clock) for key, item in value.items()}
    kind = value["$"]
    match kind:
        case "undefined":
            return undefined
        case "number":
            return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "-0": -0.0}[value["v"]]
        case "bigint":
            return BigInt(value["v"])
        case "date":
            return EPOCH + datetime.timedelta(milliseconds=value["ms"])
        case "invalid-date":
            return math.nan
        case "bytes":
            return bytes.fromhex(value["hex"])
        case "map":
            if any(isinstance(key, dict | list) and "$" not in key for key, _ in value["v"]):
                raise JavaScriptOnly("a key that is no scalar")
            return {key: decode(item, variables, clock) for key, item in value["v"]}
        case "set":
            return {decode(item, variables, clock) for item in value["v"]}
        case "error":
            kind_of_error = ERRORS.get(value["name"]) or type(value["name"], (Exception,), {})
            return kind_of_error(value["message"])
        case "regexp":
            source, flags = _pattern(value)
            return re.compile(source, sum(_FLAGS[flag] for flag in flags))
        case "fill":
            return bytes([value["byte"]]) * value["n"] if "byte" in value else value["s"] * value["n"]
        case "keys":
            return [f"{value.get('prefix', 'k')}{number:04d}" for number in range(value["n"])]
        case "entries":
            return {f"{value.get('prefix', 'k')}{number:04d}": number for number in range(value["n"])}
        case "now":
            moment = clock.now() + value.get("plus", 0)
            if "as" in value:
                variables[value["as"]] = moment
            return moment
        case "var":
            found = variables[value["name"]]
            for step in value.get("path", []):
                found = getattr(found, step)
            if value.get("string"):
                found = str(found)
            if value.get("upper"):
                found = found.upper()
            if "dateplus" in value:
                found = EPOCH + datetime.timedelta(milliseconds=found + value["dateplus"])
            return found
        case "custom":
            return Custom(decode(value["v"], variables, clock))
        case "circular":
            loop: dict[str, Any] = {"name": "loop"}
            loop["self"] = loop
            return loop
        case "lone-surrogate":
            return "\ud800"
        case "function":
            return lambda: None
        case "callback":
            return lambda number: f"called with {number}"
        case "headers":
            from moorage.durable_objects.runtime.web import Headers

            return Headers(value["v"])
        case "holes":
            return [1, undefined, undefined, 4]  # lists have no holes; undefined is what reading one gives
        case "blob":
            from moorage.durable_objects.runtime.web import Blob

            return Blob(value["v"])
        case "stream":
            from moorage.durable_objects.runtime.web import Response

            return Response(value.get("v", "")).body
        case "symbol" | "request":
            raise JavaScriptOnly(kind)
    raise JavaScriptOnly(str(kind))


class BigInt(int):
    """JavaScript's BigInt: an int that SQL may not bind."""

    def __new__(cls, text: str) -> "BigInt":
        return super().__new__(cls, int(text))


def _pattern(value: dict[str, Any]) -> tuple[str, str]:
    """Source and flags of a regular expression, given as such or as its text; flags in the order of `_FLAGS`."""
    source, flags = value.get("source"), value.get("flags", "")
    if source is None:
        source, _, flags = value["v"].removeprefix("/").rpartition("/")
    return source, "".join(flag for flag in _FLAGS if flag in flags)


def fold(value: Any, seen: tuple[int, ...] = ()) -> Any:
    """Returns the comparable form of a Python result."""
    if id(value) in seen:
        return "<circular>"
    match value:
        case None | bool() | str():
            return value
        case int():
            return value
        case float():
            return _number(value)
        case bytes() | bytearray() | memoryview():
            return ["bytes", bytes(value).hex()]
        case datetime.datetime():
            return ["date", (value - EPOCH) // datetime.timedelta(milliseconds=1)]
        case re.Pattern():
            return ["regexp", value.pattern, "".join(flag for flag, bit in _FLAGS.items() if value.flags & bit)]
        case list() | tuple():
            return [fold(item, (*seen, id(value))) for item in value]
        case dict():
            return {_key(key): fold(item, (*seen, id(value))) for key, item in value.items()}
        case set() | frozenset():
            return ["set", sorted(repr(fold(item)) for item in value)]
        case BaseException():
            return ["error", error_name(value), str(value)]
    if value is undefined:
        return UNDEFINED
    if type(value).__name__ == "Headers":
        return ["headers", [list(pair) for pair in value]]
    if hasattr(value, "__await__"):
        return ["object", "Promise"]
    if callable(value):
        return "<function>"
    return ["object", type(value).__name__]


def _number(value: float) -> Any:
    if math.isnan(value):
        return "<NaN>"
    if value == 0 and math.copysign(1, value) < 0:
        return "<-0>"
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _key(key: Any) -> Any:
    return key if isinstance(key, str) else f"<{json.dumps(key, default=repr)}>"


class Entries(dict[str, Any]):
    """The entries of an expected Map: every key is there, whatever its value."""


def fold_expected(value: Any) -> Any:
    """Returns the comparable form of an observed value."""
    if isinstance(value, list):
        return [fold_expected(item) for item in value]
    if isinstance(value, float):
        return _number(value)
    if not isinstance(value, dict):
        return value
    if "$" not in value:
        return {key: fold_expected(item) for key, item in value.items()}
    kind = value["$"]
    match kind:
        case "undefined" | "hole":
            return UNDEFINED
        case "number":
            return {"NaN": "<NaN>", "-0": "<-0>", "Infinity": math.inf, "-Infinity": -math.inf}[value["v"]]
        case "bigint":
            return int(value["v"])
        case "date":
            return ["date", value["ms"]]
        case "regexp":
            return ["regexp", *_pattern(value)]
        case "bytes":
            return ["bytes", value["hex"], value.get("type")]
        case "map":
            return Entries((_key(fold_expected(key)), fold_expected(item)) for key, item in value["v"])
        case "set":
            return ["set", sorted(repr(fold_expected(item)) for item in value["v"])]
        case "error":
            return ["error", value["name"], value["message"]]
        case "circular":
            return "<circular>"
        case "function":
            return "<function>"
        case "headers":
            return ["headers", [list(pair) for pair in value["v"]]]
        case "object":
            return ["object", value.get("class")]
        case "string":
            return ["string", value["length"], value["head"]]
    return value


def error_name(error: BaseException) -> str:
    """The name that JavaScript has for an error."""
    name = getattr(error, "name", None)
    kind = type(error).__name__
    own = isinstance(name, str) and not isinstance(error, ImportError | NameError | AttributeError)
    return str(name) if own else _ERROR_NAMES.get(kind, kind)


def flags(error: BaseException) -> dict[str, Any]:
    """Returns the vector form of an error."""
    thrown = getattr(error, "thrown", None)
    if thrown is not None:
        return {"thrown": fold(thrown)}
    message = getattr(error, "message", None)
    made: dict[str, Any] = {"name": error_name(error), "message": message if isinstance(message, str) else str(error)}
    for flag in ("remote", "retryable", "overloaded", "durableObjectReset"):
        if getattr(error, flag, False):
            made[flag] = True
    code = getattr(error, "code", None)
    if code is not None:
        made["code"] = code
    return made


async def drain(awaitable: Any) -> Any:
    """Awaits whatever a method returned."""
    if asyncio.iscoroutine(awaitable) or hasattr(awaitable, "__await__"):
        return await awaitable
    return awaitable
