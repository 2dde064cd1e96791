"""An entrypoint of a Worker that runs in this process."""

import inspect
import logging
from typing import TYPE_CHECKING, Any

from moorage.durable_objects.runtime.rpc import reach
from moorage.durable_objects.runtime.web import Request, Response

from ...workers.calling import call, call_fetch
from ...workers.current import ExecutionContext, contained, running
from ...workers.entrypoints import WorkerEntrypoint
from ..crons import ScheduledController
from ..queues.batch import MessageBatch
from .crossing import crossing

if TYPE_CHECKING:
    from ..host import Host, Worker

_log = logging.getLogger("moorage.host.services")

# What the platform calls itself, never a caller by name.
_EVENTS = frozenset({"fetch", "scheduled", "queue", "connect", "tail", "trace", "alarm", "test"})


class LocalTarget:
    """`ServiceTarget` of a Worker's default entrypoint (`entrypoint` None) or of a named one."""

    def __init__(self, host: "Host", worker: "Worker", entrypoint: str | None) -> None:
        self._host = host
        self._worker = worker
        self._class = worker.found.default if entrypoint is None else worker.found.named[entrypoint]
        self._default = entrypoint is None
        self._label = worker.config.name if entrypoint is None else f"{worker.config.name}.{entrypoint}"

    def _instance(self) -> Any:
        if self._class is None:
            raise TypeError(f"{self._label} has module-level handlers: only fetch, scheduled and queue can be called")
        return self._class(ExecutionContext(self._worker.context), self._worker.env)

    def _handler(self, event: str) -> Any:
        handler = getattr(self._instance(), event, None)
        if not callable(handler):
            raise LookupError(f"{self._label} has no {event} handler")
        return handler

    def _check(self, event: str) -> None:
        if not (self._worker.found.handles(event) if self._default else callable(getattr(self._class, event, None))):
            raise LookupError(f"{self._label} has no {event} handler")

    async def fetch(self, request: Request) -> Response:
        if self._default:
            return await self._host.fetch(self._worker, request)
        with running(self._worker.context):
            return await contained(call_fetch(self._handler("fetch"), request, None, None))

    async def call(self, name: str, invoke: tuple[tuple[Any, ...], dict[str, Any]] | None) -> Any:
        with running(self._worker.context):
            if name in _EVENTS:
                raise TypeError(f'The RPC receiver does not implement the method "{name}".')
            value = reach(self._instance(), name, WorkerEntrypoint, invoke)
            return crossing(await contained(value) if inspect.isawaitable(value) else value)

    async def scheduled(self, cron: str, moment: int) -> str:
        self._check("scheduled")
        try:
            if self._default:
                await self._host.scheduled(self._worker, cron, moment)
            else:
                with running(self._worker.context):
                    await contained(call(self._handler("scheduled"), ScheduledController(cron, moment), None, None))
        except Exception:
            _log.exception("%s: scheduled() failed", self._label)
            return "exception"
        return "ok"

    async def queue(self, name: str, messages: list[list[Any]]) -> dict[str, Any]:
        self._check("queue")
        batch = MessageBatch(name, messages)
        failed = False
        try:
            if self._default:
                await self._host.queue(self._worker, batch)
            else:
                with running(self._worker.context):
                    await contained(call(self._handler("queue"), batch, None, None))
        except Exception:
            _log.exception("%s: queue() failed", self._label)
            failed = True
        said = batch.decisions(failed=failed)
        retried = said.retried or {}
        return {
            "outcome": "exception" if failed else "ok",
            "ackAll": said.ack_all,
            "retryBatch": _delayed({"retry": said.retry_all}, said.retry_all_delay),
            "explicitAcks": [row[0] for row in messages if row[0] in said.acked],
            "retryMessages": [_delayed({"msgId": key}, delay) for key, delay in retried.items()],
        }


def _delayed(entry: dict[str, Any], delay: int | None) -> dict[str, Any]:
    return entry if delay is None else {**entry, "delaySeconds": delay / 1000}
