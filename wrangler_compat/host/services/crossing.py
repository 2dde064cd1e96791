"""Values of a call between Workers: copies by the rules of RPC, functions and targets called where they came from."""

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from moorage.durable_objects.runtime import gate as gates
from moorage.durable_objects.runtime.base import RpcTarget
from moorage.durable_objects.runtime.rpc import (
    RpcFunction,
    RpcMember,
    RpcPromise,
    RpcTargetStub,
    Stub,
    call_home,
    reach,
)

from ...workers import rpc

if TYPE_CHECKING:
    from moorage.durable_objects.runtime.instance import Instance

for _passing in (RpcFunction, Stub):
    if _passing not in rpc.references:
        rpc.references.append(_passing)


def sender() -> "Instance | None":
    """The object whose code is running, if one is."""
    turn = gates.current
    return None if turn is None else turn.owner


def crossing(value: Any) -> Any:
    """The copy that the other side gets (spec python-workers-api 4).

    Raises TypeError for tuples, bytearrays and awaitables, and an error whose text begins with `DataCloneError` for
    objects of other classes.
    """
    return rpc.received(_bound(value, sender(), {}))


def _bound(value: Any, home: "Instance | None", seen: dict[int, Any]) -> Any:
    """`value` with its functions and targets bound to where they live."""
    if isinstance(value, tuple(rpc.references)):
        return value
    if isinstance(value, RpcTarget):
        return RpcTargetStub(value, home) if home is not None else _WorkerTarget(value, contextvars.copy_context())
    if callable(value) and not isinstance(value, type):
        return RpcFunction(value if home is not None else _in_context(contextvars.copy_context(), value), home)
    if id(value) in seen:
        return seen[id(value)]
    if isinstance(value, dict):
        mapping: dict[Any, Any] = type(value)()
        seen[id(value)] = mapping
        for key, item in value.items():
            mapping[key] = _bound(item, home, seen)
        return mapping
    if isinstance(value, list):
        items: list[Any] = []
        seen[id(value)] = items
        items.extend(_bound(item, home, seen) for item in value)
        return items
    return value


def _in_context(context: contextvars.Context, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, seeing its own Worker's `workers.env` when another one calls it."""

    def called(*args: Any, **options: Any) -> Any:
        own = context.copy()
        value = own.run(function, *args, **options)
        if inspect.isawaitable(value):
            return asyncio.get_running_loop().create_task(_awaited(value), context=own)
        return value

    return called


async def _awaited(value: Awaitable[Any]) -> Any:
    return await value


class _WorkerTarget(RpcTargetStub):
    """A stub of a target that lives in a Worker and in no object."""

    def __init__(self, target: RpcTarget, context: contextvars.Context) -> None:
        super().__init__(target, None)
        self._context = context

    def __getattr__(self, name: str) -> RpcMember:
        if name.startswith("__") or name in {"to_py", "js_object"}:
            raise AttributeError(name)

        def deliver(invoke: Any) -> RpcPromise:
            return call_home(None, _in_context(self._context, lambda: reach(self._target, name, RpcTarget, invoke)))

        return RpcMember(deliver, name)
