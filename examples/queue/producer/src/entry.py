"""Takes orders and puts them into a queue.

`moorage dev examples/queue/producer examples/queue/consumer` runs it with the Worker that ships.
"""

from workers import Response, WorkerEntrypoint


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        if request.method != "POST":
            return Response("POST orders as a JSON list", status=405)
        orders = await request.json()
        await self.env.ORDERS.sendBatch([{"body": order} for order in orders])
        return Response.json({"queued": len(orders)}, status=202)
