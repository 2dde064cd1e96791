"""When is a commit durable? The seam between a commit and the output gate, and its first answer: the WAL sync.

A commit appends to the object's `-wal` file without a sync; a syncer thread then syncs that file once for all commits
that arrived meanwhile. The descriptor belongs to one opening of the file and is closed by the syncer alone, in queue
order: closed elsewhere with a commit queued, its number could be reused and a write acknowledged that is not durable.
"""

import asyncio
import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

Done = Callable[[BaseException | None], None]


def full_sync(descriptor: int) -> None:
    """Forces a file's data to the disk. Raises OSError.

    On macOS `fsync` stops at the drive's cache; F_FULLFSYNC is the call that does not.
    """
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


def sync_folder(path: str | os.PathLike[str]) -> None:
    """Makes the names in a folder durable. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class WalFile:
    """The `-wal` file of one opening of a database."""

    __slots__ = ("descriptor", "failed", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY)
        self.failed: BaseException | None = None


class CommitLog(Protocol):
    """Answers when commits are durable. All methods are called, and all callbacks made, on the loop's thread."""

    def commit(self, files: Sequence[WalFile], done: Done) -> None:
        """Calls `done(None)` once everything appended to `files` so far is durable, in the order given, else the
        error.
        """

    def release(self, file: WalFile, done: Done) -> None:
        """Closes `file` after every commit queued before."""

    async def close(self) -> None:
        """Finishes what is queued and stops."""


class WalSync:
    """`CommitLog` by `fdatasync` in a few threads; one file always meets the same thread.

    `sync` is the system call, handed in so that tests can make it fail.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, threads: int = 2, sync: Callable[[int], None] | None = None
    ) -> None:
        self._loop = loop
        self._sync = sync or full_sync
        self._queues: list[queue.SimpleQueue[_Job | None]] = [queue.SimpleQueue() for _ in range(threads)]
        self._threads = [
            threading.Thread(target=self._run, args=(jobs,), name=f"moorage-sync-{number}", daemon=True)
            for number, jobs in enumerate(self._queues)
        ]
        for thread in self._threads:
            thread.start()

    def commit(self, files: Sequence[WalFile], done: Done) -> None:
        self._queue(files[-1]).put(_Job(files, done, release=False))

    def release(self, file: WalFile, done: Done) -> None:
        self._queue(file).put(_Job((file,), done, release=True))

    def _queue(self, file: WalFile) -> "queue.SimpleQueue[_Job | None]":
        return self._queues[hash(file.path) % len(self._queues)]

    async def close(self) -> None:
        for jobs in self._queues:
            jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _run(self, jobs: "queue.SimpleQueue[_Job | None]") -> None:
        stop = False
        while not stop:
            batch: list[_Job] = []
            job = jobs.get()
            while True:
                if job is None:
                    stop = True
                else:
                    batch.append(job)
                try:
                    job = jobs.get_nowait()
                except queue.Empty:
                    break
            if batch:
                results = self._work(batch)
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    self._loop.call_soon_threadsafe(_deliver, results)

    def _work(self, batch: "list[_Job]") -> "list[tuple[Done, BaseException | None]]":
        synced: dict[WalFile, BaseException | None] = {}
        results: list[tuple[Done, BaseException | None]] = []
        for job in batch:
            error: BaseException | None = None
            if not job.release:
                for file in job.files:
                    if file not in synced:
                        synced[file] = self._sync_one(file)
                    error = synced[file]
                    if error is not None:
                        break
            results.append((job.done, error))
        for job in batch:
            if job.release:
                for file in job.files:
                    os.close(file.descriptor)
        return results

    def _sync_one(self, file: WalFile) -> BaseException | None:
        # After a failed sync the kernel may call dirty pages clean: a later success would prove nothing.
        if file.failed is None:
            try:
                self._sync(file.descriptor)
            except Exception as error:
                file.failed = error
        return file.failed


class _Job:
    __slots__ = ("done", "files", "release")

    def __init__(self, files: Sequence[WalFile], done: Done, *, release: bool) -> None:
        self.files = files
        self.done = done
        self.release = release


def _deliver(results: "list[tuple[Done, BaseException | None]]") -> None:
    for done, error in results:
        done(error)


class NoSync:
    """`CommitLog` that calls every commit durable at once: for tests in memory and for measuring what syncs cost."""

    def commit(self, files: Sequence[WalFile], done: Done) -> None:
        done(None)

    def release(self, file: WalFile, done: Done) -> None:
        os.close(file.descriptor)
        done(None)

    async def close(self) -> None:
        return
