"""Hands a queue's messages to its consumer, in batches, at least once each."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from moorage.durable_objects.runtime import Clock

from ..limits import limited
from ..values import Presentation
from .batch import MessageBatch, body_of
from .rules import ConsumerSettings, outcome

_log = logging.getLogger("moorage.host.queues")

Handler = Callable[[MessageBatch], Awaitable[Any]]
CANCELLED_SECONDS = 1.0
"""What a batch that is cancelled at the end has to put things away."""
FAULT_SECONDS = 1.0
"""How long the loop waits after storage failed; the runtime then reads the queue again from what is durable."""


class Consumer:
    """The loop of one queue. `start()` it on the loop, `nudge()` it after a send, `stop()` it at the end.

    A batch goes out when it is full, or when its oldest message has waited `max_batch_timeout`. A handler may run 15
    minutes; then it has failed. `store` is the stub of the queue, `bury` sends messages to the dead letter queue.
    """

    def __init__(
        self,
        store: Any,
        settings: ConsumerSettings,
        handler: Handler,
        clock: Clock,
        form: Presentation,
        bury: Callable[[Sequence[Sequence[Any]]], Awaitable[None]],
    ) -> None:
        self.settings = settings
        self._store = store
        self._handler = handler
        self._clock = clock
        self._form = form
        self._bury = bury
        self._news = asyncio.Event()
        self._timer: Any = None
        self._loop: asyncio.Task[None] | None = None
        self._running: dict[asyncio.Task[None], list[str]] = {}
        self._unsettled: list[str] = []
        self._stopping = False

    def start(self, spawn: Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]) -> None:
        """Begins; `spawn` starts a task that belongs to no object."""
        self._spawn = spawn
        self._loop = spawn(self._run())

    def nudge(self) -> None:
        """Something was sent, or a batch ended."""
        self._news.set()

    async def stop(self, seconds: float) -> None:
        """Takes no more; batches that are being handled have `seconds` to end, and are handed out again if not."""
        self._stopping = True
        self.nudge()
        if self._loop is not None:
            await asyncio.wait([self._loop])
        if self._running:
            _, late = await asyncio.wait(list(self._running), timeout=seconds)
            for task in late:
                task.cancel()
            if late:
                # one that catches the cancellation is left behind: its messages are handed out again
                await asyncio.wait(late, timeout=CANCELLED_SECONDS)

    async def _run(self) -> None:
        recovered = False
        while not self._stopping:
            self._news.clear()
            try:
                if not recovered:
                    await self._store.recover()
                    recovered = True
                wait = await self._step()
            except Exception:
                _log.exception("queue %s: its storage failed", self.settings.queue)
                wait = FAULT_SECONDS
            if wait == 0 or self._stopping:
                continue
            if wait is not None:
                self._timer = self._clock.call_later(wait, self._news.set)
            await self._news.wait()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    async def _step(self) -> float | None:
        """Hands out one batch if one is ready; returns the seconds to wait, 0 to look again, None for news only."""
        settings = self.settings
        if len(self._running) >= settings.max_concurrency:
            return None
        now = self._clock.now()
        if self._unsettled:
            await self._store.settle([], [[name, now] for name in self._unsettled])
            self._unsettled.clear()
        state = await self._store.state(settings.max_batch_size, now)
        due, since, upcoming = state["due"], state["since"], state["next"]
        if due and (due >= settings.max_batch_size or since + settings.max_batch_timeout <= now):
            rows = await self._store.take(settings.max_batch_size, now)
            task = self._spawn(self._deliver(rows))
            self._running[task] = [row[0] for row in rows]
            task.add_done_callback(self._ended)
            return 0
        moments = [] if upcoming is None else [upcoming]
        if due:
            moments.append(since + settings.max_batch_timeout)
        return max(0.001, (min(moments) - self._clock.now()) / 1000) if moments else None

    def _ended(self, task: "asyncio.Task[None]") -> None:
        names = self._running.pop(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # Whatever part of it was settled is: the rest waits again.
            self._unsettled += names
            _log.error("queue %s: a batch could not be settled", self.settings.queue, exc_info=error)
        self.nudge()

    async def _deliver(self, rows: list[list[Any]]) -> None:
        settings = self.settings
        # A message that ended the process each time it was handed out must not do so for ever.
        spent = [row for row in rows if row[4] > settings.max_retries + 1]
        rows = [row for row in rows if row[4] <= settings.max_retries + 1]
        await self._give_up(spent)
        if not rows:
            return
        bodies = [body_of(bytes(row[1]), row[2], self._form) for row in rows]
        batch = MessageBatch(
            settings.queue, [[row[0], body, row[3], row[4]] for row, body in zip(rows, bodies, strict=True)]
        )
        failed = False
        try:
            await limited(self._handler(batch), self._clock, "queue()")
        except Exception:
            failed = True
            _log.exception("queue %s: the consumer failed on a batch of %d", settings.queue, len(rows))
        result = outcome(
            [(row[0], row[4]) for row in rows], batch.decisions(failed=failed), settings, self._clock.now()
        )
        await self._give_up([row for row in rows if row[0] in result.dead])
        await self._store.settle(list(result.done), [list(pair) for pair in result.again])

    async def _give_up(self, rows: list[list[Any]]) -> None:
        """Sends messages to the dead letter queue, then removes them: a crash between repeats, and loses nothing."""
        if not rows:
            return
        if self.settings.dead_letter_queue is None:
            _log.error(
                "queue %s: %d messages are dropped after %d attempts; a dead_letter_queue would keep them",
                self.settings.queue,
                len(rows),
                rows[0][4],
            )
        else:
            await self._bury(rows)
        await self._store.settle([row[0] for row in rows], [])
