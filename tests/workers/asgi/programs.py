"""A server's request, an application, and the handlers that return or keep what the application answers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from moorage.durable_objects.runtime.web import Request, Response
from moorage.wrangler_compat.workers import asgi
from moorage.wrangler_compat.workers.calling import call_fetch

App = Callable[[Any, Any, Any], Awaitable[None]]
Sent = list[dict[str, Any]]


def start(status: int = 200, *headers: tuple[bytes, bytes]) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(data: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


def without_lifespan(app: App) -> App:
    async def wrapped(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] != "lifespan", "no lifespan here"
        await app(scope, receive, send)

    return wrapped


class Server:
    """One request of a server: what it gives and what it was sent."""

    def __init__(self, method: str = "GET", path: bytes = b"/a%20b", content: bytes = b"") -> None:
        self.sent: Sent = []
        self.messages = [{"type": "http.request", "body": content, "more_body": False}]
        self.scope: dict[str, Any] = {
            "type": "http", "method": method, "path": "/a b", "raw_path": path, "query_string": b"x=1",
            "scheme": "http", "headers": [(b"host", b"example.com"), (b"content-length", b"%d" % len(content))],
            "client": ("127.0.0.1", 5), "extensions": {"own": {}},
        }  # fmt: skip
        self.request = Request.from_asgi(self.scope, self.receive, self.send)

    async def receive(self) -> Any:
        return self.messages.pop(0) if self.messages else {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(dict(message))

    async def answer(self, handler: Any) -> Response:
        response = await call_fetch(handler, self.request, None, None)
        await response.send(self.send)
        return response


@without_lifespan
async def hello(scope: Any, receive: Any, send: Any) -> None:
    scope["seen"] = True
    await send(start(200, (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")))
    await send(body(b"hello"))


async def returned(app: App, handler: Callable[[App], Any]) -> tuple[Server, Response]:
    server = Server()
    return server, await server.answer(handler(app))


def returns_at_once(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        return await asgi.fetch(app, request, {"NAME": "x"})

    return fetch


def returns_through_another(app: App) -> Any:
    async def route(request: Any) -> Any:
        await asyncio.sleep(0)
        return await asgi.fetch(app, request, {"NAME": "x"})

    async def fetch(request: Any) -> Any:
        if request.method == "GET":
            return await route(request)
        return Response("other")

    return fetch


def returns_the_coroutine(app: App) -> Any:
    def fetch(request: Any) -> Any:
        return asgi.fetch(app, request, {"NAME": "x"})

    return fetch


def returns_in_a_try(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        try:
            return await asgi.fetch(app, request, {"NAME": "x"})
        except ZeroDivisionError:
            return Response("caught", status=500)

    return fetch


def keeps_it(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        response = await asgi.fetch(app, request, {"NAME": "x"})
        return response  # noqa: RET504

    return fetch


def request(content: Any = None) -> Request:
    return Request("http://example.com/x", method="POST", body=content)
