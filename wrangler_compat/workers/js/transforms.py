"""`js.TransformStream` and those made of it: of a fixed length, compressing, decompressing."""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from moorage.durable_objects.runtime.web import ReadableStream as ByteStream
from moorage.durable_objects.runtime.web.streams import chunk_bytes

from .errors import JsTypeError
from .promises import settled
from .streams import WritableStream, called, failure_of

_GONE: Final = "The other end of this stream has been cancelled."


class _Channel:
    """Chunks from a writer to a reader. `drained` returns when all were taken: that is the back-pressure."""

    def __init__(self) -> None:
        self._chunks: deque[Any] = deque()
        self._closed = False
        self._failure: Exception | None = None
        self._reader_gone = False
        self._filled = asyncio.Event()
        self._emptied = asyncio.Event()

    def put(self, chunk: Any) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise JsTypeError("This WritableStream has been closed.")
        if self._reader_gone:
            raise JsTypeError(_GONE)
        self._chunks.append(chunk)
        self._emptied.clear()
        self._filled.set()

    async def drained(self) -> None:
        while self._chunks and self._failure is None and not self._reader_gone:
            await self._emptied.wait()
        if self._failure is not None:
            raise self._failure
        if self._reader_gone:
            raise JsTypeError(_GONE)

    def close(self) -> None:
        self._closed = True
        self._filled.set()

    def fail(self, error: Exception) -> None:
        if self._failure is None and not self._closed:
            self._failure = error
            self._chunks.clear()
            self._filled.set()
            self._emptied.set()

    async def chunks(self) -> AsyncIterator[Any]:
        try:
            while True:
                while not (self._chunks or self._closed or self._failure is not None):
                    self._filled.clear()
                    await self._filled.wait()
                if self._failure is not None:
                    raise self._failure
                if not self._chunks:
                    return
                chunk = self._chunks.popleft()
                if not self._chunks:
                    self._emptied.set()
                yield chunk
        finally:
            self._reader_gone = True
            self._emptied.set()


class TransformController:
    """What `start`, `transform` and `flush` get: `enqueue`, `terminate`, `error`."""

    desiredSize = 1

    def __init__(self, channel: _Channel) -> None:
        self._channel = channel

    def enqueue(self, chunk: Any) -> None:
        self._channel.put(chunk)

    async def taken(self) -> None:
        """Returns when the reader has taken everything (ours)."""
        await self._channel.drained()

    def terminate(self) -> None:
        self._channel.close()

    def error(self, reason: Any = None) -> None:
        self._channel.fail(failure_of(reason))


class Sides:
    """`.writable` and `.readable`: what is written to the one is read from the other, changed by `transform`.

    A write returns when the reader has taken what came of it. An error of one of the functions ends both sides.
    """

    def __init__(self, transform: Any = None, flush: Any = None, start: Any = None) -> None:
        channel = _Channel()
        controller = TransformController(channel)

        async def guarded(function: Callable[..., Any], *args: Any) -> None:
            try:
                await settled(called(function, *args))
            except Exception as error:
                channel.fail(error)
                raise

        async def write(chunk: Any) -> None:
            if transform is None:
                channel.put(chunk)
            else:
                await guarded(transform, chunk, controller)
            await channel.drained()

        async def close() -> None:
            if flush is not None:
                await guarded(flush, controller)
            channel.close()

        def abort(reason: Any) -> None:
            channel.fail(failure_of(reason))

        def begin(_controller: Any) -> Any:
            return guarded(start, controller)

        self.readable = ByteStream(channel.chunks())
        self.writable = WritableStream(write, close, abort, None if start is None else begin)


class TransformStream(Sides):
    """`TransformStream.new(start=, transform=, flush=)`, or one object with them; without any nothing is changed."""

    @classmethod
    def new(cls, transformer: Any = None, *_strategies: Any, **functions: Any) -> TransformStream:
        given = {**dict(transformer or {}), **functions}
        return cls(given.get("transform"), given.get("flush"), given.get("start"))


class IdentityTransformStream(Sides):
    """The platform's name for one that changes nothing."""

    @classmethod
    def new(cls, *_strategies: Any, **_functions: Any) -> IdentityTransformStream:
        return cls()


class FixedLengthStream(Sides):
    """A TransformStream that is told how many bytes pass; more or fewer are a TypeError of the platform."""

    def __init__(self, length: int) -> None:
        left = int(length)

        def count(chunk: Any, controller: TransformController) -> None:
            nonlocal left
            left -= len(chunk_bytes(chunk))
            if left < 0:
                raise JsTypeError("Attempt to write too many bytes through a FixedLengthStream.")
            controller.enqueue(chunk)

        def end(_controller: TransformController) -> None:
            if left > 0:
                raise JsTypeError("FixedLengthStream did not see all expected bytes before close().")

        super().__init__(count, end)

    @classmethod
    def new(cls, length: Any = 0, *_strategies: Any, **_functions: Any) -> FixedLengthStream:
        return cls(length)


# The window bits by which zlib knows the three forms.
_FORMATS: Final = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS, "deflate-raw": -zlib.MAX_WBITS}


def _window(form: Any) -> int:
    if form not in _FORMATS:
        raise JsTypeError("The compression format must be either 'deflate', 'deflate-raw' or 'gzip'.")
    return _FORMATS[form]


class CompressionStream(Sides):
    """`CompressionStream.new("gzip")`, `"deflate"` or `"deflate-raw"`."""

    def __init__(self, form: str) -> None:
        packer = zlib.compressobj(wbits=_window(form))

        def work(chunk: Any, controller: TransformController) -> None:
            if packed := packer.compress(chunk_bytes(chunk)):
                controller.enqueue(packed)

        super().__init__(work, lambda controller: controller.enqueue(packer.flush()))

    @classmethod
    def new(cls, form: Any, *_strategies: Any, **_functions: Any) -> CompressionStream:
        return cls(form)


class DecompressionStream(Sides):
    """The opposite; a TypeError for data that is none, that ends early, or that goes on behind its end."""

    def __init__(self, form: str) -> None:
        unpacker = zlib.decompressobj(wbits=_window(form))

        async def work(chunk: Any, controller: TransformController) -> None:
            if unpacker.eof:
                raise JsTypeError("Trailing bytes after end of compressed data")
            data = chunk_bytes(chunk)
            try:
                while data and not unpacker.eof:
                    # a small input may stand for a large output: no piece before the last one was taken
                    if piece := unpacker.decompress(data, 65_536):
                        controller.enqueue(piece)
                        await controller.taken()
                    data = unpacker.unconsumed_tail
            except zlib.error as error:
                raise JsTypeError(f"Decompression failed: {error}") from error
            if unpacker.unused_data:
                raise JsTypeError("Trailing bytes after end of compressed data")

        def end(_controller: TransformController) -> None:
            if not unpacker.eof:
                raise JsTypeError("Called close() on a decompression stream with incomplete data")

        super().__init__(work, end)

    @classmethod
    def new(cls, form: Any, *_strategies: Any, **_functions: Any) -> DecompressionStream:
        return cls(form)
