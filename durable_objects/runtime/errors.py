"""Errors of the runtime, and how an error crosses from an object to its caller (semantics 11)."""

import builtins

from .clone import DataCloneError, copy_value

__all__ = [
    "DataCloneError",
    "DurableObjectAbort",
    "DurableObjectError",
    "RemoteError",
    "SqlError",
    "across_boundary",
    "escaped",
    "reset_error",
]


class DurableObjectError(Exception):
    """An error of the platform rather than of user code.

    The flags are the platform's own: `durableObjectReset` (the instance was lost), `overloaded` (a limit of time or
    load), `retryable`, `remote`.
    """

    remote = False
    retryable = False
    overloaded = False
    durableObjectReset = False

    def __init__(self, message: str, *, overloaded: bool = False, reset: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.overloaded = overloaded
        self.durableObjectReset = reset

    @property
    def name(self) -> str:
        """The JavaScript error name callers of the platform see."""
        return "Error"


class SqlError(DurableObjectError):
    """A statement was refused or failed: `<text>[ at offset N]: <CODE>` (semantics 9.10)."""


class RemoteError(Exception):
    """An error whose class the caller cannot have: a user-defined class, or a thrown value.

    `name` is the class's name, `str()` the message; the original's plain attributes are attributes here.
    """

    def __init__(self, message: str = "", name: str = "Error") -> None:
        super().__init__(message)
        self.message = message
        self.name = name
        self.remote = True


class DurableObjectAbort(BaseException):
    """Unwinds the running code after `ctx.abort()` or a reset; `except Exception` does not swallow it."""


def escaped(error: BaseException) -> DurableObjectError:
    """Returns what callers get for what `except Exception` lets pass: a cancellation, or a call of `exit()`."""
    kind = type(error).__name__
    return DurableObjectError(f"{kind}: {error}" if str(error) else f"{kind} was raised by the Durable Object's code")


def reset_error(error: BaseException) -> Exception:
    """Returns what callers get when an instance is reset because of `error`: the same name and text, flagged."""
    if isinstance(error, DurableObjectError):
        copy: Exception = DurableObjectError(error.message, overloaded=error.overloaded, reset=True)
    else:
        copy = _same_class(error)
        vars(copy).pop("remote", None)
    copy.durableObjectReset = True  # type: ignore[attr-defined]
    return copy


def _same_class(error: BaseException) -> Exception:
    from .web.errors import JsException

    kind = type(error)
    if isinstance(error, JsException):
        copy: Exception = error.copied()  # a class of the platform, which every caller has
    elif isinstance(error, Exception) and getattr(builtins, kind.__name__, None) is kind:
        try:
            copy = kind(*(copy_value(argument) for argument in error.args))
        except Exception:
            copy = RemoteError(str(error), kind.__name__)
    else:
        message = getattr(error, "message", None)
        name = getattr(error, "name", None)
        copy = RemoteError(
            message if isinstance(message, str) else str(error),
            name if isinstance(name, str) and isinstance(error, RemoteError) else kind.__name__,
        )
    for key, value in vars(error).items():
        if key.startswith("_") or key in {"message", "name"}:
            continue
        try:
            setattr(copy, key, copy_value(value))
        except Exception:
            continue  # what cannot be copied stays behind, as own properties that are not plain do
    return copy


def across_boundary(error: Exception) -> Exception:
    """Returns the copy of `error` that a caller in another object gets: classes of Python and of the platform stay,
    `remote` is set.
    """
    if isinstance(error, DurableObjectError):
        copy: Exception = type(error)(error.message, overloaded=error.overloaded, reset=error.durableObjectReset)
    else:
        copy = _same_class(error)
    copy.remote = True  # type: ignore[attr-defined]
    for note in getattr(error, "__notes__", ()):
        copy.add_note(note)
    return copy
