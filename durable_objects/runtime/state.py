"""`ctx`: what a Durable Object's constructor is handed."""

import datetime
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from .clock import Clock
from .clone import Undefined
from .ids import DurableObjectId, visible_name
from .javascript import text_of
from .storage import DurableObjectStorage
from .web.values import JsList
from .websockets.hibernation import HibernationManager, tags_of, whole_milliseconds
from .websockets.socket import WebSocket, WebSocketRequestResponsePair, local_time

if TYPE_CHECKING:
    from .instance import Instance


class DurableObjectState:
    """`ctx` of one instance."""

    def __init__(self, instance: "Instance") -> None:
        self._instance = instance
        self._id = DurableObjectId(str(instance.id), visible_name(instance.id.name))
        self._storage = DurableObjectStorage(instance)

    @property
    def id(self) -> DurableObjectId:
        """The object's id; its `name` is set when the object was reached by a name of at most 1,024 bytes."""
        return self._id

    @property
    def storage(self) -> DurableObjectStorage:
        """The object's storage."""
        return self._storage

    @property
    def clock(self) -> Clock:
        """The clock that the runtime was given; an object that asks it for the time can be tested by hand."""
        return self._instance.namespace.runtime.clock

    @property
    def props(self) -> dict[str, Any]:
        """Properties of the binding the object was reached by: none here."""
        return {}

    def waitUntil(self, awaitable: Awaitable[Any]) -> None:
        """Lets `awaitable` run on after the answer; the instance is not evicted meanwhile. Errors are logged."""
        self._instance.check()
        if not inspect.isawaitable(awaitable):
            raise TypeError(f"waitUntil() takes an awaitable, not {type(awaitable).__name__}")
        self._instance.wait_until(awaitable)

    wait_until = waitUntil

    def blockConcurrencyWhile(self, callback: Callable[[], Any]) -> Awaitable[Any]:
        """Runs `callback()`, sync or async, while no other event is delivered; returns an awaitable of its value.

        It begins at the call: in a constructor nobody needs to await it. An error in it resets the object.
        """
        self._instance.check()
        if not callable(callback):
            raise TypeError(f"blockConcurrencyWhile() takes a function, not {type(callback).__name__}")

        async def body() -> Any:
            value = callback()
            return await value if inspect.isawaitable(value) else value

        return self._instance.critical_section(body, resets=True)

    # Hibernating sockets (semantics 13).

    def acceptWebSocket(self, ws: WebSocket, tags: Any = None) -> None:
        """Takes one side of a pair: its events reach the object's `webSocketMessage`, `webSocketClose` and
        `webSocketError`, and it stays open while the object sleeps.

        `tags`: at most 10 texts of at most 256 bytes. Raises an error for wrong tags or a socket in use.
        """
        self._instance.check()
        if not isinstance(ws, WebSocket):
            raise TypeError(f"acceptWebSocket() takes a WebSocket, not {type(ws).__name__}")
        self._sockets().accept(ws, tags)

    def getWebSockets(self, tag: Any = None) -> JsList:
        """The sockets that were taken by `acceptWebSocket`, those with `tag` when one is given."""
        self._instance.check()
        manager = self._known_sockets()
        absent = tag is None or isinstance(tag, Undefined)
        return JsList(() if manager is None else manager.listed(None if absent else text_of(tag)))

    def getTags(self, ws: WebSocket) -> JsList:
        """The tags of a socket. Raises an error when it was not taken by `acceptWebSocket`."""
        self._instance.check()
        return JsList(tags_of(ws))

    def setWebSocketAutoResponse(self, pair: WebSocketRequestResponsePair | None = None) -> None:
        """From now on a message equal to `pair.request` is answered with `pair.response` and runs no code.

        Without a pair nothing is answered any more. Raises ValueError for a text of more than 2,048 bytes.
        """
        self._instance.check()
        if pair is None or isinstance(pair, Undefined):
            manager = self._known_sockets()
            if manager is not None:
                manager.set_auto_response(None)
            return
        if not isinstance(pair, WebSocketRequestResponsePair):
            raise TypeError(f"a WebSocketRequestResponsePair is needed, not {type(pair).__name__}")
        self._sockets().set_auto_response(pair)

    def getWebSocketAutoResponse(self) -> WebSocketRequestResponsePair | None:
        """The pair that was set, or None."""
        self._instance.check()
        manager = self._known_sockets()
        if manager is None or manager.auto_response is None:
            return None
        return WebSocketRequestResponsePair(*manager.auto_response)

    def getWebSocketAutoResponseTimestamp(self, ws: WebSocket) -> datetime.datetime | None:
        """When a message of `ws` was last answered by itself, or None."""
        self._instance.check()
        if not isinstance(ws, WebSocket):
            raise TypeError(f"getWebSocketAutoResponseTimestamp() takes a WebSocket, not {type(ws).__name__}")
        return None if ws._end.timestamp is None else local_time(ws._end.timestamp)

    def setHibernatableWebSocketEventTimeout(self, milliseconds: Any = None) -> None:
        """Ends an event of a hibernating socket that takes longer; 0 or None removes the limit.

        Raises an error beyond 604,800,000 (seven days), TypeError for what is no number or negative.
        """
        self._instance.check()
        limit = whole_milliseconds(milliseconds)
        if limit or self._known_sockets() is not None:
            self._sockets().set_event_timeout(limit)

    def getHibernatableWebSocketEventTimeout(self) -> int | None:
        """The limit in milliseconds, or None."""
        self._instance.check()
        manager = self._known_sockets()
        return None if manager is None else manager.event_timeout

    def _sockets(self) -> HibernationManager:
        return self._instance.namespace.socket_manager(self._instance)

    def _known_sockets(self) -> HibernationManager | None:
        return self._instance.namespace.sockets.get(str(self._instance.id))

    def abort(self, reason: Any = None) -> None:
        """Resets the object at once: nothing that follows has an effect outside, every caller gets `reason`."""
        self._instance.check()
        if isinstance(reason, Undefined):
            reason = None
        self._instance.abort(reason if reason is None or isinstance(reason, Exception) else text_of(reason))
