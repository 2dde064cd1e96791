"""Timers, microtasks and `performance`."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import time
from collections.abc import Callable
from typing import Any

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
