"""Another site's pages with links that stay here and a note at the top, kept for a minute."""

from js import URL, Headers, HTMLRewriter, Request, Response, caches, fetch
from workers import WorkerEntrypoint

NOTE = "<p class=note>You are reading a copy.</p>"


class Links:
    """Links of the origin become links of this Worker."""

    def __init__(self, attribute, origin):
        self.attribute = attribute
        self.origin = origin

    def element(self, element):
        value = element.getAttribute(self.attribute)
        if value and value.startswith(self.origin):
            element.setAttribute(self.attribute, value.removeprefix(self.origin) or "/")


class Note:
    def element(self, element):
        element.prepend(NOTE, html=True)


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        if request.method != "GET":
            return Response.new("Only GET", status=405, headers={"allow": "GET"})
        key = Request.new(request.url)
        kept = await caches.default.match(key)
        if kept is not None:
            return kept
        origin = self.env.ORIGIN
        asked = URL.new(request.url)
        answer = await fetch(origin + asked.pathname + asked.search, headers={"accept": "text/html"})
        if "text/html" in (answer.headers.get("content-type") or ""):
            rewriter = HTMLRewriter.new()
            rewriter.on("a[href]", Links("href", origin)).on("img[src]", Links("src", origin)).on("body", Note())
            answer = rewriter.transform(answer)
        headers = Headers.new(answer.headers)
        headers.set("cache-control", "max-age=60")
        answer = Response.new(answer.body, status=answer.status, headers=headers)
        self.ctx.waitUntil(caches.default.put(key, answer.clone()))
        return answer
