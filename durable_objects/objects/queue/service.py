"""The review queue whole: its subjects together, and the alarm (spec state-plane-storage 5)."""

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
from .publications import PublicationMethods
from .stats import StatsMethods
from .terminal import TerminalMethods

PRUNE_INTERVAL_MS: Final = 60_000


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
):
    """Every method of the queue that a route calls, and the alarm."""

    def open_queue(self, ctx: Any, env: Any, now: Callable[[], int], codehost: CodeHost | None) -> None:
        """Makes every table of the queue; the record store is the object's own and must be there already."""
        super().open_queue(ctx, env, now, codehost)
        self.dead_letters = DeadLetters(ctx.storage)
        self.direct = DirectPublications(ctx.storage)
        self.batches = Batches(ctx.storage)
        self.authority = SourceAuthority(ctx.storage)
        self._next_pruning = 0

    def next_wake(self) -> int | None:
        """When something of the queue is next due by itself, or None."""
        times = [self.next_hand_out(), self.next_departure(), self.items.next_held(), self.batches.next_expiry()]
        if self.codehost is not None:
            times += [self.command_intakes.next_attempt_at(), self.authority.next_attempt_at()]
        known = [time for time in times if time is not None]
        return max(min(known), self.now()) if known else None

    async def run_alarm(self) -> None:
        """Reservations, commands, pruning, expired leases, hand-outs, the next alarm; in this order."""
        await self.run_reservations()
        await self.run_intakes()
        self.prune()

        def give_back() -> None:
            self.expire_batches()
            self.reclaim_expired()

        self.transaction(give_back)
        await self.run_departure()
        await self.run_pass()
        await self.reschedule()

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
