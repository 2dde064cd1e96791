"""Values of the R2 vectors: arguments into Python, results and expectations into one comparable form.

Python has one empty value: an expected undefined may be None here, or a member that is not there. It has one byte
string, too: which class the platform gave, the method that read the body tells.
"""

import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

from moorage.r2 import R2MultipartUpload, R2Object, R2ObjectBody, R2Objects
from moorage.r2.backend import UploadedPart
from moorage.r2.values import Blob

HEAD_MEMBERS = (
    "checksums", "customMetadata", "etag", "httpEtag", "httpMetadata", "key", "range", "size", "ssecKeyMd5",
    "storageClass", "uploaded", "version", "writeHttpMetadata",
)  # fmt: skip
BODY_MEMBERS = ("arrayBuffer", "blob", "body", "bodyUsed", "bytes", "json", "text")


HEAD_LENGTH = 24
"""How much of a long text the recording shows."""


class Missing:
    """What is not there. `UNDEFINED` is expected not to be; `ABSENT` is a member of only one side."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


UNDEFINED = Missing("undefined")
ABSENT = Missing("nothing")


class JavaScriptOnly(Exception):
    """The case needs a value that exists in JavaScript alone."""


class Headers:
    """A minimal Headers object: names are looked up without regard to case."""

    def __init__(self, fields: dict[str, str]) -> None:
        self._fields = {name.lower(): value for name, value in fields.items()}

    def get(self, name: str, default: Any = None) -> Any:
        return self._fields.get(name.lower(), default)

    def set(self, name: str, value: str) -> None:
        self._fields[name.lower()] = value

    def items(self) -> list[tuple[str, str]]:
        return sorted(self._fields.items())


async def _stream(data: bytes) -> AsyncIterator[bytes]:
    yield data


def decode(value: Any, variables: dict[str, Any]) -> Any:
    """The Python value of an argument; JavaScriptOnly when there is none."""
    if isinstance(value, list):
        return [decode(item, variables) for item in value]
    if not isinstance(value, dict):
        return value
    match value.get("$"):
        case None:
            return {name: decode(item, variables) for name, item in value.items()}
        case "undefined":
            return None
        case "number":
            return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf, "-0": -0.0}[value["v"]]
        case "date":
            return datetime.fromtimestamp(value["ms"] / 1000, UTC)
        case "bytes":
            return bytes.fromhex(value["hex"])
        case "blob":
            return Blob(value["v"].encode())
        case "stream":
            return _stream(str(value.get("v", "")).encode())
        case "headers":
            return Headers(value["v"])
        case "fill":
            return bytes([value["byte"]]) * value["n"] if "byte" in value else value["s"] * value["n"]
        case "keys":
            return [f"{value.get('prefix', 'k')}{number:04d}" for number in range(value["n"])]
        case "entries":
            return {f"{value.get('prefix', 'k')}{number:04d}": number for number in range(value["n"])}
        case "lone-surrogate":
            return "\ud800"
        case "invalid-date":
            return math.nan
        case "map":
            return {name: decode(item, variables) for name, item in value["v"]}
        case "var":
            return _variable(value, variables)
        case kind:
            raise JavaScriptOnly(kind)


def _variable(value: dict[str, Any], variables: dict[str, Any]) -> Any:
    found = variables[value["name"]]
    for step in value.get("path", ()):
        found = found[step]
    if "dateplus" in value:
        found += timedelta(milliseconds=value["dateplus"])
    if value.get("string"):
        found = str(found)
    if value.get("upper"):
        found = found.upper()
    return found


def encode(value: Any) -> Any:
    """A result in the form of the vectors, with None for undefined and null."""
    match value:
        case R2Object():
            return _object(value)
        case R2Objects():
            return {
                "$": "R2Objects",
                "objects": [
                    {
                        "key": item.key,
                        "size": item.size,
                        "httpMetadata": encode(item.httpMetadata),
                        "customMetadata": encode(item.customMetadata),
                    }
                    for item in value.objects
                ],
                "truncated": value.truncated,
                "cursor": value.cursor,
                "delimitedPrefixes": encode(value.delimitedPrefixes),
            }
        case R2MultipartUpload():
            return {"$": "R2MultipartUpload", "key": value.key, "uploadIdLength": len(value.uploadId)}
        case UploadedPart():
            etag_is_text = isinstance(value.etag, str)
            return {"$": "R2UploadedPart", "partNumber": value.partNumber, "etagIsString": etag_is_text}
        case Headers():
            return {"$": "headers", "v": dict(value.items())}
        case datetime():
            return {"$": "date", "ms": round(value.timestamp() * 1000)}
        case bytes():
            return {"$": "bytes", "hex": value.hex()}
        case Blob():
            return {"type": value.type, "size": value.size}
        case dict():
            return {name: encode(item) for name, item in value.items()}
        case list() | tuple():
            return [encode(item) for item in value]
    return value


def _object(value: R2Object) -> dict[str, Any]:
    return {
        "$": "R2ObjectBody" if isinstance(value, R2ObjectBody) else "R2Object",
        "key": value.key,
        "size": value.size,
        "etag": value.etag,
        "httpEtag": value.httpEtag,
        "versionIsString": isinstance(value.version, str) and bool(value.version),
        "uploadedIsDate": isinstance(value.uploaded, datetime),
        "httpMetadata": encode(value.httpMetadata),
        "customMetadata": encode(value.customMetadata),
        "range": encode(value.range),
        "checksums": value.checksums.toJSON(),
        "storageClass": value.storageClass,
    }


class ShownHeaders(dict[str, str]):
    """Header fields after `writeHttpMetadata`."""


def _fields(expected: Any) -> Any:
    """Expected header fields as a dictionary, however they are written."""
    if isinstance(expected, dict) and expected.get("$") == "headers":
        expected = expected["v"]
    return dict(expected) if isinstance(expected, list) else expected


def members(value: Any) -> list[str]:
    """Which of the platform's members the object has."""
    return sorted(name for name in (*HEAD_MEMBERS, *BODY_MEMBERS) if hasattr(value, name))


def fold(expected: Any) -> Any:
    """An expectation in the same form."""
    if isinstance(expected, list):
        return [fold(item) for item in expected]
    if not isinstance(expected, dict):
        return expected
    if expected.get("$") == "undefined":
        return UNDEFINED
    return {name: fold(item) for name, item in expected.items()}


def differences(expected: Any, got: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Any, Any]]:
    """Every place where a folded expectation and an encoded result differ: (path, expected, got)."""
    if expected is UNDEFINED and (got is None or got is ABSENT):
        return []
    if isinstance(got, ShownHeaders):
        expected, got = _fields(expected), dict(got)
    if isinstance(expected, dict) and expected.get("$") == "masked":
        kinds = {"string": str, "number": int, "boolean": bool}
        return [] if isinstance(got, kinds[expected["type"]]) else [(path, expected, got)]
    if isinstance(expected, dict) and expected.get("$") == "string":
        units = len(got.encode("utf-16-le")) // 2 if isinstance(got, str) else -1
        same = units == expected["length"] and got[:HEAD_LENGTH] == expected["head"]
        return [] if same else [(path, expected, got)]
    if isinstance(expected, dict) and isinstance(got, dict):
        found = []
        for name in sorted(expected.keys() | got.keys()):
            found += differences(expected.get(name, ABSENT), got.get(name, ABSENT), (*path, name))
        return found
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        found = []
        for index, (one, other) in enumerate(zip(expected, got, strict=True)):
            found += differences(one, other, (*path, index))
        return found
    return [] if expected == got and type(expected) is type(got) else [(path, expected, got)]
