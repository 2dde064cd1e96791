"""A clock that `POST /__test/clock` can move forward: recorded sequences are replayed against a running server."""

import asyncio
import time
from collections.abc import Callable

from moorage.durable_objects.runtime.testing import Timer, Timers, until


class AdjustableClock:
    """The machine's clock plus an offset. Timers go by it: moving it runs those that have become due."""

    def __init__(self) -> None:
        self._offset = 0
        self._timers = Timers()
        self._wake: asyncio.TimerHandle | None = None

    def now(self) -> int:
        """Milliseconds since 1970, with the offset."""
        return time.time_ns() // 1_000_000 + self._offset

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Calls `callback` after `delay` seconds of this clock."""
        timer = self._timers.add(self.now() + max(0, round(delay * 1000)), callback)
        self._arm()
        return timer

    async def sleep(self, delay: float) -> None:
        """Returns after `delay` seconds of this clock."""
        await until(self, delay)

    def _arm(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
            self._wake = None
        due = self._timers.next()
        if due is not None:
            self._wake = asyncio.get_running_loop().call_later(max(0, due - self.now()) / 1000, self._fire)

    def _fire(self) -> None:
        now = self.now()
        try:
            while (due := self._timers.next()) is not None and due <= now:
                self._timers.run_next()
        finally:
            self._arm()

    async def advance(self, milliseconds: int) -> None:
        """Moves the clock forward, stopping at every timer on the way. Raises ValueError for a negative step."""
        if milliseconds < 0:
            raise ValueError("advance_ms must not be negative: clocks do not go back")
        target = self.now() + milliseconds
        while (due := self._timers.next()) is not None and due <= target:
            self._offset += max(0, due - self.now())
            self._fire()
            await asyncio.sleep(0.002)
        self._offset += max(0, target - self.now())
        self._fire()
