"""The events that the listeners of a socket get."""

from typing import Any


class Event:
    """`open`, and the base of the others: `type`, and `target`, the socket."""

    def __init__(self, type: str, target: Any = None) -> None:
        self.type = type
        self.target = target
        self.currentTarget = target

    def __repr__(self) -> str:
        return f"{type(self).__name__}(type={self.type!r})"


class MessageEvent(Event):
    """`data` is text, or bytes (a `Blob` when the socket's `binaryType` is `blob`)."""

    def __init__(self, data: Any, target: Any = None) -> None:
        super().__init__("message", target)
        self.data = data


class CloseEvent(Event):
    """`wasClean` is False when the connection was lost without a Close frame; `code` is then 1006."""

    def __init__(self, code: int, reason: str, was_clean: bool, target: Any = None) -> None:
        super().__init__("close", target)
        self.code = code
        self.reason = reason
        self.wasClean = was_clean


class ErrorEvent(Event):
    """What broke the connection; a `close` event follows."""

    def __init__(self, error: BaseException, target: Any = None) -> None:
        super().__init__("error", target)
        self.error = error
        self.message = str(error)
