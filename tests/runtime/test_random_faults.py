"""Objects that write, wait, raise, abort and sleep in any order, over a disk whose syncs fail at times."""

import asyncio
import errno
import logging
import random
from pathlib import Path
from typing import Any

import pytest

from moorage.durable_objects.runtime import DurableObject, Runtime, RuntimeSettings
from moorage.durable_objects.runtime.commitlog import WalSync, full_sync

OBJECTS = 12
ROUNDS = 30
MODES = 9


class Busy(DurableObject):
    """Counts, and does one more thing."""

    async def add(self, mode: int, delay: int) -> int:
        storage = self.ctx.storage
        count: int = (await storage.get("n") or 0) + 1
        await storage.put("n", count)
        match mode:
            case 1:
                await asyncio.sleep(0.001)
            case 2:
                await storage.sync()
            case 3:
                raise ValueError("after the write")
            case 4:
                self.ctx.abort("after the write")
            case 5:
                await storage.transaction(self._undone)
            case 6:
                await self.ctx.blockConcurrencyWhile(lambda: asyncio.sleep(0.002))
            case 7:
                await storage.setAlarm(self.ctx.clock.now() + delay)
            case 8:
                self.ctx.waitUntil(self._later())
        return count

    async def _undone(self, txn: Any) -> None:
        await txn.put("n", 1_000_000)
        await asyncio.sleep(0.001)
        raise ValueError("in the transaction")

    async def _later(self) -> None:
        await asyncio.sleep(0.003)
        await self.ctx.storage.put("n", await self.ctx.storage.get("n"))

    async def alarm(self) -> None:
        await self.ctx.storage.put("rang", True)

    async def found(self) -> dict[str, Any]:
        storage = self.ctx.storage
        return {
            "n": await storage.get("n") or 0,
            "rang": await storage.get("rang"),
            "alarm": await storage.getAlarm(),
        }


class _Disk:
    """`fdatasync` that fails at times."""

    def __init__(self, chance: random.Random, share: float) -> None:
        self.chance, self.share = chance, share

    def __call__(self, descriptor: int) -> None:
        if self.chance.random() < self.share:
            raise OSError(errno.EIO, "Input/output error")
        full_sync(descriptor)


async def _read(namespace: Any, name: str) -> dict[str, Any]:
    """What the object says; an instance that a failed sync has broken is left behind for a new one."""
    for _ in range(20):
        try:
            async with asyncio.timeout(20):
                found: dict[str, Any] = await namespace.getByName(name).found()
                return found
        except TimeoutError:
            raise
        except Exception:
            await asyncio.sleep(0.01)
    raise AssertionError(f"{name} cannot be reached any more")


@pytest.mark.parametrize("share", [0.0, 0.05], ids=["sound disk", "failing disk"])
@pytest.mark.parametrize("seed", [1, 2])
async def test_nothing_answered_is_lost_and_nobody_waits_for_ever(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, seed: int, share: float
) -> None:
    caplog.set_level(logging.CRITICAL)
    chance = random.Random(seed)
    disk = _Disk(random.Random(seed + 1), share)
    settings = RuntimeSettings(max_open=4, idle_seconds=0.02)
    runtime = Runtime(tmp_path, settings=settings, log=WalSync(asyncio.get_running_loop(), 2, disk))
    busy = runtime.namespace("w-Busy", Busy)
    await runtime.start()
    answered: dict[str, int] = {}
    alarms: set[str] = set()

    async def one(name: str, mode: int, delay: int) -> None:
        try:
            count: int = await busy.getByName(name).add(mode, delay)
        except Exception:
            return
        answered[name] = max(answered.get(name, 0), count)
        if mode == 7:
            alarms.add(name)

    for _ in range(ROUNDS):
        calls = [
            asyncio.ensure_future(
                one(f"o{chance.randrange(OBJECTS)}", chance.randrange(MODES), chance.randrange(1, 60))
            )
            for _ in range(chance.randrange(1, 30))
        ]
        if chance.random() < 0.3:
            chance.choice(calls).cancel()
        _, waiting = await asyncio.wait(calls, timeout=30)
        assert not waiting, "a call is never answered"
    disk.share = 0
    for _ in range(2):  # in the runtime that went through it, and in one that reads the files anew
        for name in {*answered, *alarms}:
            found = await _read(busy, name)
            assert answered[name] <= found["n"] < 1_000_000
            assert name not in alarms or found["rang"] or found["alarm"], "an alarm is lost"
        async with asyncio.timeout(20):
            await runtime.close()
        runtime = Runtime(tmp_path)
        busy = runtime.namespace("w-Busy", Busy)
        await runtime.start()
    await runtime.close()
