"""What user code imports as `workers`."""

from __future__ import annotations

from typing import Any

from moorage.durable_objects.runtime.web import Blob, File, FormData, FormDataValue, Request, Response

from .current import Background, ExecutionContext, WorkerContext, current, running, wait_until
from .entrypoints import DurableObject, DurableObjectAbort, RpcTarget, WorkerEntrypoint, WorkflowEntrypoint, handler
from .environment import Env, env, patch_env
from .javascript import import_from_javascript
from .outgoing import fetch
from .rpc import JsDict, python_from_rpc, python_to_rpc
from .types import (
    BlobEnding,
    BlobValue,
    Body,
    Context,
    FetchKwargs,
    FetchResponse,
    Headers,
    JSBody,
    RequestInitCfProperties,
)

waitUntil = wait_until


def __getattr__(name: str) -> Any:
    if name in {"asgi", "wsgi", "workflows"}:
        import importlib

        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'workers' has no attribute {name!r}")


__all__ = [
    "Background",
    "Blob",
    "BlobEnding",
    "BlobValue",
    "Body",
    "Context",
    "DurableObject",
    "DurableObjectAbort",
    "Env",
    "ExecutionContext",
    "FetchKwargs",
    "FetchResponse",
    "File",
    "FormData",
    "FormDataValue",
    "Headers",
    "JSBody",
    "JsDict",
    "Request",
    "RequestInitCfProperties",
    "Response",
    "RpcTarget",
    "WorkerContext",
    "WorkerEntrypoint",
    "WorkflowEntrypoint",
    "current",
    "env",
    "fetch",
    "handler",
    "import_from_javascript",
    "patch_env",
    "python_from_rpc",
    "python_to_rpc",
    "running",
    "waitUntil",
    "wait_until",
]
