"""Builds the bindings beside objects, buckets and variables, for all Workers of a process."""

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from moorage.durable_objects.runtime import DurableObjectNamespace, Runtime

from ..config import WorkerConfig
from .assets import AssetsFetcher, StaticAssets
from .assets.serving import NAVIGATION_DATE, NAVIGATION_FLAGS
from .check import unserved
from .d1 import D1Database, D1Store
from .d1.store import NAMESPACE as D1
from .exits import TaskContainment
from .extras import Counts, Ratelimit, version_of
from .kv import KvNamespace, KvStore
from .kv.store import NAMESPACE as KV
from .queues import Broker
from .queues.batch import MessageBatch
from .queues.rules import MAX_DELAY, settings_of
from .services import Fetcher
from .services.target import LocalTarget
from .values import BindingError, Presentation

if TYPE_CHECKING:
    from .host import Host, Worker

# From this date on (or by the flag) a queue's messages are JSON unless the call says otherwise; before, v8.
JSON_DATE = "2024-03-18"
JSON_FLAGS = ("queues_json_messages", "no_queues_json_messages")


def chosen(config: WorkerConfig, date: str, flags: tuple[str, str]) -> bool:
    """Whether a rule holds that is on from `date`, or by the first of `flags`, unless the second is set."""
    on, off = flags
    dated = config.compatibility_date is not None and config.compatibility_date >= date
    return on in config.compatibility_flags or (dated and off not in config.compatibility_flags)


class Wiring:
    """Made with the runtime and its Workers, before the runtime starts.

    `start()` lets queues be consumed, and from then on no task of a Worker can end the process.

    Raises BindingError when two Workers have one name: they would write the same files.
    """

    def __init__(self, host: "Host", runtime: Runtime) -> None:
        names = [worker.config.name for worker in host.workers]
        for name in names:
            if names.count(name) > 1:
                raise BindingError(f"two Workers of this process are called {name}: each needs a name of its own")
        self._host = host
        self._runtime = runtime
        self._now = runtime.clock.now
        self._stores: dict[str, DurableObjectNamespace] = {}
        self._counts: dict[str, Counts] = {}
        self._broker: Broker | None = None
        self._containment: TaskContainment | None = None

    @property
    def broker(self) -> Broker:
        """The queues; made at first use."""
        if self._broker is None:
            self._broker = Broker(self._runtime)
        return self._broker

    def _store(self, kind: str, name: str) -> Any:
        if kind not in self._stores:
            self._stores[kind] = self._runtime.namespace(kind, {KV: KvStore, D1: D1Store}[kind])
        return self._stores[kind].getByName(name)

    def _file(self, kind: str, name: str) -> str:
        namespace = self._stores[kind]
        return f"{namespace.folder}/{namespace.idFromName(name)}.sqlite"

    def described(self, worker: "Worker") -> Iterator[str]:
        """What a person who starts the Worker should know of its bindings, a line each."""
        config = worker.config
        for kv in config.kv_namespaces:
            yield f"keys {kv.binding} ({kv.storage_name}): {self._file(KV, kv.storage_name)}"
        for database in config.d1_databases:
            yield f"database {database.binding} ({database.storage_name}): {self._file(D1, database.storage_name)}"
        for producer in config.queue_producers:
            yield f"queue {producer.binding} sends to {producer.queue}{self._heard(producer.queue)}"
        for service in config.services:
            entrypoint = f", entrypoint {service.entrypoint}" if service.entrypoint else ""
            yield f"service {service.binding}: {service.service}{entrypoint}"
        if worker.assets is not None:
            yield f"assets {worker.assets.files.root}"
        for key, advice in unserved(config):
            yield f"{key} {advice}"

    def _heard(self, queue: str) -> str:
        return "" if self.broker.consumed(queue) else ", which no Worker of this process consumes"

    def bindings(self, worker: "Worker") -> Mapping[str, Any]:
        """The bindings of a Worker by name; adds its queue consumers. Raises BindingError."""
        config = worker.config
        worker.context.now = self._now
        form = Presentation.of(config.compatibility_date, config.compatibility_flags)
        made: dict[str, Any] = {}
        for kv in config.kv_namespaces:
            made[kv.binding] = KvNamespace(self._store(KV, kv.storage_name), self._now, form)
        for database in config.d1_databases:
            made[database.binding] = D1Database(self._store(D1, database.storage_name), self._now, form)
        content_type = "json" if chosen(config, JSON_DATE, JSON_FLAGS) else "v8"
        for producer in config.queue_producers:
            delay = producer.delivery_delay or 0
            if not 0 <= delay <= MAX_DELAY:
                raise BindingError(
                    f"queues.producers: delivery_delay of {producer.binding} is {delay:g}, but must be from 0 to "
                    f"{MAX_DELAY} seconds"
                )
            made[producer.binding] = self.broker.producer(
                producer.queue, delay=round(delay * 1000), content_type=content_type
            )
        for service in config.services:
            made[service.binding] = Fetcher(self._target(worker, service), self._now, form)
        if worker.assets is not None and config.assets is not None and config.assets.binding:
            made[config.assets.binding] = AssetsFetcher(worker.assets)
        for rule in config.rate_limits:
            counts = self._counts.setdefault(f"{rule.namespace_id}/{rule.period:g}", Counts())
            made[rule.name] = Ratelimit(counts, rule.limit, rule.period, self._now, form)
        if config.version_metadata:
            made[config.version_metadata] = form.value(dict(version_of(config, self._now())))
        self._consume(worker, form)
        return made

    def _target(self, worker: "Worker", service: Any) -> LocalTarget:
        names = [service.service]
        if service.environment:
            names.insert(0, f"{service.service}-{service.environment}")
        target = next((other for name in names for other in self._host.workers if other.config.name == name), None)
        if target is None:
            raise BindingError(
                f"services: {service.binding} is bound to the Worker {service.service}, which does not run in this "
                "process; name its folder on the command line too"
            )
        if service.entrypoint not in {None, "default"} and service.entrypoint not in target.found.named:
            offered = ", ".join(sorted(target.found.named)) or "none"
            raise BindingError(
                f"services: {service.binding} is bound to the entrypoint {service.entrypoint} of "
                f"{target.config.name}, which has no WorkerEntrypoint class of that name; it has: {offered}"
            )
        entrypoint = None if service.entrypoint == "default" else service.entrypoint
        return LocalTarget(self._host, target, entrypoint)

    def _consume(self, worker: "Worker", form: Presentation) -> None:
        for consumer in worker.config.queue_consumers:
            if not worker.found.handles("queue"):
                raise BindingError(
                    f"queues.consumers: {worker.config.name} consumes the queue {consumer.queue}, but has no queue "
                    "handler; define `async def queue(self, batch, env, ctx)` in its class Default"
                )

            async def handle(batch: MessageBatch) -> None:
                await self._host.queue(worker, batch)

            self.broker.consume(settings_of(consumer), handle, form)

    def start(self) -> None:
        """Starts the consumers of queues. Call it once the runtime runs, over whose task factory this one goes."""
        self._containment = TaskContainment()
        if self._broker is not None:
            self._broker.start()

    async def stop(self, seconds: float) -> None:
        """Stops them; batches that are being handled and runs of cron triggers have `seconds` to end."""
        waits = [worker.crons.drain(seconds) for worker in self._host.workers if worker.crons is not None]
        if self._broker is not None:
            waits.append(self._broker.stop(seconds))
        await asyncio.gather(*waits)
        if self._containment is not None:
            self._containment.remove()


def assets_of(config: WorkerConfig, *, has_worker: bool) -> StaticAssets | None:
    """The files of a Worker, or None. Raises BindingError."""
    if config.assets is None:
        return None
    return StaticAssets(
        config.assets, has_worker=has_worker, navigation=chosen(config, NAVIGATION_DATE, NAVIGATION_FLAGS)
    )


__all__ = ["Wiring", "assets_of", "chosen"]
