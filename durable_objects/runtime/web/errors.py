"""JavaScript errors as Python exceptions.

What a program reaches under the platform's own spelling (`js.URL.new`, `js.Response.new` …) raises these; the kinds
that have a counterpart in Python are that as well, so both `except JsException` and `except TypeError` see them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


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

    def copied(self) -> JsException:
        """Another error of the same class, name and message."""
        made = type(self).__new__(type(self))
        JsException.__init__(made, self.message, self.name)
        return made

    def toString(self) -> str:
        return str(self)

    @property
    def js_error(self) -> JsException:
        return self

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


class Error(JsException):
    name = "Error"


class JsTypeError(Error, TypeError):
    name = "TypeError"


class JsRangeError(Error, ValueError):
    name = "RangeError"


class JsSyntaxError(Error):
    name = "SyntaxError"


def javascript_errors(function: F) -> F:
    """Decorates what only the platform's spelling reaches: TypeError and ValueError become JavaScript's kinds."""

    @functools.wraps(function)
    def raising(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except JsException:
            raise
        except TypeError as error:
            raise JsTypeError(str(error)) from error
        except ValueError as error:
            raise JsRangeError(str(error)) from error

    return raising  # type: ignore[return-value]


__all__ = ["Error", "JsException", "JsRangeError", "JsSyntaxError", "JsTypeError", "javascript_errors"]
