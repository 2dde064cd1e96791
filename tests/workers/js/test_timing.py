"""Timers, promises and aborting (spec python-workers-api 1 and 6)."""

import asyncio
from typing import Any

import pytest

from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.pyodide.ffi import (
    JsException,
    create_proxy,
)


async def test_timers() -> None:
    events: list[Any] = []
    finished = asyncio.Event()

    async def last(value: Any) -> None:
        events.append(value)
        finished.set()

    js.clearTimeout(js.setTimeout(events.append, 0, "cancelled"))
    js.queueMicrotask(lambda: events.append("micro"))
    ticks: list[int] = []
    number = 0

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 3:
            js.clearInterval(number)
            js.setTimeout(last, 0, "last")

    number = js.setInterval(tick, 0)
    await finished.wait()
    assert events == ["micro", "last"]


async def test_promises() -> None:
    async def value(number: int) -> int:
        return number

    assert await js.Promise.all([value(1), 2]) == [1, 2]
    assert await js.Promise.resolve(5) == 5
    settled = await js.Promise.allSettled([value(1), js.Promise.reject(ValueError("x"))])
    assert [entry.status for entry in settled] == ["fulfilled", "rejected"]
    assert await js.Promise.new(lambda resolve, reject: resolve("made")) == "made"
    assert await js.Promise.race([value(1), asyncio.sleep(10)]) == 1


async def test_abort() -> None:
    controller = js.AbortController.new()
    seen: list[Any] = []
    controller.signal.addEventListener("abort", create_proxy(lambda event: seen.append(event.type)))
    both = js.AbortSignal.any([controller.signal])
    controller.abort("why")
    controller.abort("again")
    assert (seen, controller.signal.reason, both.aborted) == (["abort"], "why", True)
    with pytest.raises(JsException, match="AbortError: why"):
        both.throwIfAborted()
    timeout = js.AbortSignal.timeout(0)
    await timeout.wait()
    with pytest.raises(JsException, match="TimeoutError"):
        timeout.throwIfAborted()
