"""`pyodide.webloop`: the platform's event loop, on which `run_until_complete` works although the loop is running.

Programs that run a test runner inside a handler need it: every loop that the runner makes is the running one, and
waiting for it is `run_sync`. Importing this module switches that on, for code below a handler only.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any

from .. import switching


class WebLoop:
    """Its name, for programs that patch what older versions of it lack."""


_run = asyncio.Runner.run
_get_loop = asyncio.Runner.get_loop
_enter = asyncio.Runner.__enter__
_close = asyncio.Runner.close


def _nested() -> bool:
    return switching.can_run_sync()


def _runner_run(self: asyncio.Runner, coro: Coroutine[Any, Any, Any], *, context: Context | None = None) -> Any:
    if not _nested():
        return _run(self, coro, context=context)
    task = asyncio.get_running_loop().create_task(coro, context=context)
    return switching.run_sync(task)


def _runner_get_loop(self: asyncio.Runner) -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop() if _nested() else _get_loop(self)


def _runner_enter(self: asyncio.Runner) -> asyncio.Runner:
    return self if _nested() else _enter(self)


def _runner_close(self: asyncio.Runner) -> None:
    if not _nested():
        _close(self)


def _install() -> None:
    replaced: dict[str, Callable[..., Any]] = {
        "run": _runner_run,
        "get_loop": _runner_get_loop,
        "__enter__": _runner_enter,
        "close": _runner_close,
    }
    for name, function in replaced.items():
        setattr(asyncio.Runner, name, function)
    switching.enable()


_install()

__all__ = ["WebLoop"]
