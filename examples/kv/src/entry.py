"""Short links in a key-value namespace: each with its own end, and a note beside it."""

import secrets
from urllib.parse import parse_qs, urlsplit

from workers import Response, WorkerEntrypoint

HOUR = 3600


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        url = urlsplit(request.url)
        name = url.path.strip("/")
        links = self.env.LINKS
        if request.method == "POST":
            target = await request.text()
            if urlsplit(target).scheme not in {"http", "https"}:
                return Response("the body must be an http or https address", status=422)
            name = name or secrets.token_urlsafe(4)
            note = parse_qs(url.query).get("note", [None])[0]
            await links.put(name, target, expirationTtl=24 * HOUR, metadata={"note": note})
            return Response(f"/{name}", status=201)
        if request.method == "DELETE":
            await links.delete(name)
            return Response(None, status=204)
        if not name:
            listed = await links.list(limit=100)
            return Response.json([{"name": key.name, "note": key.metadata.note} for key in listed["keys"]])
        target = await links.get(name)
        return Response("there is no such link", status=404) if target is None else Response.redirect(target)
