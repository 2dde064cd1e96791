"""Text and bytes: `TextEncoder`, `TextDecoder`, `atob`, `btoa`; `console`."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
import sys
import time
from typing import Any

from moorage.durable_objects.runtime.web import js_string

from .binary import Uint8Array, buffer_bytes
from .errors import DOMException, JsRangeError, JsTypeError
from .json_text import JSON


class TextEncoder:
    encoding = "utf-8"

    @classmethod
    def new(cls) -> TextEncoder:
        return cls()

    def encode(self, text: Any = "") -> Uint8Array:
        return Uint8Array(js_string(text).encode("utf-8", "replace"))


class TextDecoder:
    """`decode(bytes, {"stream": True})` keeps an unfinished character for the next call."""

    def __init__(self, label: str = "utf-8", *, fatal: bool = False, ignore_mark: bool = False) -> None:
        try:
            codec = codecs.lookup(label.strip())
        except LookupError:
            raise JsRangeError(f'"{label}" is not a valid encoding.') from None
        self.encoding = {"iso8859-1": "windows-1252", "ascii": "windows-1252"}.get(codec.name, codec.name)
        self.fatal = fatal
        self.ignoreBOM = ignore_mark
        self._start()

    @classmethod
    def new(cls, label: Any = "utf-8", options: Any = None, **more: Any) -> TextDecoder:
        given = {**dict(options or {}), **more}
        return cls(label, fatal=bool(given.get("fatal")), ignore_mark=bool(given.get("ignoreBOM")))

    def _start(self) -> None:
        self._decoder = codecs.getincrementaldecoder(self.encoding)("strict" if self.fatal else "replace")
        self._fresh = True

    def decode(self, data: Any = b"", options: Any = None, **more: Any) -> str:
        stream = bool({**dict(options or {}), **more}.get("stream"))
        try:
            text = self._decoder.decode(buffer_bytes(data), final=not stream)
        except UnicodeDecodeError:
            self._start()
            raise JsTypeError("Failed to decode input.") from None
        if text and self._fresh:
            self._fresh = False
            if not self.ignoreBOM:
                text = text.removeprefix("\ufeff")
        if not stream:
            self._start()
        return text


_WHITE = re.compile(r"[\t\n\f\r ]")


def atob(text: Any) -> str:
    """Base64 to a text whose characters are bytes; an InvalidCharacterError (`JsException`) when it is none."""
    data = _WHITE.sub("", js_string(text))
    if len(data) % 4 == 0 and data.endswith("="):
        data = data[:-2] if data.endswith("==") else data[:-1]
    if len(data) % 4 == 1 or not re.fullmatch(r"[A-Za-z0-9+/]*", data):
        raise DOMException("atob() called with invalid base64-encoded data.", "InvalidCharacterError")
    try:
        return base64.b64decode(data + "=" * (-len(data) % 4)).decode("latin-1")
    except binascii.Error as error:
        raise DOMException(str(error), "InvalidCharacterError") from None


def btoa(text: Any) -> str:
    try:
        return base64.b64encode(js_string(text).encode("latin-1")).decode("ascii")
    except UnicodeEncodeError:
        raise DOMException(
            "btoa() can only operate on characters in the Latin1 range.", "InvalidCharacterError"
        ) from None


class Console:
    """`log`, `info`, `table` and the like go to the standard output, `warn` and `error` to the standard error."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._started: dict[str, float] = {}

    def log(self, *values: Any) -> None:
        print(*(_shown(value) for value in values))

    info = debug = trace = table = dir = group = groupCollapsed = log

    def groupEnd(self) -> None:
        """Groups are not indented here."""

    def count(self, label: Any = "default") -> None:
        self._counts[js_string(label)] = count = self._counts.get(js_string(label), 0) + 1
        print(f"{js_string(label)}: {count}")

    def time(self, label: Any = "default") -> None:
        self._started[js_string(label)] = time.perf_counter()

    def timeEnd(self, label: Any = "default") -> None:
        """Prints the milliseconds since `time` with that label, if there was one."""
        started = self._started.pop(js_string(label), None)
        if started is not None:
            print(f"{js_string(label)}: {(time.perf_counter() - started) * 1000:.3f}ms")

    def error(self, *values: Any) -> None:
        print(*(_shown(value) for value in values), file=sys.stderr)

    warn = error

    def assert_(self, condition: Any, *values: Any) -> None:
        if not condition:
            self.error("Assertion failed", *values)


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        try:
            return str(JSON.stringify(value))
        except (JsTypeError, ValueError, RecursionError):
            return repr(value)
    return str(value) if isinstance(value, Exception) else js_string(value)
