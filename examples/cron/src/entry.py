"""A handler that the clock calls; each run leaves a report in a bucket."""

import json
from datetime import UTC, datetime

from workers import Response, WorkerEntrypoint


class Default(WorkerEntrypoint):
    async def scheduled(self, controller, env, ctx):
        moment = datetime.fromtimestamp(controller.scheduledTime / 1000, UTC)
        report = {"cron": controller.cron, "at": moment.isoformat()}
        await self.env.REPORTS.put(
            f"{moment:%Y-%m-%d/%H-%M}.json", json.dumps(report), httpMetadata={"contentType": "application/json"}
        )

    async def fetch(self):
        listed = await self.env.REPORTS.list()
        return Response.json([report.key for report in listed.objects])
