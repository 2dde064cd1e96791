"""`run_sync`: synchronous code waits for an awaitable in the middle of the event loop, by switching stacks.

A coroutine that may do so is driven on a stack of its own (a greenlet). `run_sync` there steps through the awaitable
and, wherever the awaitable would wait, hands what it waits for to the stack that drives the coroutine: to the task it
looks as if the coroutine itself had awaited. The task, its context and its cancellation stay the ordinary ones.

A stack is used for one coroutine after another, so that it costs two switches a step (some microseconds a handler).
So it is on (`enabled`) only once a Worker was found that may call `run_sync`, or somebody imported it; `wsgi.fetch`
always runs its application this way.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, TypeVar

import greenlet

T = TypeVar("T")

enabled = False


def enable() -> None:
    """Makes every handler that is called from now on run on a stack of its own."""
    global enabled
    enabled = True


class _Stack(greenlet.greenlet):  # type: ignore[misc]
    """A stack that runs one coroutine after another; its parent is whoever steps the coroutine at the moment."""

    def run(self, job: tuple[Coroutine[Any, Any, Any], Any]) -> Any:
        while True:
            outcome = _run(*job)
            del job
            idle = _mine.idle
            if len(idle) >= MOST_IDLE:
                return outcome
            idle.append(self)
            job = self.parent.switch(outcome)


class _Mine(threading.local):
    """What belongs to a thread: its idle stacks."""

    def __init__(self) -> None:
        self.idle: list[_Stack] = []


_mine = _Mine()
MOST_IDLE = 256


class _End:
    """How a coroutine ended."""

    __slots__ = ("error", "value")

    def __init__(self, value: Any, error: BaseException | None) -> None:
        self.value = value
        self.error = error


def _run(coroutine: Coroutine[Any, Any, Any], value: Any) -> _End:
    """Steps `coroutine` to its end; what it waits for goes to the driver."""
    step: Callable[[Any], Any] = coroutine.send
    while True:
        try:
            waited = step(value)
        except StopIteration as end:
            return _End(end.value, None)
        except greenlet.GreenletExit:
            raise
        except BaseException as error:
            return _End(None, error)
        try:
            value = _to_driver(waited)
            step = coroutine.send
        except BaseException as error:
            value, step = error, coroutine.throw


class Switchable(Coroutine[Any, Any, T]):
    """Drives a coroutine on a stack of its own, so that synchronous code below it may call `run_sync`."""

    __slots__ = ("_coroutine", "_stack")

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._stack: _Stack | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        return self  # type: ignore[return-value]

    def __getattr__(self, name: str) -> Any:
        # what tools ask a coroutine for: anyio cancels only tasks whose `cr_running` or `cr_suspended` is true
        if name.startswith("cr_") or name in {"__name__", "__qualname__"}:
            return getattr(self._coroutine, name)
        raise AttributeError(name)

    def __iter__(self) -> Switchable[T]:
        return self

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        here = greenlet.getcurrent()
        stack = self._stack
        if stack is _ENDED:
            raise RuntimeError("cannot reuse already awaited coroutine")
        if stack is None:
            _prepare_loop()
            idle = _mine.idle
            stack = self._stack = idle.pop() if idle else _Stack()
            stack.gr_context = here.gr_context
            value = (self._coroutine, value)
        stack.parent = here
        return self._result(stack, stack.switch(value))

    def throw(  # type: ignore[override]
        self, kind: Any, value: BaseException | None = None, traceback: TracebackType | None = None
    ) -> Any:
        error: BaseException = value if value is not None else kind if isinstance(kind, BaseException) else kind()
        if traceback is not None:
            error = error.with_traceback(traceback)
        stack = self._stack
        if stack is None or stack is _ENDED:
            return self._coroutine.throw(error)
        stack.parent = greenlet.getcurrent()
        return self._result(stack, stack.throw(error))

    def close(self) -> None:
        if self._stack is None:
            self._coroutine.close()
        elif self._stack is not _ENDED:
            try:
                self.throw(GeneratorExit())
            except (GeneratorExit, StopIteration):
                return
            raise RuntimeError("coroutine ignored GeneratorExit")

    def _result(self, stack: _Stack, outcome: Any) -> Any:
        # the stack switches to its parent with what the coroutine waits for, or with how it ended
        if type(outcome) is not _End:
            return outcome
        self._stack = _ENDED
        if not stack.dead:
            stack.gr_context = None
        if outcome.error is not None:
            raise outcome.error
        raise StopIteration(outcome.value)


_ENDED: Any = object()


def _prepare_loop() -> None:
    """Tasks that switchable code starts must be switchable too."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return
    # a host that loads its Workers again sets the factory again, on the same loop
    factory = loop.get_task_factory()
    if not getattr(factory, "switchable", False):
        loop.set_task_factory(_factory_over(factory))


def _factory_over(inner: Any) -> Any:
    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        below = isinstance(greenlet.getcurrent(), _Stack)
        if below and asyncio.iscoroutine(coroutine) and not isinstance(coroutine, Switchable):
            coroutine = Switchable(coroutine)
        if inner is not None:
            return inner(loop, coroutine, **options)
        return asyncio.Task(coroutine, loop=loop, **options)

    factory.switchable = True  # type: ignore[attr-defined]
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
            "or in a bare event loop. If this is below a handler, import run_sync at the top of the Worker's module"
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
