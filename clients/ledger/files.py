"""File operations under a trusted root (spec action-ledger 9.1).

The caller owns the root and its permissions. Below it every step goes through directory descriptors opened no-follow,
so a link, a special file or a replaced folder is met as what it is and refused. Files are made create-only: a synced
sibling is hard-linked to the final name, and the folder is synced before anybody is told. A crash leaves the sibling.
"""

import errno
import fcntl
import os
import stat
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from moorage.protocols.ledger.refusals import LedgerRefusal

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_STAGE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# macOS syncs to the disk's cache with fsync and to the disk with this.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)

# Files staged at once, and threads that sync them.
_GROUP = 256
_SYNCERS = 8
# Live producers add and remove staging files; a folder that never settles is not one that they use.
_LISTING_TRIES = 100

Kind = Literal["file", "folder", "other"]
Outcome = Literal["created", "exists"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a folder. Links are `other`."""

    name: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Content:
    """A file's bytes, and the device and inode that they came from."""

    data: bytes
    device: int
    inode: int

    def text(self, where: str) -> str:
        """The bytes as UTF-8. Raises utf8."""
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            raise LedgerRefusal("utf8", f"is not UTF-8 at byte {error.start}", where) from None


def sync(descriptor: int) -> None:
    """Makes what was written through `descriptor` durable."""
    if _FULL_SYNC is not None:
        import fcntl

        fcntl.fcntl(descriptor, _FULL_SYNC)
    else:
        os.fsync(descriptor)


def _unsafe(where: str, detail: str) -> LedgerRefusal:
    return LedgerRefusal("unsafe-entry", detail, where)


def _relative_parts(relative: str) -> tuple[str, ...]:
    parts = tuple(relative.split("/"))
    if not relative or relative.startswith("/") or any(part in ("", ".", "..") for part in parts) or "\0" in relative:
        raise LedgerRefusal("relative-path", "must be a relative path without . or .. parts", relative)
    return parts


class TrustedRoot:
    """A directory that the caller made and owns; every file of the ledger lies below one.

    The identity of the root is taken once, here, and checked at every later use. Raises LedgerRefusal `root` when the
    path is not absolute, in normal form and its own real path, `unsafe-entry` when it is no directory.
    """

    def __init__(self, path: str, *, probe: Callable[[str], None] | None = None) -> None:
        """`probe` is called with the name of each durable step just before it; tests raise from it to stop there."""
        if not path or not os.path.isabs(path) or os.path.normpath(path) != path or path.startswith("//"):
            raise LedgerRefusal("root", "must be an absolute path in normal form", path or "root")
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            raise LedgerRefusal("missing", "the root must be made before the ledger is used", path) from None
        if not stat.S_ISDIR(status.st_mode):
            raise _unsafe(path, "the root must be a directory, not a link")
        if os.path.realpath(path) != path:
            raise LedgerRefusal("root", "must not be reached through a link", path)
        self.path = path
        self._identity = (status.st_dev, status.st_ino)
        self._probe = probe or (lambda step: None)

    def __repr__(self) -> str:
        return f"TrustedRoot({self.path!r})"

    def where(self, relative: str) -> str:
        """Absolute path, for messages."""
        return str(PurePosixPath(self.path) / relative)

    @contextmanager
    def folder(self, relative: str = "", *, create: bool = False) -> Iterator[int]:
        """Descriptor of a folder below the root, each component opened no-follow.

        With `create`, missing folders are made one at a time and their parents synced. Raises FileNotFoundError when
        a folder is missing, unsafe-entry for links and non-directories.
        """
        descriptor = os.open(self.path, _FOLDER)
        try:
            status = os.fstat(descriptor)
            if (status.st_dev, status.st_ino) != self._identity:
                raise _unsafe(self.path, "the root was replaced while it was in use")
            done = ""
            for part in _relative_parts(relative) if relative else ():
                done = f"{done}/{part}" if done else part
                inner = self._enter(descriptor, part, done, create)
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)

    def _enter(self, parent: int, name: str, relative: str, create: bool) -> int:
        try:
            return os.open(name, _FOLDER, dir_fd=parent)
        except FileNotFoundError:
            if not create:
                raise
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise _unsafe(self.where(relative), "must be a folder, not a link or a file") from None
            raise
        self._probe("mkdir")
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=parent)
        sync(parent)
        return self._enter(parent, name, relative, False)

    def read(self, relative: str, limit: int) -> Content | None:
        """A file's content, None when it or its folder is missing.

        Raises unsafe-entry for links, folders and special files, byte-limit for more than `limit` bytes.
        """
        head, _, name = relative.rpartition("/")
        _relative_parts(relative)
        try:
            with self.folder(head) as parent:
                return self.read_in(parent, name, limit, relative)
        except FileNotFoundError:
            return None

    def read_in(
        self, parent: int, name: str, limit: int, relative: str, *, may_be_replaced: bool = False
    ) -> Content | None:
        """`read` of `name` in an open folder; `relative` is for messages.

        With `may_be_replaced`, another file may have the name by the end, as a lock's successor has.
        """
        where = self.where(relative)
        try:
            descriptor = os.open(name, _READ, dir_fd=parent)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.EMLINK):
                raise _unsafe(where, "must be a regular file") from None
            raise
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                raise _unsafe(where, "must be a regular file")
            if before.st_size > limit:
                raise LedgerRefusal("byte-limit", f"holds more than {limit} bytes", where)
            pieces, total = [], 0
            while total <= limit and (piece := os.read(descriptor, min(1 << 20, limit + 1 - total))):
                pieces.append(piece)
                total += len(piece)
            if total > limit:
                raise LedgerRefusal("byte-limit", f"holds more than {limit} bytes", where)
            after = os.fstat(descriptor)
            if (before.st_ino, before.st_size, before.st_mtime_ns) != (
                after.st_ino,
                after.st_size,
                after.st_mtime_ns,
            ):
                raise _unsafe(where, "changed while it was read")
            try:
                named = os.stat(name, dir_fd=parent, follow_symlinks=False)
            except FileNotFoundError:
                # Removed after it was opened: what was read was there.
                named = after
            if (named.st_dev, named.st_ino) != (after.st_dev, after.st_ino) and not may_be_replaced:
                raise _unsafe(where, "was replaced while it was read")
            return Content(b"".join(pieces), after.st_dev, after.st_ino)
        finally:
            os.close(descriptor)

    def create(self, relative: str, data: bytes) -> Outcome:
        """Makes a file, once: `created`, or `exists` when the name is taken (the caller compares the contents).

        Returns after the file and its name are durable. Raises unsafe-entry for links and non-directories on the way.
        """
        head, _, name = relative.rpartition("/")
        _relative_parts(relative)
        with self.folder(head, create=True) as parent:
            return self.create_in(parent, name, data)

    def create_in(self, parent: int, name: str, data: bytes) -> Outcome:
        """`create` of `name` in an open folder."""
        return self._create_group(parent, [(name, data)])[0]

    def create_all(self, files: Sequence[tuple[str, bytes]]) -> list[Outcome]:
        """`create` of many files, a folder and at most 256 at a time; their outcomes in the order given.

        The files of a group are synced beside one another and their folder once, so this is much quicker than one by
        one. A crash leaves each file either whole or absent.
        """
        outcomes: list[Outcome] = []
        at = 0
        while at < len(files):
            head = files[at][0].rpartition("/")[0]
            group: list[tuple[str, bytes]] = []
            while at < len(files) and len(group) < _GROUP and files[at][0].rpartition("/")[0] == head:
                _relative_parts(files[at][0])
                group.append((files[at][0].rpartition("/")[2], files[at][1]))
                at += 1
            with self.folder(head, create=True) as parent:
                outcomes += self._create_group(parent, group)
        return outcomes

    def _create_group(self, parent: int, files: Sequence[tuple[str, bytes]]) -> list[Outcome]:
        staged = [f"{name}.{os.getpid()}.{uuid.uuid4()}.tmp" for name, _ in files]
        try:
            self._probe("stage")
            if len(files) == 1:
                _stage(parent, staged[0], files[0][1])
            else:
                with ThreadPoolExecutor(_SYNCERS) as pool:
                    list(pool.map(lambda pair: _stage(parent, pair[0], pair[1][1]), zip(staged, files, strict=True)))
            outcomes: list[Outcome] = []
            for temporary, (name, _) in zip(staged, files, strict=True):
                self._probe("link")
                try:
                    os.link(temporary, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
                    outcomes.append("created")
                except FileExistsError:
                    outcomes.append("exists")
            # Also for `exists`: whoever linked it may not have synced yet, and the caller will rely on it.
            self._probe("sync folder")
            sync(parent)
            self._probe("unlink")
        except Exception:
            _unlink_all(parent, staged)
            raise
        _unlink_all(parent, staged)
        return outcomes

    def entries(self, relative: str, cap: int, refuse: Callable[[], LedgerRefusal]) -> list[Entry]:
        """Names in a folder, sorted. Taken until two looks in a row agree.

        Raises `refuse()` beyond `cap` names, unsafe-entry when it never settles, FileNotFoundError when missing.
        """
        with self.folder(relative) as parent:
            before = _scan(parent, cap, refuse)
            for _ in range(_LISTING_TRIES):
                after = _scan(parent, cap, refuse)
                if before == after:
                    return before
                before = after
        raise _unsafe(self.where(relative), "keeps changing while it is listed")

    def scan(self, relative: str) -> Iterator[Entry]:
        """Names in a folder of any size, one look, unsorted, none held. Raises FileNotFoundError when missing."""
        with self.folder(relative) as parent, os.scandir(parent) as entries:
            yield from map(_entry, entries)

    def remove(self, relative: str) -> bool:
        """Unlinks a file and syncs its folder; whether it was there."""
        head, _, name = relative.rpartition("/")
        _relative_parts(relative)
        try:
            with self.folder(head) as parent:
                os.unlink(name, dir_fd=parent)
                sync(parent)
        except FileNotFoundError:
            return False
        return True


def _stage(parent: int, name: str, data: bytes) -> None:
    descriptor = os.open(name, _STAGE, 0o600, dir_fd=parent)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        sync(descriptor)
    finally:
        os.close(descriptor)


def _unlink_all(parent: int, names: Sequence[str]) -> None:
    for name in names:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)


def _entry(found: "os.DirEntry[str]") -> Entry:
    kind: Kind = "other"
    if found.is_file(follow_symlinks=False):
        kind = "file"
    elif found.is_dir(follow_symlinks=False):
        kind = "folder"
    return Entry(found.name, kind)


def _scan(parent: int, cap: int, refuse: Callable[[], LedgerRefusal]) -> list[Entry]:
    found: list[Entry] = []
    with os.scandir(parent) as entries:
        for entry in entries:
            if len(found) >= cap:
                raise refuse()
            found.append(_entry(entry))
    return sorted(found, key=lambda entry: entry.name)
