"""`asgi`: a Worker answers with an ASGI application (spec python-workers-api 3).

`return await asgi.fetch(app, request, env)` hands the server's own scope and channels to the application, untouched.
Where the program wants the response itself, or the request did not come from a server, the application runs beside it
and its messages become a Response, chunk by chunk as they are asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any
from urllib.parse import unquote

from moorage.durable_objects.runtime.web import URL, Body, Headers, ReadableStream, Request, Response, as_request

from . import direct
from .current import current
from .entrypoints import WorkerEntrypoint
from .lifespan import ASGI, known_state, shutdown_all, state_of

logger = logging.getLogger("asgi")

_NULL_BODY = frozenset({101, 103, 204, 205, 304})


def request_to_scope(req: Any, env: Any, ws: bool = False, state: Any = None) -> dict[str, Any]:
    """The ASGI scope of a request: `path` decoded, `raw_path` as it came, `scope["env"]` the bindings."""
    request = as_request(req)
    if request.scope is not None:
        scope = {**request.scope, "type": "websocket" if ws else "http", "asgi": ASGI, "env": env}
        scope["headers"] = request.fields.raw()
    else:
        scope = _scope_of_url(request, ws)
        scope["env"] = env
    if not ws:
        scope["method"] = str(request.method)
    if state is not None:
        scope["state"] = dict(state)
    return scope


def _scope_of_url(request: Request, ws: bool) -> dict[str, Any]:
    url = URL(request.url)
    scheme = url.protocol[:-1]
    if ws:
        scheme = {"http": "ws", "https": "wss"}.get(scheme, scheme)
    return {
        "type": "websocket" if ws else "http",
        "asgi": ASGI,
        "http_version": "1.1",
        "scheme": scheme,
        "path": unquote(url.pathname),
        "raw_path": url.pathname.encode("ascii"),
        "query_string": url.search[1:].encode("ascii"),
        "headers": request.fields.raw(),
    }


async def fetch(app: Any, req: Any, env: Any, ctx: Any = None) -> Response:
    """Runs `app` for `req` (a `workers.Request` or a `js.Request`) and returns its Response.

    The request of a server's WebSocket goes to `websocket()`.

    Raises what the application raises before it has started to answer, RuntimeError when it never answers, and
    `LifespanFailed` when its startup fails. An error behind that is logged and cuts the answer.
    """
    request = as_request(req)
    if request.scope is not None and request.scope["type"] == "websocket":
        return await websocket(app, request, env)
    state = known_state(app)
    if state is None:
        state = await state_of(app)
    if request.exchange is not None and request.asgi_receive is not None and direct.goes_to_the_host():
        return await _straight(app, request, env, state)
    return await _beside(app, request, env, state)


async def _straight(app: Any, request: Request, env: Any, state: dict[str, Any]) -> Response:
    exchange = request.exchange
    assert request.scope is not None
    assert exchange is not None
    scope = {**request.scope, "env": env, "state": dict(state)}
    request.exchange = None
    try:
        await app(scope, exchange.receive, exchange.send)
    except Exception as error:
        if not exchange.started:
            request.exchange = exchange
            logger.error("ASGI request failed", exc_info=error)
            raise
        logger.error("Exception in ASGI application after response started", exc_info=error)
        return Response.sent(exchange.status, None if exchange.complete else error)
    if not exchange.started and not exchange.gone:
        request.exchange = exchange
        raise RuntimeError("The application did not generate a response")
    return Response.sent(exchange.status or 200)


class _SeparateRun:
    """One run of an application beside the program: its messages on one side, a Response on the other."""

    def __init__(self, request: Request) -> None:
        self.request = request
        loop = asyncio.get_running_loop()
        self.answered = False
        self._answer: asyncio.Future[Response] | None = loop.create_future()
        self.over = asyncio.Event()
        self.complete = False
        self.error: BaseException | None = None
        self._start: dict[str, Any] | None = None
        self._chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._wanted = asyncio.Event()
        self._source = request.body
        self._received = False
        self._turn = asyncio.Lock()
        if self._source is not None:
            self._source.lock()

    def _decide(self, outcome: Response | BaseException) -> None:
        self.answered = True
        future = self._answer
        if future is None or future.done():
            return
        if isinstance(outcome, Response):
            future.set_result(outcome)
        else:
            future.set_exception(outcome)

    async def answer(self) -> Response:
        """Waits for the Response; asked once. It is not kept here, so that one knows when nobody wants it."""
        future = self._answer
        assert future is not None
        try:
            return await future
        finally:
            self._answer = None

    async def receive(self) -> dict[str, Any]:
        async with self._turn:
            if not self._received and not self.over.is_set():
                try:
                    chunk = None if self._source is None else await self._source.next_chunk()
                except OSError:  # the client went away
                    self.over.set()
                    return {"type": "http.disconnect"}
                self._received = chunk is None
                return {"type": "http.request", "body": chunk or b"", "more_body": chunk is not None}
        await self.over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "http.response.start":
            if self._start is not None:
                raise RuntimeError("Unexpected ASGI message 'http.response.start': the response has started")
            self._start = message
        elif kind == "http.response.body":
            if self._start is None or self.complete:
                raise RuntimeError(f"Unexpected ASGI message {kind!r}: the response has not started, or is complete")
            await self._send_body(bytes(message.get("body", b"")), bool(message.get("more_body")))
        else:
            raise RuntimeError(f"Unexpected ASGI message {kind!r}")

    async def _send_body(self, chunk: bytes, more: bool) -> None:
        self.complete = not more
        if not self.answered:
            streamed = more and self._start is not None and self._start["status"] not in _NULL_BODY
            self._decide(self._response(None if streamed else chunk))
            if not streamed:
                if not more:
                    self.over.set()
                return
        if self.over.is_set():
            raise OSError("the reader of this response has gone")  # as servers of ASGI 2.4 do
        if chunk:
            # the next chunk is made only when the last one was taken and another is asked for
            await self._wanted.wait()
            self._wanted.clear()
            if self.over.is_set():
                raise OSError("the reader of this response has gone")
            self._chunks.put_nowait(chunk)
        if not more:
            self._chunks.put_nowait(None)
            self.over.set()

    def _response(self, whole: bytes | None) -> Response:
        assert self._start is not None
        status = self._start["status"]
        headers = Headers.from_raw(self._start.get("headers", ()))
        if status in _NULL_BODY:
            body = None
        elif whole is None:
            body = Body(stream=ReadableStream(_Chunks(self)))
        else:
            body = Body(whole)
        return Response.received(status, headers, body)

    async def next_chunk(self) -> bytes | None:
        """The next chunk of the response, None at its end; raises what broke the application off."""
        if self._chunks.empty() and not self.over.is_set():
            self._wanted.set()
        chunk = await self._chunks.get()
        if chunk is None:
            self._chunks.put_nowait(None)  # it stays at its end
            if self.error is not None:
                raise self.error
        return chunk

    def stop(self) -> None:
        """Nobody reads the response any more: the application is told at its next message."""
        self.over.set()
        self._wanted.set()

    def ended(self, error: BaseException | None) -> None:
        """The application returned or raised."""
        if not self.answered:
            # before an answer only the client's leaving ends an exchange
            gone = ConnectionResetError("the client went away") if self.over.is_set() else None
            self._decide(error or gone or RuntimeError("The application did not generate a response"))
        elif not self.complete and not self.over.is_set():
            self.error = error or RuntimeError("The application returned before its response was complete")
        self._chunks.put_nowait(None)
        self.over.set()


class _Chunks:
    """The body of an exchange. When it is closed, or nobody holds it any more, the application is told."""

    def __init__(self, exchange: _SeparateRun) -> None:
        self._exchange = exchange

    def __aiter__(self) -> _Chunks:
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._exchange.next_chunk()
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        self._exchange.stop()

    def __del__(self) -> None:
        self._exchange.stop()


async def _beside(app: Any, request: Request, env: Any, state: dict[str, Any]) -> Response:
    exchange = _SeparateRun(request)
    scope = request_to_scope(request, env, state=state)

    async def run() -> None:
        try:
            await app(scope, exchange.receive, exchange.send)
        except Exception as error:
            if exchange.answered:
                if not exchange.over.is_set() or exchange.complete:
                    logger.error("Exception in ASGI application after response started", exc_info=error)
            else:
                logger.error("ASGI request failed", exc_info=error)
            exchange.ended(error)
        except BaseException:
            exchange.ended(RuntimeError("The application was cancelled"))
            raise
        else:
            exchange.ended(None)

    task = asyncio.ensure_future(run())
    current().wait_until(task)
    try:
        return await exchange.answer()
    except asyncio.CancelledError:
        task.cancel()
        raise


def run_in_background(work: Awaitable[Any]) -> None:
    """Keeps `work` going; its error is logged."""
    current().wait_until(work)


async def websocket(app: Any, req: Any, env: Any = None) -> Response:
    """Runs `app` for a WebSocket request and returns the Response with status 101 that accepts it."""
    from .asgi_sockets import serve

    request = as_request(req)
    return await serve(app, request, env, await state_of(app))


def entrypoint(app: Any) -> type[WorkerEntrypoint]:
    """A `Default` class that answers every request, WebSockets included, with `app`."""

    class Default(WorkerEntrypoint):
        async def fetch(self, request: Request) -> Response:
            if (request.fields.get("upgrade") or "").lower() == "websocket":
                return await websocket(app, request, self.env)
            return await fetch(app, request, self.env, self.ctx)

    return Default


def __getattr__(name: str) -> Any:
    if name == "env":
        # the FastAPI dependency: `def route(env=asgi.env)`
        from fastapi import Depends  # type: ignore[import-not-found, unused-ignore]
        from fastapi import Request as FastRequest

        async def bindings(request: Any) -> Any:
            return request.scope["env"]

        bindings.__annotations__["request"] = FastRequest
        return Depends(bindings)
    raise AttributeError(f"module 'asgi' has no attribute {name!r}")


__all__ = ["entrypoint", "fetch", "request_to_scope", "run_in_background", "shutdown_all", "websocket"]
