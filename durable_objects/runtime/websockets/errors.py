"""Errors of web sockets that have a name of their own on the platform."""


class InvalidAccessError(ValueError):
    """A close code that a program may not send (semantics 13.5)."""

    name = "InvalidAccessError"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class WebSocketSyntaxError(ValueError):
    """A close reason that is too long, or a URL or subprotocol that is none (WebSockets standard 3.1)."""

    name = "SyntaxError"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class WebSocketFailure(OSError):
    """What broke a connection; the `error` of an error event and of `webSocketError`."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
