"""What results are made of. A host hands in its own classes (`Types`); these serve where there is no host."""

import json
from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any


class Fields(dict[str, Any]):
    """A dictionary whose keys are attributes as well; an unset one reads as AttributeError."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def to_py(self, **_options: Any) -> dict[str, Any]:
        """A plain dictionary."""
        return dict(self)


class ByteStream:
    """The stream of a body: iterate it, or take a reader with `getReader()`. Read once."""

    __slots__ = ("_chunks", "locked")

    def __init__(self, chunks: AsyncIterable[bytes]) -> None:
        self._chunks = chunks.__aiter__()
        self.locked = False

    def _lock(self) -> None:
        if self.locked:
            raise TypeError("This ReadableStream is currently locked to a reader.")
        self.locked = True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self._lock()
        try:
            async for chunk in self._chunks:
                yield chunk
        finally:
            self.locked = False
            await self.cancel()

    def getReader(self) -> "ByteReader":
        """A reader: `await read()` gives `.done` and `.value`."""
        self._lock()
        return ByteReader(self, self._chunks)

    async def cancel(self, reason: Any = None) -> None:
        """Gives the rest up and closes the file or connection behind it."""
        close = getattr(self._chunks, "aclose", None)
        if close is not None:
            await close()


class ByteReader:
    """What `ByteStream.getReader()` gives."""

    __slots__ = ("_chunks", "_stream")

    def __init__(self, stream: ByteStream, chunks: AsyncIterator[bytes]) -> None:
        self._stream = stream
        self._chunks = chunks

    async def read(self) -> Fields:
        """The next chunk as `value`, or `done`."""
        try:
            return Fields(done=False, value=await anext(self._chunks))
        except StopAsyncIteration:
            return Fields(done=True, value=None)

    def releaseLock(self) -> None:
        """Lets another reader take the stream."""
        self._stream.locked = False

    async def cancel(self, reason: Any = None) -> None:
        """As the stream's `cancel`."""
        await self._stream.cancel(reason)


class Blob:
    """Bytes with a media type."""

    __slots__ = ("_data", "type")

    def __init__(self, data: bytes, content_type: str | None = None) -> None:
        self._data = data
        self.type = content_type or ""

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self._data)

    async def arrayBuffer(self) -> bytes:
        """The bytes."""
        return self._data

    async def text(self) -> str:
        """The bytes as UTF-8, wrong sequences replaced."""
        return self._data.decode("utf-8", "replace")

    async def bytes(self) -> Any:
        """The bytes."""
        return self._data


@dataclass(frozen=True, slots=True)
class Types:
    """The classes of results: mappings with attributes, lists, byte arrays, streams, blobs, and the reader of JSON.

    `stream` is called with an asynchronous iterator that also has `aclose()`; `blob` with bytes and `content_type=`.
    """

    mapping: Callable[[dict[str, Any]], Any] = Fields
    array: Callable[[list[Any]], Any] = list
    buffer: Callable[[bytes], Any] = bytes
    stream: Callable[[Any], Any] = ByteStream
    blob: Callable[..., Any] = Blob
    json: Callable[[str], Any] = json.loads
