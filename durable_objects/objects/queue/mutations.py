"""Every write to the code host between its receipts. Rules: `moorage.protocols.queue.receipts`.

The attempt is durable before the call leaves, for `outgoing` waits for it. An attempt that a crash left without an
outcome gets the outcome `unknown` when the object starts again; the queue then does what it does for any write of
unknown outcome: a lease is kept until it lapses, an acknowledgement is looked for before it is made again.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from moorage.protocols.ledger.receipts import Outcome
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.queue import receipts
from moorage.protocols.queue.receipts import Write
from moorage.protocols.queue.settings import DEFAULT_REPOSITORY
from moorage.protocols.wire import Reply, reply, wire_method

from ...runtime.errors import DurableObjectAbort
from ...runtime.outgoing import outgoing
from ..codehost.contract import CodeHostError
from .base import QueueBase
from .mutation_rows import MutationEvents

logger = logging.getLogger(__name__)


class MutationMethods(QueueBase):
    """Writes with receipts, and `mutation-events/list`."""

    mutation_events: MutationEvents

    def open_mutations(self) -> None:
        """Makes the table and closes what an earlier instance left open: nothing of this one is under way yet."""
        self.mutation_events = MutationEvents(self.ctx.storage)
        closed = self.mutation_events.close_open(self.now())
        if closed:
            logger.warning("%d writes to the code host were cut off: their outcome is unknown", closed)

    def _producer(self, date: str) -> dict[str, Any]:
        sha = getattr(self.env, "CLAWSWEEPER_DEPLOY_SHA", None)
        text = sha.strip().lower() if isinstance(sha, str) else ""
        try:
            return receipts.producer(self.settings.repository, text, date)
        except LedgerRefusal:
            # a repository of that form cannot be dispatched to either; the receipts are kept under the default
            return receipts.producer(DEFAULT_REPOSITORY, text, date)

    async def write_outside(self, write: Write, call: Callable[[], Awaitable[None]]) -> None:
        """Makes the call, with a durable attempt before it and its outcome after it. Raises what the call raises.

        Nothing is awaited after the outcome is written: what the caller writes next is kept together with it.
        """
        now = self.now()
        date = receipts.partition_date(now)
        producer = self._producer(date)
        attempt = self.mutation_events.begin(lambda number: write.tried(producer, number), write.digest, date, now)
        try:
            await outgoing(call)
        except CodeHostError as error:
            outcome = receipts.outcome_of(error.status, error.perhaps_done)
            self.mutation_events.end(attempt, outcome, self.now())
            raise
        except DurableObjectAbort:
            # this instance can write nothing any more; the next one closes the attempt
            raise
        except Exception:
            self.mutation_events.end(attempt, Outcome.unknown, self.now())
            raise
        self.mutation_events.end(attempt, Outcome.accepted, self.now())

    @wire_method
    def list_mutation_events(self, members: dict[str, Any]) -> Reply:
        """200 `{ok, events, next_cursor, open, today}`: canonical lines in the order they were written."""
        page = receipts.parse_page(members)
        found = self.mutation_events.page(page.cursor, page.before, page.limit)
        shown = found[: page.limit]
        return reply(
            {
                "ok": True,
                "events": shown,
                "next_cursor": shown[-1]["seq"] if len(found) > page.limit else None,
                "open": self.mutation_events.open_count(page.before),
                "today": receipts.partition_date(self.now()),
            }
        )
