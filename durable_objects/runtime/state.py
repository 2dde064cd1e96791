"""`ctx`: what a Durable Object's constructor is handed."""

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from .clock import Clock
from .ids import DurableObjectId, visible_name
from .storage import DurableObjectStorage

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

    def abort(self, reason: Any = None) -> None:
        """Resets the object at once: nothing that follows has an effect outside, every caller gets `reason`."""
        self._instance.check()
        self._instance.abort(reason)
