"""Methods with defaults, keyword defaults and several arguments, called across objects and named entrypoints."""

import html
import keyword
import re

from workers import DurableObject, Response, WorkerEntrypoint

WORDS = re.compile(r"\b[A-Za-z_]\w*\b")


def mark(word):
    return f"<b>{word[0]}</b>" if keyword.iskeyword(word[0]) else word[0]


class Highlighter(WorkerEntrypoint):
    """A named entrypoint: other Workers call its methods."""

    async def highlight(self, code, language="python", line_numbers=False):
        if language != "python":
            raise ValueError(f"cannot highlight {language}")
        marked = WORDS.sub(
            lambda word: f"<b>{word[0]}</b>" if keyword.iskeyword(word[0]) else word[0],
            html.escape(code, quote=False),
        )
        lines = marked.splitlines()
        if line_numbers:
            lines = [f"{number:3} {line}" for number, line in enumerate(lines, 1)]
        return {"html": "\n".join(lines), "lines": len(lines)}


class Drafts(DurableObject):
    async def save(self, code, title="untitled", *tags):
        await self.ctx.storage.put(f"draft:{title}", {"code": code, "tags": list(tags)})
        return title

    async def titles(self, prefix="", limit=10):
        found = await self.ctx.storage.list({"prefix": f"draft:{prefix}", "limit": limit})
        return [key.removeprefix("draft:") for key in found]

    async def load(self, title="untitled"):
        return await self.ctx.storage.get(f"draft:{title}")


class Default(WorkerEntrypoint):
    async def fetch(self, request):
        drafts = self.env.DRAFTS.getByName("mine")
        if request.method == "POST":
            code = await request.text()
            title = request.headers.get("title")
            saved = await (drafts.save(code) if title is None else drafts.save(code, title, "from", "http"))
            return Response.json({"saved": saved, "titles": await drafts.titles()})
        draft = await drafts.load()
        if draft is None:
            return Response("no draft yet", status=404)
        result = await Highlighter(self.ctx, self.env).highlight(draft["code"], line_numbers=True)
        return Response(f"<pre>{result['html']}</pre>", headers={"content-type": "text/html"})
