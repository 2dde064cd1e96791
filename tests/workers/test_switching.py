"""`run_sync` by stack switching (spec python-workers-api 6)."""

import asyncio
import contextvars
import inspect
from typing import Any

import anyio
import pytest

from moorage.wrangler_compat.workers import switching
from moorage.wrangler_compat.workers.switching import Switchable, can_run_sync, run_sync, run_with_greenlet

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


async def later(value: Any, steps: int = 1) -> Any:
    for _ in range(steps):
        await asyncio.sleep(0)
    return value


async def failing() -> None:
    await asyncio.sleep(0)
    raise ZeroDivisionError("inner")


def nested(depth: int) -> int:
    return run_sync(later(1, 2)) if depth == 0 else nested(depth - 1) + 1


async def test_synchronous_code_waits_in_the_middle_of_a_coroutine() -> None:
    async def handler() -> list[Any]:
        first = run_sync(later("a", 3))
        second = await later("b")
        return [first, second, nested(5), run_sync(later("c"))]

    assert await run_with_greenlet(handler) == ["a", "b", 6, "c"]


async def test_others_run_meanwhile() -> None:
    events: list[str] = []

    async def one() -> None:
        events.append("one starts")
        run_sync(asyncio.sleep(0))
        run_sync(asyncio.sleep(0))
        events.append("one ends")

    async def two() -> None:
        events.append("two")

    await asyncio.gather(Switchable(one()), two())
    assert events == ["one starts", "two", "one ends"]


async def test_errors_come_out_where_they_belong() -> None:
    async def handler() -> str:
        with pytest.raises(ZeroDivisionError, match="inner"):
            run_sync(failing())
        return "caught"

    assert await run_with_greenlet(handler) == "caught"
    with pytest.raises(ZeroDivisionError, match="inner"):
        await run_with_greenlet(failing)


async def test_futures_and_tasks_and_finished_ones() -> None:
    async def handler() -> list[Any]:
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_result, 1)
        done = asyncio.get_running_loop().create_future()
        done.set_result(3)
        return [run_sync(future), run_sync(asyncio.ensure_future(later(2))), run_sync(done)]

    assert await run_with_greenlet(handler) == [1, 2, 3]


async def test_the_task_and_its_context_stay_the_same() -> None:
    variable.set("outer")
    task = asyncio.current_task()

    async def handler() -> list[Any]:
        seen = [asyncio.current_task() is task, variable.get()]
        variable.set("inner")
        run_sync(asyncio.sleep(0))
        return [*seen, asyncio.current_task() is task, variable.get()]

    assert await run_with_greenlet(handler) == [True, "outer", True, "inner"]
    assert variable.get() == "inner"


async def test_a_task_that_a_handler_starts_may_wait_as_well() -> None:
    async def child() -> Any:
        return run_sync(later("child"))

    async def handler() -> Any:
        return await asyncio.create_task(child())

    assert await run_with_greenlet(handler) == "child"


async def test_a_task_may_wait_after_the_factory_was_set_again() -> None:
    """A host that loads its Workers again does so, on the same loop."""

    async def inner() -> str:
        return run_sync(asyncio.sleep(0, "waited"))

    async def handler() -> str:
        return await asyncio.create_task(inner())

    loop = asyncio.get_running_loop()
    for _ in range(3):
        loop.set_task_factory(lambda loop, coroutine, **options: asyncio.Task(coroutine, loop=loop, **options))
        assert await Switchable(handler()) == "waited"
    loop.set_task_factory(None)


async def test_timeouts_and_cancellation_reach_synchronous_code() -> None:
    events: list[str] = []

    def waits() -> None:
        try:
            run_sync(asyncio.get_running_loop().create_future())
        finally:
            events.append("cleaned up")

    async def handler() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):  # noqa: ASYNC100
                waits()
        waits()

    task = asyncio.ensure_future(Switchable(handler()))
    for _ in range(20):
        await asyncio.sleep(0)
    assert events == ["cleaned up"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events == ["cleaned up", "cleaned up"]


async def test_run_sync_inside_run_sync() -> None:
    async def inner() -> Any:
        return run_sync(later("deep"))

    async def handler() -> Any:
        return run_sync(inner())

    assert await run_with_greenlet(handler) == "deep"


async def test_one_switchable_inside_another() -> None:
    async def inner() -> Any:
        return run_sync(later("x", 2))

    async def handler() -> Any:
        return [await Switchable(inner()), run_sync(later("y"))]

    assert await run_with_greenlet(handler) == ["x", "y"]


async def test_where_it_cannot_work_it_says_so() -> None:
    assert not can_run_sync()
    with pytest.raises(RuntimeError, match="Cannot stack switch"):
        run_sync(later(1))
    with pytest.raises(TypeError, match="awaitable, not int"):
        run_sync(5)  # type: ignore[arg-type]

    async def handler() -> bool:
        return can_run_sync()

    assert await run_with_greenlet(handler)


async def test_closing_one_that_waits_runs_its_clean_up() -> None:
    events: list[str] = []

    async def handler() -> None:
        try:
            run_sync(asyncio.get_running_loop().create_future())
        finally:
            events.append("closed")

    coroutine = Switchable(handler())
    coroutine.send(None)
    coroutine.close()
    assert events == ["closed"]
    Switchable(handler()).close()


async def test_many_at_once() -> None:
    async def handler(number: int) -> int:
        return sum(run_sync(later(number, number % 7)) for _ in range(3))

    results = await asyncio.gather(*(run_with_greenlet(handler, number) for number in range(200)))
    assert results == [3 * number for number in range(200)]


def test_importing_run_sync_switches_it_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switching, "enabled", False)
    from moorage.wrangler_compat.workers.pyodide.ffi import run_sync as imported

    assert imported is run_sync
    assert switching.enabled
    coroutine = later(1)
    wrapped = switching.wrap(coroutine)
    assert isinstance(wrapped, Switchable)
    assert switching.wrap(wrapped) is wrapped
    wrapped.close()


async def test_it_looks_like_the_coroutine_that_it_drives() -> None:
    coroutine = Switchable(later(1))
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED
    assert coroutine.__name__ == "later"
    coroutine.send(None)
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_SUSPENDED
    coroutine.close()
    assert inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED
    with pytest.raises(AttributeError):
        coroutine.other  # noqa: B018


async def test_cancel_scopes_of_anyio_reach_tasks_that_wait() -> None:
    ended: list[str] = []

    async def waits(how: str) -> None:
        try:
            if how == "await":
                await asyncio.get_running_loop().create_future()
            else:
                run_sync(asyncio.get_running_loop().create_future())
        finally:
            ended.append(how)

    async def handler() -> str:
        async with anyio.create_task_group() as group:
            group.start_soon(waits, "await")
            group.start_soon(waits, "run_sync")
            await asyncio.sleep(0)
            group.cancel_scope.cancel()
        return "left"

    assert await asyncio.wait_for(run_with_greenlet(handler), 5) == "left"
    assert sorted(ended) == ["await", "run_sync"]
