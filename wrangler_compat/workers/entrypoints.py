"""The base classes of a Worker's own classes, and the decorator of legacy handlers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from moorage.durable_objects.runtime.base import DurableObject, RpcTarget
from moorage.durable_objects.runtime.errors import DurableObjectAbort
from moorage.durable_objects.runtime.web import PlatformRequest


class WorkerEntrypoint:
    """Base of `Default` and of named entrypoints; one instance an event, with `self.ctx` and `self.env`."""

    ctx: Any
    env: Any

    def __init__(self, ctx: Any, env: Any) -> None:
        self.ctx = ctx
        self.env = env


class WorkflowEntrypoint:
    """Base of workflow classes. It can be derived from; a binding to a workflow is refused by the host."""

    ctx: Any
    env: Any

    def __init__(self, ctx: Any, env: Any) -> None:
        self.ctx = ctx
        self.env = env


def handler(function: Callable[..., Any]) -> Callable[..., Any]:
    """Legacy decorator: the request reaches `function` as a `workers.Request` and not as a `js.Request`."""

    @functools.wraps(function)
    def wrapper(*args: Any, **options: Any) -> Any:
        if args and isinstance(args[0], PlatformRequest):
            args = (args[0].message, *args[1:])
        return function(*args, **options)

    return wrapper


__all__ = [
    "DurableObject",
    "DurableObjectAbort",
    "RpcTarget",
    "WorkerEntrypoint",
    "WorkflowEntrypoint",
    "handler",
]
