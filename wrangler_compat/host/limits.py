"""How long a handler that no client waits for may run: queues and cron triggers, 15 minutes as on the platform."""

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

from moorage.durable_objects.runtime import Clock

HANDLER_SECONDS: Final = 900.0

T = TypeVar("T")


class HandlerTooLong(TimeoutError):
    """A handler was ended because it ran for more than 15 minutes."""


async def limited(work: Awaitable[T], clock: Clock, what: str) -> T:
    """The result of `work`, which is cancelled after 15 minutes of `clock`; HandlerTooLong is raised then.

    `what` names the handler. One that catches the cancellation and returns has returned.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    expired = False

    def end() -> None:
        nonlocal expired
        expired = True
        task.cancel()

    timer = clock.call_later(HANDLER_SECONDS, end)
    try:
        return await work
    except asyncio.CancelledError:
        # a stop of the server may have come as well, and goes before
        if expired and task.cancelling() == before + 1:
            raise HandlerTooLong(f"{what} ran for more than 15 minutes and was ended") from None
        raise
    finally:
        timer.cancel()
        if expired:
            task.uncancel()
