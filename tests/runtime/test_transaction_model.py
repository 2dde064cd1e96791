"""Random programs of writes, transactions in transactions, errors and waits, against a model of two dictionaries."""

import asyncio
import copy
import random
from typing import Any

import pytest

from moorage.durable_objects.runtime import DurableObject, DurableObjectError, RuntimeSettings, SqlError

from .conftest import Make

Program = list[list[Any]]
State = dict[str, Any]


class Boom(Exception):
    """What programs raise."""


def program(chosen: random.Random, depth: int = 0, *, sync: bool = False) -> Program:
    """Up to five operations; `sync` for those of a synchronous transaction."""
    kinds = ["put", "put", "put", "sql", "sql", "delete", "raise", "bad", "sync-txn"]
    kinds += [] if sync else ["sleep", "sync", "txn", "txn"]
    kinds += ["rollback"] if depth and not sync else []
    kinds += ["abort"] if not depth else []
    made: Program = []
    for kind in chosen.choices(kinds, k=chosen.randint(1, 5)):
        if kind in {"put", "sql"}:
            made.append([kind, chosen.choice("abcd"), chosen.randint(0, 99)])
        elif kind == "delete":
            made.append([kind, chosen.choice("abcd")])
        elif kind in {"txn", "sync-txn"}:
            if depth < 4:
                inner = program(chosen, depth + 1, sync=kind == "sync-txn")
                made.append([kind, inner, chosen.random() < 0.5])
        else:
            made.append([kind])
    return made


class Subject(DurableObject):
    """Runs programs."""

    def _each_now(self, operations: Program) -> None:
        for operation in operations:
            self._now(operation)

    def _now(self, operation: list[Any]) -> None:
        storage = self.ctx.storage
        match operation:
            case ["put", key, value]:
                storage.put(key, value)
            case ["delete", key]:
                storage.delete(key)
            case ["sql", key, value]:
                storage.sql.exec("CREATE TABLE IF NOT EXISTS t(k TEXT PRIMARY KEY, v)")
                storage.sql.exec("INSERT INTO t VALUES (?, ?) ON CONFLICT(k) DO UPDATE SET v=excluded.v", key, value)
            case ["bad"]:
                with pytest.raises(SqlError):
                    storage.sql.exec("INSERT INTO nowhere VALUES (1)")
            case ["raise"]:
                raise Boom
            case ["sync-txn", inner, caught]:
                try:
                    storage.transactionSync(lambda: self._each_now(inner))
                except Boom:
                    if not caught:
                        raise
            case other:
                raise AssertionError(other)

    async def run(self, operations: Program, txn: Any = None) -> None:
        for operation in operations:
            match operation:
                case ["sleep"]:
                    await asyncio.sleep(0)
                case ["sync"]:
                    await self.ctx.storage.sync()
                case ["abort"]:
                    self.ctx.abort("aborted")
                case ["rollback"]:
                    txn.rollback()
                case ["txn", inner, caught]:
                    await self._transaction(inner, caught)
                case _:
                    self._now(operation)

    async def _transaction(self, inner: Program, caught: bool) -> None:
        async def closure(txn: Any) -> None:
            await self.run(inner, txn)

        try:
            await self.ctx.storage.transaction(closure)
        except Boom:
            if not caught:
                raise

    def state(self) -> State:
        sql = self.ctx.storage.sql
        there = sql.exec("SELECT 1 FROM sqlite_master WHERE name='t'").toArray()
        rows = sql.exec("SELECT k, v FROM t").raw().toArray() if there else []
        return {"kv": dict(self.ctx.storage.kv.list()), "sql": dict(rows)}


class Aborted(Exception):
    """The model's object was reset."""


class Model:
    """What must be stored: `now` as code sees it, `kept` what a reset goes back to."""

    def __init__(self) -> None:
        self.now: State = {"kv": {}, "sql": {}}
        self.kept: State = copy.deepcopy(self.now)

    def keep(self) -> None:
        self.kept = copy.deepcopy(self.now)

    def run(self, operations: Program, saved: list[State] | None = None) -> None:
        """`saved` is what the transaction around goes back to, empty once it was rolled back; None outside of one."""
        for operation in operations:
            match operation:
                case ["put", key, value]:
                    self.now["kv"][key] = value
                case ["sql", key, value]:
                    self.now["sql"][key] = value
                case ["delete", key]:
                    self.now["kv"].pop(key, None)
                case ["raise"]:
                    raise Boom
                case ["abort"]:
                    self.now = copy.deepcopy(self.kept)
                    raise Aborted
                case ["rollback"] if saved:
                    self.now = saved.pop()
                case ["sleep"] | ["sync"] if saved is None:
                    self.keep()
                case ["txn" | "sync-txn" as kind, inner, caught]:
                    self.transaction(inner, caught, outermost=saved is None and kind == "txn")

    def transaction(self, inner: Program, caught: bool, *, outermost: bool) -> None:
        if outermost:
            self.keep()
        before = [copy.deepcopy(self.now)]
        try:
            self.run(inner, before)
        except Boom:
            if before:
                self.now = before[0]
            if outermost:
                self.keep()
            if not caught:
                raise
        if outermost:
            self.keep()


@pytest.mark.parametrize(("where", "objects"), [("memory", 250), ("disk", 30)])
async def test_what_is_stored_is_what_the_model_says(
    in_memory: Make, on_disk: Make, where: str, objects: int
) -> None:
    chosen = random.Random(7)
    settings = RuntimeSettings(max_open=4, idle_seconds=0.02 if where == "disk" else 10.0)
    runtime = await (on_disk if where == "disk" else in_memory)({"Subject": Subject}, settings=settings)
    subjects = runtime.namespaces["w-Subject"]
    ends = []
    for number in range(objects):
        model = Model()
        for _ in range(3):
            operations = program(chosen)
            expected = "done"
            try:
                model.run(operations)
            except Boom:
                expected = "Boom"
            except Aborted:
                expected = "aborted"
            model.keep()
            try:
                await subjects.getByName(f"s{number}").run(operations)
                ended = "done"
            except DurableObjectError as error:
                ended = str(error)
            except Exception as error:
                ended = getattr(error, "name", repr(error))
            ends.append(ended)
            assert ended == expected, operations
            assert await subjects.getByName(f"s{number}").state() == model.now, operations
    assert {"done", "Boom", "aborted"} == set(ends)
