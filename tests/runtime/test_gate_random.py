"""Random programs of sections, waits, tasks and calls: a section is never interrupted, nobody is left waiting."""

import asyncio
import random
from typing import Any

import pytest

from moorage.durable_objects.runtime import DurableObject
from moorage.durable_objects.runtime.outgoing import outgoing
from moorage.durable_objects.runtime.testing import ManualClock

from .conftest import Make

Program = list[tuple[str, Any]]
WAITS = ("yield", "clock", "put", "sync", "outgoing")
INNER = ("block", "transaction", "gather", "task", "timeout", "cancel")


def program(chosen: random.Random, depth: int = 0, *, inside: bool = False) -> Program:
    """Up to four operations; `inside` of a section an object that calls itself would wait for itself."""
    kinds = [*WAITS, *(INNER if depth < 3 else ()), *(() if inside else ("call", "call-self"))]
    made: Program = []
    for kind in chosen.choices(kinds, k=chosen.randint(1, 4)):
        if kind in INNER:
            count = 2 if kind == "gather" else 1
            within = inside or kind in {"block", "transaction"}
            made.append((kind, [program(chosen, depth + 1, inside=within) for _ in range(count)]))
        else:
            made.append((kind, chosen.randint(1, 5)))
    return made


class Subject(DurableObject):
    """Runs programs; notes every step that was made while a section was open that the step does not belong to."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self._open: list[object] = []
        self._interruptions = 0

    def _step(self, sections: tuple[object, ...]) -> None:
        self._interruptions += any(section not in sections for section in self._open)

    async def run(self, operations: Program, sections: tuple[object, ...] = ()) -> int:
        for kind, argument in operations:
            self._step(sections)
            if kind in {"block", "transaction"}:
                await self._section(kind, argument[0], sections)
            elif kind in INNER:
                await self._inner(kind, argument, sections)
            else:
                await self._wait(kind, argument)
            self._step(sections)
        return self._interruptions

    async def _section(self, kind: str, inner: Program, sections: tuple[object, ...]) -> None:
        section = object()

        async def body(*_: Any) -> None:
            self._open.append(section)
            try:
                await self.run(inner, (*sections, section))
            finally:
                self._open.remove(section)

        if kind == "block":
            await self.ctx.blockConcurrencyWhile(body)
        else:
            await self.ctx.storage.transaction(body)

    async def _inner(self, kind: str, inner: list[Program], sections: tuple[object, ...]) -> None:
        match kind:
            case "gather":
                await asyncio.gather(*(self.run(each, sections) for each in inner))
            case "task":
                task = asyncio.create_task(self.run(inner[0], sections))
                await asyncio.sleep(0)
                await task
            case "timeout":
                async with asyncio.timeout(60):
                    await self.run(inner[0], sections)
            case "cancel":
                waiting = asyncio.create_task(self._wait("clock", 10_000))
                await asyncio.sleep(0)
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await self.run(inner[0], sections)

    async def _wait(self, kind: str, argument: int) -> None:
        match kind:
            case "yield":
                await asyncio.sleep(0)
            case "clock":
                await self.ctx.clock.sleep(argument / 1000)
            case "put":
                await self.ctx.storage.put("k", argument)
            case "sync":
                await self.ctx.storage.sync()
            case "outgoing":
                await outgoing(lambda: self.ctx.clock.sleep(argument / 1000))
            case "call":
                await self.env.getByName(f"other{argument}").ping()
            case "call-self":
                await self.env.get(self.ctx.id).ping()

    async def ping(self) -> None:
        self._step(())
        await asyncio.sleep(0)
        self._step(())


@pytest.mark.parametrize("seed", range(4))
async def test_sections_are_never_interrupted(in_memory: Make, seed: int) -> None:
    chosen = random.Random(seed)
    runtime = await in_memory({"Subject": Subject})
    subjects = runtime.namespaces["w-Subject"]
    subjects.env = subjects
    clock = runtime.clock
    assert isinstance(clock, ManualClock)
    for number in range(10):
        programs = [program(chosen) for _ in range(chosen.randint(2, 6))]
        stub = subjects.getByName(f"s{number}")
        answers = [asyncio.ensure_future(stub.run(each)) for each in programs]
        # within the 30 s of a section, or it would have been reset
        found = await clock.run_until(asyncio.gather(*answers), limit=25_000)
        assert max(found) == 0, programs
