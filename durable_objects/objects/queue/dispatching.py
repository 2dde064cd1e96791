"""The alarm: admission within capacity, leases, hand-outs. Rules: `moorage.protocols.queue.dispatch`; spec 11.2.

A lease is durable before its dispatch leaves. A dispatch that got no answer keeps its lease: either its run
claims it, or it
lapses and the item is handed out again, so that one item is never handed out twice at a time.
"""

import logging
from collections.abc import Callable

from moorage.protocols.queue import dispatch as rules
from moorage.protocols.queue.items import DispatchFailure, QueueItem

from ...runtime.outgoing import outgoing
from ..codehost.contract import CodeHost, CodeHostError, Target
from .base import QueueBase

logger = logging.getLogger(__name__)


class DispatchMethods(QueueBase):
    """Passes of the dispatcher."""

    async def run_pass(self) -> None:
        """Hands out what is ready, at most `pass_limit` items a lane; nothing while the dispatcher backs off."""
        host, now, dispatcher = self.codehost, self.now(), self.dispatcher()
        if host is None or dispatcher.holds_until(now) or now < self._next_pass_at(dispatcher):
            return
        lanes = [lane for lane in self.lanes_to_hand_out() if self._next_ready(lane) is not None]
        if not lanes or not await self._workflow_is_active(host):
            return
        handed_out = 0
        for lane in lanes:
            for _ in range(self.settings.pass_limit):
                item = self._next_ready(lane)
                if item is None or self.dispatcher().holds_until(now):
                    break
                handed_out += await self._hand_out(host, item)
        if handed_out:
            self._update_dispatcher(lambda found: rules.passed(found, now))

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
            ready = now if self._next_ready(lane) is not None else self.items.next_due(lane, "pending", now)
            if ready is not None:
                times.append(max(ready, held))
        return min(times) if times else None

    def _next_pass_at(self, dispatcher: rules.Dispatcher) -> int:
        return 0 if dispatcher.last_pass_at is None else dispatcher.last_pass_at + self.settings.pass_interval_ms

    def lanes_to_hand_out(self) -> list[str]:
        """Lanes whose items are handed out one by one; with batching on, publications leave in batches."""
        return ["review"] if self.settings.batching else ["review", "publication"]

    def _next_ready(self, lane: str) -> QueueItem | None:
        capacity = self.settings.review_capacity if lane == "review" else self.settings.publication_capacity
        if self.items.active(lane) >= capacity:
            return None
        return self.items.next_ready(lane, self.now(), self.settings.target_capacity)

    def _update_dispatcher(self, change: Callable[[rules.Dispatcher], rules.Dispatcher]) -> None:
        before = self.dispatcher()
        after = change(before)
        if after != before:
            self.meta.put_dispatcher(after)

    async def _workflow_is_active(self, host: CodeHost) -> bool:
        try:
            state = await outgoing(lambda: host.workflow_state(self.settings.workflow))
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

    async def _hand_out(self, host: CodeHost, item: QueueItem) -> int:
        """1 when the item was handed out, else 0."""
        if item.lane == "review":
            ready = await self._admitted(host, item)
            if ready is None:
                return 0
            item = ready
        leased = rules.lease(item, self.new_lease_id(), self.now(), self.settings)
        self.transaction(lambda: self.items.put(leased, item))
        try:
            await outgoing(lambda: host.dispatch(rules.EVENT_TYPE, rules.payload(leased)))
        except CodeHostError as error:
            self._dispatch_failed(leased, error)
            return 0
        self._update_dispatcher(rules.succeeded)
        return 1

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
            target = await outgoing(lambda: host.target(item.decision))
        except CodeHostError as error:
            if rules.classify(error.status, str(error), error.retry_after, error.remaining) == "rate_limit":
                self._block(error)
                return None
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


def _other_head(item: QueueItem, target: Target) -> bool:
    wanted = item.decision.source_head_sha
    return isinstance(wanted, str) and target.head_sha is not None and target.head_sha != wanted
