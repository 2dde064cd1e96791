"""The programs of `examples/`, each served for real and asked as a reader would ask it."""

import asyncio
import zlib
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from moorage.wrangler_compat.host.testing import WorkerOptions, WorkerRuntime, WorkerServer

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> pytest.MarkDecorator:
    return pytest.mark.moorage(dir=str(EXAMPLES / name))


@example("hello")
def test_hello(moorage_worker: WorkerServer) -> None:
    answer = moorage_worker.fetch("/")
    assert (answer.text, answer.headers["content-language"]) == ("Hello, world!", "en")
    assert moorage_worker.fetch("/?name=Ada+Lovelace").text == "Hello, Ada Lovelace!"


@example("pages")
def test_pages(moorage_worker: WorkerServer) -> None:
    pytest.importorskip("fastapi")
    page = moorage_worker.fetch("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<h1>The Reading Room</h1>" in page.text
    assert moorage_worker.fetch("/books/1").json() == {"number": 1, "title": "Middlemarch"}
    assert moorage_worker.fetch("/books/9").status_code == 404
    assert moorage_worker.fetch("/books/x").status_code == 422
    added = moorage_worker.fetch("/books", "POST", json={"title": "Persuasion"})
    assert (added.status_code, added.json()) == (201, {"number": 3, "title": "Persuasion"})
    assert moorage_worker.fetch("/books", "POST", json={"title": ""}).status_code == 422
    assert moorage_worker.fetch("/env").json() == {"site": "The Reading Room"}
    assert moorage_worker.fetch("/openapi.json").json()["info"]["title"] == "Books"


@example("counter")
def test_counter(moorage_worker: WorkerServer) -> None:
    assert moorage_worker.fetch("/a", "POST").json() == {"name": "a", "value": 1}
    assert moorage_worker.fetch("/a", "POST", body="41").json() == {"name": "a", "value": 42}
    assert moorage_worker.fetch("/b").json() == {"name": "b", "value": 0}
    moorage_worker.reload()
    assert moorage_worker.fetch("/a").json() == {"name": "a", "value": 42}


@example("cron")
def test_cron_by_hand(moorage_worker: WorkerServer) -> None:
    assert moorage_worker.fetch("/").json() == []
    moorage_worker.scheduled("*/30 * * * *", 1_700_000_000_000)
    assert moorage_worker.fetch("/").json() == ["2023-11-14/22-13.json"]


@example("cron")
async def test_cron_by_the_clock(moorage_runtime: WorkerRuntime) -> None:
    await moorage_runtime.advance(3_600_000)
    keys = await (await moorage_runtime.fetch("/")).json()
    assert keys == ["2023-11-14/22-30.json", "2023-11-14/23-00.json"]
    report = await moorage_runtime.env.REPORTS.get(keys[0])
    assert report.httpMetadata["contentType"] == "application/json"
    assert (await report.json())["cron"] == "*/30 * * * *"


@example("picture")
def test_picture(moorage_worker: WorkerServer) -> None:
    assert "<img" in moorage_worker.fetch("/").text
    answer = moorage_worker.fetch("/picture.png?red=200")
    data = answer.content
    assert (answer.headers["content-type"], data[:8]) == ("image/png", b"\x89PNG\r\n\x1a\n")
    start = data.index(b"IDAT")
    rows = zlib.decompress(data[start + 4 : start + 4 + int.from_bytes(data[start - 4 : start])])
    assert len(rows) == 64 * (1 + 64 * 3)
    assert rows[1:7] == bytes((200, 0, 0, 200, 4, 0))


@example("highlighter")
def test_highlighter(moorage_worker: WorkerServer) -> None:
    assert moorage_worker.fetch("/").status_code == 404
    saved = moorage_worker.fetch("/", "POST", body="for x in y:\n    pass < 1")
    assert saved.json() == {"saved": "untitled", "titles": ["untitled"]}
    other = moorage_worker.fetch("/", "POST", body="x", headers={"title": "second"})
    assert other.json() == {"saved": "second", "titles": ["second", "untitled"]}
    shown = moorage_worker.fetch("/").text
    assert shown == "<pre>  1 <b>for</b> x <b>in</b> y:\n  2     <b>pass</b> &lt; 1</pre>"


@example("highlighter")
async def test_methods_with_defaults(moorage_runtime: WorkerRuntime) -> None:
    drafts = moorage_runtime.env.DRAFTS.getByName("d")
    assert await drafts.save("a") == "untitled"
    assert await drafts.save("b", "second", "x", "y") == "second"
    assert (await drafts.load("second"))["tags"] == ["x", "y"]
    assert await drafts.titles("s") == ["second"]
    assert await drafts.titles("", 1) == ["second"]


@example("ticker")
async def test_ticker(moorage_runtime: WorkerRuntime) -> None:
    runtime = moorage_runtime
    started = await (await runtime.fetch("/start")).json()
    assert started == {"ticks": 0, "next": runtime.clock.now() + 60_000, "keys": ["running"], "seen": 1}
    await runtime.advance(5 * 60_000)
    state = await (await runtime.fetch("/")).json()
    assert (state["ticks"], state["keys"]) == (5, ["running", "ticks"])
    refused = await runtime.fetch("/restart")
    assert (refused.status, await refused.text()) == (503, "restarted by hand")
    state = await (await runtime.fetch("/")).json()
    assert (state["ticks"], state["seen"], state["keys"]) == (5, 1, ["running", "ticks"]), "what was not kept is gone"
    await runtime.fetch("/stop")
    await runtime.advance(5 * 60_000)
    assert (await (await runtime.fetch("/")).json())["ticks"] == 5


@example("ticker")
def test_ticker_served(moorage_worker: WorkerServer) -> None:
    assert moorage_worker.fetch("/start").json()["keys"] == ["running"]
    assert moorage_worker.fetch("/restart").status_code == 503
    assert moorage_worker.fetch("/stop").json()["next"] is None


@example("notes")
def test_notes(moorage_worker: WorkerServer) -> None:
    pytest.importorskip("django")
    assert moorage_worker.fetch("/notes/").json() == {"notes": []}
    for number, text in enumerate(("first", "zweite – ü"), 1):
        added = moorage_worker.fetch("/notes/", "POST", data={"text": text})
        assert (added.status_code, added.json()) == (201, {"id": number})
    assert moorage_worker.fetch("/notes/").json() == {"notes": ["first", "zweite – ü"]}
    assert moorage_worker.fetch("/notes/", "DELETE").status_code == 405
    assert moorage_worker.fetch("/notes").headers["location"] == "/notes/"
    assert moorage_worker.fetch("/nothing/").status_code == 404


@example("legacy")
def test_legacy(moorage_worker: WorkerServer) -> None:
    answer = moorage_worker.fetch("/a/b")
    assert (answer.text, answer.headers["x-greeting"]) == ("good day from /a/b", "good day")
    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert moorage_worker.fetch("/json?name=Ada").json() == {"greeting": "good day", "name": "Ada"}
    created = moorage_worker.fetch("/", "POST", body="ü")
    assert (created.status_code, created.text) == (201, "ü")


@example("beside")
def test_beside(moorage_worker: WorkerServer) -> None:
    assert moorage_worker.fetch("/").json() == {"weather": "21 °C, mild", "clients": ["weather"]}


@example("tools")
def test_tools(moorage_worker: WorkerServer) -> None:
    assert moorage_worker.fetch("/mcp", "POST").status_code == 400

    def call(session: str, method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        answer = moorage_worker.fetch("/mcp", "POST", json=message, headers={"mcp-session-id": session}).json()
        assert (answer.pop("jsonrpc"), answer.pop("id")) == ("2.0", 7)
        return answer

    assert call("a", "initialize")["result"]["serverInfo"] == {"name": "tools"}
    assert [tool["name"] for tool in call("a", "tools/list")["result"]["tools"]] == ["add", "remember", "recall"]
    added = call("a", "tools/call", name="add", arguments={"a": 2, "b": 3})
    assert added == {"result": {"content": [{"type": "text", "text": "5"}]}}
    call("a", "tools/call", name="remember", arguments={"text": "one"})
    call("b", "tools/call", name="remember", arguments={"text": "two"})
    assert call("a", "tools/call", name="recall")["result"]["content"] == [{"type": "text", "text": "one"}]
    assert call("a", "tools/call", name="fly")["error"]["code"] == -32602
    events = moorage_worker.fetch("/mcp", headers={"mcp-session-id": "a"})
    assert (events.headers["content-type"], events.text) == ("text/event-stream; charset=utf-8", 'data: "one"\n\n')
    assert moorage_worker.fetch("/other", headers={"mcp-session-id": "a"}).status_code == 404


@example("signed-links")
def test_signed_links(moorage_worker: WorkerServer) -> None:
    target = moorage_worker.fetch("/sign/a%20b.pdf").headers["location"].removeprefix(moorage_worker.url)
    assert target.startswith("/a%20b.pdf?until=")
    assert moorage_worker.fetch(target).text == "Here is /a%20b.pdf."
    assert moorage_worker.fetch(target.replace("a%20b", "other")).status_code == 403
    assert moorage_worker.fetch(target.replace("until=1", "until=2")).status_code == 403
    assert moorage_worker.fetch("/a.pdf?signature=x").status_code == 400


@pytest.mark.moorage(dir=str(EXAMPLES / "signed-links"), vars={"SECONDS": "-1"})
def test_signed_links_that_have_ended(moorage_worker: WorkerServer) -> None:
    target = moorage_worker.fetch("/sign/a.pdf").headers["location"].removeprefix(moorage_worker.url)
    assert moorage_worker.fetch(target).status_code == 410


PAGE = (
    b"""<!doctype html><body id=b><a href="%s/next?x=1">next</a> <a href="/own">own</a><img src='%s/i.png'></body>"""
)


async def test_rewriter() -> None:
    asked: list[str] = []

    async def origin(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        base = f"http://{dict(scope['headers'])[b'host'].decode()}".encode()
        page = PAGE % (base, base) if scope["path"] == "/page" else b"plain"
        kind = b"text/html" if scope["path"] == "/page" else b"text/plain"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": page})

    server = uvicorn.Server(uvicorn.Config(origin, port=0, lifespan="off", log_level="critical", ws="none"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.001)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        async with WorkerRuntime(WorkerOptions(EXAMPLES / "rewriter", vars={"ORIGIN": url})) as runtime:
            for _ in range(2):
                answer = await runtime.fetch("/page")
                assert await answer.text() == (
                    "<!doctype html><body id=b><p class=note>You are reading a copy.</p>"
                    '<a href="/next?x=1">next</a> <a href="/own">own</a><img src="/i.png"></body>'
                )
                await runtime.background()
            assert answer.headers["cf-cache-status"] == "HIT"
            assert await (await runtime.fetch("/other")).text() == "plain"
            await runtime.advance(60_000)
            await (await runtime.fetch("/page")).text()
            await runtime.background()
            assert asked == ["/page", "/other", "/page"]
            assert (await runtime.fetch("/page", method="POST")).status == 405
    finally:
        server.should_exit = True
        await task
