"""Object code that does what it should not: nobody waits for ever, nothing half is kept, the runtime goes on."""

import asyncio
import gc
import re
from typing import Any

import pytest

from moorage.durable_objects.runtime import DurableObject, DurableObjectError, RuntimeSettings, undefined
from moorage.durable_objects.runtime.testing import ManualClock, settle

from .conftest import Make


class Hostile(DurableObject):
    """Each method misbehaves in one way."""

    async def count(self) -> int:
        seen: int = (await self.ctx.storage.get("n")) or 0
        await self.ctx.storage.put("n", seen + 1)
        return seen + 1

    async def read(self) -> Any:
        return await self.ctx.storage.get("n")

    async def cancelled_task(self) -> None:
        task = asyncio.create_task(asyncio.sleep(1000))
        await asyncio.sleep(0)
        task.cancel()
        await task

    async def raises_cancelled(self) -> None:
        await self.ctx.storage.put("n", 77)
        raise asyncio.CancelledError

    async def aborts(self, reason: Any = None) -> None:
        self.ctx.abort(reason)

    async def exits(self) -> None:
        raise SystemExit(3)

    async def transaction_cancelled(self) -> None:
        async def closure(txn: Any) -> None:
            await txn.put("n", 99)
            raise asyncio.CancelledError

        await self.ctx.storage.transaction(closure)

    async def transaction_left(self) -> None:
        async def closure(txn: Any) -> None:
            await txn.put("n", 99)
            await asyncio.sleep(1000)

        async with asyncio.timeout(0.01):
            await self.ctx.storage.transaction(closure)

    async def block_cancelled(self) -> None:
        async def section() -> None:
            raise asyncio.CancelledError

        await self.ctx.blockConcurrencyWhile(section)

    async def groups(self) -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.count()) for _ in range(50)]
        return sorted(task.result() for task in tasks)

    async def group_that_fails(self) -> None:
        async def fail() -> None:
            raise ValueError("one of them")

        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(1000))
            group.create_task(fail())

    async def in_thread(self) -> int:
        return await asyncio.to_thread(sum, range(1000))

    async def storage_in_thread(self) -> Any:
        return await asyncio.to_thread(self.ctx.storage.kv.put, "n", 1)

    async def gathers(self) -> list[int]:
        return list(await asyncio.gather(*(self.count() for _ in range(20))))

    async def alarm(self) -> None:
        raise asyncio.CancelledError

    async def wake(self, moment: int) -> None:
        await self.ctx.storage.setAlarm(moment)

    async def left_section(self, seconds: float) -> None:
        async def section() -> None:
            await self.ctx.clock.sleep(seconds)
            await self.ctx.storage.put("n", 5)

        self.ctx.blockConcurrencyWhile(section)


def stub_of(runtime: Any, name: str = "a") -> Any:
    return runtime.namespaces["w-Hostile"].getByName(name)


async def soon(awaitable: Any) -> Any:
    async with asyncio.timeout(5):
        return await awaitable


@pytest.mark.parametrize("method", ["cancelled_task", "raises_cancelled", "transaction_cancelled", "block_cancelled"])
async def test_a_cancellation_inside_reaches_the_caller_as_an_error(on_disk: Make, method: str) -> None:
    runtime = await on_disk({"Hostile": Hostile})
    with pytest.raises(DurableObjectError, match=r"(?i)cancel"):
        await soon(getattr(stub_of(runtime), method)())
    assert await soon(stub_of(runtime).read()) in (None, 77)
    assert await soon(stub_of(runtime).count()) in (1, 78)


async def test_a_cancelled_transaction_is_undone(on_disk: Make) -> None:
    runtime = await on_disk({"Hostile": Hostile})
    with pytest.raises(DurableObjectError):
        await soon(stub_of(runtime).transaction_cancelled())
    assert await soon(stub_of(runtime).read()) is None
    instance = next(iter(runtime.namespaces["w-Hostile"].live.values()))
    assert not instance.database.in_transaction


async def test_exit_ends_the_call_and_not_the_server(on_disk: Make) -> None:
    runtime = await on_disk({"Hostile": Hostile})
    with pytest.raises(DurableObjectError, match="SystemExit"):
        await soon(stub_of(runtime).exits())
    assert await soon(stub_of(runtime).count()) == 1


async def test_a_caller_that_goes_away_leaves_nothing_behind(on_disk: Make) -> None:
    runtime = await on_disk({"Hostile": Hostile})
    for _ in range(50):
        call = asyncio.ensure_future(stub_of(runtime).groups())
        await asyncio.sleep(0)
        call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await soon(stub_of(runtime).groups()) == list(range(2501, 2551))
    instance = next(iter(runtime.namespaces["w-Hostile"].live.values()))
    for _ in range(50):  # an answer leaves a step before its task has ended
        await asyncio.sleep(0)
    assert (instance.active, len(instance.answers), len(instance.tasks)) == (0, 0, 0)


async def test_task_groups_threads_and_gather(on_disk: Make) -> None:
    runtime = await on_disk({"Hostile": Hostile})
    stub = stub_of(runtime)
    assert await soon(stub.groups()) == list(range(1, 51))
    assert await soon(stub.gathers()) == list(range(51, 71))
    assert await soon(stub.in_thread()) == 499_500
    with pytest.raises(Exception, match=r"one of them|TaskGroup"):
        await soon(stub.group_that_fails())
    with pytest.raises(RuntimeError, match="thread"):
        await soon(stub.storage_in_thread())
    assert await soon(stub.read()) == 70


class Broken(DurableObject):
    fail: Any = ValueError("the constructor")

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        if self.fail is not None:
            ctx.storage.kv.put("half", 1)
            raise self.fail

    async def half(self) -> Any:
        return await self.ctx.storage.get("half")


@pytest.mark.parametrize("error", [ValueError("the constructor"), asyncio.CancelledError(), SystemExit(1)], ids=repr)
async def test_a_constructor_that_fails_keeps_nothing(
    on_disk: Make, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    runtime = await on_disk({"Broken": Broken})
    broken = runtime.namespaces["w-Broken"]
    monkeypatch.setattr(Broken, "fail", error)
    for _ in range(3):
        with pytest.raises(Exception, match=r"(?i)the constructor|cancel|SystemExit"):
            await soon(broken.getByName("a").half())
    monkeypatch.setattr(Broken, "fail", None)
    assert await soon(broken.getByName("a").half()) is None


async def test_an_alarm_whose_handler_is_cancelled_is_retried(in_memory: Make) -> None:
    clock = ManualClock()
    runtime = await in_memory({"Hostile": Hostile}, clock=clock)
    await stub_of(runtime).wake(clock.now() + 1000)
    await clock.advance(1000)
    scheduler = runtime.namespaces["w-Hostile"].alarms
    assert not scheduler.running, "the alarm hangs"
    assert scheduler._runs, "the alarm is not retried"


async def test_an_open_section_keeps_the_object(in_memory: Make) -> None:
    clock = ManualClock()
    runtime = await in_memory({"Hostile": Hostile}, clock=clock)
    await stub_of(runtime).left_section(20)
    await clock.advance(15_000)
    assert runtime.namespaces["w-Hostile"].live, "evicted in the middle of a critical section"
    await clock.advance(5_000)
    assert await stub_of(runtime).read() == 5
    await clock.advance(11_000)
    assert not runtime.namespaces["w-Hostile"].live, "never evicted again"


async def test_a_close_answers_those_who_wait(on_disk: Make) -> None:
    class Slow(DurableObject):
        async def wait(self) -> None:
            await asyncio.sleep(1000)

    runtime = await on_disk({"Slow": Slow})
    call = asyncio.ensure_future(runtime.namespaces["w-Slow"].getByName("a").wait())
    await asyncio.sleep(0.05)
    await soon(runtime.close())
    with pytest.raises(DurableObjectError, match="clos"):
        await soon(call)


async def test_a_close_while_objects_are_opening(on_disk: Make) -> None:
    runtime = await on_disk({"Hostile": Hostile})
    calls = [asyncio.ensure_future(stub_of(runtime, str(number)).count()) for number in range(20)]
    await asyncio.sleep(0)
    await soon(runtime.close())
    ended = await soon(asyncio.gather(*calls, return_exceptions=True))
    assert all(isinstance(answer, DurableObjectError | int) for answer in ended)
    again = await on_disk({"Hostile": Hostile})
    for number, answer in enumerate(ended):
        first = answer if isinstance(answer, int) else 0
        assert await soon(stub_of(again, str(number)).count()) > first


async def test_more_objects_at_once_than_may_be_open(on_disk: Make) -> None:
    runtime = await on_disk({"Hostile": Hostile}, settings=RuntimeSettings(max_open=20))
    most = 0

    async def one(number: int) -> int:
        nonlocal most
        answer: int = await stub_of(runtime, str(number)).count()
        most = max(most, sum(instance.database.connection is not None for instance in runtime._open))
        return answer

    assert set(await asyncio.gather(*(one(number) for number in range(300)))) == {1}
    assert most <= 20, "the limit of open files is none"
    assert set(await asyncio.gather(*(one(number) for number in range(300)))) == {2}


async def test_calls_leave_nothing_behind(on_disk: Make) -> None:
    runtime = await on_disk({"Hostile": Hostile})
    stub = stub_of(runtime)
    for _ in range(200):
        await stub.count()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(5000):
        await stub.count()
        await stub_of(runtime).read()
    await settle()
    gc.collect()
    assert len(gc.get_objects()) - before < 200
    instance = next(iter(runtime.namespaces["w-Hostile"].live.values()))
    for _ in range(50):
        await asyncio.sleep(0)
    assert (instance.active, len(instance.answers), len(instance.tasks)) == (0, 0, 0)


class Undone(DurableObject):
    """Goes on after SQLite undid the transaction: `OR ROLLBACK` does what a disk that fails in the middle does."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS t(a UNIQUE)")

    async def implicit(self) -> None:
        self._spoil()
        self.ctx.storage.sql.exec("INSERT INTO t VALUES (3)")

    async def by_key(self) -> None:
        self._spoil()
        await self.ctx.storage.put("half", 1)

    async def quietly(self) -> str:
        self._spoil()
        return "never told"

    async def explicit(self) -> None:
        async def closure(txn: Any) -> None:
            self._spoil()

        await self.ctx.storage.transaction(closure)

    async def nested(self) -> None:
        self.ctx.storage.transactionSync(lambda: self._spoil(swallow=False))

    def _spoil(self, *, swallow: bool = True) -> None:
        self.ctx.storage.sql.exec("INSERT INTO t VALUES (1)")
        try:
            self.ctx.storage.sql.exec("INSERT OR ROLLBACK INTO t VALUES (1)")
        except Exception:
            if not swallow:
                raise

    async def found(self) -> Any:
        return [self.ctx.storage.sql.exec("SELECT * FROM t").toArray(), await self.ctx.storage.get("half")]

    async def works(self) -> Any:
        self.ctx.storage.sql.exec("INSERT INTO t VALUES (7)")
        return self.ctx.storage.sql.exec("SELECT a FROM t").toArray()


@pytest.mark.parametrize("method", ["implicit", "by_key", "quietly", "explicit", "nested"])
async def test_a_transaction_that_sqlite_undid_is_kept_by_no_half(on_disk: Make, method: str) -> None:
    runtime = await on_disk({"Undone": Undone})
    undone = runtime.namespaces["w-Undone"]
    with pytest.raises(Exception, match=r"undid|internal error|UNIQUE"):
        await soon(getattr(undone.getByName("a"), method)())
    assert await soon(undone.getByName("a").found()) == [[], None]
    assert await soon(undone.getByName("a").works()) == [{"a": 7}]


@pytest.mark.parametrize("value", [{(1, 2): 3}, {(1, 2)}, {frozenset({1}): 2}, [{"a": {frozenset()}}]], ids=repr)
async def test_what_could_not_be_read_back_is_not_stored(in_memory: Make, value: Any) -> None:
    """A tuple comes back as a list: as a key, or in a set, it would make the stored value unreadable for ever."""

    class Keeper(DurableObject):
        async def keep(self, place: str) -> Any:
            if place == "kv":
                self.ctx.storage.kv.put("bad", value)
            elif place == "put":
                await self.ctx.storage.put("bad", value)
            return value

        async def everything(self) -> Any:
            return await self.ctx.storage.list()

    runtime = await in_memory({"Keeper": Keeper})
    keeper = runtime.namespaces["w-Keeper"].getByName("a")
    for place in ("kv", "put", "answer"):
        with pytest.raises(Exception, match="neither a key of a dict nor a member of a set"):
            await keeper.keep(place)
    with pytest.raises(Exception, match="neither a key of a dict nor a member of a set"):
        await keeper.keep(value)
    assert await keeper.everything() == {}


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (None, "Application called abort() to reset Durable Object."),
        (undefined, "Application called abort() to reset Durable Object."),
        ("why", "why"),
        ("", ""),
        (5.0, "5"),
        (ValueError("why"), "why"),
    ],
)
async def test_what_callers_of_an_aborted_object_get(in_memory: Make, reason: Any, text: str) -> None:
    runtime = await in_memory({"Hostile": Hostile})
    with pytest.raises((DurableObjectError, ValueError), match=rf"\A{re.escape(text)}\Z") as caught:
        await runtime.namespaces["w-Hostile"].getByName("a").aborts(reason)
    assert vars(caught.value)["durableObjectReset"] is True
