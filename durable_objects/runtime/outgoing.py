"""Outgoing calls of an object: they leave only when what was written before is durable (semantics 5.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from . import gate as gates
from .errors import DurableObjectAbort

T = TypeVar("T")


async def outgoing(make: Callable[[], Awaitable[T]]) -> T:
    """Awaits `make()` as work outside the object and returns its result; the answer passes the object's gate.

    Inside an object it first waits until every earlier write is durable; when that fails, nothing is sent and the
    error that broke the object is raised. Outside an object it only awaits.
    """
    if gates.current is None:
        return await make()
    await gate_open()
    answer: asyncio.Task[T] = gates.run_outside(gates.outside(make))
    return await answer


async def gate_open() -> None:
    """Returns when the running object's output gate is open: everything it wrote is durable. At once outside objects.

    Raises the error that broke the object, if its writes could not be kept.
    """
    turn = gates.current
    if turn is None:
        return
    instance = turn.owner
    instance.check()
    if not instance.database.clean:
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def settle(error: BaseException | None) -> None:
            if opened.done():
                return
            if error is None:
                opened.set_result(None)
            else:
                opened.set_exception(error)

        instance.when_clean(settle)
        if instance.dead is not None:
            raise DurableObjectAbort("the instance was reset")
        await opened
