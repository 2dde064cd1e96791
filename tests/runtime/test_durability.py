"""Nothing leaves before it is durable; what is acknowledged survives; what cannot be kept resets the object."""

import asyncio
import errno
import gc
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from moorage.durable_objects.runtime import DurableObject, DurableObjectError, RuntimeSettings
from moorage.durable_objects.runtime.commitlog import WalFile, WalSync
from moorage.durable_objects.runtime.testing import ControlledLog

from .conftest import Make


class Counter(DurableObject):
    async def add(self, by: int = 1) -> int:
        count: int = (await self.ctx.storage.get("n")) or 0
        await self.ctx.storage.put("n", count + by)
        return count + by

    async def read(self) -> Any:
        return await self.ctx.storage.get("n")

    async def unconfirmed(self) -> None:
        await self.ctx.storage.put("n", 1, {"allowUnconfirmed": True})

    async def fail_after_write(self) -> None:
        await self.ctx.storage.put("n", 5)
        raise ValueError("after the write")

    async def alarm(self) -> None: ...

    async def wake(self, moment: int) -> None:
        await self.ctx.storage.setAlarm(moment)


def counters(runtime: Any) -> Any:
    return runtime.namespaces["w-Counter"]


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_an_answer_waits_for_the_sync(on_disk: Make) -> None:
    log = ControlledLog()
    runtime = await on_disk({"Counter": Counter}, log=log)
    stub = counters(runtime).getByName("a")
    await stub.read()
    log.hold()
    answer = asyncio.ensure_future(stub.add())
    await turns()
    assert not answer.done(), "a write was answered before its sync"
    log.release()
    assert await answer == 1


async def test_a_read_of_an_undurable_write_waits_too(on_disk: Make) -> None:
    log = ControlledLog()
    runtime = await on_disk({"Counter": Counter}, log=log)
    stub = counters(runtime).getByName("a")
    await stub.read()
    log.hold()
    write = asyncio.ensure_future(stub.add())
    await turns()
    read = asyncio.ensure_future(stub.read())
    await turns()
    assert not read.done()
    log.release()
    assert (await write, await read) == (1, 1)


async def test_an_error_waits_as_well(on_disk: Make) -> None:
    log = ControlledLog()
    runtime = await on_disk({"Counter": Counter}, log=log)
    stub = counters(runtime).getByName("a")
    await stub.read()
    log.hold()
    answer = asyncio.ensure_future(stub.fail_after_write())
    await turns()
    assert not answer.done()
    log.release()
    with pytest.raises(ValueError, match="after the write"):
        await answer
    assert await stub.read() == 5


async def test_an_unconfirmed_write_does_not_hold_the_answer(on_disk: Make) -> None:
    log = ControlledLog()
    runtime = await on_disk({"Counter": Counter}, log=log)
    stub = counters(runtime).getByName("a")
    await stub.read()
    log.hold()
    await asyncio.wait_for(stub.unconfirmed(), 5)
    log.release()


async def test_events_of_one_iteration_share_a_sync(on_disk: Make) -> None:
    log = ControlledLog()
    runtime = await on_disk({"Counter": Counter}, log=log)
    stub = counters(runtime).getByName("a")
    await stub.read()
    before = log.commits
    answers = await asyncio.gather(*(stub.add() for _ in range(32)))
    assert sorted(answers) == list(range(1, 33))
    assert log.commits - before == 1


@pytest.mark.parametrize("error", [OSError(errno.EIO, "input/output error"), OSError(errno.ENOSPC, "no space left")])
async def test_a_failed_sync_answers_with_an_error_and_resets(on_disk: Make, error: OSError) -> None:
    log = ControlledLog()
    runtime = await on_disk({"Counter": Counter}, log=log)
    stub = counters(runtime).getByName("a")
    assert await stub.add() == 1
    log.fail(error)
    answers = await asyncio.gather(stub.add(), stub.add(), return_exceptions=True)
    for answer in answers:
        assert isinstance(answer, DurableObjectError)
        assert answer.durableObjectReset
        assert "could not be made durable" in str(answer)
    with pytest.raises(DurableObjectError):
        await stub.add()  # the stub is bound to the dead instance
    fresh = counters(runtime).getByName("a")
    assert await fresh.read() >= 1, "an acknowledged write is gone"
    assert await fresh.add(10) >= 11


async def test_after_a_failed_sync_the_descriptor_is_never_trusted_again(tmp_path: Path) -> None:
    calls = []

    def sync(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 1:
            raise OSError(errno.EIO, "input/output error")

    path = tmp_path / "x-wal"
    path.write_bytes(b"x")
    log = WalSync(asyncio.get_running_loop(), 1, sync)
    file = WalFile(str(path))
    results: list[Any] = []
    for _ in range(3):
        done = asyncio.get_running_loop().create_future()
        log.commit((file,), done.set_result)
        results.append(await done)
    assert all(isinstance(result, OSError) for result in results)
    assert len(calls) == 1
    released = asyncio.get_running_loop().create_future()
    log.release(file, released.set_result)
    await released
    await log.close()


async def test_a_power_cut_keeps_what_was_acknowledged(on_disk: Make, tmp_path: Path) -> None:
    log = ControlledLog()
    runtime = await on_disk({"Counter": Counter}, log=log)
    stub = counters(runtime).getByName("a")
    acknowledged = [await stub.add() for _ in range(5)][-1]
    log.hold()
    lost = asyncio.ensure_future(stub.add())
    await turns()
    image = tmp_path / "image"
    log.image_after_power_cut(tmp_path / "state", image)
    log.release()
    assert await lost == acknowledged + 1
    again = await on_disk({"Counter": Counter}, folder=image)
    assert await counters(again).getByName("a").read() == acknowledged


async def test_values_survive_close_and_reopen(on_disk: Make) -> None:
    runtime = await on_disk({"Counter": Counter})
    for number in range(20):
        await counters(runtime).getByName(f"object {number}").add(number + 1)
    await runtime.close()
    again = await on_disk({"Counter": Counter})
    for number in range(20):
        assert await counters(again).getByName(f"object {number}").read() == number + 1


async def test_more_objects_than_may_be_open(on_disk: Make) -> None:
    runtime = await on_disk({"Counter": Counter}, settings=RuntimeSettings(max_open=8))
    for number in range(60):
        assert await counters(runtime).getByName(f"o{number}").add() == 1
        assert len(counters(runtime).live) <= 9
    for number in range(60):
        assert await counters(runtime).getByName(f"o{number}").add() == 2


async def test_no_descriptor_is_left_behind(on_disk: Make) -> None:
    gc.collect()
    before = len(os.listdir("/dev/fd"))
    runtime = await on_disk({"Counter": Counter}, settings=RuntimeSettings(max_open=4))
    for number in range(30):
        await counters(runtime).getByName(f"o{number}").add()
    await runtime.close()
    gc.collect()
    assert len(os.listdir("/dev/fd")) <= before + 1


async def test_eviction_with_a_commit_queued_fails_nothing(on_disk: Make) -> None:
    runtime = await on_disk({"Counter": Counter}, settings=RuntimeSettings(max_open=2))
    names = [f"o{number % 6}" for number in range(300)]
    answers = await asyncio.gather(*(counters(runtime).getByName(name).add() for name in names))
    assert len(answers) == 300
    for number in range(6):
        assert await counters(runtime).getByName(f"o{number}").read() == 50


async def test_the_file_is_a_database_others_can_read(on_disk: Make, tmp_path: Path) -> None:
    runtime = await on_disk({"Counter": Counter})
    namespace = counters(runtime)
    await namespace.getByName("a").add(7)
    await runtime.close()
    path = tmp_path / "state" / "do" / "w-Counter" / f"{namespace.idFromName('a')}.sqlite"
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT key FROM _cf_KV").fetchall() == [("n",)]
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    assert not Path(f"{path}-wal").exists()


async def test_an_unreadable_file_fails_its_object_alone(on_disk: Make, tmp_path: Path) -> None:
    runtime = await on_disk({"Counter": Counter})
    namespace = counters(runtime)
    folder = tmp_path / "state" / "do" / "w-Counter"
    (folder / f"{namespace.idFromName('bad')}.sqlite").write_bytes(b"this is no database" * 300)
    with pytest.raises(Exception, match="not a database"):
        await namespace.getByName("bad").add()
    assert await namespace.getByName("good").add() == 1


async def test_storage_from_a_foreign_thread_is_refused(on_disk: Make) -> None:
    class Threaded(DurableObject):
        async def wrong(self) -> str:
            try:
                await asyncio.to_thread(self.ctx.storage.kv.put, "a", 1)
            except RuntimeError as error:
                return str(error)
            return "allowed"

    runtime = await on_disk({"Threaded": Threaded})
    assert "event loop's thread" in await runtime.namespaces["w-Threaded"].getByName("a").wrong()


async def test_a_file_that_cannot_be_made_durable_stays_shut(on_disk: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from moorage.durable_objects.runtime.database import Database

    log = ControlledLog()
    runtime = await on_disk({"Counter": Counter}, log=log)
    stub = counters(runtime).getByName("a")
    assert await stub.add() == 1
    close, refusals = Database._close_file, 2

    def refused(database: Database) -> None:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise OSError(errno.EIO, "input/output error")
        close(database)

    monkeypatch.setattr(Database, "_close_file", refused)
    log.fail(OSError(errno.EIO, "input/output error"))
    with pytest.raises(DurableObjectError, match="could not be made durable"):
        await stub.add()
    with pytest.raises(OSError, match="input/output"):
        await counters(runtime).getByName("a").read()
    assert await counters(runtime).getByName("a").read() >= 1


async def test_a_stop_lets_background_work_finish(on_disk: Make) -> None:
    class Late(DurableObject):
        async def start(self) -> None:
            async def work() -> None:
                await asyncio.sleep(0.1)
                await self.ctx.storage.put("done", True)

            self.ctx.waitUntil(work())

        async def done(self) -> Any:
            return await self.ctx.storage.get("done")

    runtime = await on_disk({"Late": Late})
    await runtime.namespaces["w-Late"].getByName("a").start()
    assert await runtime.quiet(5)
    await runtime.close()
    again = await on_disk({"Late": Late})
    assert await again.namespaces["w-Late"].getByName("a").done() is True
