"""An event loop in a thread of its own: what the synchronous clients run the asynchronous ones on.

So there is one flow for both, and a deadline that cuts off whatever hangs, which blocking sockets cannot promise.
"""

import asyncio
import concurrent.futures
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_END = object()

Last = Callable[[], Awaitable[Any]]


async def _end(loop: asyncio.AbstractEventLoop, last: list[Last]) -> None:
    """Cancels what is running, so that nobody waits for ever for its result, and runs what is `last`."""
    others = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
    for task in others:
        # a second cancellation would cut off what the first one's clean-up awaits
        if not task.cancelling():
            task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    for work in last:
        await work()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, last: list[Last]) -> None:
    if loop.is_closed():
        return
    ended = asyncio.run_coroutine_threadsafe(_end(loop, last), loop)
    ended.add_done_callback(lambda _: loop.call_soon_threadsafe(loop.stop))
    if thread is not threading.current_thread():
        thread.join()
        loop.close()
        ended.result()


class LoopThread:
    """Runs coroutines from plain code, also where another loop is running, until `close()` or the process's end."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="moorage-client", daemon=True)
        self._thread.start()
        self._last: list[Last] = []
        self._finalizer = weakref.finalize(self, _stop, self._loop, self._thread, self._last)
        self._closing = False
        # nothing is handed to a loop that was told to end: it would never answer
        self._handing_over = threading.Lock()

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return self._closing

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; an interrupt of the waiting thread cancels it.

        RuntimeError after `close()`, and when another thread closes the client meanwhile.
        """
        with self._handing_over:
            if self._closing:
                work.close()
                raise RuntimeError("this client is closed")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            if self._closing:
                raise RuntimeError("this client was closed meanwhile") from None
            raise
        except BaseException:
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """The items of an asynchronous iterator, one at a time, as they are asked for."""

        # an interrupted step may still be ending when the iterator is closed
        turn = asyncio.Lock()

        async def following() -> Any:
            async with turn:
                return await anext(items, _END)

        async def closing(close: Any) -> None:
            async with turn:
                await close()

        try:
            while (item := self.run(following())) is not _END:
                yield item
        finally:
            close = getattr(items, "aclose", None)
            if close is not None and not self._closing:
                self.run(closing(close))

    def close(self, last: Last | None = None) -> None:
        """Cancels what is running, runs `last` when it is given, and stops the thread. May be called twice."""
        with self._handing_over:
            if self._closing:
                return
            self._closing = True
        if last is not None:
            self._last.append(last)
        self._finalizer()
