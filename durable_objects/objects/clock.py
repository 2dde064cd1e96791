"""Where an object of ours has its time from: the clock that the runtime was given, never the machine's."""

from collections.abc import Callable
from typing import Any


def clock_of(ctx: Any) -> Callable[[], int]:
    """A function that returns milliseconds since 1970."""
    now: Callable[[], int] = ctx.clock.now
    return now
