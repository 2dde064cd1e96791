"""Files replaced whole and durably, and the advisory lock beside them (spec sweep-state 7)."""

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LOCK_SUFFIX = ".lock"
_NOT_HERE = {errno.EINVAL, errno.ENOTSUP}


class Unreadable(Exception):
    """Something is there and cannot be used as a state file; the text says why."""


def read_bytes(path: Path) -> bytes | None:
    """The bytes of a regular file; None when there is none.

    Raises Unreadable for a folder, a device, a file that may not be read, and a file that somebody else put into a
    folder that others may write to: its content is not ours to trust.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise Unreadable("not a regular file")
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid() and _is_shared(path.parent):
                raise Unreadable("it belongs to another user and lies in a folder that others may write to")
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise Unreadable(error.strerror or str(error)) from error


def _is_shared(folder: Path) -> bool:
    return bool(os.stat(folder).st_mode & (stat.S_IWGRP | stat.S_IWOTH))


def make_folder(folder: Path) -> None:
    """Makes a folder and its parents, and makes their names durable."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder durable. File systems without such a thing are left alone."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise
    finally:
        os.close(descriptor)


def replace(path: Path, data: bytes) -> None:
    """Puts `data` at `path` by one rename; when it returns, the new file survives a power cut.

    A reader sees the old file or the new one. On any failure the old file stays and nothing is left behind. The
    permissions of an earlier file are kept, so that a private state stays private; a symlink is replaced by a file.
    """
    make_folder(path.parent)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with open(descriptor, "wb") as file:
            with suppress(FileNotFoundError):
                os.fchmod(descriptor, stat.S_IMODE(os.stat(path).st_mode))
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(path.parent)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the exclusive advisory lock on `<path>.lock`, waiting for it. The file stays behind, empty.

    Where the lock file cannot be made because its folder is missing or may not be written, there is nothing to
    protect: no state can be written either, and the body runs without it. A lock file that is there and may not be
    opened raises PermissionError: going on would mean two writers.
    """
    import fcntl

    lock = path.with_name(path.name + LOCK_SUFFIX)
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        except OSError:
            if os.path.lexists(lock):
                raise
            descriptor = -1
            break
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_still(lock, descriptor):
            break
        # somebody removed the lock file meanwhile: others lock the new one
        os.close(descriptor)
    try:
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _is_still(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False
