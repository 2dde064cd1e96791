"""What every subject of the review queue works on: the stores, the settings, the code host, the clock."""

import logging
import random
import uuid
from collections.abc import Callable
from typing import Any

from moorage.protocols.queue.admission import Ingress
from moorage.protocols.queue.decisions import Decision
from moorage.protocols.queue.dispatch import Dispatcher
from moorage.protocols.queue.endings import Burial, Ending
from moorage.protocols.queue.items import QueueItem
from moorage.protocols.queue.leases import is_dead
from moorage.protocols.queue.settings import QueueSettings, read_settings

from ..codehost.contract import CodeHost
from ..intake import CommandIntakeStore
from .items import QueueItems
from .memory import Deliveries, IngressRoutes, Meta, Metrics, PublicationHeads, Supersessions

logger = logging.getLogger(__name__)


class QueueBase:
    """The parts, made by `open_queue` in the object's constructor.

    `codehost` is None where none is configured: nothing is handed out then, and no alarm is set for it.
    `random` gives numbers in
    [0, 1), `new_lease_id` texts that nobody can guess.
    """

    ctx: Any
    env: Any
    now: Callable[[], int]
    codehost: CodeHost | None
    command_intakes: CommandIntakeStore

    def open_queue(self, ctx: Any, env: Any, now: Callable[[], int], codehost: CodeHost | None) -> None:
        """Makes the tables and reads the settings; a bad setting is logged and keeps its default."""
        self.now = now
        self.codehost = codehost
        self.settings, problems = read_settings(lambda name: getattr(env, name, None))
        for problem in problems:
            logger.warning("queue setting: %s", problem)
        self.random: Callable[[], float] = random.random
        self.new_lease_id: Callable[[], str] = lambda: str(uuid.uuid4())
        storage = ctx.storage
        self.command_intakes = CommandIntakeStore(storage)
        self.items = QueueItems(storage, self.settings.heartbeat_grace_ms, self.settings.dispatch_lease_ms)
        self.metrics = Metrics(storage)
        self.deliveries = Deliveries(storage, self.metrics)
        self.ingress = IngressRoutes(storage)
        self.heads = PublicationHeads(storage)
        self.supersessions = Supersessions(storage)
        self.meta = Meta(storage, now())
        self.visibilities: dict[str, tuple[str, int]] = {}

    settings: QueueSettings

    # What one subject needs of another; each is implemented by the subject that its docstring names.

    def target_enabled(self, repository: str) -> bool:
        """See `EnqueueMethods`."""
        raise NotImplementedError

    async def pass_gate(self, repository: str) -> None:
        """See `GateMethods`."""
        raise NotImplementedError

    def admit_event(
        self, delivery: str, decision: Decision, ingress: Ingress | None = None, body_sha256: str | None = None
    ) -> dict[str, Any]:
        """See `EnqueueMethods`."""
        raise NotImplementedError

    def create_review(self, decision: Decision, minimum: int = 1) -> QueueItem:
        """See `EnqueueMethods`."""
        raise NotImplementedError

    def settle(self, item: QueueItem, ending: Ending) -> None:
        """See `LeaseMethods`."""
        raise NotImplementedError

    def reclaim_expired(self) -> int:
        """See `LeaseMethods`."""
        raise NotImplementedError

    def end_lifecycle(self, item: QueueItem, ending: Ending, outcome: str, disposition: str | None) -> None:
        """See `DirectPublicationMethods`."""
        raise NotImplementedError

    def end_overtaken(self, before: QueueItem, after: QueueItem | None) -> None:
        """See `DirectPublicationMethods`."""
        raise NotImplementedError

    def dead_letter_room(self) -> bool:
        """See `DeadLetterMethods`."""
        raise NotImplementedError

    def bury(self, item: QueueItem, burial: Burial) -> None:
        """See `DeadLetterMethods`."""
        raise NotImplementedError

    def transaction(self, work: Callable[[], Any]) -> Any:
        """Runs `work` so that its writes are kept all or none."""
        try:
            return self.ctx.storage.transactionSync(work)
        except BaseException:
            self.items.forget()
            self.meta.forget()
            raise

    def count(self, lane: str, name: str, change: int = 1) -> None:
        """Adds to a lane's counter, in total and in the present five minutes."""
        self.metrics.add(f"{lane}.{name}", change, self.now())

    def not_before(self) -> int | None:
        """Until when the dispatcher backs off."""
        return self.dispatcher().holds_until(self.now())

    def dispatcher(self) -> Dispatcher:
        """The dispatcher's state."""
        return self.meta.dispatcher()

    def is_expired(self, item: QueueItem) -> bool:
        """Whether a held item's lease has ended by time."""
        return is_dead(item, self.settings.heartbeat_grace_ms, self.now())

    async def wake(self, at: int) -> None:
        """Makes sure that the alarm fires at `at` or before."""
        present = await self.ctx.storage.getAlarm()
        if present is None or present > at:
            await self.ctx.storage.setAlarm(max(at, self.now()))

    def next_hand_out(self) -> int | None:
        """See `DispatchMethods`."""
        raise NotImplementedError

    def running_batches(self) -> int:
        """See `BatchMethods`."""
        raise NotImplementedError

    def note_batch_claim(self, dispatch_id: str | None) -> None:
        """See `DepartureMethods`."""
        raise NotImplementedError

    def next_departure(self) -> int | None:
        """See `DepartureMethods`."""
        raise NotImplementedError

    def next_wake(self) -> int | None:
        """When something of the queue is next due by itself, or None: the service puts its subjects together."""
        raise NotImplementedError

    async def reschedule(self) -> None:
        """Sets the alarm to what is due next."""
        at = self.next_wake()
        if at is not None:
            await self.wake(at)
