"""Where an object of ours has its time from: the clock that the runtime was given, never the machine's behind its
back.
"""

import time
from collections.abc import Callable
from typing import Any


def clock_of(ctx: Any) -> Callable[[], int]:
    """A function that returns milliseconds since 1970: of the runtime's clock, or of the machine where `ctx` has
    none.
    """
    clock = getattr(ctx, "clock", None)
    if clock is not None:
        now: Callable[[], int] = clock.now
        return now
    return lambda: time.time_ns() // 1_000_000
