"""`kv.list()`: what an iterator gives while the object goes on writing, and that it holds nothing up."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.runtime import DurableObject, RuntimeSettings
from moorage.durable_objects.runtime import database as database_module
from moorage.durable_objects.runtime import kv as module
from moorage.durable_objects.runtime.testing import memory_runtime

from .conftest import Make

texts = st.none() | st.text("abc", max_size=2)
ranges = st.builds(
    lambda start, after, end, prefix, limit, reverse: {
        "start": start if after is None else None,
        "startAfter": after,
        "end": end,
        "prefix": prefix,
        "limit": limit,
        "reverse": reverse,
    },
    texts,
    texts,
    texts,
    texts,
    st.none() | st.integers(1, 9),
    st.booleans(),
)


class Lists(DurableObject):
    def fill(self, keys: list[str]) -> None:
        for key in keys:
            self.ctx.storage.kv.put(key, key.upper())

    async def both(self, options: dict[str, Any]) -> list[Any]:
        at_once = await self.ctx.storage.list(options)
        return [list(at_once.items()), [list(pair) for pair in self.ctx.storage.kv.list(options)]]

    def seen_while_writing(self, steps: list[list[str]], options: dict[str, Any] | None = None) -> list[str]:
        """The keys that are given, with one write after each."""
        seen = []
        for number, (key, _) in enumerate(self.ctx.storage.kv.list(options)):
            seen.append(key)
            for what, name in [steps[number]] if number < len(steps) else []:
                if what == "put":
                    self.ctx.storage.kv.put(name, 1)
                else:
                    self.ctx.storage.kv.delete(name)
        return seen

    def undone_while_reading(self) -> list[str]:
        seen = []

        def inside() -> None:
            for key, _ in self.ctx.storage.kv.list():
                seen.append(key)
                self.ctx.storage.kv.put(f"{key}+", 1)
                if len(seen) == 2:
                    raise ValueError("undone")

        with pytest.raises(ValueError, match="undone"):
            self.ctx.storage.transactionSync(inside)
        return [*seen, *(key for key, _ in self.ctx.storage.kv.list())]

    async def begin(self) -> str:
        self.pairs = self.ctx.storage.kv.list()
        return str(next(self.pairs)[0])

    async def write(self, size: int) -> None:
        await self.ctx.storage.put("w", "x" * size)

    def rest(self) -> int:
        return len(list(self.pairs))


@given(options=ranges, keys=st.sets(st.text("abc", min_size=1, max_size=3), max_size=14), page=st.integers(1, 5))
def test_pages_are_not_seen(options: dict[str, Any], keys: set[str], page: int) -> None:
    async def check() -> None:
        runtime = memory_runtime()
        lists = runtime.namespace("w-Lists", Lists)
        await runtime.start()
        stub = lists.getByName("a")
        await stub.fill(sorted(keys))
        at_once, by_the_page = await stub.both(options)
        assert by_the_page == at_once
        await runtime.close()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "FIRST_PAGE", page)
        patched.setattr(module, "MAX_PAGE", page)
        asyncio.run(check())


@pytest.mark.parametrize("page", [1, 2, 128])
@pytest.mark.parametrize(
    ("steps", "options", "seen"),
    [
        ([["delete", "b"]], None, ["a", "c", "d"]),
        ([["put", "aa"]], None, ["a", "aa", "b", "c", "d"]),
        ([["put", "0"]], None, ["a", "b", "c", "d"]),
        ([["delete", "a"]], None, ["a", "b", "c", "d"]),
        ([["delete", "c"]], {"reverse": True}, ["d", "b", "a"]),
        ([["put", "e"], ["put", "bb"]], {"reverse": True}, ["d", "c", "bb", "b", "a"]),
        ([["delete", "b"]], {"limit": 2}, ["a", "c"]),
        ([["put", "aa"]], {"limit": 2}, ["a", "aa"]),
        ([["delete", "d"]], {"start": "c"}, ["c"]),
    ],
)
async def test_writes_meanwhile_show(
    in_memory: Make,
    monkeypatch: pytest.MonkeyPatch,
    page: int,
    steps: list[list[str]],
    options: dict[str, Any] | None,
    seen: list[str],
) -> None:
    monkeypatch.setattr(module, "FIRST_PAGE", page)
    monkeypatch.setattr(module, "MAX_PAGE", page)
    runtime = await in_memory({"Lists": Lists})
    stub = runtime.namespaces["w-Lists"].getByName("a")
    await stub.fill(["a", "b", "c", "d"])
    assert await stub.seen_while_writing(steps, options) == seen


async def test_a_list_whose_writes_are_undone(in_memory: Make) -> None:
    runtime = await in_memory({"Lists": Lists})
    stub = runtime.namespaces["w-Lists"].getByName("a")
    await stub.fill(["a", "b", "c"])
    assert await stub.undone_while_reading() == ["a", "a+", "a", "b", "c"]


async def test_an_unfinished_list_does_not_keep_the_wal_growing(
    on_disk: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "CHECKPOINT_BYTES", 200_000)
    monkeypatch.setattr(database_module, "CHECKPOINT_COMMITS", 5)
    runtime = await on_disk({"Lists": Lists}, settings=RuntimeSettings(durable=False))
    stub = runtime.namespaces["w-Lists"].getByName("a")
    await stub.fill([f"k{number}" for number in range(200)])
    assert await stub.begin() == "k0"
    sizes = []
    for _ in range(300):
        await stub.write(9000)
        sizes += [path.stat().st_size for path in tmp_path.rglob("*-wal") if not path.name.startswith("alarms")]
    assert max(sizes) < 2_000_000
    assert await stub.rest() == 200


async def test_pages_of_big_values_are_small(in_memory: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = module.select

    def select(selection: module.Range) -> Any:
        asked.append(selection.limit or 0)
        return real(selection)

    monkeypatch.setattr(module, "select", select)
    runtime = await in_memory({"Lists": Lists})
    stub = runtime.namespaces["w-Lists"].getByName("a")
    await stub.fill([f"{number:02}" + "k" * 100_000 for number in range(20)])
    assert await stub.begin()
    assert await stub.rest() == 19
    assert asked == [8, 4, 2, 4, 2, 4]
    asked.clear()
    other = runtime.namespaces["w-Lists"].getByName("b")
    await other.fill([f"{number}" for number in range(600)])
    assert await other.begin()
    assert await other.rest() == 599
    assert asked == [8, 16, 32, 64, 128, 256, 256]
