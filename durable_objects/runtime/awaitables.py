"""Finished awaitables: what storage methods return. Awaiting one never yields, so no other event gets in between."""

import asyncio
import types
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, Generic, NoReturn, TypeVar

T = TypeVar("T")


class Done(Generic[T]):
    """An awaitable that has its value already."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, None, T]:
        return self.value
        yield  # pragma: no cover - makes this a generator


class Failed:
    """An awaitable that raises its error when awaited; unawaited it stays silent, like a promise nobody reads."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __await__(self) -> Generator[Any, None, NoReturn]:
        raise self.error
        yield  # pragma: no cover - makes this a generator


def wake(waiting: "asyncio.Future[None]") -> None:
    """Sets the result of a future that may be done or cancelled already."""
    if not waiting.done():
        waiting.set_result(None)


def run_synchronous_part(coroutine: Coroutine[Any, Any, T]) -> "Awaitable[T]":
    """Runs `coroutine` up to its first real wait, now, and returns an awaitable of its result.

    What is left runs in a task, which exists whether or not it is awaited, as a JavaScript promise does.
    """
    try:
        pending = coroutine.send(None)
    except StopIteration as stop:
        return Done(stop.value)
    except Exception as error:
        return Failed(error)
    task = asyncio.ensure_future(_rest(coroutine, pending))
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task


async def _rest(coroutine: Coroutine[Any, Any, T], pending: Any) -> T:
    return await _resume(coroutine, pending)


@types.coroutine
def _resume(coroutine: Coroutine[Any, Any, T], pending: Any) -> Generator[Any, Any, T]:
    while True:
        try:
            try:
                value = yield pending
            except BaseException as error:
                pending = coroutine.throw(error)
            else:
                pending = coroutine.send(value)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]
