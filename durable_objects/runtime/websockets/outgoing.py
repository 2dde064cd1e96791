"""Sockets that a program opens: `WebSocket.new(url)`."""

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final

from .. import gate as gates
from ..outgoing import gate_open
from ..web import URL
from ..web.values import js_string
from .end import State, make_pipe
from .errors import WebSocketSyntaxError
from .events import CloseEvent, ErrorEvent, Event
from .frames import ABNORMAL
from .plain import PlainDelivery

if TYPE_CHECKING:
    from .socket import WebSocket

_TOKEN: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_SCHEMES: Final = {"ws:": "ws:", "wss:": "wss:", "http:": "ws:", "https:": "wss:"}


def checked_url(value: Any) -> str:
    """A `ws:` or `wss:` URL in its normal form; WebSocketSyntaxError for another scheme or a fragment."""
    try:
        url = URL(js_string(value))
    except TypeError:
        raise WebSocketSyntaxError("WebSocket Constructor: The url is invalid.") from None
    if url.protocol not in _SCHEMES:
        raise WebSocketSyntaxError("WebSocket Constructor: The url scheme must be ws or wss.")
    if url.hash or js_string(value).endswith("#"):
        raise WebSocketSyntaxError("WebSocket Constructor: The url fragment must be empty.")
    return _SCHEMES[url.protocol] + url.href.partition(":")[2]


def checked_protocols(value: Any) -> list[str]:
    """The subprotocols to offer; WebSocketSyntaxError for one that is no token, or occurs twice."""
    if value is None:
        return []
    offered = [value] if isinstance(value, str) else [js_string(item) for item in value]
    for name in offered:
        if not _TOKEN.match(name):
            raise WebSocketSyntaxError(f"WebSocket Constructor: The protocol header token {name!r} is invalid.")
    if len(set(offered)) < len(offered):
        raise WebSocketSyntaxError("WebSocket Constructor: The protocols header cannot have repeating values.")
    return offered


def connect(kind: "type[WebSocket]", url: Any, protocols: Any) -> "WebSocket":
    """Begins to connect and returns the socket.

    Raises WebSocketSyntaxError, and NotImplementedError where nobody set up a network.
    """
    target, offered = checked_url(url), checked_protocols(protocols)
    connector = kind.connector
    if connector is None:
        raise NotImplementedError("outgoing web sockets need the host's network; none is set up here")
    near, far = make_pipe()
    socket = kind(near)
    socket.url, socket.protocol, socket.extensions = target, "", ""
    near.state = State.CONNECTING
    # it belongs to the code that made it, and keeps its object in memory from now on
    delivery = socket._plain = PlainDelivery(socket, half_open=False)

    async def run() -> None:
        try:
            await gate_open()
            connection = await gates.run_outside(gates.outside(connector, target, offered))
        except Exception as error:
            near.closed_incoming = near.lost = True
            near.state = State.RELEASED
            delivery.dispatch(ErrorEvent(error, socket))
            delivery.dispatch(CloseEvent(ABNORMAL, "Failed to establish websocket connection", False, socket))
            delivery.let_go(near)
            return
        if near.state is not State.CONNECTING:  # closed before it was open
            delivery.let_go(near)
            await gates.run_outside(connection.close())
            return
        socket.protocol, socket.extensions = connection.subprotocol or "", connection.extensions
        gates.outside(connection.couple, far)
        socket._begin(half_open=False)
        delivery.dispatch(Event("open", socket))

    task = asyncio.ensure_future(run())
    delivery.tasks.add(task)
    task.add_done_callback(delivery.tasks.discard)
    return socket
