"""Alarms: durable, never early, found again after a restart, an eviction, and the loss of the index."""

import asyncio
import datetime
import math
import os
import re
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from moorage.durable_objects.runtime import DurableObject, DurableObjectError, Runtime, RuntimeSettings
from moorage.durable_objects.runtime.commitlog import WalSync
from moorage.durable_objects.runtime.storage import alarm_time
from moorage.durable_objects.runtime.testing import ControlledLog, ManualClock, memory_runtime

from .conftest import Make

RAN: list[tuple[str, int, bool]] = []


class Alarmed(DurableObject):
    async def wake(self, moment: int) -> None:
        await self.ctx.storage.setAlarm(moment)

    async def get(self) -> Any:
        return await self.ctx.storage.getAlarm()

    async def cancel(self) -> None:
        await self.ctx.storage.deleteAlarm()

    async def fail(self, times: int) -> None:
        await self.ctx.storage.put("fail", times)

    async def clear(self) -> None:
        await self.ctx.storage.deleteAll()

    async def alarm(self, info: Any) -> None:
        left: int = (await self.ctx.storage.get("fail")) or 0
        RAN.append((str(self.ctx.id.name), info["retryCount"], info.get("isRetry")))
        if left:
            await self.ctx.storage.put("fail", left - 1)
            raise RuntimeError("not yet")


@pytest.fixture(autouse=True)
def _forget() -> None:
    RAN.clear()


def namespace(runtime: Runtime) -> Any:
    return runtime.namespaces["w-Alarmed"]


async def moved(clock: ManualClock, milliseconds: int, *, ran: int = 0) -> None:
    """Moves the clock with a runtime on disk, whose syncs and opens happen in threads; waits for `ran` alarms."""
    await clock.advance(milliseconds)
    end = time.monotonic() + 20
    await asyncio.sleep(0.1)
    await clock.advance(0)
    while len(RAN) < ran and time.monotonic() < end:
        await asyncio.sleep(0.01)
        await clock.advance(0)


async def test_an_alarm_survives_a_restart(on_disk: Make) -> None:
    clock = ManualClock()
    runtime = await on_disk({"Alarmed": Alarmed}, clock=clock)
    await namespace(runtime).getByName("a").wake(clock.now() + 60_000)
    await runtime.close()
    again = await on_disk({"Alarmed": Alarmed}, clock=clock)
    await moved(clock, 59_999)
    assert RAN == []
    await moved(clock, 1, ran=1)
    assert RAN == [("a", 0, False)]
    assert await namespace(again).getByName("a").get() is None


async def test_an_alarm_missed_while_down_fires_at_the_start(on_disk: Make) -> None:
    clock = ManualClock()
    runtime = await on_disk({"Alarmed": Alarmed}, clock=clock)
    await namespace(runtime).getByName("a").wake(clock.now() + 1000)
    await runtime.close()
    later = ManualClock(clock.now() + 10_000_000)
    await on_disk({"Alarmed": Alarmed}, clock=later)
    await moved(later, 0, ran=1)
    assert RAN == [("a", 0, False)]


async def test_a_lost_index_is_read_back_from_the_objects(on_disk: Make, tmp_path: Path) -> None:
    clock = ManualClock()
    runtime = await on_disk({"Alarmed": Alarmed}, clock=clock)
    for number in range(10):
        await namespace(runtime).getByName(f"o{number}").wake(clock.now() + 1000 + number)
    await runtime.close()
    folder = tmp_path / "state" / "do" / "w-Alarmed"
    for path in folder.glob("alarms.sqlite*"):
        path.unlink()
    await on_disk({"Alarmed": Alarmed}, clock=clock)
    await moved(clock, 5000, ran=10)
    assert len(RAN) == 10


@pytest.mark.parametrize("damage", [b"not a database at all" * 500, None])
async def test_a_damaged_index_is_read_back_from_the_objects(
    on_disk: Make, tmp_path: Path, damage: bytes | None
) -> None:
    clock = ManualClock()
    runtime = await on_disk({"Alarmed": Alarmed}, clock=clock)
    await namespace(runtime).getByName("a").wake(clock.now() + 1000)
    await runtime.close()
    path = tmp_path / "state" / "do" / "w-Alarmed" / "alarms.sqlite"
    if damage is None:  # a database whose pages behind the first are rubbish
        whole = path.read_bytes()
        damage = whole[:4096] + b"\xff" * (len(whole) - 4096)
    path.write_bytes(damage)
    again = await on_disk({"Alarmed": Alarmed}, clock=clock)
    await moved(clock, 1000, ran=1)
    assert [retries for _, retries, _ in RAN] == [0]
    assert path.with_name("alarms.sqlite.damaged").read_bytes()[100:] == damage[100:]
    await again.close()


async def test_an_index_that_is_too_early_does_not_fire_early(on_disk: Make, tmp_path: Path) -> None:
    clock = ManualClock()
    runtime = await on_disk({"Alarmed": Alarmed}, clock=clock)
    await namespace(runtime).getByName("a").wake(clock.now() + 100_000)
    await runtime.close()
    index = sqlite3.connect(tmp_path / "state" / "do" / "w-Alarmed" / "alarms.sqlite")
    index.execute("UPDATE _cf_ALARM SET scheduled_time = scheduled_time - 90000 * 1000000")
    index.commit()
    index.close()
    again = await on_disk({"Alarmed": Alarmed}, clock=clock)
    await moved(clock, 20_000)
    assert RAN == []
    assert await namespace(again).getByName("a").get() == 1_700_000_100_000
    await moved(clock, 80_000, ran=1)
    assert len(RAN) == 1


async def test_the_index_is_synced_before_the_object(on_disk: Make) -> None:
    log = ControlledLog()
    order: list[list[str]] = []
    commit = log.commit

    def recorded(files: Any, done: Any) -> None:
        order.append([Path(file.path).name for file in files])
        commit(files, done)

    log.commit = recorded  # type: ignore[method-assign]
    runtime = await on_disk({"Alarmed": Alarmed}, log=log)
    await namespace(runtime).getByName("a").wake(4_102_444_800_000)
    with_alarm = [names for names in order if len(names) == 2]
    assert with_alarm
    assert with_alarm[0][0] == "alarms.sqlite-wal"


async def test_alarms_of_many_objects_fire_in_order(in_memory: Make) -> None:
    runtime = await in_memory({"Alarmed": Alarmed})
    clock: Any = runtime.clock
    for number in reversed(range(50)):
        await namespace(runtime).getByName(f"o{number:02d}").wake(clock.now() + 1000 + number * 10)
    await clock.advance(30_000)
    assert [name for name, _, _ in RAN] == [f"o{number:02d}" for number in range(50)]


async def test_retries_are_counted_and_given_up(in_memory: Make) -> None:
    runtime = await in_memory({"Alarmed": Alarmed})
    clock: Any = runtime.clock
    stub = namespace(runtime).getByName("a")
    await stub.fail(100)
    await stub.wake(clock.now() + 10)
    await clock.advance(400_000)
    assert [("a", number, number > 0) for number in range(7)] == RAN
    assert await clock.run_until(stub.get()) is None


async def test_delete_all_takes_the_alarm_along_or_keeps_it() -> None:
    for takes in (True, False):
        RAN.clear()
        runtime = memory_runtime()
        made = runtime.namespace("w-Alarmed", Alarmed, delete_all_deletes_alarm=takes)
        await runtime.start()
        clock: Any = runtime.clock
        stub = made.getByName("a")
        await stub.wake(clock.now() + 1000)
        await stub.clear()
        await clock.advance(5000)
        assert len(RAN) == (0 if takes else 1)
        await runtime.close()


class Clearing(Alarmed):
    async def alarm(self, info: Any) -> None:
        RAN.append((str(self.ctx.id.name), info.retryCount, info.isRetry))
        await self.ctx.storage.deleteAll()
        assert await self.ctx.storage.getAlarm() is None


async def test_delete_all_in_a_handler_does_not_fire_its_alarm_anew() -> None:
    clock = ManualClock()
    runtime = memory_runtime(clock=clock)
    runtime.namespace("w-Alarmed", Clearing, delete_all_deletes_alarm=False)
    await runtime.start()
    await namespace(runtime).getByName("a").wake(clock.now() + 1000)
    await clock.advance(60_000)
    assert RAN == [("a", 0, False)]
    assert await namespace(runtime).getByName("a").get() is None
    await runtime.close()


NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        (NOW + 0.9, NOW),
        (1.5, NOW),
        (datetime.datetime(2040, 1, 1, 0, 0, 0, 1000, tzinfo=datetime.UTC), 2_208_988_800_001),
        (datetime.datetime(2040, 1, 1, 0, 0, 0, 1999, tzinfo=datetime.UTC), 2_208_988_800_001),
        (datetime.datetime(2262, 4, 11, 23, 47, 16, 853_000, tzinfo=datetime.UTC), 9_223_372_036_853),
    ],
)
def test_times(value: Any, moment: int) -> None:
    assert alarm_time(value, NOW) == moment


def test_every_millisecond_of_a_datetime_counts() -> None:
    start = datetime.datetime(2040, 1, 1, tzinfo=datetime.UTC)
    found = [alarm_time(start + datetime.timedelta(milliseconds=number), NOW) for number in range(1000)]
    assert found == [2_208_988_800_000 + number for number in range(1000)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "<= 0"),
        (0.9, "<= 0"),
        (-5, "<= 0"),
        (math.nan, "not a valid Date"),
        (math.inf, "not a valid Date"),
        (8.64e15, "after 2189"),
        (9_223_372_036_854, "after 2189"),
        (10**400, "after 2189"),
        (datetime.datetime(9999, 1, 1, tzinfo=datetime.UTC), "after 2189"),
        (-8.64e15, "before 1687"),
        (True, "not bool"),
        (None, "not NoneType"),
        ("tomorrow", "not str"),
    ],
)
def test_what_is_no_time(value: Any, text: str) -> None:
    with pytest.raises(TypeError, match=re.escape(text)):
        alarm_time(value, NOW)


class Slow(Alarmed):
    running = most = 0

    async def alarm(self, info: Any) -> None:
        Slow.running += 1
        Slow.most = max(Slow.most, Slow.running)
        await self.ctx.clock.sleep(1)
        Slow.running -= 1
        RAN.append((str(self.ctx.id.name), info.retryCount, info.isRetry))
        if self.ctx.id.name == "a00" and info.retryCount == 0:
            raise RuntimeError("not yet")


async def test_alarms_that_are_due_together_run_in_turn() -> None:
    clock = ManualClock()
    Slow.most = 0
    runtime = memory_runtime(clock=clock, settings=RuntimeSettings(max_open=6))
    runtime.namespace("w-Alarmed", Slow)
    await runtime.start()
    for number in range(20):
        await namespace(runtime).getByName(f"a{number:02}").wake(clock.now() + 1000)
    assert not namespace(runtime).alarms.running
    await clock.advance(2000)
    assert namespace(runtime).alarms.running
    await clock.advance(20_000)
    assert Slow.most == 3 + 1, "a retry does not wait for its turn"
    assert {name for name, _, _ in RAN} == {f"a{number:02}" for number in range(20)}
    assert ("a00", 1, True) in RAN
    assert len(RAN) == 21
    assert not namespace(runtime).alarms.running
    await runtime.close()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="tells files by /proc")
async def test_a_failed_sync_of_the_index_breaks_no_later_alarm(tmp_path: Path) -> None:
    failures = [OSError(5, "the disk is gone"), OSError(5, "the disk is still gone")]

    def sync(descriptor: int) -> None:
        if failures and os.readlink(f"/proc/self/fd/{descriptor}").endswith("alarms.sqlite-wal"):
            raise failures.pop()
        os.fdatasync(descriptor)

    clock = ManualClock()
    runtime = Runtime(tmp_path, clock=clock, log=WalSync(asyncio.get_running_loop(), 2, sync))
    runtime.namespace("w-Alarmed", Alarmed)
    await runtime.start()
    moment = clock.now() + 1000
    kept = []
    for number in range(40):
        try:
            await namespace(runtime).getByName(f"a{number}").wake(moment)
            kept.append(f"a{number}")
            await asyncio.sleep(0.02)
        except DurableObjectError:
            await asyncio.sleep(0.02)  # not promised: the sync failed, or the index was being opened anew
    assert not failures
    assert len(kept) > 20
    assert kept[-1] == "a39"
    await runtime.close()
    again = Runtime(tmp_path, clock=clock)
    again.namespace("w-Alarmed", Alarmed)
    await again.start()
    await moved(clock, 1000)
    while namespace(again).alarms.running:
        await asyncio.sleep(0.01)
    assert set(kept) <= {name for name, _, _ in RAN}
    await again.close()
