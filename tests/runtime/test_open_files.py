"""The limit of open files: who waits, when it is passed, and what must not keep a file open."""

import asyncio
import gc
import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from moorage.durable_objects.runtime import DurableObject, DurableObjectError, Runtime, RuntimeSettings
from moorage.durable_objects.runtime import runtime as runtime_module

from .conftest import Make


class Reader(DurableObject):
    """Keeps readers open that nobody reads to their end."""

    async def look(self) -> Any:
        sql = self.ctx.storage.sql
        sql.exec("CREATE TABLE IF NOT EXISTS t(a)")
        sql.exec("INSERT INTO t VALUES (1), (2), (3)")
        await self.ctx.storage.put({"a": 1, "b": 2})
        await self.ctx.storage.sync()
        self.cursor = sql.exec("SELECT a FROM t")
        self.pairs = self.ctx.storage.kv.list()
        return [self.cursor.next()["value"], next(self.pairs)]

    async def count(self) -> Any:
        return self.ctx.storage.sql.exec("SELECT count(*) AS n FROM t").one()["n"]


class Caller(DurableObject):
    """Waits for another object while it is open itself."""

    async def call(self, number: int) -> int:
        if number == 0:
            return 0
        found: int = await self.env["Caller"].getByName(f"c{number}").call(number - 1)
        return found + 1

    async def busy(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def test_a_reader_that_stays_open_keeps_no_file_open(on_disk: Make) -> None:
    gc.collect()
    before = len(os.listdir("/dev/fd"))
    runtime = await on_disk({"Reader": Reader}, settings=RuntimeSettings(max_open=3))
    readers = runtime.namespaces["w-Reader"]
    gc.disable()  # an object and what it keeps are a cycle: the collector must not be needed
    try:
        for number in range(30):
            assert await readers.getByName(f"r{number}").look() == [{"a": 1}, ["a", 1]]
        open_now = len(os.listdir("/dev/fd")) - before
        await runtime.close()
        left = len(os.listdir("/dev/fd")) - before
    finally:
        gc.enable()
    assert open_now <= 4 * 5 + 4
    assert left <= 1


async def test_what_a_reader_left_open_is_written_all_the_same(on_disk: Make) -> None:
    runtime = await on_disk({"Reader": Reader}, settings=RuntimeSettings(max_open=2))
    readers = runtime.namespaces["w-Reader"]
    for _ in range(3):
        for number in range(6):
            await readers.getByName(f"r{number}").look()
    assert [await readers.getByName(f"r{number}").count() for number in range(6)] == [9] * 6


async def test_objects_that_wait_for_each_other_pass_the_limit(
    on_disk: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runtime_module, "PLACE_SECONDS", 0.05)
    runtime = await on_disk({"Caller": Caller}, settings=RuntimeSettings(max_open=2))
    callers = runtime.namespaces["w-Caller"]
    callers.env = {"Caller": callers}
    assert await callers.getByName("c6").call(5) == 5
    assert "more than 2 objects are open" in caplog.text


async def test_a_place_that_comes_free_to_others_is_no_reason_to_pass_the_limit(
    on_disk: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runtime_module, "PLACE_SECONDS", 0.3)
    runtime = await on_disk({"Caller": Caller}, settings=RuntimeSettings(max_open=1))
    callers = runtime.namespaces["w-Caller"]
    # together they take longer than the wait, each of them does not
    await asyncio.gather(*(callers.getByName(f"c{number}").busy(0.05) for number in range(12)))
    assert "objects are open" not in caplog.text


async def test_a_start_that_fails_leaves_nothing_open(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    factory = loop.get_task_factory()
    gc.collect()
    before = len(os.listdir("/dev/fd"))
    runtime = Runtime(tmp_path)
    for name in ("First", "Second"):
        runtime.namespace(f"w-{name}", Reader)
    (tmp_path / "do" / "w-Second" / "alarms.sqlite").mkdir(parents=True)
    with pytest.raises((OSError, sqlite3.Error)) as caught:
        await runtime.start()
    assert "w-Second" in "".join(getattr(caught.value, "__notes__", []))
    assert loop.get_task_factory() is factory
    gc.collect()
    assert len(os.listdir("/dev/fd")) <= before
    with pytest.raises(DurableObjectError, match="closing"):
        await runtime.namespaces["w-First"].getByName("a").count()
