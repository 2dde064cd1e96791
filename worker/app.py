"""The ASGI application: finds the route, checks who signed, reads a bounded body, calls the handler, answers.

Hot routes (exact paths, and paths with one variable last segment) are found in dictionaries and touch no `Request`
object; everything else goes through a plain Starlette router over the same serving function.
"""

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from typing import Any, TypeAlias

from starlette.routing import BaseRoute, Match, Router
from starlette.routing import Route as StarletteRoute

from moorage.protocols.paths import normalise
from moorage.protocols.wire import ExactReviewQueueNotConfigured, InternalError, NotFound, WireError

from . import metrics
from .answers import refusal, send_answer, send_preflight
from .auth import Authenticator, Signer, check_configured
from .reading import ClientGone, read_body
from .routes import all_routes, all_starlette_routes
from .routing import Call, Result, Route, Style
from .settings import BUCKET_BINDING, Settings
from .table import RouteTable

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

log = logging.getLogger("moorage.worker")
access = logging.getLogger("moorage.worker.access")

INGEST_MARK = b"-ingest."
INGEST_PATHS = frozenset({"/api/events", "/api/health"})
UNROUTED = "(none)"
PREFLIGHT = "(preflight)"


class _Template(StarletteRoute):
    """A path template in Starlette's router; another method, or a parameter out of its grammar, is no match at
    all.
    """

    def __init__(self, route: Route, endpoint: Any) -> None:
        super().__init__(route.path, endpoint)
        self.route = route

    def matches(self, scope: Any) -> tuple[Match, Any]:
        match, child = super().matches(scope)
        if match is Match.NONE:
            return match, child
        route = self.route
        if route.methods and scope["method"] not in route.methods:
            return Match.NONE, {}
        if route.accepts is not None and not route.accepts(child["path_params"]):
            return Match.NONE, {}
        return Match.FULL, child


class _Endpoint:
    """A route as an ASGI application, for Starlette's router."""

    def __init__(self, plane: "StatePlane", route: Route) -> None:
        self._plane = plane
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._plane.serve(self._route, scope["path_params"], scope, receive, send)


class StatePlane:
    """The state plane as an ASGI application; `scope["env"]` holds the bindings of the Worker.

    `routes`: those of `moorage.worker.routes` by default. `now`: seconds since 1970, for version 2 signatures.
    """

    def __init__(self, routes: Iterable[Route] | None = None, now: Callable[[], float] = time.time) -> None:
        self._table = RouteTable(all_routes() if routes is None else routes)
        self._auth = Authenticator(now)
        self._settings: Settings | None = None
        templates: list[BaseRoute] = [_Template(route, _Endpoint(self, route)) for route in self._table.others]
        self._rest = Router([*templates, *all_starlette_routes()], redirect_slashes=False, default=self._not_found)

    def settings(self, env: Any) -> Settings:
        """The settings of `env`, read again only when another `env` is handed in."""
        known = self._settings
        if known is None or known.env is not env:
            known = self._settings = Settings.of(env)
        return known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = scope["type"]
        if kind == "http":
            await self._http(scope, receive, send)
        elif kind == "lifespan":
            await self._lifespan(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1000})

    async def _lifespan(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if "env" in scope:
            self.settings(scope["env"])
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        method: str = scope["method"]
        raw_path: bytes = scope.get("raw_path") or scope["path"].encode("utf-8")
        path = normalise(raw_path.decode("latin-1"))
        for name, value in scope["headers"]:
            if name == b"host" and INGEST_MARK in value.lower() and path not in INGEST_PATHS:
                await self._not_found(scope, receive, send)
                return
        if method == "OPTIONS":
            began = time.perf_counter()
            await send_preflight(send)
            self._report(method, PREFLIGHT, 204, began, 0, None, None)
            return
        found = self._table.find(method, path)
        if found is not None:
            await self.serve(found[0], found[1], scope, receive, send)
            return
        started = False

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            started = True
            await send(message)

        # routed undecoded: an encoded letter is another path, and a parameter is what was sent
        child = {**scope, "path": path, "root_path": ""}
        try:
            await self._rest(child, receive, sending)
        except ClientGone:
            raise
        except Exception:
            log.exception("%s failed", UNROUTED)
            if started:
                raise
            await send_answer(send, refusal(InternalError()), Style.INDENTED)

    async def _not_found(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = NotFound()
        started = time.perf_counter()
        status = await send_answer(send, refusal(error), Style.INDENTED, with_body=scope["method"] != "HEAD")
        self._report(scope["method"], UNROUTED, status, started, 0, None, error.code)

    async def serve(
        self, route: Route, params: Mapping[str, str], scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answers one request of `route`: secret, body, signature, binding, handler, in this order."""
        started = time.perf_counter()
        method: str = scope["method"]
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        env = scope.get("env")
        settings = self.settings(env)
        style = Style.INDENTED
        signer: Signer | None = None
        code: str | None = None
        body = b""
        result: Result
        try:
            check_configured(settings, route.auth)
            # a request that another Worker made has no connection, and need not say how long its body is
            http1 = "server" in scope and scope["http_version"].startswith("1")
            body = await read_body(receive, headers, route.transport_cap, announced=http1)
            signer = await self._auth.verify(settings, route.auth, scope, body)
            if route.queue and settings.queue is None:
                raise ExactReviewQueueNotConfigured
            style = route.style
            if route.bucket is not None and getattr(env, BUCKET_BINDING, None) is None:
                raise route.bucket()
            result = await route.handler(
                Call(
                    env,
                    body,
                    params,
                    route,
                    headers,
                    scope["query_string"],
                    signer.key_id if signer else None,
                    settings.queue,
                    receive,
                )
            )
        except WireError as error:
            code = error.code
            result = refusal(error)
        except ClientGone:
            self._report(method, route.path, 499, started, 0, signer, "client_gone")
            return
        except Exception:
            log.exception("%s %s failed", method, route.path)
            failure = route.failure()
            code = failure.code
            result = refusal(failure)
        try:
            status = await send_answer(send, result, style, with_body=method != "HEAD")
        except Exception as error:
            # the status has gone out: the server cuts the connection, so that nobody takes the piece for the whole
            log.error("%s %s: the answer broke off: %s", method, route.path, type(error).__name__)
            self._report(method, route.path, 500, started, len(body), signer, "answer_broke_off")
            raise
        if code is None and status >= 400:
            value = getattr(result, "value", None)
            code = value.get("error") if isinstance(value, dict) else None
        self._report(method, route.path, status, started, len(body), signer, code)

    @staticmethod
    def _report(
        method: str, route: str, status: int, started: float, size: int, signer: Signer | None, code: str | None
    ) -> None:
        seconds = time.perf_counter() - started
        metrics.observe(method, route, status, seconds, size, code)
        if access.isEnabledFor(logging.INFO):
            access.info(
                "%s %s %d",
                method,
                route,
                status,
                extra={
                    "method": method,
                    "route": route,
                    "status": status,
                    "duration_ms": round(seconds * 1000, 3),
                    "body_bytes": size,
                    "key_id": signer.key_id if signer else None,
                    "signature_version": signer.version if signer else None,
                    "error": code,
                },
            )
