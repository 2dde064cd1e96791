"""An entry called `worker.py` beside packages of its own whose names others use as well."""

from clients.weather import describe
from workers import Response, WorkerEntrypoint

from clients import registry


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        return Response.json({"weather": describe(21), "clients": registry.names()})
