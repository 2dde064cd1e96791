"""The ASGI application of a host: any ASGI server can run it; `moorage serve` and `dev` run it on uvicorn."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from moorage.durable_objects.runtime.web import BodyTooLarge, Exchange, Request, Response

from . import metrics, triggers
from .host import Host, Receive, Scope, Send
from .settings import HostSettings
from .sockets import refuse, upgrade_request
from .testhooks import TestHooks

_access = logging.getLogger("moorage.host.access")
_log = logging.getLogger("moorage.host")

_JSON: Final = (b"content-type", b"application/json; charset=utf-8")
# uvicorn writes it in front of every answer; a fetched response that is passed on has one of its own
_SERVER_FIELDS: Final = frozenset({b"date"})
CLIENT_GONE: Final = 499
"""What the log and the counters say of a request whose client hung up before there was an answer."""


class Application:
    """Serves the first Worker of `host`. Its lifespan starts and ends the host.

    In `dev` an error of the Worker is answered with its traceback; in `serve` with an opaque 500.
    """

    def __init__(self, host: Host, *, own_lifespan: bool = True) -> None:
        self.host = host
        self._own_lifespan = own_lifespan
        self._hooks = TestHooks(host) if host.settings.test_hooks else None
        self._max_body = host.settings.max_body
        self._access_log = host.settings.access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            await self._http(scope, receive, send)
        elif kind == "lifespan":
            await self._lifespan(receive, send)
        elif kind == "websocket":
            await self._websocket(scope, receive, send)

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    if self._own_lifespan:
                        await self.host.start()
                except Exception as error:
                    _log.critical("the Worker could not be started: %s", error)
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                try:
                    if self._own_lifespan:
                        await self.host.close()
                finally:
                    await send({"type": "lifespan.shutdown.complete"})
                return

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        exchange = Exchange(receive, send, self._max_body)
        status = 0
        try:
            if self._hooks is not None and scope["path"].startswith("/__test/"):
                await self._hooks(scope, receive, exchange.send)
                return
            host = self.host
            if not host.workers:
                await _answer(exchange.send, 503, self._explain(host.failure, "worker_not_loaded"))
                return
            if host.mode == "dev" and scope["path"] in triggers.LOCAL:
                await triggers.answer(host, scope, exchange.send)
                return
            request = Request.over(scope, exchange)
            response = await host.fetch(host.workers[0], request)
            if response.passthrough:
                response.raise_failure()
            else:
                head = scope["method"] == "HEAD"
                await response.send(exchange.send, head=head, gone=request.disconnected, without=_SERVER_FIELDS)
        except BodyTooLarge:
            if not exchange.started:
                # the rest of the body is never read, so the connection cannot be used again
                too_large = {"error": "body_too_large", "limit": self._max_body}
                await _answer(exchange.send, 413, too_large, close=True)
        except asyncio.CancelledError:
            # the server stops, and has waited for this request as long as it may
            if exchange.started:
                raise
            await _answer(exchange.send, 503, {"error": "server_stopping"}, close=True)
        except Exception as error:
            if isinstance(error, ConnectionResetError) and exchange.gone:
                status = CLIENT_GONE
                return
            _log.exception("%s %s failed", scope["method"], scope["path"])
            if exchange.started:
                raise  # the server cuts the connection: the client must not take half an answer for a whole one
            await _answer(exchange.send, 500, self._explain(error, "internal_error"))
        finally:
            elapsed = time.perf_counter() - started
            status = status or exchange.status or (CLIENT_GONE if exchange.gone else 500)
            metrics.request(status, elapsed)
            if self._access_log:
                self._log_access(scope["method"], scope["path"], status, elapsed)

    def _log_access(self, method: str, path: str, status: int, elapsed: float) -> None:
        if self._access_log:
            extra = {"status": status, "duration_ms": round(elapsed * 1000, 3)}
            _access.info("%s %s %d", method, path, status, extra=extra)

    def _explain(self, error: BaseException | None, code: str) -> dict[str, Any]:
        answer: dict[str, Any] = {"error": code}
        if self.host.mode == "dev" and error is not None:
            answer["message"] = str(error)
            answer["traceback"] = traceback.format_exception(error)
        return answer

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        host = self.host
        status = 500
        try:
            if not host.workers:
                status = 503
                await refuse(_json(503, self._explain(host.failure, "worker_not_loaded")), scope, receive, send)
                return
            request = upgrade_request(scope, receive, send)
            response = await host.fetch(host.workers[0], request)
            status = response.status
            metrics.request(status, time.perf_counter() - started)
            self._log_access("GET", scope["path"], status, time.perf_counter() - started)
            await host.couplings.answer(response, scope, receive, send)
        except Exception as error:
            _log.exception("WebSocket %s failed", scope["path"])
            if status == 101:
                raise  # the server closes the connection
            await refuse(_json(500, self._explain(error, "internal_error")), scope, receive, send)


def _json(status: int, value: Mapping[str, Any]) -> Response:
    import msgspec

    return Response(msgspec.json.encode(value), status, headers={"content-type": "application/json; charset=utf-8"})


async def _answer(send: Send, status: int, value: Mapping[str, Any], *, close: bool = False) -> None:
    import msgspec

    body = msgspec.json.encode(value)
    headers = [_JSON, (b"content-length", str(len(body)).encode())]
    if close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def create_app(
    folder: str | Path = ".", *, settings: HostSettings | None = None, mode: str = "serve", **options: Any
) -> Application:
    """Returns the ASGI application of the Worker in `folder`, for any ASGI server that runs the lifespan.

    For example `granian --interface asgi --factory app:make` with `make = partial(create_app, "path")`.
    """
    return Application(Host([Path(folder)], settings or HostSettings(), mode=mode, **options))
