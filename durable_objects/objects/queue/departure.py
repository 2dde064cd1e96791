"""Batch departure: with batching on, publications leave together (spec state-plane-storage 5, step 4).

A run is started when a batch is full or its oldest publication has waited long enough. It claims its batch under the
`dispatch_id` that it was started with; until then, or until the reservation lapses, no other run is started in
its place.
"""

import logging
from functools import partial
from typing import Any, Final

import msgspec

from moorage.protocols.javascript import iso_time
from moorage.protocols.queue import dispatch as rules
from moorage.protocols.queue.receipts import departure_write

from ..codehost.contract import CodeHostError
from .mutations import MutationMethods

logger = logging.getLogger(__name__)
EVENT_TYPE: Final = "clawsweeper_publication_batch"
STATE_KEY: Final = "exact-review-publication-batch-departure:v1"


class Departure(msgspec.Struct, frozen=True, rename="camel"):
    """Runs that were started and have not claimed yet, by dispatch id with the end of their reservation; times
    in ms."""

    reserved: dict[str, int] = {}
    last_at: int | None = None


class DepartureMethods(MutationMethods):
    """Starts runs for batches, and takes note of their claims."""

    def _departure(self) -> Departure:
        stored = msgspec.convert(self.ctx.storage.kv.get(STATE_KEY) or {}, Departure)
        live = {name: ends for name, ends in stored.reserved.items() if ends > self.now()}
        return msgspec.structs.replace(stored, reserved=live)

    def _put_departure(self, departure: Departure) -> None:
        self.ctx.storage.kv.put(STATE_KEY, msgspec.to_builtins(departure))

    def note_batch_claim(self, dispatch_id: str | None) -> None:
        """The run of this hand-out has come for its batch."""
        departure = self._departure()
        if dispatch_id in departure.reserved:
            left = {name: ends for name, ends in departure.reserved.items() if name != dispatch_id}
            self._put_departure(msgspec.structs.replace(departure, reserved=left))

    def next_departure(self) -> int | None:
        """When the next run is to be started, or None."""
        if self.codehost is None or not self.settings.batching:
            return None
        departure, now = self._departure(), self.now()
        running = self.running_batches() + len(departure.reserved)
        waiting = self.items.count("publication", "pending") - self.settings.batch_size * len(departure.reserved)
        if waiting <= 0 or running >= self.settings.batch_concurrent:
            # a started run that never comes is replaced when its reservation lapses
            return min(departure.reserved.values(), default=None)
        oldest = self.items.oldest("publication", "pending")
        due = self.items.next_due("publication", "pending")
        if oldest is None or due is None:
            return None
        full = waiting >= self.settings.batch_size
        at = max(due, now if full else oldest[1] + self.settings.batch_wait_ms)
        if departure.last_at is not None:
            at = max(at, departure.last_at + self.settings.batch_cooldown_ms)
        return max(at, self.dispatcher().holds_until(now) or 0)

    async def run_departure(self) -> None:
        """Starts the runs that are due."""
        host = self.codehost
        while host is not None:
            at = self.next_departure()
            if at is None or at > self.now():
                return
            dispatch_id, now = self.new_lease_id(), self.now()
            before = self._departure()
            reserved = {**before.reserved, dispatch_id: now + self.settings.batch_reservation_ms}
            self._put_departure(Departure(reserved, now))
            payload: dict[str, Any] = {
                "dispatch_id": dispatch_id,
                "dispatched_at": iso_time(now),
                "max_items": self.settings.batch_size,
            }
            try:
                write = departure_write(self.settings.repository, dispatch_id, EVENT_TYPE)
                await self.write_outside(write, partial(host.dispatch, EVENT_TYPE, payload))
            except CodeHostError as error:
                self._departure_failed(dispatch_id, error)
                return

    def _departure_failed(self, dispatch_id: str, error: CodeHostError) -> None:
        kind = rules.classify(error.status, str(error), error.retry_after, error.remaining)
        failed = rules.failure(error.status, kind, rules.validation_detail(error.body), self.now())
        logger.warning("batch departure: %s (status %s)", failed.failure_class, failed.status)
        blocked = rules.blocked(self.dispatcher(), failed, self.now(), self.random(), error.retry_at)
        self.meta.put_dispatcher(blocked)
        if not error.perhaps_done:
            self.note_batch_claim(dispatch_id)
