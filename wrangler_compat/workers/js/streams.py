"""`js.ReadableStream` made of functions, and `js.WritableStream`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from moorage.durable_objects.runtime.web import ReadableStream as ByteStream

from .errors import JsTypeError
from .promises import Promise, settled


def called(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function of a program with as many of `args` as it takes, as JavaScript does."""
    from ..calling import relaxed

    return relaxed(function, *args)


def failure_of(reason: Any) -> Exception:
    """The error that a stream ends with when a program gave `reason`."""
    return reason if isinstance(reason, Exception) else JsTypeError(str(reason))


class ReadableController:
    """What `start` and `pull` get: `enqueue`, `close`, `error`."""

    desiredSize = 1

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self.ended = False
        self.failure: Exception | None = None
        self.changed = asyncio.Event()

    def enqueue(self, chunk: Any) -> None:
        if self.ended:
            raise JsTypeError("Unable to enqueue: the stream is closed")
        self.waiting.append(chunk)
        self.changed.set()

    def close(self) -> None:
        self.ended = True
        self.changed.set()

    def error(self, reason: Any = None) -> None:
        self.failure = failure_of(reason)
        self.close()


class ReadableStream(ByteStream):
    """`ReadableStream.new(start=, pull=, cancel=)`, or one object with them: `start` runs at once, `pull` when a
    chunk is wanted. Chunks are bytes; text is encoded.
    """

    __slots__ = ()

    @classmethod
    def new(cls, source: Any = None, strategy: Any = None, **functions: Any) -> ByteStream:
        given = {**dict(source or {}), **functions}
        controller = ReadableController()
        started = None if given.get("start") is None else called(given["start"], controller)
        if inspect.isawaitable(started):
            started = Promise(started)
        return ByteStream(_pulled(controller, started, given.get("pull"), given.get("cancel")))

    @staticmethod
    def from_(source: Any) -> ByteStream:
        return ByteStream(source)


async def _pulled(controller: ReadableController, started: Any, pull: Any, cancel: Any) -> AsyncIterator[Any]:
    finished = False
    try:
        await settled(started)
        while True:
            while controller.waiting:
                yield controller.waiting.pop(0)
            if controller.failure is not None:
                raise controller.failure
            if controller.ended:
                finished = True
                return
            controller.changed.clear()
            if pull is not None:
                await settled(called(pull, controller))
            if not controller.changed.is_set():
                await controller.changed.wait()  # somebody holds the controller and will use it
    finally:
        if not finished and cancel is not None and controller.failure is None:
            await settled(called(cancel, None))


class WritableController:
    """What `start` and `write` of a WritableStream get."""

    def __init__(self, stream: WritableStream) -> None:
        self._stream = stream

    def error(self, reason: Any = None) -> None:
        self._stream.fail(failure_of(reason))


class WritableStream:
    """`WritableStream.new(start=, write=, close=, abort=)`; `getWriter()` gives its writer.

    Chunks are written one after the other, and a write returns when its chunk was taken. After `close()`, or once
    anything of it failed, it takes no more.
    """

    def __init__(
        self,
        write: Callable[..., Any],
        close: Callable[[], Any] | None = None,
        abort: Callable[[Any], Any] | None = None,
        start: Callable[..., Any] | None = None,
    ) -> None:
        self._write, self._close, self._abort = write, close, abort
        self._turn = asyncio.Lock()
        self._closing = False
        self._failure: Exception | None = None
        self._ended = asyncio.Event()
        self.locked = False
        self._controller = WritableController(self)
        self._started: Any = None if start is None else called(start, self._controller)
        if inspect.isawaitable(self._started):
            self._started = Promise(self._started)

    @classmethod
    def new(cls, sink: Any = None, strategy: Any = None, **functions: Any) -> WritableStream:
        given = {**dict(sink or {}), **functions}
        write = given.get("write") or (lambda chunk: None)
        return cls(write, given.get("close"), given.get("abort"), given.get("start"))

    def getWriter(self) -> Writer:
        if self.locked:
            raise JsTypeError("This WritableStream is currently locked to a writer.")
        self.locked = True
        return Writer(self)

    def fail(self, error: Exception) -> None:
        """From now on every use raises `error`."""
        if self._failure is None:
            self._failure = error
            self._ended.set()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closing:
            raise JsTypeError("This WritableStream has been closed.")

    async def _step(self, function: Callable[..., Any], *args: Any) -> None:
        try:
            await settled(self._started)
            await settled(function(*args))
        except Exception as error:
            self.fail(error)
            raise

    async def write(self, chunk: Any) -> None:
        self._check()
        async with self._turn:
            if self._failure is not None:
                raise self._failure
            await self._step(called, self._write, chunk, self._controller)

    async def close(self) -> None:
        self._check()
        self._closing = True
        async with self._turn:
            if self._failure is not None:
                raise self._failure
            if self._close is not None:
                await self._step(self._close)
            self._ended.set()

    async def abort(self, reason: Any = None) -> None:
        """Ends it without what was not written yet. Does nothing to one that has ended."""
        if self._failure is not None or (self._closing and self._ended.is_set()):
            return
        self.fail(failure_of(reason))
        if self._abort is not None:
            await settled(called(self._abort, reason))

    async def idle(self) -> None:
        """Returns when no chunk is being written."""
        async with self._turn:
            pass
        if self._failure is not None:
            raise self._failure

    async def ended(self) -> None:
        """Returns when it is closed; raises what it failed with."""
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure


class Writer:
    """`write`, `close`, `abort`, `releaseLock`; `await writer.ready` and `await writer.closed`."""

    def __init__(self, stream: WritableStream) -> None:
        self._stream: WritableStream | None = stream

    def _held(self) -> WritableStream:
        if self._stream is None:
            raise JsTypeError("This WritableStream writer has been released.")
        return self._stream

    async def write(self, chunk: Any) -> None:
        await self._held().write(chunk)

    async def close(self) -> None:
        await self._held().close()

    async def abort(self, reason: Any = None) -> None:
        await self._held().abort(reason)

    def releaseLock(self) -> None:
        if self._stream is not None:
            self._stream.locked = False
            self._stream = None

    @property
    def ready(self) -> Coroutine[Any, Any, None]:
        return self._held().idle()

    @property
    def closed(self) -> Coroutine[Any, Any, None]:
        return self._held().ended()

    @property
    def desiredSize(self) -> int:
        return 0 if self._held()._turn.locked() else 1
