"""Ships what the queue brings. Each message may come again, so a shipment is written under the order's own number."""

import json

from workers import WorkerEntrypoint


class Default(WorkerEntrypoint):
    async def queue(self, batch, env, ctx):
        for message in batch.messages:
            order = message.body
            key = f"order:{order['number']}"
            if batch.queue == "orders-dead":
                await self.env.SHIPPED.put(key, json.dumps({"failed": order}))
            elif order.get("parts", 1) < 1:
                message.retry()  # perhaps somebody corrects it; in the end it goes to the dead letter queue
            else:
                await self.env.SHIPPED.put(key, json.dumps({"parts": order["parts"], "attempts": message.attempts}))
