"""For tests of Durable Objects: a clock set by hand, a runtime in memory, and commits that fail or vanish.

runtime = memory_runtime()
counters = runtime.namespace("my-worker-Counter", Counter)
await runtime.start()
await counters.getByName("a").increment()
await runtime.clock.advance(60_000)     # alarms that are due have run when this returns
"""

import asyncio
import heapq
import itertools
import random
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from .awaitables import wake
from .clock import Clock
from .commitlog import Done, NoSync, WalFile
from .runtime import Runtime, RuntimeSettings

T = TypeVar("T")

_SETTLE_ROUNDS = 200


class Timer:
    """A call that is due at a time of a clock that tests move."""

    __slots__ = ("callback", "cancelled")

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        """Stops the call; harmless when it was made or cancelled already."""
        self.cancelled = True


class Timers:
    """Calls by the time, in milliseconds, at which they are due; of one time in the order they were added."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._numbers = itertools.count()

    def add(self, due: int, callback: Callable[[], None]) -> Timer:
        """Adds a call and returns it."""
        timer = Timer(callback)
        heapq.heappush(self._heap, (due, next(self._numbers), timer))
        return timer

    def next(self) -> int | None:
        """When the next call is due; None when there is none."""
        while self._heap and self._heap[0][2].cancelled:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_next(self) -> None:
        """Makes the call that is due next. Raises IndexError when there is none."""
        self.next()
        heapq.heappop(self._heap)[2].callback()


async def until(clock: Clock, delay: float) -> None:
    """Returns once `clock` was moved `delay` seconds on: `sleep` by the clock's own `call_later`."""
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_later(delay, lambda: wake(woken))
    try:
        await woken
    finally:
        timer.cancel()


class ManualClock:
    """A `Clock` that stands still until it is moved. `start` is milliseconds since 1970."""

    def __init__(self, start: int = 1_700_000_000_000) -> None:
        self._now = start
        self._timers = Timers()

    def now(self) -> int:
        """The time set by hand, in milliseconds."""
        return self._now

    def call_later(self, delay: float, callback: Callable[[], None]) -> Timer:
        """Calls `callback` when the clock has been moved `delay` seconds on."""
        return self._timers.add(self._now + max(0, round(delay * 1000)), callback)

    async def sleep(self, delay: float) -> None:
        """Returns when the clock has been moved `delay` seconds on."""
        await until(self, delay)

    def next_timer(self) -> int | None:
        """Milliseconds at which the next timer is due, or None."""
        return self._timers.next()

    async def advance(self, milliseconds: int) -> None:
        """Moves the clock on, running every timer on the way at its time, and what they start."""
        target = self._now + milliseconds
        await settle()
        while (due := self.next_timer()) is not None and due <= target:
            self._now = max(self._now, due)
            self._timers.run_next()
            await settle()
        self._now = target
        await settle()

    async def run_until(self, awaitable: Awaitable[T], limit: int = 3_600_000) -> T:
        """Moves the clock from timer to timer until `awaitable` is done; returns its result.

        Raises TimeoutError when it needs more than `limit` milliseconds, or no timer is left to wait for.
        """
        future = asyncio.ensure_future(awaitable)
        end = self._now + limit
        while True:
            await settle()
            if future.done():
                return future.result()
            due = self.next_timer()
            if due is None or due > end:
                future.cancel()
                raise TimeoutError(f"still waiting after {limit} ms of the clock, or without any timer")
            await self.advance(due - self._now)


async def settle(rounds: int = _SETTLE_ROUNDS) -> None:
    """Lets everything that is ready run. Work in threads is not waited for: use it with a runtime in memory."""
    for _ in range(rounds):
        await asyncio.sleep(0)


class SocketClient:
    """The client's side of a socket that an object or a Worker opened: what it received, in order.

    `received` holds text, bytes, and `CloseEvent`s. The client answers a Close frame, as browsers do.
    """

    def __init__(self, response: Any) -> None:
        self.status: int = response.status
        self.received: list[Any] = []
        self.socket: Any = response.web_socket
        if self.socket is not None:
            self.socket.addEventListener("message", lambda event: self.received.append(event.data))
            self.socket.addEventListener("close", self.received.append)
            self.socket.accept()

    @classmethod
    async def connect(cls, target: Any, url: str = "https://test/", **options: Any) -> "SocketClient":
        """Asks `target` (a stub, or anything with `fetch`) for a socket and accepts what it returns."""
        headers = {"Upgrade": "websocket", **options.pop("headers", {})}
        return cls(await target.fetch(url, headers=headers, **options))

    def send(self, message: str | bytes) -> None:
        """Sends text or bytes."""
        self.socket.send(message)

    def close(self, code: int | None = 1000, reason: str | None = None) -> None:
        """Sends a Close frame."""
        self.socket.close(code, reason)

    def vanish(self) -> None:
        """Goes away without a Close frame, as a client whose network is lost."""
        self.socket._end.abandon()


class ControlledLog:
    """A commit log whose syncs can be held back, made to fail, or lost.

    `hold()` keeps commits undurable until `release()`. `fail(error)` makes the next sync fail. With an `inner` log
    commits that are let through are really synced by it.
    """

    def __init__(self, inner: Any = None) -> None:
        self._inner = inner or NoSync()
        self._held: list[tuple[Sequence[WalFile], Done]] | None = None
        self._failure: BaseException | None = None
        self.commits = 0
        self.durable_sizes: dict[str, int] = {}

    def hold(self) -> None:
        """From now on no commit becomes durable."""
        if self._held is None:
            self._held = []

    def release(self, file: WalFile | None = None, done: Done | None = None) -> None:
        """Without arguments: lets held commits through. With them: the commit log's own `release`."""
        if file is not None and done is not None:
            self._inner.release(file, done)
            return
        held, self._held = self._held or [], None
        for files, finished in held:
            self._pass(files, finished)

    def fail(self, error: BaseException) -> None:
        """The next commit's sync fails with `error`."""
        self._failure = error

    def commit(self, files: Sequence[WalFile], done: Done) -> None:
        """Passes the commit on, keeps it, or fails it."""
        self.commits += 1
        if self._failure is not None:
            failure, self._failure = self._failure, None
            asyncio.get_running_loop().call_soon(done, failure)
        elif self._held is not None:
            self._held.append((files, done))
        else:
            self._pass(files, done)

    def _pass(self, files: Sequence[WalFile], done: Done) -> None:
        sizes = {file.path: Path(file.path).stat().st_size for file in files}

        def finished(error: BaseException | None) -> None:
            if error is None:
                self.durable_sizes.update(sizes)
            done(error)

        self._inner.commit(files, finished)

    async def close(self) -> None:
        """Stops the inner log."""
        await self._inner.close()

    def image_after_power_cut(self, folder: Path, target: Path) -> None:
        """Copies a state folder to `target` as a power cut would leave it: bytes that were never synced are gone.

        Only for runs without checkpoints and evictions, whose WAL files only grow.
        """
        shutil.copytree(folder, target)
        for path in target.rglob("*-wal"):
            original = folder / path.relative_to(target)
            with open(path, "r+b") as file:
                file.truncate(self.durable_sizes.get(str(original), 0))
        for path in target.rglob("*-shm"):
            path.unlink()


def memory_runtime(
    *, clock: ManualClock | None = None, settings: RuntimeSettings | None = None, seed: int = 0, log: Any = None
) -> Runtime:
    """Returns a runtime that keeps objects in memory, with a hand-set clock and seeded jitter.

    Evicted objects keep their storage, as on disk. `runtime.clock` is the ManualClock.
    """
    return Runtime(None, clock=clock or ManualClock(), settings=settings, rng=random.Random(seed), log=log)


__all__ = ["ControlledLog", "ManualClock", "SocketClient", "Timer", "Timers", "memory_runtime", "settle", "until"]
