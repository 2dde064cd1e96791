"""What the clients raise. No message or `repr` of theirs, and no traceback, holds a secret."""

from collections.abc import Callable, Mapping
from typing import Any


class ClientError(Exception):
    """Base of everything that a client raises on purpose. Its text is fit for a person and holds no secret."""


class ConfigurationError(ClientError):
    """A setting is missing or wrong; the text names it and says what would be right."""


class TransportError(ClientError):
    """No answer came: refused, cut off, or not within the deadline; `attempts` were made."""

    def __init__(self, message: str, attempts: int = 1) -> None:
        super().__init__(message)
        self.attempts = attempts


class InvalidAnswer(ClientError):
    """An answer of success that is not what the protocol says."""


class RemoteError(ClientError):
    """The service refused.

    `status`: HTTP status. `code`: the wire code, or None when the body had none. `body`: the JSON object, empty when
    there was none. `retry_after`: seconds that the service asked to wait, or None. `attempts`: requests made.
    `hide` cuts secrets out of the message; `code` and `body` are the service's own: data, not to be shown.
    """

    def __init__(
        self,
        status: int,
        code: str | None,
        body: Mapping[str, Any],
        *,
        what: str = "",
        retry_after: float | None = None,
        attempts: int = 1,
        hide: Callable[[str], str] | None = None,
    ) -> None:
        reason = body.get("reason") or body.get("detail")
        text = f"{code or 'no code'} ({status})"
        if isinstance(reason, str):
            text += f": {reason}"
        text = f"{what}: {text}" if what else text
        super().__init__(text if hide is None else hide(text))
        self.status = status
        self.code = code
        self.body = body
        self.retry_after = retry_after
        self.attempts = attempts


class NotFound(RemoteError):
    """404."""


class Conflict(RemoteError):
    """409: somebody else was first, or the request contradicts what is there."""


class Unauthorized(RemoteError):
    """401: the signature was not accepted; `body["reason"]` says why, in version 2."""


class Unavailable(RemoteError):
    """429 or 5xx, after every attempt."""


def remote_error(status: int, code: str | None, body: Mapping[str, Any], **more: Any) -> RemoteError:
    """The error class for a status."""
    kind: type[RemoteError] = {401: Unauthorized, 404: NotFound, 409: Conflict}.get(status, RemoteError)
    if status == 429 or status >= 500:
        kind = Unavailable
    return kind(status, code, body, **more)
