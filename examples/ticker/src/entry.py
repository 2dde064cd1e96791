"""An object that wakes itself: an alarm that sets the next one, synchronous keys, and a way to end the instance."""

from urllib.parse import urlsplit

from workers import DurableObject, Response, WorkerEntrypoint

PERIOD = 60_000


class Ticker(DurableObject):
    def __init__(self, ctx, env):
        super().__init__(ctx, env)
        self.kv = ctx.storage.kv
        self.seen = 0  # of this instance: gone after an eviction or an abort

    async def start(self):
        self.kv.put("running", True)
        await self.ctx.storage.setAlarm(self.ctx.clock.now() + PERIOD)

    async def stop(self):
        self.kv.delete("running")
        await self.ctx.storage.deleteAlarm()

    async def alarm(self):
        self.kv.put("ticks", (self.kv.get("ticks") or 0) + 1)
        if self.kv.get("running"):
            await self.ctx.storage.setAlarm(self.ctx.clock.now() + PERIOD)

    async def state(self):
        self.seen += 1
        return {
            "ticks": self.kv.get("ticks") or 0,
            "next": await self.ctx.storage.getAlarm(),
            "keys": [key for key, _ in self.kv.list()],
            "seen": self.seen,
        }

    async def restart(self):
        self.kv.put("lost", True)
        self.ctx.abort("restarted by hand")


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        ticker = self.env.TICKERS.getByName("main")
        match urlsplit(request.url).path:
            case "/start":
                await ticker.start()
            case "/stop":
                await ticker.stop()
            case "/restart":
                try:
                    await ticker.restart()
                except Exception as error:
                    return Response(str(error), status=503)
        return Response.json(await self.env.TICKERS.getByName("main").state())
