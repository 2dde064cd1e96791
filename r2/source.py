"""The value of a `put` or a part, as a stream of blocks of bounded size (spec durable-object-semantics 15.2)."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from io import BufferedIOBase, RawIOBase
from typing import Any, Final

from .arguments import MISSING, well_formed, wrong_parameter
from .checksums import Checksum, Digester
from .errors import EntityTooLarge

MAX_VALUE_BYTES: Final = 5 * 1024**3 - 5 * 1024**2
"""Of one `put` or part; larger objects are uploaded in parts."""
BLOCK_BYTES: Final = 512 * 1024
EXPECTED: Final = "ReadableStream or ArrayBuffer or ArrayBufferView or string or Blob"

Block = bytes | memoryview


class Source:
    """A value to be stored, read once.

    A backend drains `blocks()`, passes every block through `digester.update` (in its own thread: hashing is
    work), and calls `digester.verified()` before it makes anything visible. `data` is the whole value when it is
    in memory anyway.
    """

    __slots__ = ("_stream", "data", "digester")

    def __init__(self, value: bytes | AsyncIterator[Any], promise: Checksum | None = None) -> None:
        self.data = value if isinstance(value, bytes) else None
        self._stream = None if isinstance(value, bytes) else value
        self.digester = Digester(promise)
        if self.data is not None and len(self.data) > MAX_VALUE_BYTES:
            raise EntityTooLarge

    async def blocks(self, size: int = BLOCK_BYTES) -> AsyncGenerator[Block, None]:
        """Blocks of exactly `size` bytes, and a last shorter one; none for an empty value.

        What the stream raises is raised; EntityTooLarge as soon as too much has come.
        """
        if self.data is not None:
            view = memoryview(self.data)
            for start in range(0, len(view), size):
                yield view[start : start + size]
            return
        assert self._stream is not None
        pending = bytearray()
        total = 0
        try:
            async for chunk in self._stream:
                data = chunk.encode() if isinstance(chunk, str) else memoryview(chunk).cast("B")
                total += len(data)
                if total > MAX_VALUE_BYTES:
                    raise EntityTooLarge
                # a chunk far larger than a block is cut without being copied first
                for start in range(0, len(data), size):
                    pending += data[start : start + size]
                    if len(pending) >= size:
                        yield bytes(memoryview(pending)[:size])
                        del pending[:size]
            if pending:
                yield bytes(pending)
        finally:
            await self.close()

    async def close(self) -> None:
        """Tells the stream that nothing more will be read from it."""
        close = getattr(self._stream, "aclose", None)
        if close is not None:
            await close()


async def source_of(value: Any, cls: str, method: str, promise: Checksum | None = None) -> Source:
    """The `Source` of whatever a caller may store.

    Text (as UTF-8), anything with the buffer interface, an asynchronous iterable of those (a stream: read as it
    comes, never held whole), a binary file, and objects with `bytes()` or `arrayBuffer()` such as a Blob.
    TypeError for the rest.
    """
    if isinstance(value, str):
        return Source(well_formed(value).encode(), promise)
    if isinstance(value, bytes):
        return Source(bytes(value), promise)
    if value is not MISSING and value is not None:
        if isinstance(value, AsyncIterable):
            return Source(value.__aiter__(), promise)
        if isinstance(value, BufferedIOBase | RawIOBase):
            return Source(_file_blocks(value), promise)
        try:
            # a copy: the caller may change the buffer while the put is under way
            return Source(memoryview(value).tobytes(), promise)
        except TypeError:
            pass
        for name in ("bytes", "arrayBuffer"):
            read = getattr(value, name, None)
            if callable(read):
                data = read()
                if inspect.isawaitable(data):
                    data = await data
                return Source(bytes(data), promise)
    raise wrong_parameter(cls, method, 2, EXPECTED)


async def _file_blocks(file: BufferedIOBase | RawIOBase) -> AsyncIterator[bytes]:
    while chunk := await asyncio.to_thread(file.read, BLOCK_BYTES):
        yield chunk
