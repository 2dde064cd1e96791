"""A file comes into being with the first thing that is kept in it, and never because of a read."""

import asyncio
import contextlib
import gc
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.durable_objects.runtime import (
    DurableObject,
    DurableObjectError,
    Runtime,
    RuntimeSettings,
    commitlog,
    connecting,
    lazy,
)
from moorage.durable_objects.runtime.commitlog import NoSync
from moorage.durable_objects.runtime.outgoing import outgoing
from moorage.durable_objects.runtime.testing import ControlledLog, ManualClock

from .conftest import Make


class Box(DurableObject):
    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.go = asyncio.Event()

    async def look(self) -> list[Any]:
        storage = self.ctx.storage

        def inside() -> Any:
            return storage.sql.exec("SELECT name FROM sqlite_master").toArray()

        found = [await storage.get("k"), list(await storage.list()), await storage.getAlarm(), storage.kv.get("k")]
        await storage.deleteAlarm()
        await storage.delete("k")
        await storage.sync()
        return [*found, storage.transactionSync(inside), storage.sql.exec("SELECT 1 AS one").toArray()]

    async def put(self, value: Any) -> None:
        await self.ctx.storage.put("k", value)

    async def get(self) -> Any:
        return await self.ctx.storage.get("k")

    async def put_and_wait_inside(self, how: str) -> Any:
        """A write, and a transaction that waits for it to be durable."""
        storage = self.ctx.storage
        await storage.put("k", "before")

        async def closure(txn: Any) -> None:
            await txn.put("l", "inside")
            if how == "sync":
                await storage.sync()
            elif how == "outgoing":
                await outgoing(lambda: asyncio.sleep(0))
            else:
                await self.env.getByName("another").get()

        await storage.transaction(closure)
        return await storage.list()

    async def undo(self) -> None:
        def inside() -> None:
            self.ctx.storage.sql.exec("CREATE TABLE t (a)")
            raise ValueError

        with contextlib.suppress(ValueError):
            self.ctx.storage.transactionSync(inside)

    async def unconfirmed(self, value: Any) -> None:
        await self.ctx.storage.put("k", value, {"allowUnconfirmed": True})

    async def wipe(self) -> None:
        await self.ctx.storage.deleteAll()

    async def rows(self) -> list[Any]:
        sql = self.ctx.storage.sql
        sql.exec("CREATE TABLE t (a INTEGER PRIMARY KEY)")
        sql.exec("INSERT INTO t VALUES (7), (8), (9)")
        cursor = sql.exec("SELECT a FROM t ORDER BY a")
        seen = [next(cursor)["a"]]
        await self.go.wait()
        seen += [row["a"] for row in cursor]
        (row,) = sql.exec("SELECT last_insert_rowid() AS id, (SELECT count(*) FROM t) AS n").toArray()
        return [seen, row["id"], row["n"]]

    async def long(self) -> None:
        async def inside(txn: Any) -> None:
            await txn.put("k", "inside")
            await self.go.wait()

        await self.ctx.storage.transaction(inside)

    def release(self) -> None:
        self.go.set()

    async def mark(self) -> str:
        bookmark: str = await self.ctx.storage.getCurrentBookmark()
        return bookmark

    async def wake(self, moment: int) -> None:
        await self.ctx.storage.setAlarm(moment)

    async def alarm(self) -> None:
        await self.put("rang")


def stub_of(runtime: Runtime, name: str = "a") -> Any:
    return runtime.namespaces["w-Box"].getByName(name)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.sqlite*") if not path.name.startswith("alarms"))


class Creation:
    """Holds back the creation of files until `go`; `started` is set when one was asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: Future[None] = Future()
        self.gate = threading.Event()
        self.error: BaseException | None = None
        real = lazy._create

        def create(path: str) -> Any:
            if not self.started.done():
                self.started.set_result(None)
            assert self.gate.wait(20)
            if self.error is not None:
                raise self.error
            return real(path)

        monkeypatch.setattr(lazy, "_create", create)

    async def asked(self) -> None:
        await asyncio.wrap_future(self.started)


@pytest.fixture
def creation(monkeypatch: pytest.MonkeyPatch) -> Iterator[Creation]:
    made = Creation(monkeypatch)
    yield made
    made.gate.set()


async def test_reads_leave_no_file_and_sync_nothing(
    on_disk: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = await on_disk({"Box": Box}, settings=RuntimeSettings(idle_seconds=1), clock=ManualClock())
    synced: list[Any] = []
    for name in ("full_sync", "sync_folder"):
        monkeypatch.setattr(commitlog, name, synced.append)
    monkeypatch.setattr(connecting, "create_file", synced.append)
    assert await stub_of(runtime).look() == [None, [], None, None, [], [{"one": 1}]]
    await stub_of(runtime).undo()
    assert await stub_of(runtime).get() is None
    assert files(tmp_path) == []
    await runtime.clock.advance(2000)  # type: ignore[attr-defined]
    assert await stub_of(runtime).look() == [None, [], None, None, [], [{"one": 1}]]
    await runtime.close()
    assert files(tmp_path) == []
    assert synced == []


async def test_the_first_write_makes_the_file(on_disk: Make, tmp_path: Path) -> None:
    runtime = await on_disk({"Box": Box})
    await stub_of(runtime).get()
    await stub_of(runtime).put(1)
    assert [name for name in files(tmp_path) if name.endswith(".sqlite")] != []
    await stub_of(runtime).put(2)
    await runtime.close()
    again = await on_disk({"Box": Box})
    assert await stub_of(again).get() == 2


async def test_an_answer_waits_for_the_file_and_its_sync(on_disk: Make, creation: Creation) -> None:
    log = ControlledLog()
    runtime = await on_disk({"Box": Box}, log=log)
    log.hold()
    answers = [asyncio.ensure_future(stub_of(runtime).put(value)) for value in range(3)]
    await creation.asked()
    # what is not acknowledged is there for the object itself, behind the output gate
    read = asyncio.ensure_future(stub_of(runtime).get())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not any(answer.done() for answer in (*answers, read))
    creation.gate.set()
    while stub_of(runtime)._namespace.live[str(stub_of(runtime).id)].database.wal is None:
        await asyncio.sleep(0.001)
    assert not any(answer.done() for answer in (*answers, read))
    log.release()
    await asyncio.gather(*answers)
    assert await read == 2


@pytest.mark.parametrize("how", ["sync", "outgoing", "call"])
async def test_a_transaction_can_wait_for_what_was_written_before_it(
    on_disk: Make, creation: Creation, how: str
) -> None:
    runtime = await on_disk({"Box": Box})
    boxes = runtime.namespaces["w-Box"]
    boxes.env = boxes
    answer = asyncio.ensure_future(stub_of(runtime).put_and_wait_inside(how))
    await creation.asked()
    reader = asyncio.ensure_future(stub_of(runtime).get())
    for _ in range(20):
        await asyncio.sleep(0)
    assert not answer.done()
    assert not reader.done()
    creation.gate.set()
    async with asyncio.timeout(10):
        assert await answer == {"k": "before", "l": "inside"}
        assert await reader == "before"


async def test_cursors_rowids_and_transactions_go_on_over_the_change(
    on_disk: Make, creation: Creation, tmp_path: Path
) -> None:
    runtime = await on_disk({"Box": Box})
    stub = stub_of(runtime)
    rows, long = asyncio.ensure_future(stub.rows()), None
    await creation.asked()
    long = asyncio.ensure_future(stub_of(runtime).long())
    for _ in range(20):
        await asyncio.sleep(0)
    creation.gate.set()
    while not files(tmp_path):
        await asyncio.sleep(0.001)
    for _ in range(20):
        await asyncio.sleep(0.001)
    await runtime_release(runtime)
    assert await rows == [[7, 8, 9], 9, 3]
    await long
    await runtime.close()
    again = await on_disk({"Box": Box})
    assert await stub_of(again).get() == "inside"


async def test_the_copy_in_memory_goes_with_its_last_reader(on_disk: Make) -> None:
    runtime = await on_disk({"Box": Box})
    await stub_of(runtime).get()
    (instance,) = runtime.namespaces["w-Box"].live.values()
    memory = weakref.ref(instance.database.connection)
    assert isinstance(memory(), lazy._Memory)
    await stub_of(runtime).put("x" * 100_000)
    gc.collect()
    assert memory() is None


async def runtime_release(runtime: Runtime) -> None:
    """Sets the object's event from outside: a transaction of its own holds calls back."""
    (instance,) = runtime.namespaces["w-Box"].live.values()
    instance.object.release()


async def test_a_file_that_cannot_be_made_resets_the_object(
    on_disk: Make, creation: Creation, tmp_path: Path
) -> None:
    runtime = await on_disk({"Box": Box})
    creation.error = OSError(28, "No space left on device")
    creation.gate.set()
    with pytest.raises(DurableObjectError, match=r"could not be made durable.*No space left"):
        await stub_of(runtime).put(1)
    assert files(tmp_path) == []
    assert await stub_of(runtime).get() is None
    creation.error = None
    await stub_of(runtime).put(2)
    assert await stub_of(runtime).get() == 2


@pytest.mark.parametrize("wiped", [False, True])
async def test_closing_waits_for_a_file_in_the_making(on_disk: Make, creation: Creation, wiped: bool) -> None:
    runtime = await on_disk({"Box": Box})
    await stub_of(runtime).unconfirmed("kept")
    await creation.asked()
    wipe = asyncio.ensure_future(stub_of(runtime).wipe()) if wiped else None
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(runtime.close())
    await asyncio.sleep(0)
    creation.gate.set()
    await closing
    if wipe is not None:
        with contextlib.suppress(DurableObjectError):
            await wipe
    again = await on_disk({"Box": Box})
    assert await stub_of(again).get() == (None if wiped else "kept")


async def test_everything_deleted_before_there_is_a_file(on_disk: Make, creation: Creation) -> None:
    runtime = await on_disk({"Box": Box})
    work = [asyncio.ensure_future(stub_of(runtime).put(1)), asyncio.ensure_future(stub_of(runtime).wipe())]
    await creation.asked()
    creation.gate.set()
    await asyncio.gather(*work)
    assert await stub_of(runtime).get() is None
    await stub_of(runtime).put(3)
    await runtime.close()
    again = await on_disk({"Box": Box})
    assert await stub_of(again).get() == 3


async def test_an_alarm_is_enough(on_disk: Make, tmp_path: Path) -> None:
    clock = ManualClock()
    runtime = await on_disk({"Box": Box}, clock=clock)
    await stub_of(runtime).wake(clock.now() + 1000)
    await runtime.close()
    assert files(tmp_path) != []
    again = await on_disk({"Box": Box}, clock=clock)
    await clock.advance(1500)
    assert await stub_of(again).get() == "rang"


async def test_an_indexed_alarm_without_a_file_is_forgotten(on_disk: Make, creation: Creation) -> None:
    clock = ManualClock()
    runtime = await on_disk({"Box": Box}, clock=clock)
    creation.error = OSError(5, "Input/output error")
    creation.gate.set()
    with pytest.raises(DurableObjectError):
        await stub_of(runtime).wake(clock.now() + 1000)
    await clock.advance(5000)
    assert await stub_of(runtime).get() is None
    assert runtime.namespaces["w-Box"].alarms.indexed(stub_of(runtime).id) is None


async def test_a_bookmark_of_nothing(on_disk: Make) -> None:
    runtime = await on_disk({"Box": Box})
    bookmark = await stub_of(runtime).mark()
    await stub_of(runtime).put(1)
    assert isinstance(bookmark, str)


STEPS = st.lists(st.sampled_from(["put", "nested", "undo", "explicit", "give up", "turn", "wait"]), max_size=12)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_whatever_is_committed_is_in_the_file(tmp_path_factory: pytest.TempPathFactory, steps: list[str]) -> None:
    path = tmp_path_factory.mktemp("lazy") / "o.sqlite"
    expected: list[int] = []

    async def run() -> None:
        threads = ThreadPoolExecutor(1)
        database = lazy.LazyDatabase(threads.submit, str(path), NoSync())
        database.open()

        def dirty() -> None:
            asyncio.get_running_loop().call_soon(database.commit_implicit)

        database.on_dirty = dirty

        def insert(number: int) -> None:
            database.connection.execute("CREATE TABLE IF NOT EXISTS t (n)")
            database.connection.execute("INSERT INTO t VALUES (?)", (number,))

        for number, step in enumerate(steps):
            if step == "put":
                database.write()
                insert(number)
                expected.append(number)
            elif step in ("nested", "undo"):
                database.savepoint("s")
                insert(number)
                if step == "nested":
                    database.release("s")
                    expected.append(number)
                else:
                    database.rollback_to("s")
            elif step in ("explicit", "give up"):
                database.begin_explicit()
                insert(number)
                await asyncio.sleep(0.002 if number % 2 else 0)
                if step == "explicit":
                    database.commit_explicit()
                    expected.append(number)
                else:
                    database.rollback_explicit()
            else:
                await asyncio.sleep(0.005 if step == "wait" else 0)
        database.commit_implicit()
        await database.close()
        threads.shutdown()
        assert database.clean
        assert database.failure is None

    asyncio.run(run())
    assert path.exists() == bool(expected)
    if expected:
        connection = sqlite3.connect(path)
        assert [row[0] for row in connection.execute("SELECT n FROM t")] == expected
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        connection.close()
