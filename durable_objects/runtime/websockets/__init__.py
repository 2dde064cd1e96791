"""Web sockets: pairs, accepted sockets, and sockets whose object may sleep (semantics 13)."""

from .end import SocketEnd, State
from .errors import InvalidAccessError, WebSocketFailure, WebSocketSyntaxError
from .events import CloseEvent, ErrorEvent, Event, MessageEvent
from .frames import DISCONNECTED, RESTARTED, Close, Failure, Frame
from .hibernation import HibernationManager
from .socket import Connection, WebSocket, WebSocketPair, WebSocketRequestResponsePair

__all__ = [
    "DISCONNECTED",
    "RESTARTED",
    "Close",
    "CloseEvent",
    "Connection",
    "ErrorEvent",
    "Event",
    "Failure",
    "Frame",
    "HibernationManager",
    "InvalidAccessError",
    "MessageEvent",
    "SocketEnd",
    "State",
    "WebSocket",
    "WebSocketFailure",
    "WebSocketPair",
    "WebSocketRequestResponsePair",
    "WebSocketSyntaxError",
]
