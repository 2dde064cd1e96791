"""Where commits lie: the few operations that publishing and reading need, and their form straight on a bucket."""

import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

from .errors import SessionFailure

CREATE_ONLY = {"etagDoesNotMatch": "*"}


@dataclass(frozen=True, slots=True)
class Head:
    """An object's size in bytes, its generation (opaque, for equality only) and its ETag (for conditions)."""

    size: int
    generation: str
    etag: str


@dataclass(frozen=True, slots=True)
class Whole(Head):
    """An object with its bytes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class LeaseProof:
    """The publish lease of a shared form: what the pointer's move must carry."""

    holder: str
    token: int


class Objects(Protocol):
    """A store of one session's objects, by whole keys. Failures of the store are exceptions of its own."""

    async def head(self, key: str) -> Head | None:
        """What lies under `key`, or None."""

    async def get(self, key: str, limit: int) -> Whole | None:
        """The object with its bytes, or None. ValueError when it is longer than `limit`."""

    async def fetch(self, key: str, to: IO[bytes]) -> tuple[Head, str] | None:
        """Writes the bytes to a file and returns what was read and their SHA-256; None when there is none."""

    async def create(self, run_id: str, key: str, path: Path | bytes, sha256: str) -> Head | None:
        """Stores a file or bytes where there is nothing; None when there is something."""

    async def move_pointer(self, key: str, data: bytes, expect: str | None, lease: LeaseProof | None) -> Head | None:
        """Writes the pointer on condition that its ETag is `expect` (None: none is there); None if it is not."""

    def lease(self, holder: str) -> Any:
        """An asynchronous context manager that holds the publish lease and gives a LeaseProof, or None where the
        form has none.
        """

    async def close(self) -> None:
        """Releases connections."""


class BucketObjects:
    """The objects of a session straight on a bucket (`moorage.r2.Bucket`).

    It has no lease: the pointer's condition alone decides between publishers on different machines.
    """

    def __init__(self, bucket: Any) -> None:
        self._bucket = bucket

    @classmethod
    async def open(cls, kind: str, name: str, state_folder: Path | None = None) -> "BucketObjects":
        """Opens a bucket by the kind of its store (`moorage.r2.open_bucket`)."""
        from moorage.r2 import StoreRefused, open_bucket

        try:
            return cls(await open_bucket(kind, name=name, state_folder=state_folder))
        except (StoreRefused, ValueError) as error:
            raise SessionFailure(f"the bucket {name!r} cannot be opened: {error}") from error

    async def head(self, key: str) -> Head | None:
        """See `Objects`."""
        with _failures(key):
            found = await self._bucket.head(key)
        return None if found is None else _head(found)

    async def get(self, key: str, limit: int) -> Whole | None:
        """See `Objects`."""
        with _failures(key):
            found = await self._bucket.get(key)
            if found is None:
                return None
            head = _head(found)
            chunks, size = [], 0
            async for chunk in found:
                size += len(chunk)
                if size > limit:
                    raise ValueError(f"{key} is longer than {limit} bytes")
                chunks.append(bytes(chunk))
        return Whole(head.size, head.generation, head.etag, b"".join(chunks))

    async def fetch(self, key: str, to: IO[bytes]) -> tuple[Head, str] | None:
        """See `Objects`."""
        with _failures(key):
            found = await self._bucket.get(key)
            if found is None:
                return None
            hasher, size = hashlib.sha256(), 0
            async for chunk in found:
                data = bytes(chunk)
                hasher.update(data)
                size += len(data)
                to.write(data)
        return Head(size, found.version, found.etag), hasher.hexdigest()

    async def create(self, run_id: str, key: str, path: Path | bytes, sha256: str) -> Head | None:
        """See `Objects`. The store compares the digest while it takes the bytes."""
        options = {"onlyIf": CREATE_ONLY, "sha256": sha256}
        with _failures(key):
            if isinstance(path, bytes):
                stored = await self._bucket.put(key, path, options)
            else:
                with open(path, "rb") as file:  # noqa: ASYNC230 - nothing else runs on this loop
                    stored = await self._bucket.put(key, file, options)
        return None if stored is None else _head(stored)

    async def move_pointer(self, key: str, data: bytes, expect: str | None, lease: LeaseProof | None) -> Head | None:
        """See `Objects`."""
        condition = CREATE_ONLY if expect is None else {"etagMatches": expect}
        with _failures(key):
            stored = await self._bucket.put(key, data, {"onlyIf": condition})
        return None if stored is None else _head(stored)

    @asynccontextmanager
    async def lease(self, holder: str) -> AsyncIterator[LeaseProof | None]:
        """None: see the class."""
        yield None

    async def close(self) -> None:
        """Closes the bucket."""
        await self._bucket.close()


@contextmanager
def _failures(key: str) -> Iterator[None]:
    from moorage.r2 import R2Error

    try:
        yield
    except R2Error as error:
        raise SessionFailure(f"the store of commits: {key}: {error}") from error


def _head(found: Any) -> Head:
    return Head(found.size, found.version, found.etag)
