"""Cancellations (SIGINT, SIGTERM) held back where one at the wrong moment would lose a process or a record."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

NUMBERS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def held_back() -> Iterator[list[int]]:
    """Signals that a Python handler would take are put into the list that is yielded, and not raised.

    What to do about them is the caller's. Outside of the main thread, which alone hears signals, nothing changes;
    what is ignored stays ignored.
    """
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    former = {number: handler for number in NUMBERS if callable(handler := signal.getsignal(number))}
    for number in former:
        signal.signal(number, lambda caught, frame: came.append(caught))
    try:
        yield came
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
