"""`run_sync`: synchronous code waits for an awaitable in the middle of the event loop, by switching stacks.

A coroutine that may do so is driven on a stack of its own (a greenlet). `run_sync` there steps through the awaitable
and, wherever the awaitable would wait, hands what it waits for to the stack that drives the coroutine: to the task it
looks as if the coroutine itself had awaited. The task, its context and its cancellation stay the ordinary ones.

It costs a stack a coroutine, so it is used only once a program has asked for it (`enabled`): importing `run_sync`
does, and `wsgi.fetch` always runs its application this way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import copy_context
from types import TracebackType
from typing import Any, TypeVar
from weakref import WeakSet

import greenlet

T = TypeVar("T")

enabled = False
_prepared: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def enable() -> None:
    """Makes every handler that is called from now on run on a stack of its own."""
    global enabled
    enabled = True


class _Stack(greenlet.greenlet):  # type: ignore[misc]
    """The stack of one coroutine; its parent is whoever steps the coroutine at the moment."""


class Switchable(Coroutine[Any, Any, T]):
    """Drives a coroutine on a stack of its own, so that synchronous code below it may call `run_sync`."""

    __slots__ = ("_coroutine", "_stack")

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._stack: _Stack | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self  # type: ignore[return-value]

    def __iter__(self) -> Switchable[T]:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        here = greenlet.getcurrent()
        stack = self._stack
        if stack is None:
            self._prepare_loop()
            stack = self._stack = _Stack(self._run, here)
            stack.gr_context = here.gr_context if here.gr_context is not None else copy_context()
        else:
            stack.parent = here
        return self._result(stack, stack.switch(value))

    def throw(  # type: ignore[override]
        self, kind: Any, value: BaseException | None = None, traceback: TracebackType | None = None
    ) -> Any:
        error: BaseException = value if value is not None else kind if isinstance(kind, BaseException) else kind()
        if traceback is not None:
            error = error.with_traceback(traceback)
        stack = self._stack
        if stack is None:
            return self._coroutine.throw(error)
        stack.parent = greenlet.getcurrent()
        return self._result(stack, stack.throw(error))

    def close(self) -> None:
        if self._stack is None:
            self._coroutine.close()
        elif not self._stack.dead:
            try:
                self.throw(GeneratorExit())
            except (GeneratorExit, StopIteration):
                return
            raise RuntimeError("coroutine ignored GeneratorExit")

    def _result(self, stack: _Stack, outcome: Any) -> Any:
        # the stack ends by returning (value, error) and waits by switching to its parent with what it waits for
        if not stack.dead:
            return outcome
        value, error = outcome
        if error is not None:
            raise error
        raise StopIteration(value)

    def _run(self, value: Any) -> tuple[Any, BaseException | None]:
        coroutine = self._coroutine
        step: Callable[[Any], Any] = coroutine.send
        while True:
            try:
                waited = step(value)
            except StopIteration as end:
                return end.value, None
            except BaseException as error:
                return None, error
            try:
                value = _to_driver(waited)
                step = coroutine.send
            except BaseException as error:
                value, step = error, coroutine.throw

    def _prepare_loop(self) -> None:
        """Tasks that switchable code starts must be switchable too."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if loop not in _prepared:
            _prepared.add(loop)
            loop.set_task_factory(_factory_over(loop.get_task_factory()))


def _factory_over(inner: Any) -> Any:
    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        if isinstance(greenlet.getcurrent(), _Stack) and not isinstance(coroutine, Switchable):
            coroutine = Switchable(coroutine)
        if inner is not None:
            return inner(loop, coroutine, **options)
        return asyncio.Task(coroutine, loop=loop, **options)

    return factory


def _to_driver(waited: Any) -> Any:
    parent = greenlet.getcurrent().parent
    assert parent is not None
    return parent.switch(waited)


def wrap(coroutine: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
    """`coroutine` on a stack of its own when programs have asked for `run_sync`, else as it is."""
    if not enabled or isinstance(coroutine, Switchable):
        return coroutine
    return Switchable(coroutine)


def can_run_sync() -> bool:
    """Whether `run_sync` would work here: below a handler, or in a thread that a handler started."""
    return isinstance(greenlet.getcurrent(), _Stack)


def run_sync(awaitable: Awaitable[T]) -> T:
    """Waits for `awaitable` from synchronous code and returns its value or raises its error.

    Raises RuntimeError where no handler is below, and TypeError for what cannot be awaited.
    """
    step_into = getattr(awaitable, "__await__", None)
    if step_into is None:
        raise TypeError(f"run_sync() takes an awaitable, not {type(awaitable).__name__}")
    if not isinstance(greenlet.getcurrent(), _Stack):
        if isinstance(awaitable, Coroutine):
            awaitable.close()
        raise RuntimeError(
            "Cannot stack switch here: run_sync() works below a handler of a Worker, not at import time, in a thread "
            "or in a bare event loop"
        )
    return _drive(step_into())  # type: ignore[no-any-return]


def _drive(iterator: Any) -> Any:
    value: Any = None
    error: BaseException | None = None
    send = getattr(iterator, "send", None)
    while True:
        try:
            if error is not None:
                pending, error = error, None
                waited = iterator.throw(pending)
            elif value is None or send is None:
                waited = next(iterator)
            else:
                waited = send(value)
        except StopIteration as end:
            return end.value
        try:
            value = _to_driver(waited)
        except BaseException as raised:
            error = raised


async def run_with_greenlet(function: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
    """Calls `function` and awaits its result so that `run_sync` works below it."""

    async def whole() -> T:
        return await function(*args, **options)

    return await Switchable(whole())
