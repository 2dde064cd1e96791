"""What backends share: time, random names, and getting work done in threads."""

import asyncio
import base64
import os
import time
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Final, TypeVar

from ..ranges import Span

T = TypeVar("T")

CHUNK_BYTES: Final = 1024 * 1024
"""How much of a body is read at a time."""


def wall_clock() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def new_version() -> str:
    """A version: 16 random bytes in hex."""
    return os.urandom(16).hex()


def new_token() -> str:
    """An upload id or a part's etag: 128 random bytes in URL-safe base64 without padding, 171 characters."""
    return base64.urlsafe_b64encode(os.urandom(128)).decode().rstrip("=")


async def in_thread(executor: Executor, function: Callable[[], T]) -> T:
    """The result of `function` run in `executor`. A cancellation waits for it to end: work that writes is never
    orphaned.
    """
    future = asyncio.get_running_loop().run_in_executor(executor, function)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait([future])
        if not future.cancelled():
            future.exception()  # retrieved, so that asyncio does not report it as lost
        raise


class BytesReader:
    """Chunks of bytes that are in memory."""

    __slots__ = ("_view",)

    def __init__(self, data: bytes, span: Span) -> None:
        self._view = memoryview(data)[span.offset : span.offset + span.length]

    def __aiter__(self) -> "BytesReader":
        return self

    async def __anext__(self) -> bytes:
        view = self._view
        if not len(view):
            raise StopAsyncIteration
        self._view = view[CHUNK_BYTES:]
        whole = view.obj
        if isinstance(whole, bytes) and len(whole) == len(view) <= CHUNK_BYTES:
            return whole  # all of it at once needs no copy
        return bytes(view[:CHUNK_BYTES])

    async def aclose(self) -> None:
        self._view = memoryview(b"")
