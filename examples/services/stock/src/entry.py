"""Keeps the stock. Its methods are called by other Workers; only the named entrypoint may add to it."""

from urllib.parse import urlsplit

from workers import DurableObject, Response, WorkerEntrypoint


class Shelf(DurableObject):
    async def add(self, count):
        left = (await self.ctx.storage.get("left") or 0) + count
        if left < 0:
            raise ValueError("sold out")
        await self.ctx.storage.put("left", left)
        return left


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        name = urlsplit(request.url).path.strip("/")
        return Response.json({"name": name, "left": await self.env.SHELVES.getByName(name).add(0)})

    async def take(self, name, count, when_low):
        left = await self.env.SHELVES.getByName(name).add(-count)
        return {"left": left, "note": await when_low(left) if left < 2 else None}


class Admin(WorkerEntrypoint):
    async def deliver(self, name, count):
        return {"left": await self.env.SHELVES.getByName(name).add(count)}
