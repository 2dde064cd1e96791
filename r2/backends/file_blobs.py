"""The bytes of the `file` backend: staged, synced, linked create-only, and removed only when nothing points at them.

    staging/<id>        bytes on their way; the name stays until the row that points at them is committed
    blobs/<xx>/<id>     the same bytes, linked once they are synced; <xx> are the first two characters of the id

A name in `staging` is therefore the only trace that an interrupted write can leave: at start each one is looked
up, and what no row points at goes, staged name and link together. Hard links are needed.

A removed name may come back with a power cut until its folder is synced; names come and go in order. The note of a
blob as garbage therefore stays until that sync, which the next blob of the folder brings.
"""

import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from ..source import Block

Checkpoint = Callable[[str], None]
"""Called with the name of each step after it was done. Tests let the process die or the step fail there."""

UNSYNCED: Final = 64
"""Blobs removed from one folder before it is synced for their sake."""
STEPS: Final = (
    "opened", "written", "synced", "linked", "folder synced", "row written", "committed", "unstaged", "unlinked",
)  # fmt: skip


def nothing(_step: str) -> None:
    """The checkpoint of every day."""


def sync_folder(folder: Path) -> None:
    """Makes the names in `folder` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Staged:
    """One blob on its way in. `write` and `link` run in a thread; `discard` undoes whatever was done."""

    __slots__ = ("_checkpoint", "_descriptor", "_store", "blob")

    def __init__(self, store: "BlobStore", blob: str) -> None:
        self._store = store
        self.blob = blob
        self._checkpoint = store.checkpoint
        self._descriptor = -1

    def _opened(self) -> int:
        if self._descriptor < 0:
            path = self._store.staging / self.blob
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._checkpoint("opened")
        return self._descriptor

    def write(self, block: Block) -> None:
        """Appends `block`."""
        descriptor = self._opened()
        view = memoryview(block)
        while len(view):
            view = view[os.write(descriptor, view) :]
        self._checkpoint("written")

    def link(self) -> None:
        """Syncs the bytes and gives them their final name, durably. FileExistsError when the name is taken."""
        os.fsync(self._opened())
        self._close()
        self._checkpoint("synced")
        folder = self._store.folder_of(self.blob)
        os.link(self._store.staging / self.blob, folder / self.blob)
        self._checkpoint("linked")
        self._store.sync(folder)
        self._checkpoint("folder synced")

    def unstage(self) -> None:
        """Drops the staged name: a committed row points at the bytes now."""
        (self._store.staging / self.blob).unlink(missing_ok=True)
        self._checkpoint("unstaged")

    def discard(self) -> None:
        """Removes the bytes under every name. Only for a blob that no row points at."""
        self._close()
        self._store.remove(self.blob)
        (self._store.staging / self.blob).unlink(missing_ok=True)

    def _close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self._close()


class BlobStore:
    """The folders `staging` and `blobs` of one bucket."""

    def __init__(self, folder: Path, checkpoint: Checkpoint = nothing) -> None:
        self.staging = folder / "staging"
        self.blobs = folder / "blobs"
        self.checkpoint = checkpoint
        self._known: set[str] = set()
        self._unsynced: dict[str, list[str]] = {}
        self.forgettable: set[str] = set()
        """Garbage that was removed durably: its notes may go."""
        for part in (self.staging, self.blobs):
            part.mkdir(parents=True, exist_ok=True)
        sync_folder(folder)

    def stage(self) -> Staged:
        """A new blob, of which there is nothing on disk yet."""
        return Staged(self, secrets.token_hex(20))

    def path_of(self, blob: str) -> Path:
        """Where the linked bytes of `blob` lie."""
        return self.blobs / blob[:2] / blob

    def folder_of(self, blob: str) -> Path:
        """The folder of `blob`, made durably when it is new."""
        folder = self.blobs / blob[:2]
        if blob[:2] not in self._known:
            # synced also when it is there: whoever made it may not have synced it yet
            folder.mkdir(exist_ok=True)
            sync_folder(self.blobs)
            self._known.add(blob[:2])
        return folder

    def sync(self, folder: Path) -> None:
        """Makes the names in a folder of blobs durable, and their removals."""
        gone = self._unsynced.pop(folder.name, [])
        sync_folder(folder)
        self.forgettable.update(gone)

    def remove(self, blob: str) -> None:
        """Unlinks the bytes of `blob`. Missing ones are no error: a crash may have come between unlinking and
        noting it.
        """
        self.path_of(blob).unlink(missing_ok=True)

    def remove_all(self, blobs: Iterable[str]) -> None:
        """`remove` for each, which are noted as garbage; what was removed durably by then is in `forgettable`."""
        for blob in blobs:
            self.remove(blob)
            self.checkpoint("unlinked")
            waiting = self._unsynced.setdefault(blob[:2], [])
            waiting.append(blob)
            if len(waiting) >= UNSYNCED:
                self.sync(self.folder_of(blob))

    def sweep(self, referenced: Callable[[str], bool]) -> list[str]:
        """Ends what an interrupted process began: staged names go, and with them bytes that no row points at.

        Returns the blobs removed. Call it only while no other process writes.
        """
        removed = []
        for blob in self._staged_names():
            if not referenced(blob):
                self.remove(blob)
                removed.append(blob)
            (self.staging / blob).unlink(missing_ok=True)
        return removed

    def _staged_names(self) -> Iterator[str]:
        with os.scandir(self.staging) as entries:
            yield from sorted(entry.name for entry in entries)
