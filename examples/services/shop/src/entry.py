"""Calls another Worker of the process: `moorage dev examples/services/shop examples/services/stock` runs both."""

from urllib.parse import urlsplit

from workers import Response, WorkerEntrypoint


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        name = urlsplit(request.url).path.strip("/")
        if request.method == "PUT":
            return Response.json(await self.env.STOCK_ADMIN.deliver(name, int(await request.text())))
        if request.method == "POST":

            async def notify(left):
                print(f"only {left} of {name} left")
                return "ordered more"

            try:
                return Response.json(await self.env.STOCK.take(name, 1, notify))
            except ValueError as error:
                return Response(str(error), status=409)
        return await self.env.STOCK.fetch(request)
