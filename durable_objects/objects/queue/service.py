"""The review queue whole: its subjects together, and the alarm (spec state-plane-storage 5)."""

import logging
from collections.abc import Callable
from typing import Any, Final

from ..codehost.contract import CodeHost
from .authority import AuthorityMethods, SourceAuthority
from .batches import Batches
from .commands import CommandMethods
from .dead_letters import DeadLetters
from .departure import DepartureMethods
from .direct import DirectPublications
from .dispatching import DispatchMethods
from .gate import GateMethods
from .leases import LeaseMethods
from .parked import ParkedMethods
from .publications import PublicationMethods
from .stats import StatsMethods
from .terminal import TerminalMethods

PRUNE_INTERVAL_MS: Final = 60_000
BROKEN_RETRY_MS: Final = 30_000

logger = logging.getLogger(__name__)


class ReviewQueueMethods(
    LeaseMethods,
    StatsMethods,
    DispatchMethods,
    PublicationMethods,
    AuthorityMethods,
    CommandMethods,
    TerminalMethods,
    GateMethods,
    DepartureMethods,
    ParkedMethods,
):
    """Every method of the queue that a route calls, and the alarm."""

    def open_queue(self, ctx: Any, env: Any, now: Callable[[], int], codehost: CodeHost | None) -> None:
        """Makes every table of the queue; the record store is the object's own and must be there already."""
        super().open_queue(ctx, env, now, codehost)
        self.dead_letters = DeadLetters(ctx.storage)
        self.direct = DirectPublications(ctx.storage)
        self.batches = Batches(ctx.storage)
        self.authority = SourceAuthority(ctx.storage)
        self.open_mutations()
        self.open_parked()
        self._next_pruning = 0

    def next_wake(self) -> int | None:
        """When something of the queue is next due by itself, or None."""
        times = [self.next_hand_out(), self.next_departure(), self.items.next_held(), self.batches.next_expiry()]
        if self.codehost is not None:
            times += [self.command_intakes.next_attempt_at(), self.authority.next_attempt_at()]
        known = [time for time in times if time is not None]
        return max(min(known), self.now()) if known else None

    async def run_alarm(self) -> None:
        """Reservations, commands, pruning, expired leases, departures, hand-outs, the next alarm; in this order.

        A step that breaks is logged and does not keep the others from being done; the alarm then comes again a little
        later, and not at once, however much is due.
        """
        steps = (
            self.run_reservations,
            self.run_intakes,
            self._prune_step,
            self._expiry_step,
            self.run_departure,
            self.run_pass,
        )
        broken = False
        for step in steps:
            try:
                await step()
            except Exception:
                broken = True
                logger.exception("alarm step %s", step.__name__)
        if broken:
            await self.wake(self.now() + BROKEN_RETRY_MS)
        else:
            await self.reschedule()

    async def _prune_step(self) -> None:
        self.prune()

    async def _expiry_step(self) -> None:
        def give_back() -> None:
            self.expire_batches()
            self.reclaim_expired()

        self.transaction(give_back)

    def prune(self) -> None:
        """Removes what is past its horizon, a bounded lot of each, at most once a minute."""
        now = self.now()
        if now < self._next_pruning:
            return
        self._next_pruning = now + PRUNE_INTERVAL_MS
        self.deliveries.prune(now)
        self.ingress.prune(now)
        self.supersessions.prune(now)
        self.metrics.prune(now)
        self.command_intakes.prune_terminal_receipts(now)
        self.dead_letters.prune(now)
        self.direct.prune(now)
        self.batches.prune(now)
        self.authority.prune(now)
        self.mutation_events.prune(now)
        self.parked_actions.prune(now)
