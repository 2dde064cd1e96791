"""Timers, microtasks, promises and `performance`."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

from moorage.durable_objects.runtime.web import JsDict, JsList

_numbers = itertools.count(1)
_timers: dict[int, asyncio.Task[None]] = {}
_started = time.perf_counter()


def setTimeout(function: Callable[..., Any], milliseconds: float = 0, *args: Any) -> int:
    """Calls `function(*args)` once, later; what it returns is awaited if it can be. Returns the timer's number."""
    return _start(function, milliseconds, args, repeat=False)


def setInterval(function: Callable[..., Any], milliseconds: float = 0, *args: Any) -> int:
    """Calls `function(*args)` again and again until `clearInterval`."""
    return _start(function, milliseconds, args, repeat=True)


def _start(function: Callable[..., Any], milliseconds: float, args: tuple[Any, ...], *, repeat: bool) -> int:
    number = next(_numbers)

    async def run() -> None:
        try:
            while True:
                await asyncio.sleep(max(milliseconds, 0) / 1000)
                result = function(*args)
                if inspect.isawaitable(result):
                    await result
                if not repeat:
                    return
        finally:
            _timers.pop(number, None)

    # a task, not loop.call_later: inside an object it then passes the object's gate
    _timers[number] = asyncio.get_running_loop().create_task(run())
    return number


def clearTimeout(number: Any) -> None:
    timer = _timers.pop(number, None)
    if timer is not None and timer is not asyncio.current_task():
        timer.cancel()


clearInterval = clearTimeout


def queueMicrotask(function: Callable[..., Any]) -> None:
    setTimeout(function, 0)


class Performance:
    @staticmethod
    def now() -> float:
        """Milliseconds since the process started."""
        return (time.perf_counter() - _started) * 1000

    @property
    def timeOrigin(self) -> float:
        return time.time() * 1000 - self.now()


class Promise:
    """`js.Promise`: its functions give awaitables; `Promise.new(executor)` calls `executor(resolve, reject)`."""

    @staticmethod
    def new(executor: Callable[..., Any]) -> asyncio.Future[Any]:
        future = asyncio.get_running_loop().create_future()

        def resolve(value: Any = None) -> None:
            if not future.done():
                future.set_result(value)

        def reject(reason: Any = None) -> None:
            if not future.done():
                future.set_exception(reason if isinstance(reason, Exception) else RuntimeError(str(reason)))

        try:
            executor(resolve, reject)
        except Exception as error:
            reject(error)
        return future

    @staticmethod
    async def resolve(value: Any = None) -> Any:
        return await value if inspect.isawaitable(value) else value

    @staticmethod
    async def reject(reason: Any = None) -> Any:
        raise reason if isinstance(reason, Exception) else RuntimeError(str(reason))

    @staticmethod
    async def all(items: Iterable[Any]) -> JsList:
        return JsList(await asyncio.gather(*(Promise.resolve(item) for item in items)))

    @staticmethod
    async def allSettled(items: Iterable[Any]) -> JsList:
        results = await asyncio.gather(*(Promise.resolve(item) for item in items), return_exceptions=True)
        return JsList(
            JsDict(status="rejected", reason=result)
            if isinstance(result, BaseException)
            else JsDict(status="fulfilled", value=result)
            for result in results
        )

    @staticmethod
    async def race(items: Iterable[Any]) -> Any:
        tasks = [asyncio.ensure_future(Promise.resolve(item)) for item in items]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        return next(task for task in tasks if task in done).result()
