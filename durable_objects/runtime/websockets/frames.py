"""What passes between the two ends of a socket: text, bytes, and one ending in each direction."""

from dataclasses import dataclass
from typing import Final

from .errors import InvalidAccessError, WebSocketSyntaxError

NO_STATUS: Final = 1005
ABNORMAL: Final = 1006
RESTART: Final = 1012
MAX_REASON_BYTES: Final = 123
_RESERVED: Final = frozenset({1004, NO_STATUS, ABNORMAL, 1015})


@dataclass(frozen=True, slots=True)
class Close:
    """The end of one direction: a Close frame, or with `clean` False the loss of the connection."""

    code: int
    reason: str = ""
    clean: bool = True


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of a connection that broke for another reason than that its peer went away."""

    error: Exception


DISCONNECTED: Final = Close(ABNORMAL, "WebSocket disconnected without sending Close frame.", clean=False)
RESTARTED: Final = Close(RESTART, "Service Restart")

Ending = Close | Failure
ENDINGS: Final = (Close, Failure)
Frame = str | bytes | Close | Failure


def size_of_frame(frame: Frame) -> int:
    """What a frame counts for while it waits, in bytes or characters, with an allowance for itself."""
    return 64 if isinstance(frame, ENDINGS) else 64 + len(frame)


def checked_close(code: int | None, reason: str | None) -> Close:
    """The Close frame that `close(code, reason)` sends; without a code it has no body (1005).

    Raises InvalidAccessError for a code outside 1000 to 4999 or one that only describes an end (1004, 1005, 1006,
    1015), TypeError for a reason without a code, WebSocketSyntaxError for a reason of more than 123 bytes.
    """
    if code is not None and (not 1000 <= code < 5000 or code in _RESERVED):
        raise InvalidAccessError(f"Invalid WebSocket close code: {code}.")
    if reason is None:
        return Close(NO_STATUS if code is None else code)
    if code is None:
        raise TypeError("If you specify a WebSocket close reason, you must also specify a code.")
    if len(reason.encode("utf-8", "replace")) > MAX_REASON_BYTES:
        raise WebSocketSyntaxError(
            f"WebSocket close reason must not be longer than {MAX_REASON_BYTES} bytes when UTF-8 encoded."
        )
    return Close(code, reason)
