"""Objects in a folder: metadata and small values in SQLite, larger ones in files. The embedded default.

A value of up to `INLINE_BYTES` is a row beside its object's: checked, inserted and synced in one commit. The order of
a larger write: stage the bytes, check their digest, sync them, link them under their final name, sync that folder,
commit the row (synced), drop the staged name, unlink what the row replaced. Until the commit nobody can see the
object; after it nothing that the row points at can be missing. A process may die between any two of these.

Several processes may open one folder. Only one that opens it alone sweeps leftovers; bodies of objects made of
parts are protected from being unlinked only against overwrites in their own process.
"""

import contextlib
import fcntl
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

from ..assembly import StoredPart
from ..backend import Choose, Draft, Page, Query, Reader, Record, UploadedPart
from ..conditions import Condition
from ..errors import InternalError
from ..ranges import Span
from ..source import Block, Source
from . import file_rows as rows
from .common import BytesReader, in_thread, new_token, new_version, wall_clock
from .file_blobs import BlobStore, Checkpoint, Staged, nothing, sync_folder
from .file_catalogue import Catalogue, CommitFailed
from .file_readers import FileReader, Pins

T = TypeVar("T")
log = logging.getLogger("moorage.r2")

DIFFERENCES: Final = {
    "storage class": "there is one; the option is taken and `storageClass` is empty, as on the local runtime",
    "unfinished uploads": "kept until they are aborted: the hosted service drops them after seven days",
}
THREADS: Final = 8
INLINE_BYTES: Final = 128 * 1024
"""Values up to this size are kept in the catalogue: one sync instead of three, and no file to make.

Measured with 8 callers: 64 KiB cost a third of the CPU and of the time of a file. From about 160 KiB on a file is
there sooner, since the catalogue writes bytes twice and by one thread.
"""
_ATTEMPTS: Final = 20
"""How often `get` looks again when the object it found was replaced before its file could be opened."""


class FileBackend:
    """See `backend.Backend`. Open one with `await FileBackend.open(folder)`."""

    differences: Mapping[str, str] = DIFFERENCES

    def __init__(
        self, folder: Path, *, now: Callable[[], int] = wall_clock, checkpoint: Checkpoint = nothing
    ) -> None:
        """Blocks. OSError and sqlite3.Error say what is wrong with the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self._now = now
        self._pins = Pins()
        self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            alone = self._lock_alone()
            self._blobs = BlobStore(folder, checkpoint)
            self._catalogue = Catalogue(folder / "bucket.sqlite", checkpoint, alone=alone)
            try:
                sync_folder(folder)
                sync_folder(folder.parent)
                if alone:
                    self._sweep(folder / "bucket.sqlite")
                    fcntl.flock(self._lock, fcntl.LOCK_SH)
            except BaseException:
                self._catalogue.close()
                raise
        except BaseException:
            os.close(self._lock)
            raise
        self._executor = ThreadPoolExecutor(THREADS, thread_name_prefix="r2-file")
        self._closed = False

    @classmethod
    async def open(
        cls, folder: Path, *, now: Callable[[], int] = wall_clock, checkpoint: Checkpoint = nothing
    ) -> "FileBackend":
        """The bucket in `folder`, which is made when it is missing. Leftovers of an interrupted process are swept."""
        with ThreadPoolExecutor(1) as executor:
            return await in_thread(executor, lambda: cls(folder, now=now, checkpoint=checkpoint))

    def _lock_alone(self) -> bool:
        """Takes the folder's lock: exclusive and True when nobody has it open, else shared and False."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(self._lock, fcntl.LOCK_SH)
            return False
        return True

    def _sweep(self, path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None, timeout=30)) as connection:
            self._blobs.remove_all(rows.all_garbage(connection))
            removed = self._blobs.sweep(lambda blob: rows.is_referenced(connection, blob))
        if removed:
            log.info("swept %d interrupted uploads in %s", len(removed), path.parent)

    async def run(self, function: Callable[[], T]) -> T:
        """The result of file work done in a thread; InternalError when the file system failed."""
        with _failures():
            if self._closed:
                raise OSError("the bucket is closed")
            return await in_thread(self._executor, function)

    async def _read(self, function: Callable[..., T], *arguments: Any) -> T:
        with _failures():
            return await self._catalogue.read(lambda connection: function(connection, *arguments))

    async def _look(self, function: Callable[..., T], *arguments: Any) -> T:
        with _failures():
            return await self._catalogue.look(lambda connection: function(connection, *arguments))

    async def _write(self, function: Callable[..., T], *arguments: Any) -> T:
        removed = list(self._blobs.forgettable)

        def work(connection: sqlite3.Connection) -> T:
            if removed:
                rows.forget_garbage(connection, removed)
            return function(connection, *arguments)

        with _failures():
            result = await self._catalogue.write(work)
        self._blobs.forgettable.difference_update(removed)
        return result

    def path_of(self, blob: str) -> Path:
        """Where the bytes of `blob` lie."""
        return self._blobs.path_of(blob)

    def release(self, blobs: Sequence[str]) -> None:
        """Lets go of blobs that a reader held, and removes those that became garbage meanwhile."""
        freed = self._pins.release(blobs)
        if freed and not self._closed:
            self._executor.submit(self._remove, freed)

    def _remove(self, blobs: Sequence[str]) -> None:
        """Unlinks garbage. What cannot be unlinked now is tried again at the next start."""
        try:
            self._blobs.remove_all(blobs)
        except OSError:
            log.warning("could not unlink replaced bytes; they go at the next start", exc_info=True)

    async def head(self, key: str) -> Record | None:
        return await self._look(rows.find_record, key)

    async def get(self, key: str, choose: Choose, *, whole: bool) -> tuple[Record, Reader | None] | None:
        for _ in range(_ATTEMPTS):
            stored = await self._look(rows.find_stored, key)
            if stored is None:
                return None
            span = choose(stored.record)
            if span is None:
                return stored.record, None
            reader = await self._open(key, stored, span)
            if reader is not None:
                return stored.record, reader
        raise InternalError from FileNotFoundError(
            f"the bytes of {key!r} are missing or replaced too fast to be opened"
        )

    async def _open(self, key: str, stored: rows.Stored, span: Span) -> Reader | None:
        """A reader of the span; None when the object was replaced meanwhile."""
        if stored.content is not None:
            return BytesReader(stored.content, span)
        pieces = _pieces(stored.segments, span)
        if len(stored.segments) == 1:
            if not pieces:
                return FileReader(self, [], -1, pinned=False)
            path = self._blobs.path_of(pieces[0][0])

            def open_now() -> FileReader | None:
                try:
                    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                except FileNotFoundError:
                    return None
                reader = FileReader(self, pieces, descriptor, pinned=False)
                reader.read_ahead()
                return reader

            return await self.run(open_now)
        # parts are opened one by one, so they are held first, and used only if the object is still the same then
        self._pins.hold(blob for blob, _, _ in pieces)
        reader = FileReader(self, pieces, -1, pinned=True)
        record = await self._look(rows.find_record, key)
        if record is None or record.version != stored.record.version:
            await reader.aclose()
            return None
        return reader

    async def put(self, draft: Draft, source: Source, condition: Condition | None) -> Record | None:
        async with contextlib.aclosing(source.blocks()) as blocks:
            # a block is shorter than a block only at the end, so a first one that is small is the whole value
            first = await anext(blocks, b"") if source.data is None else source.data
            if len(first) <= INLINE_BYTES:
                return await self._put_inline(draft, source, bytes(first), condition)
            staged, checksums = await self._stage(source, blocks, first)
        record = self._record(draft, source, checksums)
        garbage = await self._settle(staged, rows.put_object, record, staged.blob, condition)
        return None if garbage is None else record

    async def _put_inline(
        self, draft: Draft, source: Source, data: bytes, condition: Condition | None
    ) -> Record | None:
        """Bytes and row in one commit, hashed by the thread that commits: one to wait for."""

        def work(connection: sqlite3.Connection) -> tuple[Record, list[str] | None]:
            source.digester.update(data)
            record = self._record(draft, source, source.digester.verified())
            return record, rows.put_object(connection, record, data, condition)

        record, garbage = await self._write(work)
        if garbage is None:
            return None
        if garbage:
            await self._tidy(garbage)
        return record

    def _record(self, draft: Draft, source: Source, checksums: Mapping[str, str]) -> Record:
        """The record of a value that was drained and verified."""
        digester = source.digester
        return Record(
            draft.key, new_version(), digester.size, digester.md5, self._now(), checksums, draft.http, draft.custom
        )

    async def put_part(self, key: str, upload: str, number: int, source: Source) -> str:
        async with contextlib.aclosing(source.blocks()) as blocks:
            staged, _ = await self._stage(source, blocks, source.data)
        part = StoredPart(number, new_token(), source.digester.size)
        await self._settle(staged, rows.put_part, key, upload, part, staged.blob, source.digester.md5)
        return part.etag

    async def _stage(
        self, source: Source, blocks: AsyncIterator[Block], first: Block | None
    ) -> tuple[Staged, dict[str, str]]:
        """The source's bytes, verified, synced and linked, and the checksums to keep; or nothing is left of it.

        `first` was taken off the blocks; it is all of them when the source is in memory.
        """
        digester = source.digester
        staged = self._blobs.stage()

        def step(block: Block) -> None:
            digester.update(block)
            staged.write(block)

        def finish(block: Block | None) -> dict[str, str]:
            if block is not None:
                digester.update(block)
            checksums = digester.verified()
            if block is not None:
                staged.write(block)
            staged.link()
            return checksums

        try:
            if source.data is not None:
                return staged, await self.run(lambda: finish(source.data))
            if first is not None:
                await self.run(lambda: step(first))
            async for block in blocks:
                await self.run(lambda block=block: step(block))  # type: ignore[misc]
            return staged, await self.run(lambda: finish(None))
        except BaseException:
            await self._undo(staged)
            raise

    async def _undo(self, staged: Staged) -> None:
        """Removes a blob that no row points at. It may fail, and is logged then: the next start does it."""
        with contextlib.suppress(InternalError):
            await self.run(staged.discard)

    async def _settle(
        self, staged: Staged, function: Callable[..., list[str] | None], *arguments: Any
    ) -> list[str] | None:
        """Commits the row that points at the staged blob; None, and no trace of the blob, when the row was refused.

        After a failed commit the blob stays, with its staged name, until the next start: the row may yet turn out
        durable.
        """
        try:
            garbage = await self._write(function, *arguments)
        except InternalError as error:
            if not isinstance(error.__cause__, CommitFailed):
                await self._undo(staged)
            raise
        except Exception:
            await self._undo(staged)
            raise
        except BaseException:
            referenced = await self._read(rows.is_referenced, staged.blob)
            await (self.run(staged.unstage) if referenced else self._undo(staged))
            raise
        if garbage is None:
            await self._undo(staged)
            return None
        await self._tidy(garbage, staged)
        return garbage

    async def _tidy(self, garbage: Sequence[str], staged: Staged | None = None) -> None:
        """What remains to be done after a commit. It may fail: the next start does it then."""
        free = self._pins.without_held(garbage)

        def work() -> None:
            if staged is not None:
                try:
                    staged.unstage()
                except OSError:
                    log.warning("could not drop a staged name; it goes at the next start", exc_info=True)
            self._remove(free)

        if free or staged is not None:
            await self.run(work)

    async def delete(self, keys: Sequence[str]) -> None:
        await self._tidy(await self._write(rows.delete_objects, keys))

    async def list(self, query: Query) -> Page:
        return await self._read(rows.list_page, query)

    async def create_upload(self, draft: Draft) -> str:
        upload = new_token()
        await self._write(rows.insert_upload, draft, upload, self._now())
        return upload

    async def complete_upload(
        self, key: str, upload: str, parts: Sequence[UploadedPart], *, create_only: bool
    ) -> Record | None:
        made = await self._write(rows.complete_upload, key, upload, parts, new_version(), self._now(), create_only)
        if made is None:
            return None
        record, garbage = made
        await self._tidy(garbage)
        return record

    async def abort_upload(self, key: str, upload: str) -> None:
        await self._tidy(await self._write(rows.abort_upload, key, upload))

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._blobs.forgettable:
            with contextlib.suppress(InternalError):
                await self._write(lambda _connection: None)
        with ThreadPoolExecutor(1) as executor:
            await in_thread(executor, self._shut)

    def _shut(self) -> None:
        self._executor.shutdown(wait=True)
        self._catalogue.close()
        os.close(self._lock)


def _pieces(segments: Sequence[rows.Segment], span: Span) -> list[tuple[str, int, int]]:
    """The stretches (blob, offset, length) of the segments that make up the span, in order."""
    pieces = []
    start, end, at = span.offset, span.offset + span.length, 0
    for segment in segments:
        low, high = max(start, at), min(end, at + segment.size)
        if low < high:
            pieces.append((segment.blob, low - at, high - low))
        at += segment.size
    return pieces


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        log.error("the bucket's store failed: %s", error)
        raise InternalError from error
