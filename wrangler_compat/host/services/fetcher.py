"""The binding `env.SVC`: requests, method calls and events for another Worker of the process."""

import datetime
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol

from moorage.durable_objects.runtime import gate as gates
from moorage.durable_objects.runtime.errors import across_boundary
from moorage.durable_objects.runtime.rpc import RpcMember, RpcPromise, Stub
from moorage.durable_objects.runtime.web import Request, Response

from ...workers import switching
from ...workers.bindings import FetcherBinding
from ..redirects import followed
from ..values import Presentation, options_of
from .crossing import crossing


class ServiceTarget(Protocol):
    """What a host offers of one entrypoint: each call makes a new instance of its class."""

    async def fetch(self, request: Request) -> Response:
        """Delivers a request."""

    async def call(self, name: str, invoke: tuple[tuple[Any, ...], dict[str, Any]] | None) -> Any:
        """Calls a public method, or with `invoke` None reads a property; returns a copy of the result."""

    async def scheduled(self, cron: str, moment: int) -> str:
        """Delivers a cron event; `moment` is milliseconds since 1970. Returns `ok` or `exception`."""

    async def queue(self, name: str, messages: list[list[Any]]) -> dict[str, Any]:
        """Delivers messages as a consumer gets them, and returns what the handler said of them."""


class Fetcher(FetcherBinding, Stub):
    """Another Worker (spec python-workers-api 5). Arguments and results are copies.

    Every call leaves through the output gate of the object that makes it: what it wrote before is durable then.
    """

    __slots__ = ("_form", "_now", "_target")

    def __init__(self, target: ServiceTarget, now: Callable[[], int], form: Presentation) -> None:
        self._target = target
        self._now = now
        self._form = form

    def fetch(self, resource: Any, options: Any = None, **keywords: Any) -> RpcPromise:
        """Sends a Request, or a URL with `method`, `headers` and `body`; an awaitable of its Response."""
        # A request of its own: the other Worker must not write to the client's connection.
        request = Request(resource, **{**dict(options or {}), **keywords})
        return self._send(lambda: followed(request, self._target.fetch))

    def scheduled(self, options: Any = None, **keywords: Any) -> RpcPromise:
        """Delivers a cron event: `cron`, `scheduledTime` (a datetime or milliseconds). `outcome` and `noRetry`."""
        given = options_of(options, keywords, ("cron", "scheduledTime"), "scheduled")
        moment = given.get("scheduledTime", self._now())
        if isinstance(moment, datetime.datetime):
            moment = round(moment.timestamp() * 1000)

        async def deliver() -> Any:
            outcome = await self._target.scheduled(str(given.get("cron", "")), int(moment))
            return self._form.value({"outcome": outcome, "noRetry": False})

        return self._send(deliver)

    def queue(self, queueName: str, messages: Iterable[Any]) -> RpcPromise:
        """Delivers messages (`id`, `timestamp`, `body`, `attempts`) to `queue(batch)`.

        An awaitable of `outcome`, `ackAll`, `retryBatch`, `explicitAcks`, `retryMessages`.
        """
        rows = [_message(message, place, self._now()) for place, message in enumerate(messages)]

        async def deliver() -> Any:
            return self._form.value(await self._target.queue(queueName, rows))

        return self._send(deliver)

    def __getattr__(self, name: str) -> RpcMember:
        if name.startswith("_") or name in {"to_py", "js_object", "js_response", "message"}:
            raise AttributeError(name)
        return RpcMember(lambda invoke: self._call(name, invoke), name)

    def _call(self, name: str, invoke: tuple[tuple[Any, ...], dict[str, Any]] | None) -> RpcPromise:
        if invoke is not None:
            invoke = (
                tuple(crossing(value) for value in invoke[0]),
                {key: crossing(value) for key, value in invoke[1].items()},
            )

        async def deliver() -> Any:
            return self._form.value(await self._target.call(name, invoke))

        return self._send(deliver)

    def _send(self, deliver: Callable[[], Awaitable[Any]]) -> RpcPromise:
        async def carry() -> Any:
            try:
                return await deliver()
            except Exception as error:
                raise across_boundary(error) from error

        return RpcPromise.of(lambda: gates.run_outside(switching.wrap(carry())))


def _message(message: Any, place: int, now: int) -> list[Any]:
    if not isinstance(message, Mapping):
        raise TypeError(f"queue(): message {place} must be a dictionary, not {type(message).__name__}")
    moment = message.get("timestamp")
    if isinstance(moment, datetime.datetime):
        moment = round(moment.timestamp() * 1000)
    body = crossing(message.get("body"))
    return [
        str(message.get("id", place)),
        body,
        now if moment is None else int(moment),
        int(message.get("attempts", 1)),
    ]
