"""A route of the state plane, what its handler is given, and what it may return."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from moorage.protocols.wire import ExactReviewQueueNotConfigured, InternalError, Reply, WireError

Env: TypeAlias = Any
MIB = 1024 * 1024


class Auth(Enum):
    """Whose signature a route wants (spec state-plane-protocol 2.2, 2.3)."""

    NONE = "none"
    WEBHOOK = "webhook"
    OPERATOR = "operator"
    WEBHOOK_OR_OPERATOR = "webhook or operator"
    """The webhook secret must be configured; either verifies (focused read of section `items`)."""
    HUB = "code host"
    """The webhook secret under `x-hub-signature-256`, version 1 only (2.4)."""


class Style(Enum):
    """The two JSON styles of spec state-plane-protocol 1."""

    INDENTED = "indented"
    """Router and queue: indent of two, `charset=utf-8`, `no-store`, CORS headers."""
    COMPACT = "compact"
    """Blobs and snapshot uploads: compact, plain `application/json`."""


@dataclass(slots=True)
class Answer:
    """A JSON answer: `value` in the route's style (or in `style`), with `headers` added."""

    value: Any
    status: int = 200
    headers: Mapping[str, str] | None = None
    style: Style | None = None

    @classmethod
    def of(cls, reply: Reply) -> "Answer":
        """The answer that a Durable Object method handed over (`moorage.protocols.wire.reply`)."""
        return cls(reply["value"], reply["status"], reply.get("headers"))


@dataclass(slots=True)
class Raw:
    """An answer of bytes: `body` whole, or an asynchronous iterator of chunks with its `length` in bytes."""

    body: bytes | AsyncIterator[bytes]
    status: int = 200
    headers: Mapping[str, str] | None = None
    length: int | None = None


class Call:
    """One request, after its signature has been verified.

    `env`: the bindings. `body`: the very bytes that were verified. `params`: path parameters as sent
    (percent-encoding included). `query`: the raw query, without `?`. `key_id`: `webhook`, `operator` or None.
    """

    __slots__ = ("_headers", "_receive", "body", "env", "key_id", "params", "query", "queue_stub", "route")

    def __init__(
        self,
        env: Env,
        body: bytes,
        params: Mapping[str, str],
        route: "Route",
        headers: Iterable[tuple[bytes, bytes]] = (),
        query: bytes = b"",
        key_id: str | None = None,
        queue_stub: Callable[[], Any] | None = None,
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]] | None = None,
    ) -> None:
        self.env = env
        self.body = body
        self.params = params
        self.route = route
        self.query = query
        self.key_id = key_id
        self._headers = headers
        self.queue_stub = queue_stub
        self._receive = receive

    async def gone(self) -> None:
        """Returns when the client has hung up: for a handler that waits, or streams. The body is read by then."""
        if self._receive is None:
            await asyncio.get_running_loop().create_future()
            return
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def header(self, name: str) -> str | None:
        """The header's value (several joined by `, `), or None."""
        wanted = name.lower().encode("latin-1")
        found = [value.decode("latin-1") for header, value in self._headers if header == wanted]
        return ", ".join(found) if found else None

    @property
    def queue(self) -> Any:
        """A stub of the one `ExactReviewQueue` instance, `global`; fresh for this call.

        Raises ExactReviewQueueNotConfigured without the binding.
        """
        if self.queue_stub is None:
            raise ExactReviewQueueNotConfigured
        return self.queue_stub()


Result: TypeAlias = Answer | Raw | dict[str, Any]
Handler: TypeAlias = Callable[[Call], Awaitable[Result]]


@dataclass(frozen=True, slots=True)
class Route:
    """One route.

    `path` is exact, or has whole segments in braces (`/internal/state/cursors/{mode}`). `methods` empty: any method.
    `accepts` looks at the parameters before anything else: False means that there is no such route (404), for the
    grammar of a path. `bucket`: the answer when the bucket binding is missing (after the signature, before the
    body is looked at); None: the handler looks for itself. `queue`: the route needs EXACT_REVIEW_QUEUE.
    `failure`: what an unexpected exception of the handler becomes. `transport_cap`: bytes read at most; put it
    well above the limit that the handler itself answers 413 for.
    """

    methods: tuple[str, ...]
    path: str
    handler: Handler
    auth: Auth = Auth.WEBHOOK
    style: Style = Style.INDENTED
    queue: bool = False
    bucket: Callable[[], WireError] | None = None
    failure: type[WireError] = InternalError
    accepts: Callable[[Mapping[str, str]], bool] | None = None
    transport_cap: int = 16 * MIB
