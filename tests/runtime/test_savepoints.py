"""`transactionSync`: the first in an event is the implicit transaction itself, others are savepoints."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.durable_objects.runtime import DurableObject, DurableObjectError
from moorage.durable_objects.runtime.testing import ControlledLog, memory_runtime

from .conftest import Make


class Undone(Exception):
    pass


class Box(DurableObject):
    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self.sql = ctx.storage.sql
        self.synced = False
        self.sql.exec("CREATE TABLE IF NOT EXISTS t (value INTEGER PRIMARY KEY)")

    def add(self, value: int) -> None:
        self.sql.exec("INSERT INTO t VALUES (?)", value)

    def within(self, body: Callable[[], Any], *, undo: bool) -> None:
        def closure() -> None:
            body()
            if undo:
                raise Undone

        try:
            self.ctx.storage.transactionSync(closure)
        except Undone:
            assert undo

    async def values(self) -> list[int]:
        return [row[0] for row in self.sql.exec("SELECT value FROM t ORDER BY value").raw()]

    async def run(self, plan: list[Any]) -> None:
        """Numbers are inserted; `[undo, *plan]` is a nested transaction."""
        self.follow(plan)

    def follow(self, plan: list[Any]) -> None:
        for step in plan:
            if isinstance(step, int):
                self.add(step)
            else:
                self.within(lambda step=step: self.follow(step[1:]), undo=step[0])  # type: ignore[misc]

    async def sync_inside(self, undo: bool) -> None:
        waiting: list[Any] = []

        def body() -> None:
            self.add(1)
            waiting.append(self.ctx.storage.sync())
            self.add(2)

        self.within(body, undo=undo)
        for each in waiting:
            await each

    async def sync_inside_and_wait(self) -> None:
        waiting: list[Any] = []

        def body() -> None:
            self.add(1)
            waiting.append(self.ctx.storage.sync())

        self.within(body, undo=False)
        await waiting[0]
        self.synced = True

    async def call_inside(self, undo: bool) -> list[int]:
        calls: list[Any] = []

        def body() -> None:
            self.add(1)
            calls.append(self.env.BOX.getByName("other").values())
            self.add(2)

        self.within(body, undo=undo)
        await calls[0]
        return await self.values()

    async def delete_inside(self) -> None:
        self.add(1)
        deleting: list[Any] = []
        self.within(lambda: deleting.append(self.ctx.storage.deleteAll()), undo=False)
        await deleting[0]


@pytest.mark.parametrize("undo", [False, True])
async def test_sync_inside_does_not_end_it(on_disk: Make, undo: bool) -> None:
    runtime = await on_disk({"Box": Box})
    stub = runtime.namespaces["w-Box"].getByName("a")
    await stub.sync_inside(undo)
    assert await stub.values() == ([] if undo else [1, 2])


async def test_sync_inside_covers_what_the_transaction_wrote(on_disk: Make) -> None:
    log = ControlledLog()
    runtime = await on_disk({"Box": Box}, log=log)
    space = runtime.namespaces["w-Box"]
    stub = space.getByName("a")
    await stub.values()
    (instance,) = space.live.values()
    log.hold()
    call = stub.sync_inside_and_wait()
    for _ in range(20):
        await asyncio.sleep(0.005)
    assert instance.object.synced is False
    log.release()
    await call
    assert instance.object.synced is True


@pytest.mark.parametrize("undo", [False, True])
async def test_a_call_made_inside_leaves_after_the_commit(on_disk: Make, undo: bool) -> None:
    from types import SimpleNamespace

    runtime = await on_disk({"Box": Box})
    space = runtime.namespaces["w-Box"]
    space.env = SimpleNamespace(BOX=space)
    assert await space.getByName("a").call_inside(undo) == ([] if undo else [1, 2])


async def test_deleteAll_inside_is_refused(on_disk: Make) -> None:
    runtime = await on_disk({"Box": Box})
    stub = runtime.namespaces["w-Box"].getByName("a")
    with pytest.raises(DurableObjectError, match="within a transaction"):
        await stub.delete_inside()
    assert await stub.values() == [1]


_numbers = st.integers(0, 10**6)
_plans = st.recursive(
    st.lists(_numbers, max_size=3),
    lambda inner: st.lists(_numbers | st.builds(lambda undo, plan: [undo, *plan], st.booleans(), inner), max_size=4),
    max_leaves=12,
)


def _numbered(plan: list[Any], taken: list[int]) -> list[Any]:
    made: list[Any] = []
    for step in plan:
        if isinstance(step, bool):
            made.append(step)
        elif isinstance(step, int):
            taken.append(0)
            made.append(len(taken))
        else:
            made.append(_numbered(step, taken))
    return made


def _kept(plan: list[Any]) -> list[int]:
    found: list[int] = []
    for step in plan:
        if isinstance(step, int):
            found.append(step)
        elif not step[0]:
            found += _kept(step[1:])
    return found


@settings(deadline=None, max_examples=60)
@given(st.lists(_plans, max_size=3))
async def test_what_is_kept(plans: list[list[Any]]) -> None:
    taken: list[int] = []
    runtime = memory_runtime()
    stub = runtime.namespace("w-Box", Box).getByName("a")
    await runtime.start()
    try:
        expected: list[int] = []
        for plan in plans:
            numbered = _numbered(plan, taken)
            await stub.run(numbered)
            expected += _kept(numbered)
            assert await stub.values() == expected
    finally:
        await runtime.close()
