"""Values of a call between Workers: copies by the rules of RPC, functions and targets called where they came from."""

import contextvars
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from moorage.durable_objects.runtime import gate as gates
from moorage.durable_objects.runtime.base import RpcTarget
from moorage.durable_objects.runtime.rpc import RpcFunction, RpcTargetStub, Stub

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
        return RpcTargetStub(value, home)
    if callable(value) and not isinstance(value, type):
        return RpcFunction(value if home is not None else _in_context(value), home)
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


def _in_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a Worker sees its own Worker's `workers.env` when another one calls it."""
    context = contextvars.copy_context()

    def called(*args: Any, **options: Any) -> Any:
        return context.copy().run(function, *args, **options)

    return called
