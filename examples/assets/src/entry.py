"""A folder of pages with a Worker behind it: it answers /api/ and guards /members, the files do the rest."""

from urllib.parse import urlsplit

from workers import Response, WorkerEntrypoint


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        path = urlsplit(request.url).path
        if path == "/api/time-zone":
            return Response.json({"zone": "UTC"})
        if path.startswith("/members") and request.headers.get("authorization") != "Bearer member":
            return Response("members only", status=401, headers={"www-authenticate": "Bearer"})
        return await self.env.ASSETS.fetch(request)
