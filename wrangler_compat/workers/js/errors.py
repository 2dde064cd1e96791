"""JavaScript errors as Python exceptions: `pyodide.ffi.JsException`, `js.Error` and its kinds."""

from __future__ import annotations

from typing import Any

from moorage.durable_objects.runtime.clone import DataCloneError as RuntimeDataCloneError
from moorage.durable_objects.runtime.web.errors import (
    Error,
    JsException,
    JsRangeError,
    JsSyntaxError,
    JsTypeError,
    javascript_errors,
)


class DOMException(Error):
    """An error that is known by its name alone: `AbortError`, `TimeoutError`, `DataCloneError` …"""

    @classmethod
    def new(cls, message: Any = "", name: Any = "Error") -> JsException:
        return cls(message, name if isinstance(name, str) else "Error")


class DataCloneError(DOMException, RuntimeDataCloneError):
    """A value cannot be sent; the text begins with `DataCloneError`."""

    name = "DataCloneError"

    def __init__(self, message: str) -> None:
        DOMException.__init__(self, message, "DataCloneError")

    __str__ = JsException.__str__


class NetworkError(Error, OSError):
    """A request that got no answer."""


__all__ = [
    "DOMException",
    "DataCloneError",
    "Error",
    "JsException",
    "JsRangeError",
    "JsSyntaxError",
    "JsTypeError",
    "NetworkError",
    "javascript_errors",
]
