"""The alarm: admission within capacity, leases, hand-outs. Rules: `moorage.protocols.queue.dispatch`; spec 11.2.

A lease is durable before its dispatch leaves. A dispatch that got no answer keeps its lease: either its run
claims it, or it
lapses and the item is handed out again, so that one item is never handed out twice at a time.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from moorage.protocols.queue import dispatch as rules
from moorage.protocols.queue.items import DispatchFailure, QueueItem
from moorage.protocols.queue.receipts import dispatch_write

from ...runtime.errors import DurableObjectAbort
from ...runtime.outgoing import outgoing
from ..codehost.contract import CodeHost, CodeHostError, Target
from .mutations import MutationMethods

logger = logging.getLogger(__name__)
T = TypeVar("T")


class DispatchMethods(MutationMethods):
    """Passes of the dispatcher."""

    async def run_pass(self) -> None:
        """Hands out what is ready, at most `pass_limit` items a lane; nothing while the dispatcher backs off.

        All leases of the pass are made before the first dispatch leaves: they become durable together.
        """
        host, now, dispatcher = self.codehost, self.now(), self.dispatcher()
        if host is None or dispatcher.holds_until(now) or now < self._next_pass_at(dispatcher):
            return
        lanes = [lane for lane in self.lanes_to_hand_out() if self._has_ready(lane)]
        if not lanes or not await self._workflow_is_active(host):
            return
        leased: list[QueueItem] = []
        for lane in lanes:
            leased += await self._lease_ready(host, lane)
        if leased:
            self._update_dispatcher(lambda found: rules.passed(found, now))
        at_once = self.settings.dispatch_concurrency
        for start in range(0, len(leased), at_once):
            lot = leased[start : start + at_once]
            if len(lot) == 1:
                goes_on = await self._dispatch(host, lot[0])
            else:
                goes_on = all(await asyncio.gather(*(self._dispatch(host, item) for item in lot)))
            if not goes_on:
                self._give_back(leased[start + at_once :])
                return

    async def _lease_ready(self, host: CodeHost, lane: str) -> list[QueueItem]:
        """Leases of what is ready and may be worked on; looks at four times as many items at most."""
        leased: list[QueueItem] = []
        for _ in range(4 * self.settings.pass_limit):
            item = self._next_ready(lane)
            if item is None or len(leased) == self.settings.pass_limit or self.dispatcher().holds_until(self.now()):
                break
            admitted = await self._admitted(host, item) if lane == "review" else item
            if admitted is not None:
                held = rules.lease(admitted, self.new_lease_id(), self.now(), self.settings)
                self.transaction(partial(self.items.put, held, admitted))
                leased.append(held)
        return leased

    def _give_back(self, leased: list[QueueItem]) -> None:
        """Items of the pass that were not dispatched wait again, as if nothing had been."""
        for item in leased:
            present = self.items.by_lease(item.lease_id or "")
            if present is not None and present.state == "dispatching":
                self.transaction(partial(self.items.put, rules.undone(present, self.now()), present))

    def next_hand_out(self) -> int | None:
        """When the next pass has something to do, or None.

        What is ready but finds no room is not waited for: whoever makes room sets the alarm again.
        """
        if self.codehost is None:
            return None
        now, dispatcher = self.now(), self.dispatcher()
        held = max(dispatcher.holds_until(now) or 0, self._next_pass_at(dispatcher))
        times = []
        for lane in self.lanes_to_hand_out():
            ready = now if self._has_ready(lane) else self.items.next_due(lane, "pending", now)
            if ready is not None:
                times.append(max(ready, held))
        return min(times) if times else None

    def _next_pass_at(self, dispatcher: rules.Dispatcher) -> int:
        last = dispatcher.last_pass_at
        # a pass in the future was before the clock was set back: it holds nothing up
        return 0 if last is None or last > self.now() else last + self.settings.pass_interval_ms

    def lanes_to_hand_out(self) -> list[str]:
        """Lanes whose items are handed out one by one; with batching on, publications leave in batches."""
        return ["review"] if self.settings.batching else ["review", "publication"]

    def _has_room(self, lane: str) -> bool:
        capacity = self.settings.review_capacity if lane == "review" else self.settings.publication_capacity
        return self.items.active(lane) < capacity

    def _has_ready(self, lane: str) -> bool:
        return self._has_room(lane) and self.items.has_ready(lane, self.now(), self.settings.target_capacity)

    def _next_ready(self, lane: str) -> QueueItem | None:
        if not self._has_room(lane):
            return None
        return self.items.next_ready(lane, self.now(), self.settings.target_capacity)

    def _update_dispatcher(self, change: Callable[[rules.Dispatcher], rules.Dispatcher]) -> None:
        before = self.dispatcher()
        after = change(before)
        if after != before:
            self.meta.put_dispatcher(after)

    async def _workflow_is_active(self, host: CodeHost) -> bool:
        try:
            state = await _ask(host, lambda: host.workflow_state(self.settings.workflow))
        except CodeHostError as error:
            self._block(error)
            return False
        if state != "active":
            unit = self.random()
            self._update_dispatcher(lambda found: rules.paused(found, state, self.now(), unit, self.settings))
            return False
        self._update_dispatcher(lambda found: rules.active(found, self.now()))
        return True

    def _block(self, error: CodeHostError) -> DispatchFailure:
        failed = self._failure(error)
        unit = self.random()
        self._update_dispatcher(lambda found: rules.blocked(found, failed, self.now(), unit, error.retry_at))
        logger.warning("dispatcher blocked: %s (status %s)", failed.failure_class, failed.status)
        return failed

    def _failure(self, error: CodeHostError) -> DispatchFailure:
        kind = rules.classify(error.status, str(error), error.retry_after, error.remaining)
        return rules.failure(error.status, kind, rules.validation_detail(error.body), self.now())

    async def _dispatch(self, host: CodeHost, leased: QueueItem) -> bool:
        """Hands one leased item out; False when nothing more can be handed out now."""
        try:
            write = dispatch_write(leased, rules.EVENT_TYPE)
            await self.write_outside(write, lambda: host.dispatch(rules.EVENT_TYPE, rules.payload(leased)))
        except CodeHostError as error:
            self._dispatch_failed(leased, error)
            return self.dispatcher().holds_until(self.now()) is None
        self._update_dispatcher(rules.succeeded)
        return True

    def _dispatch_failed(self, leased: QueueItem, error: CodeHostError) -> None:
        failed = self._failure(error)
        if failed.failure_class != "permanent_rejection":
            failed = self._block(error)
        present = self.items.by_lease(leased.lease_id or "")
        if error.perhaps_done or present is None or present.state != "dispatching":
            return
        self.transaction(lambda: self.items.put(rules.after_failure(present, failed, self.now()), present))

    async def _admitted(self, host: CodeHost, item: QueueItem) -> QueueItem | None:
        """The item as it is now, when its target may be reviewed; else None, and it waits, or is gone with its
        target."""
        try:
            target = await _ask(host, lambda: host.target(item.decision))
        except CodeHostError as error:
            if rules.classify(error.status, str(error), error.retry_after, error.remaining) == "rate_limit":
                self._block(error)
                return None
            target = None
        except DurableObjectAbort:
            raise
        except Exception:
            # one item that meets a defect must not hold back those behind it: it waits, and is parked at last
            logger.exception("target of %s", item.key)
            target = None
        present = self.items.get(item.key)
        if present is None or present.state != "pending" or present.revision != item.revision:
            return None
        if target is None or _other_head(present, target):
            later = rules.admission_retry(present, self.now(), self.random())
            self.transaction(lambda: self.items.put(later, present))
            return None
        if target.state == "missing" or (
            target.state == "closed" and not isinstance(present.decision.command_status_marker, str)
        ):
            self.transaction(lambda: self._drop(present, target))
            return None
        return present

    def _drop(self, item: QueueItem, target: Target) -> None:
        self.items.remove(item)
        self.count("review", f"target_{target.state}")


async def _ask(host: CodeHost, question: Callable[[], Awaitable[T]]) -> T:
    """What the code host answers. A call outside waits for the leases of the pass so far; a look at ours does not."""
    return await (question() if host.asks_nobody else outgoing(question))


def _other_head(item: QueueItem, target: Target) -> bool:
    wanted = item.decision.source_head_sha
    return isinstance(wanted, str) and target.head_sha is not None and target.head_sha != wanted
