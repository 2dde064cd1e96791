"""`deleteAll` while readers are open: they end, and nothing is locked."""

from typing import Any

from moorage.durable_objects.runtime import DurableObject

from .conftest import Make


class Reader(DurableObject):
    async def keys(self) -> list[Any]:
        for number in range(5):
            self.ctx.storage.kv.put(f"k{number}", number)
        rows = self.ctx.storage.kv.list()
        first = next(rows)
        await self.ctx.storage.deleteAll()
        self.ctx.storage.kv.put("later", 1)
        return [first[0], list(rows), list(await self.ctx.storage.list())]


async def test_an_open_list_ends_and_locks_nothing(in_memory: Make, on_disk: Make) -> None:
    for make in (in_memory, on_disk):
        runtime = await make({"Reader": Reader})
        assert await runtime.namespaces["w-Reader"].getByName("a").keys() == ["k0", [], ["later"]]
