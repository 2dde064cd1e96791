"""What a bucket raises. A service error's text reads `<operation>: <text> (<code>)` (spec durable-object-semantics
15.4).

Wrong arguments are `TypeError` and `RangeError`, as on the platform; everything that the store decides is an
`R2Error`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

ALGORITHM_NAMES: Final = {
    "md5": "MD5",
    "sha1": "SHA-1",
    "sha256": "SHA-256",
    "sha384": "SHA-384",
    "sha512": "SHA-512",
}


class RangeError(ValueError):
    """A number outside of what the operation takes; the platform's RangeError."""


class R2Error(Exception):
    """A service error. `code` is the platform's number or None, `status` the HTTP status it stands for.

    `operation` is filled in by the bucket method that was called; `retryable` says whether the same call may
    succeed later.
    """

    name: ClassVar[str] = "Error"
    code: ClassVar[int | None] = None
    status: ClassVar[int] = 400
    retryable: ClassVar[bool] = False
    text: ClassVar[str] = "The request could not be carried out."

    def __init__(self, text: str | None = None, *, operation: str = "") -> None:
        super().__init__(text)
        self.operation = operation
        self.message_text = self.text if text is None else text

    @property
    def message(self) -> str:
        """The whole text, as `str(error)` gives it."""
        return str(self)

    def __str__(self) -> str:
        prefix = f"{self.operation}: " if self.operation and self.code is not None else ""
        suffix = f" ({self.code})" if self.code is not None else ""
        return f"{prefix}{self.message_text}{suffix}"


class InvalidCondition(R2Error):
    """A conditional header that cannot be read; the text is the runtime's and carries no code."""


class InternalError(R2Error):
    """The store failed; `__cause__` says how. Nothing half-written is visible."""

    code = 10001
    status = 500
    retryable = True
    text = "We encountered an internal error. Please try again."


class UnknownUpload(InternalError):
    """An upload that never was: to the platform's callers an internal error like any other."""

    retryable = False


class EntityTooSmall(R2Error):
    code = 10011
    text = "Your proposed upload is smaller than the minimum allowed object size."


class MetadataTooLarge(R2Error):
    code = 10012
    text = "Your metadata headers exceed the maximum allowed metadata size."


class InvalidObjectName(R2Error):
    code = 10020
    text = "The specified object name is not valid."


class InvalidMaxKeys(R2Error):
    code = 10022
    text = "MaxKeys params must be positive integer <= 1000."


class NoSuchUpload(R2Error):
    code = 10024
    text = "The specified multipart upload does not exist."


class InvalidPart(R2Error):
    code = 10025
    text = "One or more of the specified parts could not be found."


class BadDigest(R2Error):
    """`algorithm` is an option's name (`md5`, `sha256`, …); both values are lower-case hex."""

    code = 10037

    def __init__(self, algorithm: str, provided: str, actual: str) -> None:
        name = ALGORITHM_NAMES[algorithm]
        super().__init__(
            f"The {name} checksum you specified did not match what we received.\n"
            f"You provided a {name} checksum with value: {provided}\n"
            f"Actual {name} was: {actual}"
        )


class RangeNotSatisfiable(R2Error):
    code = 10039
    status = 416
    text = "The requested range is not satisfiable"


class BadUpload(R2Error):
    code = 10048
    status = 500
    text = "There was a problem with the multipart upload."


class EntityTooLarge(R2Error):
    code = 100100
    text = "Your proposed upload exceeds the maximum allowed object size."


class StoreRefused(RuntimeError):
    """The store behind a bucket cannot be used as it is; the text says why and what to change. Raised when
    opening.
    """


@contextmanager
def operation(name: str) -> Iterator[None]:
    """Writes the name of the called method into every `R2Error` that leaves the block."""
    try:
        yield
    except R2Error as error:
        error.operation = name
        raise
