"""An event loop in a thread of its own: what the synchronous clients run the asynchronous ones on.

So there is one flow for both, and a deadline that cuts off whatever hangs, which blocking sockets cannot promise.
"""

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")

_END = object()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if loop.is_closed():
        return
    loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():
        thread.join()
        loop.close()


class LoopThread:
    """Runs coroutines from plain code, also where another loop is running, until `close()` or the process's end."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="moorage-client", daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, _stop, self._loop, self._thread)

    @property
    def closed(self) -> bool:
        """Whether `close()` was called."""
        return not self._finalizer.alive

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; an interrupt of the waiting thread cancels it. RuntimeError after `close()`."""
        if not self._finalizer.alive:
            work.close()
            raise RuntimeError("this client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
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
            if close is not None and self._finalizer.alive:
                self.run(closing(close))

    def close(self) -> None:
        """Stops the thread. May be called twice."""
        self._finalizer()
