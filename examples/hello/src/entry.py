"""The smallest Worker: it greets whoever is named in the query."""

from urllib.parse import parse_qs, urlsplit

from workers import Response, WorkerEntrypoint


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        names = parse_qs(urlsplit(request.url).query).get("name", ["world"])
        return Response(f"Hello, {names[0]}!", headers={"content-language": "en"})
