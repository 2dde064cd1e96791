"""One Durable Object a name, called by its methods. `to_js` is what older programs write; it may stand or go."""

from urllib.parse import urlsplit

from pyodide.ffi import to_js
from workers import DurableObject, Response, WorkerEntrypoint


class Counter(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.storage = ctx.storage

    async def increase(self, by=1):
        value = await self.value() + by
        await self.storage.put("value", to_js(value))
        return value

    async def value(self):
        return await self.storage.get("value") or 0

    async def summary(self):
        return {"name": self.ctx.id.name, "value": await self.value()}


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        name = urlsplit(request.url).path.strip("/") or "home"
        counter = self.env.COUNTERS.get(self.env.COUNTERS.idFromName(name))
        if request.method == "POST":
            await counter.increase(int(await request.text() or 1))
        summary = await counter.summary()
        return Response.json({"name": summary.name, "value": summary["value"]})
