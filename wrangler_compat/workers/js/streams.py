"""`js.ReadableStream`, `WritableStream` and `TransformStream`, made of functions or of nothing."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

from moorage.durable_objects.runtime.web import ReadableStream as ByteStream

from .errors import JsTypeError


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


class _Channel:
    """Chunks from a writer to a reader. A write returns when its chunk was taken: that is the back-pressure."""

    def __init__(self) -> None:
        self._slot: asyncio.Queue[tuple[Any, asyncio.Future[None]]] = asyncio.Queue()
        self._closed = False
        self._error: Exception | None = None
        self._reader_gone = False
        self._ended = asyncio.Event()

    async def write(self, chunk: Any) -> None:
        if self._closed or self._error is not None:
            raise JsTypeError("This WritableStream has been closed.")
        if self._reader_gone:
            raise JsTypeError("The other end of this stream has been cancelled.")
        taken = asyncio.get_running_loop().create_future()
        self._slot.put_nowait((chunk, taken))
        await taken

    def close(self) -> None:
        self._closed = True
        self._ended.set()

    def abort(self, reason: Any) -> None:
        self._error = reason if isinstance(reason, Exception) else JsTypeError(str(reason))
        self._ended.set()

    async def chunks(self) -> AsyncIterator[Any]:
        try:
            while True:
                if self._slot.empty() and self._ended.is_set():
                    if self._error is not None:
                        raise self._error
                    return
                getter = asyncio.ensure_future(self._slot.get())
                ended = asyncio.ensure_future(self._ended.wait())
                await asyncio.wait({getter, ended}, return_when=asyncio.FIRST_COMPLETED)
                ended.cancel()
                if not getter.done():
                    getter.cancel()
                    continue
                chunk, taken = getter.result()
                if not taken.done():
                    taken.set_result(None)
                yield chunk
        finally:
            self._reader_gone = True
            while not self._slot.empty():
                _, taken = self._slot.get_nowait()
                if not taken.done():
                    taken.set_exception(JsTypeError("The other end of this stream has been cancelled."))


class _Controller:
    """What `start`, `pull` and `transform` get: `enqueue`, `close`, `error`, `terminate`."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self.ended = False
        self.failure: Exception | None = None
        self.changed = asyncio.Event()

    desiredSize = 1

    def enqueue(self, chunk: Any) -> None:
        if self.ended:
            raise JsTypeError("Unable to enqueue: the stream is closed")
        self.waiting.append(chunk)
        self.changed.set()

    def close(self) -> None:
        self.ended = True
        self.changed.set()

    terminate = close

    def error(self, reason: Any = None) -> None:
        self.failure = reason if isinstance(reason, Exception) else JsTypeError(str(reason))
        self.close()


class ReadableStream(ByteStream):
    """`ReadableStream.new(start=, pull=, cancel=)` (or one object with them): `pull` runs when a chunk is wanted."""

    __slots__ = ()

    @classmethod
    def new(cls, source: Any = None, strategy: Any = None, **functions: Any) -> ByteStream:
        given = {**dict(source or {}), **functions}
        return ByteStream(_pulled(given.get("start"), given.get("pull"), given.get("cancel")))

    @staticmethod
    def from_(source: Any) -> ByteStream:
        return ByteStream(source)


async def _pulled(start: Any, pull: Any, cancel: Any) -> AsyncIterator[Any]:
    controller = _Controller()
    finished = False
    try:
        if start is not None:
            await _result(start(controller))
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
                await _result(pull(controller))
            if not controller.changed.is_set():
                await controller.changed.wait()  # somebody holds the controller and will use it
    finally:
        if not finished and cancel is not None and controller.failure is None:
            await _result(cancel(None))


class WritableStream:
    """`WritableStream.new(write=, close=, abort=)`; `getWriter()` gives `write`, `close`, `abort`, `releaseLock`."""

    def __init__(
        self,
        write: Callable[[Any], Any],
        close: Callable[[], Any] | None = None,
        abort: Callable[[Any], Any] | None = None,
    ) -> None:
        self._write, self._close, self._abort = write, close, abort
        self.locked = False

    @classmethod
    def new(cls, sink: Any = None, strategy: Any = None, **functions: Any) -> WritableStream:
        given = {**dict(sink or {}), **functions}
        return cls(given.get("write") or (lambda chunk: None), given.get("close"), given.get("abort"))

    def getWriter(self) -> _Writer:
        if self.locked:
            raise JsTypeError("This WritableStream is currently locked to a writer.")
        self.locked = True
        return _Writer(self)

    async def close(self) -> None:
        if self._close is not None:
            await _result(self._close())

    async def abort(self, reason: Any = None) -> None:
        if self._abort is not None:
            await _result(self._abort(reason))


class _Writer:
    def __init__(self, stream: WritableStream) -> None:
        self._stream = stream

    async def write(self, chunk: Any) -> None:
        await _result(self._stream._write(chunk))

    async def close(self) -> None:
        await self._stream.close()

    async def abort(self, reason: Any = None) -> None:
        await self._stream.abort(reason)

    def releaseLock(self) -> None:
        self._stream.locked = False


class TransformStream:
    """`.writable` and `.readable`; `TransformStream.new(transform=, flush=)` changes what passes."""

    def __init__(self, transform: Any = None, flush: Any = None) -> None:
        channel = _Channel()

        async def write(chunk: Any) -> None:
            if transform is None:
                await channel.write(chunk)
                return
            controller = _Controller()
            await _result(transform(chunk, controller))
            await self._pass(channel, controller)

        async def close() -> None:
            if flush is not None:
                controller = _Controller()
                await _result(flush(controller))
                await self._pass(channel, controller)
            channel.close()

        self.readable = ByteStream(channel.chunks())
        self.writable = WritableStream(write, close, channel.abort)

    @staticmethod
    async def _pass(channel: _Channel, controller: _Controller) -> None:
        for chunk in controller.waiting:
            await channel.write(chunk)
        if controller.failure is not None:
            channel.abort(controller.failure)
        elif controller.ended:
            channel.close()

    @classmethod
    def new(cls, transformer: Any = None, *_strategies: Any, **functions: Any) -> TransformStream:
        given = {**dict(transformer or {}), **functions}
        return cls(given.get("transform"), given.get("flush"))


class FixedLengthStream:
    """A TransformStream that is told how many bytes pass; more or fewer are a TypeError of the platform."""

    def __init__(self, length: int) -> None:
        self._left = int(length)

        def count(chunk: Any, controller: _Controller) -> None:
            self._left -= len(chunk)
            if self._left < 0:
                raise JsTypeError("Attempt to write too many bytes through a FixedLengthStream.")
            controller.enqueue(chunk)

        def end(controller: _Controller) -> None:
            if self._left > 0:
                raise JsTypeError("FixedLengthStream did not see all expected bytes before close().")

        inner = TransformStream(count, end)
        self.readable, self.writable = inner.readable, inner.writable

    @classmethod
    def new(cls, length: Any = 0, *_strategies: Any, **_functions: Any) -> FixedLengthStream:
        return cls(length)
