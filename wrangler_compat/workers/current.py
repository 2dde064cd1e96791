"""Which Worker the running code belongs to, and what its host does for it.

The host makes one `WorkerContext` a Worker and enters `running(context)` around the import of its modules and around
every event; tasks inherit it. Everything that user code imports finds its bindings, `wait_until` and the output gate
through here, so that several Workers can share a process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

logger = logging.getLogger("moorage.workers")


def _wall_clock() -> int:
    return time.time_ns() // 1_000_000


async def _no_gate() -> None:
    return


async def _here(work: Coroutine[Any, Any, T]) -> T:
    return await work


class WorkerContext:
    """One Worker as its own code sees it.

    `env` holds the bindings, `name` is for messages. The host may replace the three hooks: `wait_until` keeps an
    awaitable alive after the answer; `before_outgoing` is awaited before anything leaves (the output gate of the
    object that runs, if one does); `outside` runs a coroutine as the platform's own work, not as the object's. `now`
    is the clock in milliseconds, by which what is kept for the Worker expires.
    """

    def __init__(
        self,
        env: Any = None,
        *,
        name: str = "worker",
        wait_until: Callable[[Awaitable[Any]], None] | None = None,
        before_outgoing: Callable[[], Awaitable[None]] = _no_gate,
        outside: Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]] = _here,
        now: Callable[[], int] = _wall_clock,
    ) -> None:
        self.env = env
        self.name = name
        self.background = Background()
        self.wait_until = wait_until or self.background.add
        self.before_outgoing = before_outgoing
        self.outside = outside
        self.now = now


class WorkerStopped(RuntimeError):
    """The Worker's code called `exit()`, or let a cancellation of its own pass: an error of that event alone."""


def contain(error: SystemExit | asyncio.CancelledError) -> NoReturn:
    """Raises WorkerStopped for what user code let pass; `error` itself when the running task is being cancelled."""
    if isinstance(error, SystemExit):
        raise WorkerStopped(f"SystemExit: {error}") from error
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise error
    raise WorkerStopped("the Worker's code was cancelled by itself") from error


async def contained(work: Awaitable[T]) -> T:
    """Awaits `work`; what would end the whole process (SystemExit), or its task in silence, becomes WorkerStopped."""
    try:
        return await work
    except (SystemExit, asyncio.CancelledError) as error:
        contain(error)


class Background:
    """Work that goes on after an answer. Errors are logged, as nobody awaits it; `drain` waits for all of it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Future[Any]] = set()

    def add(self, work: Awaitable[Any]) -> None:
        task = asyncio.ensure_future(contained(work))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("Work given to wait_until failed", exc_info=error)

    def __len__(self) -> int:
        return len(self._tasks)

    async def drain(self, seconds: float | None = None) -> None:
        """Waits for all of it, at most `seconds`; what still runs then is cancelled, and logged."""
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        while self._tasks and (end is None or loop.time() < end):
            await asyncio.wait(set(self._tasks), timeout=None if end is None else max(0, end - loop.time()))
        if self._tasks:
            logger.warning("%d pieces of work given to wait_until did not end in time", len(self._tasks))
            left = list(self._tasks)
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=1)


_current: ContextVar[WorkerContext | None] = ContextVar("moorage_worker", default=None)
_alone = WorkerContext()


class running:
    """While it is entered, code (and the tasks that it starts) belongs to that Worker."""

    __slots__ = ("_context", "_token")

    def __init__(self, context: WorkerContext) -> None:
        self._context = context

    def __enter__(self) -> WorkerContext:
        self._token = _current.set(self._context)
        return self._context

    def __exit__(self, *_error: object) -> None:
        _current.reset(self._token)


def current() -> WorkerContext:
    """The Worker of the running code; one without bindings when no host runs it (a script, a unit test)."""
    return _current.get() or _alone


def in_worker() -> bool:
    return _current.get() is not None


def wait_until(work: Awaitable[Any]) -> None:
    """Keeps `work` (a coroutine, a task, any awaitable) going after the answer was given; its errors are logged."""
    if not hasattr(work, "__await__"):
        raise TypeError(f"wait_until() takes an awaitable, not {type(work).__name__}")
    current().wait_until(work)


class ExecutionContext:
    """`self.ctx` of an entrypoint: `waitUntil`, `passThroughOnException`, `props`."""

    def __init__(self, worker: WorkerContext, props: Any = None) -> None:
        self._worker = worker
        self.props = props

    def waitUntil(self, work: Awaitable[Any]) -> None:
        if not hasattr(work, "__await__"):
            raise TypeError(f"waitUntil() takes an awaitable, not {type(work).__name__}")
        self._worker.wait_until(work)

    wait_until = waitUntil

    def passThroughOnException(self) -> None:
        """There is no origin behind a Worker here: an exception is answered as the host answers it."""


async def leave() -> None:
    """Waits for the output gate: after it, what the running code has written is durable."""
    await current().before_outgoing()


__all__ = [
    "Background",
    "ExecutionContext",
    "WorkerContext",
    "contain",
    "current",
    "in_worker",
    "leave",
    "running",
    "wait_until",
]
