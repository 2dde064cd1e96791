"""A bare task of a Worker that calls `exit()` ends alone; out of it, SystemExit would end the whole process.

Handlers, `waitUntil` work and tasks of objects are contained where they are run. What `loop.call_soon` and the like
call directly is not: no task stands between it and the loop.
"""

import asyncio
from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any

from moorage.durable_objects.runtime import gate

from ..workers.current import WorkerStopped, in_worker


class Contained(Coroutine[Any, Any, Any]):
    """Drives one coroutine; its SystemExit leaves as WorkerStopped."""

    __slots__ = ("__name__", "__qualname__", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, Any]) -> None:
        self._coroutine = coroutine
        self.__name__ = getattr(coroutine, "__name__", "task")
        self.__qualname__ = getattr(coroutine, "__qualname__", "task")

    def send(self, value: Any) -> Any:
        try:
            return self._coroutine.send(value)
        except SystemExit as error:
            raise WorkerStopped(f"SystemExit: {error}") from error

    def throw(  # type: ignore[override]
        self, kind: Any, value: BaseException | None = None, traceback: TracebackType | None = None
    ) -> Any:
        error = kind if isinstance(kind, BaseException) else (value or kind())
        try:
            return self._coroutine.throw(error)
        except SystemExit as stopped:
            raise WorkerStopped(f"SystemExit: {stopped}") from stopped

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self  # type: ignore[return-value]

    def __getattr__(self, name: str) -> Any:
        # anyio and the reprs of tasks look at `cr_running` and the like
        if name.startswith("cr_"):
            return getattr(self._coroutine, name)
        raise AttributeError(name)


class TaskContainment:
    """Puts itself over the running loop's task factory while a host runs."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._inner: Any = self._loop.get_task_factory()
        self._loop.set_task_factory(self._make)

    def _make(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
        # inside an object the task is contained by its gate; what is only awaitable becomes a coroutine there
        ordinary = asyncio.iscoroutine(coroutine) and type(coroutine) is not gate.Turn
        if ordinary and gate.current is None and in_worker():
            coroutine = Contained(coroutine)
        if self._inner is None:
            return asyncio.Task(coroutine, loop=loop, **options)
        return self._inner(loop, coroutine, **options)

    def remove(self) -> None:
        """Gives the loop its factory back, unless another one was put over this one."""
        if self._loop.get_task_factory() == self._make:
            self._loop.set_task_factory(self._inner)
