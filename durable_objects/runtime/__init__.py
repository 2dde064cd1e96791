"""The Durable Object runtime: ids, namespaces, stubs, gates, storage and alarms. It knows no business rule.

`Runtime` owns a process's namespaces; `DurableObject` is the base of user classes.
"""

from .base import DurableObject, RpcTarget
from .clock import Clock, SystemClock
from .clone import DataCloneError, Undefined, undefined
from .errors import DurableObjectAbort, DurableObjectError, RemoteError, SqlError
from .ids import DurableObjectId
from .namespace import DurableObjectNamespace, DurableObjectStub
from .runtime import Runtime, RuntimeSettings
from .sql import Row, SqlCursor, SqlStorage
from .state import DurableObjectState
from .storage import DurableObjectStorage, DurableObjectTransaction
from .websockets import WebSocket, WebSocketPair, WebSocketRequestResponsePair

__all__ = [
    "Clock",
    "DataCloneError",
    "DurableObject",
    "DurableObjectAbort",
    "DurableObjectError",
    "DurableObjectId",
    "DurableObjectNamespace",
    "DurableObjectState",
    "DurableObjectStorage",
    "DurableObjectStub",
    "DurableObjectTransaction",
    "RemoteError",
    "Row",
    "RpcTarget",
    "Runtime",
    "RuntimeSettings",
    "SqlCursor",
    "SqlError",
    "SqlStorage",
    "SystemClock",
    "Undefined",
    "WebSocket",
    "WebSocketPair",
    "WebSocketRequestResponsePair",
    "undefined",
]
