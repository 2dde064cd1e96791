"""Open bodies of the `file` backend: the chunks of blobs, and which blobs must stay because they are being read."""

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from .common import CHUNK_BYTES

T = TypeVar("T")


class Store(Protocol):
    """What a reader needs of its bucket."""

    async def run(self, function: Callable[[], T]) -> T:
        """The result of file work done in a thread."""

    def path_of(self, blob: str) -> Path:
        """Where the bytes of `blob` lie."""

    def release(self, blobs: Sequence[str]) -> None:
        """Lets go of blobs that the reader held."""


class Pins:
    """Blobs in use by readers. A blob that became garbage meanwhile is handed back by the last `release`."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._waiting: set[str] = set()

    def hold(self, blobs: Iterable[str]) -> None:
        """Counts one more reader of each."""
        for blob in blobs:
            self._counts[blob] = self._counts.get(blob, 0) + 1

    def release(self, blobs: Iterable[str]) -> list[str]:
        """Counts one reader less of each; the garbage that nobody reads any more."""
        freed = []
        for blob in blobs:
            self._counts[blob] -= 1
            if not self._counts[blob]:
                del self._counts[blob]
                if blob in self._waiting:
                    self._waiting.discard(blob)
                    freed.append(blob)
        return freed

    def without_held(self, blobs: Iterable[str]) -> list[str]:
        """The garbage that nobody reads; the rest waits for its last reader."""
        free = []
        for blob in blobs:
            if blob in self._counts:
                self._waiting.add(blob)
            else:
                free.append(blob)
        return free


class FileReader:
    """Chunks of an object. Its one file is opened at once; of parts, one at a time is open."""

    def __init__(self, store: Store, pieces: list[tuple[str, int, int]], descriptor: int, pinned: bool) -> None:
        self._store = store
        self._pieces = pieces
        self._descriptor = descriptor
        self._pinned = [blob for blob, _, _ in pieces] if pinned else []
        self._ahead = b""

    def __aiter__(self) -> "FileReader":
        return self

    def read_ahead(self) -> None:
        """Reads a small object while its file is being opened anyway. Blocks; errors show when the body is read."""
        if self._pieces[0][2] <= CHUNK_BYTES:
            with contextlib.suppress(OSError):
                self._ahead = self._next()

    async def __anext__(self) -> bytes:
        if self._ahead:
            chunk, self._ahead = self._ahead, b""
            return chunk
        if not self._pieces:
            self._release()
            raise StopAsyncIteration
        return await self._store.run(self._next)

    def _next(self) -> bytes:
        blob, offset, length = self._pieces[0]
        if self._descriptor < 0:
            self._descriptor = os.open(self._store.path_of(blob), os.O_RDONLY | os.O_CLOEXEC)
        chunk = os.pread(self._descriptor, min(length, CHUNK_BYTES), offset)
        if not chunk:
            raise OSError(f"blob {blob} is shorter than its row says")
        if len(chunk) == length:
            del self._pieces[0]
            self._close()
        else:
            self._pieces[0] = blob, offset + len(chunk), length - len(chunk)
        return chunk

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _release(self) -> None:
        self._pieces = []
        self._ahead = b""
        self._close()
        pinned, self._pinned = self._pinned, []
        self._store.release(pinned)

    async def aclose(self) -> None:
        self._release()

    def __del__(self) -> None:
        self._release()
