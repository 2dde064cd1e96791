"""Handlers of the rules before 2025-08-14: `on_fetch` of a module; `on_fetch`, `on_alarm` and the like of a class.

They get the platform's own request (`js.Request`), which the decorator `handler` turns into a `workers.Request`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from moorage.durable_objects.runtime.web import Request

METHODS = (
    "fetch", "alarm", "scheduled", "queue", "trace", "pubsub", "webSocketMessage", "webSocketClose", "webSocketError",
)  # fmt: skip


def _platform(value: Any) -> Any:
    return value.js_object if isinstance(value, Request) else value


def module_handler(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, given `js.Request` for `workers.Request`; it still counts as taking what it takes itself."""

    @functools.wraps(function)
    def wrapper(*args: Any, **options: Any) -> Any:
        return function(*map(_platform, args), **options)

    return wrapper


def name_methods(cls: type) -> None:
    """Gives a class with `on_fetch` (and so on) the method `fetch` that calls it, unless it has one of its own.

    The method passes `(request, env, ctx)` to `on_fetch`, `(…, env, ctx)` to the others, as many as they take. Such a
    class keeps `ctx` and `env` also when its `__init__` calls no base's.
    """
    named = False
    for event in METHODS:
        old = getattr(cls, f"on_{event}", None)
        if callable(old) and not callable(getattr(cls, event, None)):
            setattr(cls, event, _method(f"on_{event}"))
            named = True
    if named:
        _keep_arguments(cls)


def _keep_arguments(cls: Any) -> None:
    construct = cls.__init__

    @functools.wraps(construct)
    def __init__(self: Any, ctx: Any, env: Any) -> None:
        self.ctx, self.env = ctx, env
        construct(self, ctx, env)

    cls.__init__ = __init__


def _method(old: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any) -> Any:
        from .calling import relaxed

        given = [_platform(arg) for arg in args if arg is not None]
        return relaxed(getattr(self, old), *given, self.env, self.ctx)

    method.__name__ = old.removeprefix("on_")
    method.__qualname__ = method.__name__
    return method
