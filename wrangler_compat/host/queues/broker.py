"""All queues of a process: their stores, producers and consumers."""

import asyncio
from collections.abc import Sequence
from typing import Any

from moorage.durable_objects.runtime import Runtime

from ..values import BindingError, Presentation
from .consumer import Consumer, Handler
from .producer import WorkerQueue
from .rules import ConsumerSettings
from .store import QueueStore

NAMESPACE = "~queues"
"""Folder of the queues' files; no Worker's name has that character."""


class Broker:
    """Made with the runtime, started once it runs, stopped before it is closed."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._namespace = runtime.namespace(NAMESPACE, QueueStore)
        self._consumers: dict[str, Consumer] = {}

    def store(self, queue: str) -> Any:
        """The stub of a queue's storage."""
        return self._namespace.getByName(queue)

    def producer(self, queue: str, *, delay: int = 0, content_type: str = "json") -> WorkerQueue:
        """A binding that sends to `queue`."""
        return WorkerQueue(
            self.store(queue),
            self._runtime.clock.now,
            lambda: self.nudge(queue),
            delay=delay,
            content_type=content_type,
        )

    def consume(self, settings: ConsumerSettings, handler: Handler, form: Presentation) -> None:
        """Adds the consumer of a queue. Raises BindingError for a second one."""
        if settings.queue in self._consumers:
            raise BindingError(f"queues.consumers: the queue {settings.queue} has two consumers; it can have one")

        async def bury(rows: Sequence[Sequence[Any]]) -> None:
            now = self._runtime.clock.now()
            assert settings.dead_letter_queue is not None
            await self.store(settings.dead_letter_queue).add([[row[1], row[2], now, now] for row in rows])
            self.nudge(settings.dead_letter_queue)

        self._consumers[settings.queue] = Consumer(
            self.store(settings.queue), settings, handler, self._runtime.clock, form, bury
        )

    def consumed(self, queue: str) -> bool:
        """Whether `queue` has a consumer in this process."""
        return queue in self._consumers

    def nudge(self, queue: str) -> None:
        """Lets the consumer of `queue`, if there is one, look again."""
        consumer = self._consumers.get(queue)
        if consumer is not None:
            consumer.nudge()

    def start(self) -> None:
        """Starts every consumer."""
        for consumer in self._consumers.values():
            consumer.start(self._runtime.plain_task)

    async def stop(self, seconds: float) -> None:
        """Stops every consumer; see `Consumer.stop`."""
        await asyncio.gather(*(consumer.stop(seconds) for consumer in self._consumers.values()))
