"""The base classes that objects and callable results derive from."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .state import DurableObjectState


class DurableObject:
    """Base of Durable Object classes: `self.ctx` is the object's state, `self.env` the Worker's bindings.

    Public methods and properties of the class can be reached over a stub; `fetch`, `alarm` and the WebSocket
    handlers are called by the runtime.
    """

    ctx: "DurableObjectState"
    env: Any

    def __init__(self, ctx: "DurableObjectState", env: Any) -> None:
        self.ctx = ctx
        self.env = env


class RpcTarget:
    """Base of classes whose instances are passed by reference: the other side gets a stub that calls back."""
