"""JavaScript errors as Python exceptions: `pyodide.ffi.JsException`, `js.Error` and its kinds."""

from __future__ import annotations

from typing import Any

from moorage.durable_objects.runtime.clone import DataCloneError as RuntimeDataCloneError


class JsException(Exception):
    """An error with the `.name` and `.message` of the platform; its text is `name: message`."""

    name = "Error"

    def __init__(self, message: Any = "", name: str | None = None, stack: str = "") -> None:
        super().__init__(message)
        self.message = str(message)
        if name is not None:
            self.name = name
        self.stack = stack or str(self)

    @classmethod
    def new(cls, message: Any = "", options: Any = None) -> JsException:
        return cls(message)

    def toString(self) -> str:
        return str(self)

    @property
    def js_error(self) -> JsException:
        return self

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


class Error(JsException):
    name = "Error"


class JsTypeError(Error):
    name = "TypeError"


class JsRangeError(Error):
    name = "RangeError"


class JsSyntaxError(Error):
    name = "SyntaxError"


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


def to_python_exception(error: JsException) -> Exception:
    """ValueError for a RangeError, TypeError for a TypeError, the error itself otherwise (spec 4)."""
    if error.name == "RangeError":
        return ValueError(error.message)
    if error.name == "TypeError":
        return TypeError(error.message)
    return error
