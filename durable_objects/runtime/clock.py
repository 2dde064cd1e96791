"""Time is handed in: nothing in the runtime reads the wall clock by itself.

`SystemClock` serves; `testing.ManualClock` is moved by hand.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """What `Clock.call_later` returns."""

    def cancel(self) -> None:
        """Stops the call; harmless when it was made or cancelled already."""


class Clock(Protocol):
    """Milliseconds since 1970 for stored times, seconds for delays, as the platform and asyncio have it."""

    def now(self) -> int:
        """Milliseconds since 1970-01-01T00:00:00Z."""

    def call_later(self, delay: float, callback: Callable[[], None]) -> TimerHandle:
        """Calls `callback` on the running loop after `delay` seconds."""

    async def sleep(self, delay: float) -> None:
        """Returns after `delay` seconds; a real wait even for 0."""


class SystemClock:
    """The machine's clock and the running loop's timers."""

    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def call_later(self, delay: float, callback: Callable[[], None]) -> TimerHandle:
        return asyncio.get_running_loop().call_later(delay, callback)

    async def sleep(self, delay: float) -> None:
        await asyncio.sleep(delay)
