"""`js.Promise` and what `js.fetch` gives."""

import asyncio
from typing import Any

import pytest

from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.current import WorkerContext, running
from moorage.wrangler_compat.workers.js.errors import JsException
from moorage.wrangler_compat.workers.pyodide.ffi import JsPromise, create_proxy


async def test_then_catch_and_finally() -> None:
    heard: list[Any] = []

    async def double(value: int) -> int:
        return value * 2

    promise = js.Promise.resolve(2)
    assert await promise.then(double).then(lambda value: value + 1) == 5
    assert await promise == 2, "as often as one likes"
    failed = js.Promise.reject("why")
    with pytest.raises(JsException, match="Error: why"):
        await failed.then(lambda value: heard.append(value))
    assert await failed.catch(lambda error: error.message) == "why"
    assert await failed.then(None, lambda error: "second") == "second"
    assert await promise.finally_(lambda: heard.append("end")) == 2
    with pytest.raises(JsException):
        await failed.finally_(lambda: heard.append("end"))
    assert heard == ["end", "end"]


async def test_it_runs_without_anybody_waiting() -> None:
    ran = asyncio.Event()

    async def work() -> None:
        ran.set()

    promise = js.Promise.resolve(work())
    await ran.wait()
    await promise


async def test_a_promise_stands_where_a_coroutine_is_wanted() -> None:
    release = asyncio.Event()

    async def work() -> str:
        await release.wait()
        return "done"

    promise = js.Promise.resolve(work())
    tasks = [asyncio.create_task(promise), asyncio.create_task(promise)]
    cancelled = asyncio.create_task(js.Promise.reject("why"))
    with pytest.raises(JsException, match="why"):
        await cancelled
    await asyncio.sleep(0)
    release.set()
    assert await asyncio.gather(*tasks, promise) == ["done", "done", "done"]
    assert await asyncio.wait_for(promise, 10) == "done"
    waits = js.Promise.new(lambda resolve, reject: None)
    task = asyncio.create_task(waits)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_first_decision_counts() -> None:
    parts = js.Promise.withResolvers()
    parts.resolve(js.Promise.resolve("inner"))
    assert await parts.promise == "inner"
    parts.reject("late")
    parts.resolve("late")
    assert await parts.promise == "inner"
    assert await js.Promise.new(lambda resolve, reject: (resolve(1), reject("late"))) == 1

    def throws(resolve: Any, reject: Any) -> None:
        raise ValueError("thrown")

    with pytest.raises(ValueError, match="thrown"):
        await js.Promise.new(throws)


async def test_of_several() -> None:
    async def fail(text: str) -> None:
        raise js.Error.new(text)

    assert await js.Promise.all([1, js.Promise.resolve(2)]) == [1, 2]
    settled = await js.Promise.allSettled([1, fail("x")])
    assert [entry.status for entry in settled] == ["fulfilled", "rejected"]
    assert settled[1].reason.message == "x"
    assert await js.Promise.any([fail("x"), js.Promise.resolve(3)]) == 3
    with pytest.raises(js.AggregateError) as caught:
        await js.Promise.any([fail("x"), fail("y")])
    assert [error.message for error in caught.value.errors] == ["x", "y"]
    with pytest.raises(js.AggregateError):
        await js.Promise.any([])


async def test_those_who_lose_a_race_go_on() -> None:
    release, ended = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        await release.wait()
        ended.set()

    assert await js.Promise.race([slow(), js.Promise.resolve("fast")]) == "fast"
    release.set()
    await ended.wait()


async def test_failures_of_fetch_are_javascript_errors() -> None:
    promise = js.fetch("http://127.0.0.1:1/")
    assert isinstance(promise, JsPromise)
    with pytest.raises(JsException) as caught:
        await promise
    assert isinstance(caught.value, OSError)
    with pytest.raises(JsException, match="TypeError"):
        await js.fetch("no url")


async def test_a_proxy_of_a_coroutine_is_waited_for() -> None:
    done: list[int] = []

    async def work() -> None:
        done.append(1)

    context = WorkerContext()
    with running(context):
        context.wait_until(create_proxy(work()))
        await context.background.drain()
    assert done == [1]
