"""The step table of the gate: what resumes, and when, inside and outside a critical section (semantics 3 and 4)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from moorage.durable_objects.runtime import DurableObject, DurableObjectError
from moorage.durable_objects.runtime.outgoing import outgoing

from .conftest import Make

STEPS: list[str] = []
SIDE_EFFECTS: list[str] = []


@pytest.fixture(autouse=True)
def _forget() -> None:
    STEPS.clear()
    SIDE_EFFECTS.clear()


class Gated(DurableObject):
    """`wait` names a way to wait that is ready long before the section of 100 ms ends."""

    def clock(self) -> Any:
        return self.env

    async def _short(self, how: str) -> None:
        loop = asyncio.get_running_loop()
        clock = self.ctx._instance.clock
        match how:
            case "timer":
                await clock.sleep(0.01)
            case "future":
                future = loop.create_future()
                clock.call_later(0.01, lambda: future.set_result(None))
                await future
            case "error":
                future = loop.create_future()
                clock.call_later(0.01, lambda: future.set_exception(KeyError("x")))
                with pytest.raises(KeyError):
                    await future
            case "outgoing":
                await outgoing(lambda: clock.sleep(0.01))
            case "gather":
                await asyncio.gather(clock.sleep(0.01), clock.sleep(0.005))
            case "group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(clock.sleep(0.01))
            case "anyio":
                async with anyio.create_task_group() as group:
                    group.start_soon(clock.sleep, 0.01)
            case "yield":
                await asyncio.sleep(0)

    async def outside(self, how: str) -> None:
        await self._short(how)
        STEPS.append("outside")

    async def inside(self, how: str) -> None:
        async def section() -> None:
            await self._short(how)
            STEPS.append("inside")
            await self.ctx._instance.clock.sleep(0.1)
            STEPS.append("section ends")

        await self.ctx.blockConcurrencyWhile(section)
        STEPS.append("after")

    async def ping(self) -> str:
        STEPS.append("ping")
        return "pong"

    async def cancelled(self) -> str:
        async def section() -> None:
            await self.ctx._instance.clock.sleep(0.1)
            STEPS.append("section ends")

        task = asyncio.ensure_future(self._short("timer"))
        block = self.ctx.blockConcurrencyWhile(section)
        task.cancel()
        await block
        return "cancelled" if task.cancelled() or task.cancelling() else "not cancelled"

    async def abort_with_finally(self) -> None:
        try:
            self.ctx.abort("stop")
        except Exception:
            SIDE_EFFECTS.append("except Exception ran")
        finally:
            try:
                self.ctx.storage.kv.put("in finally", 1)
                SIDE_EFFECTS.append("the put was taken")
            except BaseException:
                SIDE_EFFECTS.append("the put was refused")

    async def swallow_abort(self) -> None:
        try:
            self.ctx.abort("stop")
        except BaseException:
            SIDE_EFFECTS.append("swallowed")
        await asyncio.sleep(0)
        SIDE_EFFECTS.append("went on")

    async def suspended(self) -> None:
        try:
            await self.ctx._instance.clock.sleep(1000)
        finally:
            SIDE_EFFECTS.append("finally of the suspended")
            with pytest.raises(BaseException):  # noqa: B017 - whatever is raised, the door is shut
                await self.ctx.storage.put("x", 1)

    async def write(self, key: str) -> None:
        await self.ctx.storage.put(key, 1)

    async def write_and_abort(self) -> None:
        await self.ctx.storage.put("abort", 1)
        self.ctx.abort("stop")

    async def keys(self) -> list[str]:
        return list(await self.ctx.storage.list())

    async def nest(self, depth: int) -> int:
        async def deeper(left: int) -> int:
            if left == 0:
                return 0
            inner: int = await self.ctx.blockConcurrencyWhile(lambda: deeper(left - 1))
            return inner + 1

        return await deeper(depth)

    async def slow_block(self) -> None:
        await self.ctx.blockConcurrencyWhile(lambda: self.ctx._instance.clock.sleep(40))


WAYS = ["timer", "future", "error", "outgoing", "gather", "group", "anyio", "yield"]


@pytest.fixture
async def gated(in_memory: Make) -> tuple[Any, Callable[[], Any]]:
    runtime = await in_memory({"Gated": Gated})
    return runtime.clock, lambda: runtime.namespaces["w-Gated"].getByName("a")


@pytest.mark.parametrize("how", WAYS)
async def test_code_outside_waits_for_the_section(gated: Any, how: str) -> None:
    clock, stub = gated
    await stub().ping()
    STEPS.clear()
    outside = asyncio.ensure_future(stub().outside(how))
    if how == "yield":
        inside = asyncio.ensure_future(stub().inside("timer"))
    else:
        await asyncio.sleep(0)
        inside = asyncio.ensure_future(stub().inside("yield"))
    await clock.run_until(_both(inside, outside))
    if how != "yield":
        assert STEPS == ["inside", "section ends", "after", "outside"]


@pytest.mark.parametrize("how", WAYS)
async def test_code_inside_goes_on(gated: Any, how: str) -> None:
    clock, stub = gated
    first = asyncio.ensure_future(stub().inside(how))
    await asyncio.sleep(0)
    ping = asyncio.ensure_future(stub().ping())
    await clock.run_until(_both(first, ping))
    assert STEPS == ["inside", "section ends", "after", "ping"]


async def test_events_wait_in_order(gated: Any) -> None:
    clock, stub = gated
    block = asyncio.ensure_future(stub().inside("timer"))
    pings = [asyncio.ensure_future(stub().ping()) for _ in range(50)]
    await clock.run_until(_both(block, *pings))
    assert ["inside", "section ends", "after", *["ping"] * 50] == STEPS


async def test_cancelling_what_waits_at_the_gate(gated: Any) -> None:
    clock, stub = gated
    assert await clock.run_until(stub().cancelled()) == "cancelled"


async def test_abort_lets_no_effect_out(gated: Any) -> None:
    _, stub = gated
    with pytest.raises(DurableObjectError, match="stop"):
        await stub().abort_with_finally()
    assert SIDE_EFFECTS == ["the put was refused"]
    assert await stub().keys() == []


async def test_a_swallowed_abort_ends_at_the_next_wait(gated: Any) -> None:
    clock, stub = gated
    with pytest.raises(DurableObjectError, match="stop"):
        await stub().swallow_abort()
    await clock.advance(1000)
    assert SIDE_EFFECTS == ["swallowed"]


async def test_abort_closes_what_is_suspended(gated: Any) -> None:
    clock, stub = gated
    suspended = asyncio.ensure_future(stub().suspended())
    await clock.advance(1)
    with pytest.raises(DurableObjectError, match="stop"):
        await stub().write_and_abort()
    with pytest.raises(DurableObjectError, match="stop"):
        await suspended
    await clock.advance(1)
    assert SIDE_EFFECTS == ["finally of the suspended"]


async def test_three_writers_and_one_abort_in_one_iteration(gated: Any) -> None:
    """They share a transaction; none of them is acknowledged, none is kept."""
    _, stub = gated
    await stub().ping()
    answers = await asyncio.gather(
        stub().write("a"), stub().write("b"), stub().write_and_abort(), stub().write("c"), return_exceptions=True
    )
    assert all(isinstance(answer, DurableObjectError) for answer in answers)
    assert await stub().keys() == []


async def test_nesting_ends_at_64(gated: Any) -> None:
    clock, stub = gated
    assert await clock.run_until(stub().nest(63)) == 63
    with pytest.raises(DurableObjectError, match="nested too deeply"):
        await clock.run_until(stub().nest(70))


async def test_a_block_longer_than_30_seconds_resets(gated: Any) -> None:
    clock, stub = gated
    with pytest.raises(DurableObjectError, match="waited for too long") as raised:
        await clock.run_until(stub().slow_block())
    assert raised.value.overloaded
    assert raised.value.durableObjectReset
    assert await stub().ping() == "pong"


async def test_a_cancelled_caller_does_not_cancel_the_event(gated: Any) -> None:
    clock, stub = gated
    call = asyncio.ensure_future(stub().outside("timer"))
    await clock.advance(1)
    call.cancel()
    await clock.advance(1000)
    assert STEPS == ["outside"]


async def _both(*awaitables: Awaitable[Any]) -> Any:
    return await asyncio.gather(*awaitables)
