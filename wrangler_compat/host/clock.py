"""A clock that `POST /__test/clock` can move forward: recorded sequences are replayed against a running server."""

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable

from moorage.durable_objects.runtime.awaitables import wake


class _Timer:
    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class AdjustableClock:
    """The machine's clock plus an offset. Timers go by it: moving it runs those that have become due."""

    def __init__(self) -> None:
        self._offset = 0
        self._timers: list[tuple[int, int, _Timer]] = []
        self._numbers = itertools.count()
        self._wake: asyncio.TimerHandle | None = None

    def now(self) -> int:
        """Milliseconds since 1970, with the offset."""
        return time.time_ns() // 1_000_000 + self._offset

    def call_later(self, delay: float, callback: Callable[[], None]) -> _Timer:
        """Calls `callback` after `delay` seconds of this clock."""
        timer = _Timer(callback)
        heapq.heappush(self._timers, (self.now() + round(delay * 1000), next(self._numbers), timer))
        self._arm()
        return timer

    async def sleep(self, delay: float) -> None:
        """Returns after `delay` seconds of this clock."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(delay, lambda: wake(woken))
        try:
            await woken
        finally:
            timer.cancel()

    def _arm(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        while self._timers and self._timers[0][2].cancelled:
            heapq.heappop(self._timers)
        if self._timers:
            delay = max(0, self._timers[0][0] - self.now()) / 1000
            self._wake = asyncio.get_running_loop().call_later(delay, self._fire)

    def _fire(self) -> None:
        now = self.now()
        while self._timers and self._timers[0][0] <= now:
            timer = heapq.heappop(self._timers)[2]
            if not timer.cancelled:
                timer.callback()
        self._arm()

    async def advance(self, milliseconds: int) -> None:
        """Moves the clock forward, stopping at every timer on the way. Raises ValueError for a negative step."""
        if milliseconds < 0:
            raise ValueError("advance_ms must not be negative: clocks do not go back")
        target = self.now() + milliseconds
        while True:
            while self._timers and self._timers[0][2].cancelled:
                heapq.heappop(self._timers)
            if not self._timers or self._timers[0][0] > target:
                break
            self._offset += max(0, self._timers[0][0] - self.now())
            self._fire()
            await asyncio.sleep(0.002)
        self._offset += max(0, target - self.now())
        self._fire()
