"""How handlers are called: surplus arguments are dropped, plain results are accepted (spec python-workers-api 2)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

from moorage.durable_objects.runtime.web import Request, Response, as_response

from . import direct, switching

_capacities: WeakKeyDictionary[Any, int | None] = WeakKeyDictionary()


def capacity(function: Callable[..., Any]) -> int | None:
    """How many positional arguments `function` takes; None when any number.

    A decorated function counts as what it wraps, since `functools.wraps` says so.
    """
    bound = 0
    if isinstance(function, MethodType):
        bound = 1
        function = function.__func__
    if isinstance(function, FunctionType) and not hasattr(function, "__wrapped__"):
        code = function.__code__
        return None if code.co_flags & inspect.CO_VARARGS else code.co_argcount - bound
    try:
        known = _capacities[function]
    except (KeyError, TypeError):
        known = _counted(function)
        try:
            _capacities[function] = known
        except TypeError:
            pass
    return None if known is None else known - bound


def _counted(function: Callable[..., Any]) -> int | None:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    return sum(
        parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD} for parameter in parameters
    )


def relaxed(function: Callable[..., Any], *args: Any) -> Any:
    """Calls `function` with as many of `args` as it takes."""
    count = capacity(function)
    return function(*args) if count is None or count >= len(args) else function(*args[: max(count, 0)])


async def call(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a handler with as many of `args` as it takes and awaits what it returns, if that can be awaited."""
    if switching.enabled:
        return await switching.Switchable(_call(function, args))
    result = relaxed(function, *args)
    return await result if hasattr(result, "__await__") else result


async def _call(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    result = relaxed(function, *args)
    return await result if hasattr(result, "__await__") else result


@direct.root
async def call_fetch(function: Callable[..., Any], request: Request, *rest: Any) -> Response:
    """Calls a `fetch` handler and returns its Response.

    Below this call an ASGI application may write straight to the server that `request` came from.

    Raises TypeError when the handler returns something else, and whatever the handler raises.
    """
    if switching.enabled:
        result = await switching.Switchable(_call_fetch(function, request, rest))
    else:
        result = relaxed(function, request, *rest)
    # `async def fetch(self, request): return fetch(url)` gives an awaitable when it was awaited, as promises are flat
    while hasattr(result, "__await__"):
        result = await result
    return as_response(result)


@direct.root
async def _call_fetch(function: Callable[..., Any], request: Request, rest: tuple[Any, ...]) -> Any:
    result = relaxed(function, request, *rest)
    return await result if hasattr(result, "__await__") else result
