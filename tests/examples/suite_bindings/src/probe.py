"""Objects that the checks work with: `run` hands a named step of a check to the object's own storage."""

import asyncio
import importlib

from workers import DurableObject, Response


class Mixin:
    async def inherited(self):
        return "of the mixin"


class Base(DurableObject, Mixin):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.born = []
        ctx.blockConcurrencyWhile(self.prepare)

    async def prepare(self):
        await asyncio.sleep(0)
        self.born.append(await self.ctx.storage.get("born") or "new")
        await self.ctx.storage.put("born", "again")


class Probe(Base):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.events = []

    async def run(self, module, step, *args):
        """Runs `step(self, *args)` of a check's module as an event of this object."""
        return await getattr(importlib.import_module(module), step)(self, *args)

    async def fetch(self, request):
        return Response.json(
            {
                "method": request.method,
                "url": request.url,
                "body": await request.text(),
                "header": request.headers.get("x-test"),
            },
            headers={"x-object": self.ctx.id.name or "unnamed"},
        )

    async def echo(self, *values):
        return values[0] if len(values) == 1 else list(values)

    async def default(self, a, b="b", *rest):
        return [a, b, *rest]

    def plain(self, value):
        return value * 2

    async def call(self, function, value):
        return await function(value)

    async def fail(self, text):
        raise ValueError(text)

    async def stop(self, reason):
        try:
            self.ctx.abort(reason)
        except Exception:  # what abort raises is no Exception
            return "swallowed"

    async def alarm(self, info):
        await self.ctx.storage.put("alarm", {"retry": info.isRetry, "count": info.retryCount})

    async def _hidden(self):
        return "hidden"


class Other(DurableObject):
    """An object without an alarm handler, and with a fetch that takes nothing."""

    async def fetch(self):
        return Response("no request")

    async def set_alarm(self):
        await self.ctx.storage.setAlarm(2_000_000_000_000)
        return await self.ctx.storage.getAlarm()

    async def ask(self, name):
        return await self.env.PROBES.getByName(name).echo("asked by another")
