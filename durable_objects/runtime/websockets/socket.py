"""`WebSocket` and `WebSocketPair`: what programs hold (spec python-workers-api 5, semantics 13)."""

import datetime
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from .. import gate as gates
from ..clone import Undefined
from ..javascript import text_of
from ..web.values import JsList
from . import plain
from .attachment import deserialize, serialize
from .end import SocketEnd, State, make_pipe
from .frames import checked_close

if TYPE_CHECKING:
    from ..instance import Instance


class Connection(Protocol):
    """An open connection to a server; `subprotocol` and `extensions` are what it chose."""

    subprotocol: str | None
    extensions: str

    def couple(self, end: SocketEnd) -> None:
        """Passes frames between the connection and `end` until either is closed."""

    async def close(self) -> None:
        """Ends the connection."""


Connector = Callable[[str, list[str]], Awaitable[Connection]]
_UNACCEPTED = "You must call one of accept() or state.acceptWebSocket() on this WebSocket before sending messages."


def _absent(value: Any) -> bool:
    return value is None or isinstance(value, Undefined)


def _data(message: Any) -> str | bytes:
    if isinstance(message, str):
        return str(message)
    if isinstance(message, bytes | bytearray | memoryview):
        return bytes(message)
    to_bytes = getattr(message, "to_bytes", None)
    if callable(to_bytes) and not isinstance(message, int):
        return bytes(to_bytes())
    if message is None or isinstance(message, bool | int | float):
        return text_of(message)
    raise TypeError(f"send() takes text or bytes, not {type(message).__name__}; encode it first, json.dumps() say")


class WebSocket:
    """One side of a connection. Made by `WebSocketPair.new()`, by `WebSocket.new(url)`, or found in a Response.

    Use it after `accept()` (events reach the listeners of `addEventListener` or `onmessage`, `onclose` …, and an
    object that accepted it stays in memory) or after `ctx.acceptWebSocket(ws)` (events reach the object's handlers,
    and the object may sleep meanwhile).
    """

    CONNECTING: ClassVar[int] = 0
    OPEN: ClassVar[int] = 1
    CLOSING: ClassVar[int] = 2
    CLOSED: ClassVar[int] = 3
    READY_STATE_CONNECTING: ClassVar[int] = 0
    READY_STATE_OPEN: ClassVar[int] = 1
    READY_STATE_CLOSING: ClassVar[int] = 2
    READY_STATE_CLOSED: ClassVar[int] = 3

    onopen: Callable[[Any], Any] | None = None
    onmessage: Callable[[Any], Any] | None = None
    onclose: Callable[[Any], Any] | None = None
    onerror: Callable[[Any], Any] | None = None

    # How outgoing connections are made; set by the part that has a network.
    connector: ClassVar[Connector | None] = None

    def __init__(self, end: SocketEnd) -> None:
        self._end = end
        self._listeners: dict[str, list[plain.Listener]] = {}
        self._plain: plain.PlainDelivery | None = None
        self.binaryType = "arraybuffer"
        self.url: str | None = None
        self.protocol: str | None = None
        self.extensions: str | None = None

    @classmethod
    def new(cls, url: Any, protocols: Any = None) -> "WebSocket":
        """Connects to a `ws:` or `wss:` URL; `open`, or `error` and `close`, tell how it went.

        `protocols` is one subprotocol or a list of them. Raises WebSocketSyntaxError for a URL or a subprotocol that
        is none.
        """
        from .outgoing import connect

        return connect(cls, url, protocols)

    # Accepting.

    def accept(self, options: Any = None, **more: Any) -> None:
        """Takes the socket: from now on frames may be sent, and events are delivered to its listeners.

        A Close frame of the peer is answered once the listeners of `close` have run; with `{"allowHalfOpen": True}`
        only by `close()`. Raises TypeError for a socket that was used otherwise.
        """
        self._check()
        end = self._end
        if end.state is State.CONNECTING or self.url is not None:
            raise TypeError("Websockets obtained from the 'new WebSocket()' constructor cannot call accept")
        if end.state is State.RELEASED:
            raise TypeError("Can't accept() WebSocket that was already used in a response.")
        if end.state is State.HIBERNATING:
            raise TypeError("Can't accept() WebSocket after enabling hibernation.")
        if end.state is State.WAITING:
            given = {**dict(options or {}), **more}
            self._begin(half_open=bool(given.get("allowHalfOpen", False)))

    def _begin(self, *, half_open: bool) -> None:
        if self._plain is None:
            self._plain = plain.PlainDelivery(self, half_open=half_open)
        self._end.state = State.PLAIN
        self._end.listen(self._plain)

    def _release(self) -> SocketEnd:
        """The end, for whoever couples it with a connection. Raises TypeError for a socket in use."""
        end = self._end
        match end.state:
            case State.CONNECTING:
                raise TypeError("Can't return WebSocket in a Response if it was created with `new WebSocket()`")
            case State.RELEASED:
                raise TypeError("Can't return WebSocket that was already used in a response.")
            case State.HIBERNATING:
                raise TypeError("Can't return WebSocket in a Response after calling acceptWebSocket().")
            case State.PLAIN:
                raise TypeError("Can't return WebSocket in a Response after calling accept().")
        end.state = State.RELEASED
        return end

    def _handed_over(self) -> "WebSocket":
        """The same end as a new socket: what the caller of an object's `fetch` gets; this one is used up."""
        self._release()
        socket = WebSocket.__new__(WebSocket)
        WebSocket.__init__(socket, self._end)
        self._end.state = State.WAITING
        self._end = SocketEnd()
        self._end.state = State.RELEASED
        return socket

    # Sending.

    def _check(self) -> "Instance | None":
        turn = gates.current
        if turn is not None:
            turn.owner.check()
            owner: Instance = turn.owner
            return owner
        if self._plain is not None:
            return self._plain.instance
        manager: Any = self._end.consumer if self._end.state is State.HIBERNATING else None
        return None if manager is None else manager.instance

    def send(self, message: Any) -> None:
        """Sends text or bytes. In an object it leaves once everything written before is durable.

        Raises TypeError after `close()`, before the socket was accepted, and for other types. What is sent after the
        peer has gone is dropped silently, as on the platform.
        """
        data = _data(message)
        instance = self._check()
        end = self._end
        if end.closed_outgoing:
            raise TypeError("Can't call WebSocket send() after close().")
        if end.lost or end.state is State.RELEASED:
            return
        if end.state not in {State.PLAIN, State.HIBERNATING}:
            raise TypeError(_UNACCEPTED)
        end.emit(data, instance)

    def close(self, code: Any = None, reason: Any = None) -> None:
        """Sends a Close frame; nothing can be sent after it. A second call does nothing.

        Raises InvalidAccessError for a code that may not be sent, TypeError for a reason without a code.
        """
        instance = self._check()
        end = self._end
        if end.state is State.CONNECTING:
            end.state = State.RELEASED
            end.closed_outgoing = end.closed_incoming = True
            return
        if end.closed_outgoing or end.lost or end.state is State.RELEASED:
            return
        if end.state is State.WAITING:
            raise TypeError(_UNACCEPTED)
        frame = checked_close(None if _absent(code) else int(code), None if _absent(reason) else text_of(reason))
        end.closed_outgoing = True
        end.emit(frame, instance)

    @property
    def readyState(self) -> int:
        """0 connecting, 1 open, 2 when one side has closed, 3 when both have or the connection is lost."""
        end = self._end
        if end.state is State.CONNECTING:
            return 0
        if (end.closed_incoming and end.closed_outgoing) or end.lost:
            return 3
        if end.closed_incoming or end.closed_outgoing:
            return 3 if self._plain is not None and self._plain.replying else 2
        return 1

    @property
    def bufferedAmount(self) -> int:
        """About how much was sent and has not been taken by the peer or the network, in bytes or characters."""
        return self._end.pending

    # Attachments.

    def serializeAttachment(self, value: Any) -> None:
        """Keeps a copy of `value` with the socket, also while its object sleeps.

        Raises DataCloneError for what cannot be copied, and an error beyond 16,384 bytes of the platform's form.
        """
        self._check()
        self._end.attachment = serialize(value)

    def deserializeAttachment(self) -> Any:
        """A copy of what `serializeAttachment` kept, or None."""
        return deserialize(self._end.attachment)

    # Listeners.

    def addEventListener(self, kind: str, listener: Callable[..., Any], options: Any = None, **more: Any) -> None:
        """Calls `listener(event)` for every event of a kind: `message`, `close`, `error` or `open`.

        An asynchronous listener runs on by itself. With `{"once": True}` it is called once.
        """
        given = {**(options if isinstance(options, dict) else {}), **more}
        known = self._listeners.setdefault(str(kind), [])
        if all(entry.function is not listener for entry in known):
            known.append(plain.Listener(listener, bool(given.get("once"))))

    def removeEventListener(self, kind: str, listener: Callable[..., Any], options: Any = None) -> None:
        """Undoes `addEventListener`."""
        known = self._listeners.get(str(kind), [])
        self._listeners[str(kind)] = [entry for entry in known if entry.function is not listener]

    def _heard_by(self, kind: str) -> list[Callable[..., Any]]:
        heard = [entry.function for entry in self._listeners.get(kind, ())]
        if any(entry.once for entry in self._listeners.get(kind, ())):
            self._listeners[kind] = [entry for entry in self._listeners[kind] if not entry.once]
        handler = getattr(self, f"on{kind}", None)
        return [handler, *heard] if callable(handler) else heard

    def __del__(self) -> None:
        # Nobody will ever accept or return it: its peer must not wait for ever.
        end = getattr(self, "_end", None)
        if end is not None and end.state is State.WAITING and end.peer is not None:
            plain.abandon_later(end)

    def __repr__(self) -> str:
        return f"WebSocket(readyState={self.readyState})"


class WebSocketPair:
    """Two sockets, each the other's peer: `client, server = WebSocketPair.new().object_values()`.

    One is returned in a Response with status 101, the other is accepted. Also `pair[0]`, `pair[1]` and unpacking.
    """

    def __init__(self) -> None:
        first, second = make_pipe()
        self._sockets = (WebSocket(first), WebSocket(second))

    @classmethod
    def new(cls) -> "WebSocketPair":
        """A new pair."""
        return cls()

    def object_values(self) -> JsList:
        return JsList(self._sockets)

    def object_keys(self) -> JsList:
        return JsList(["0", "1"])

    def object_entries(self) -> JsList:
        return JsList(JsList(pair) for pair in zip("01", self._sockets, strict=True))

    def __iter__(self) -> Iterator[WebSocket]:
        return iter(self._sockets)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, place: Any) -> WebSocket:
        if place not in {0, 1, "0", "1"}:
            raise IndexError(f"a pair has the sockets 0 and 1, not {place!r}")
        return self._sockets[int(place)]

    def __getattr__(self, name: str) -> WebSocket:
        if name in {"0", "1"}:  # getattr(pair, "0"), as programs written for proxies do
            return self._sockets[int(name)]
        raise AttributeError(f"a WebSocketPair has no attribute {name!r}")


class WebSocketRequestResponsePair:
    """A text and the text that answers it: what `ctx.setWebSocketAutoResponse` takes."""

    def __init__(self, request: Any, response: Any) -> None:
        self.request = text_of(request)
        self.response = text_of(response)

    @classmethod
    def new(cls, request: Any, response: Any) -> "WebSocketRequestResponsePair":
        """A new pair."""
        return cls(request, response)

    def __repr__(self) -> str:
        return f"WebSocketRequestResponsePair({self.request!r}, {self.response!r})"


def local_time(milliseconds: int) -> datetime.datetime:
    """A time as the platform's dates arrive in Python: naive, local (spec python-workers-api 4)."""
    return datetime.datetime.fromtimestamp(milliseconds / 1000)
