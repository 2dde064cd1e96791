"""Byte streams: the platform's `ReadableStream` over an asynchronous iterator, and its readers.

A chunk is asked for only when somebody reads: back-pressure is the absence of a question.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any

from .values import JsBytes, JsDict


def chunk_bytes(chunk: Any) -> bytes:
    """A chunk of a body as bytes; TypeError when it is neither text nor bytes."""
    if isinstance(chunk, bytes):
        return chunk
    if isinstance(chunk, str):
        return chunk.encode()
    if isinstance(chunk, bytearray | memoryview):
        return bytes(chunk)
    convert = getattr(chunk, "to_bytes", None)
    if callable(convert) and not isinstance(chunk, int):
        return bytes(convert())
    raise TypeError(f"This stream may only give bytes or text, not {type(chunk).__name__}")


async def _from_iterable(source: Iterable[Any]) -> AsyncIterator[Any]:
    for chunk in source:
        yield chunk


class ReadableStream:
    """A stream of bytes that is read once, by one reader at a time.

    Iterating it asynchronously, or a reader from `getReader()`, takes chunks as the source gives them. `locked` is
    true while a reader or an iteration holds it, `disturbed` once anything was read or it was cancelled.
    """

    __slots__ = ("_done", "_source", "disturbed", "locked")

    def __init__(self, source: AsyncIterable[Any] | Iterable[Any] = ()) -> None:
        if not isinstance(source, AsyncIterable):
            source = _from_iterable(source)
        self._source = source.__aiter__()
        self._done = False
        self.locked = False
        self.disturbed = False

    async def next_chunk(self) -> bytes | None:
        """The next chunk, or None at the end; an error of the source ends the stream and is raised."""
        self.disturbed = True
        if self._done:
            return None
        try:
            return chunk_bytes(await anext(self._source))
        except StopAsyncIteration:
            self._done = True
            return None
        except BaseException:
            self._done = True
            raise

    async def cancel(self, reason: Any = None) -> None:
        """Ends the stream; the source's clean-up runs."""
        self.disturbed = True
        if self._done:
            return
        self._done = True
        close = getattr(self._source, "aclose", None)
        if close is not None:
            await close()

    def lock(self) -> None:
        if self.locked:
            raise TypeError("This ReadableStream is currently locked to a reader.")
        self.locked = True

    async def __aiter__(self) -> AsyncIterator[JsBytes]:
        self.lock()
        try:
            while (chunk := await self.next_chunk()) is not None:
                yield JsBytes(chunk)
        finally:
            self.locked = False
            await self.cancel()

    async def read_all(self) -> bytes:
        """The rest of the stream, in memory."""
        self.lock()
        chunks: list[bytes] = []
        while (chunk := await self.next_chunk()) is not None:
            chunks.append(chunk)
        return b"".join(chunks)

    def getReader(self, options: Any = None) -> StreamReader:
        self.lock()
        return StreamReader(self)

    def tee(self) -> tuple[ReadableStream, ReadableStream]:
        """Two streams of the same chunks. What one has read and the other has not waits in memory."""
        self.lock()
        shared = _Tee(self)
        return ReadableStream(shared.branch(0)), ReadableStream(shared.branch(1))

    async def pipeTo(self, writable: Any, options: Any = None, **more: Any) -> None:
        """Writes every chunk to `writable` (anything with `getWriter()`), then closes it.

        An error of this stream aborts the writable one, an error there cancels this one, and is raised. The options
        `preventClose`, `preventAbort`, `preventCancel` and `signal` are the standard's.
        """
        given = {**dict(options or {}), **more}
        signal = given.get("signal")
        writer = writable.getWriter()
        self.lock()
        try:
            while True:
                try:
                    if signal is not None and signal.aborted:
                        raise signal.error()
                    chunk = await self.next_chunk()
                except Exception as error:
                    if not given.get("preventAbort"):
                        await writer.abort(error)
                    if not given.get("preventCancel"):
                        await self.cancel(error)
                    raise
                if chunk is None:
                    break
                try:
                    await writer.write(JsBytes(chunk))
                except Exception as error:
                    if not given.get("preventCancel"):
                        await self.cancel(error)
                    raise
            if not given.get("preventClose"):
                await writer.close()
        finally:
            self.locked = False
            writer.releaseLock()

    def pipeThrough(self, transform: Any, options: Any = None, **more: Any) -> Any:
        """Feeds the transform's writable side in the background; returns its readable side, which tells of errors."""
        task = asyncio.ensure_future(self.pipeTo(transform.writable, options, **more))
        _pumps.add(task)
        task.add_done_callback(_pumped)
        return transform.readable

    def __repr__(self) -> str:
        return f"ReadableStream(locked={self.locked})"


_pumps: set[asyncio.Future[None]] = set()


def _pumped(task: asyncio.Future[None]) -> None:
    _pumps.discard(task)
    if not task.cancelled():
        task.exception()  # the readable side has raised it


class StreamReader:
    """`getReader()`: `await read()` gives `.done` and `.value`."""

    __slots__ = ("_stream",)

    def __init__(self, stream: ReadableStream) -> None:
        self._stream: ReadableStream | None = stream

    def _held(self) -> ReadableStream:
        if self._stream is None:
            raise TypeError("This ReadableStream reader has been released.")
        return self._stream

    async def read(self) -> JsDict:
        chunk = await self._held().next_chunk()
        if chunk is None:
            return JsDict(done=True, value=None)
        return JsDict(done=False, value=JsBytes(chunk))

    def releaseLock(self) -> None:
        if self._stream is not None:
            self._stream.locked = False
            self._stream = None

    async def cancel(self, reason: Any = None) -> None:
        await self._held().cancel(reason)

    async def __aiter__(self) -> AsyncIterator[JsBytes]:
        while (chunk := await self._held().next_chunk()) is not None:
            yield JsBytes(chunk)


class _Tee:
    """One source, two queues. The source is cancelled when both branches have gone."""

    def __init__(self, stream: ReadableStream) -> None:
        self.stream = stream
        self.queues: tuple[deque[bytes], deque[bytes]] = (deque(), deque())
        self.open = [True, True]
        self.turn = asyncio.Lock()
        self.ended = False
        self.error: BaseException | None = None

    async def branch(self, side: int) -> AsyncIterator[bytes]:
        queue = self.queues[side]
        try:
            while True:
                if not queue:
                    await self.pull(side)
                if queue:
                    yield queue.popleft()
                elif self.error is not None:
                    raise self.error
                else:
                    return
        finally:
            self.open[side] = False
            queue.clear()
            if not any(self.open):
                await self.stream.cancel()

    async def pull(self, side: int) -> None:
        async with self.turn:
            if self.queues[side] or self.ended:
                return
            try:
                chunk = await self.stream.next_chunk()
            except Exception as error:
                self.ended, self.error = True, error
                return
            if chunk is None:
                self.ended = True
                return
            for place, queue in enumerate(self.queues):
                if self.open[place]:
                    queue.append(chunk)
