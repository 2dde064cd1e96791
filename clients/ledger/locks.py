"""Exclusive lock files, bound to a process and its incarnation (spec action-ledger 9.3).

A lock is linked into place only once its content is complete and synced. A lock whose process is gone is reclaimed at
once; age alone never makes one stale; a lock that does not parse stays until a person has looked.
"""

import fcntl
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from moorage.protocols.ledger.markers import MAX_LOCK_BYTES, LockOwner, parse_lock
from moorage.protocols.ledger.refusals import LedgerRefusal

from .files import Content, TrustedRoot
from .incarnation import is_dead, own_incarnation

WAIT_SECONDS = 10.0
POLL_SECONDS = 0.005


@dataclass(frozen=True, slots=True)
class Waiting:
    """How a contender waits: for how long in all, and with whose clock."""

    seconds: float = WAIT_SECONDS
    poll: float = POLL_SECONDS
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextmanager
def held_lock(root: TrustedRoot, relative: str, schema: str, waiting: Waiting | None = None) -> Iterator[None]:
    """Holds the lock file `relative` while the block runs.

    Raises LedgerRefusal: lock-invalid for a lock that does not parse, lock-timeout when a live holder keeps it for
    ten seconds, lock-lost when somebody changed it meanwhile.
    """
    waiting = waiting or Waiting()
    owner = LockOwner(os.getpid(), own_incarnation(), _now_ms(), str(uuid.uuid4()))
    data = owner.text(schema).encode()
    head, _, name = relative.rpartition("/")
    with root.folder(head, create=True) as parent:
        deadline = waiting.monotonic() + waiting.seconds
        while root.create_in(parent, name, data) == "exists":
            if not _reclaim_stale(root, parent, name, relative, schema):
                if waiting.monotonic() >= deadline:
                    raise LedgerRefusal("lock-timeout", "another live process keeps the lock", root.where(relative))
                waiting.sleep(waiting.poll)
        try:
            yield
        finally:
            _release(root, parent, name, relative, data)


def _read(root: TrustedRoot, parent: int, name: str, relative: str) -> Content | None:
    return root.read_in(parent, name, MAX_LOCK_BYTES, relative, may_be_replaced=True)


@contextmanager
def _only_reclaimer(parent: int) -> Iterator[None]:
    """One reclaimer at a time among the processes of this machine, so that none takes a successor's lock away."""
    descriptor = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _reclaim_stale(root: TrustedRoot, parent: int, name: str, relative: str, schema: str) -> bool:
    """Removes the lock when its owner is gone; whether it is worth trying again at once."""
    seen = _read(root, parent, name, relative)
    if seen is None:
        return True
    where = root.where(relative)
    try:
        owner = parse_lock(seen.text(where), schema)
    except LedgerRefusal as refusal:
        raise LedgerRefusal("lock-invalid", refusal.detail, where) from None
    if not is_dead(owner.pid, owner.incarnation):
        return False
    with _only_reclaimer(parent):
        return _claim(root, parent, name, relative, seen)


def _claim(root: TrustedRoot, parent: int, name: str, relative: str, seen: Content) -> bool:
    """Renames exactly the lock that was seen to a private name and removes it; whether it was that one."""
    now = _read(root, parent, name, relative)
    if now is None or now != seen:
        return now is None
    claim = f"{name}.{os.getpid()}.{uuid.uuid4()}.reclaim"
    try:
        os.rename(name, claim, src_dir_fd=parent, dst_dir_fd=parent)
    except FileNotFoundError:
        return True
    caught = _read(root, parent, claim, relative)
    if caught == seen:
        with suppress(FileNotFoundError):
            os.unlink(claim, dir_fd=parent)
        return True
    # A successor was caught between the look and the rename: give it back its name.
    with suppress(FileExistsError):
        os.link(claim, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
    with suppress(FileNotFoundError):
        os.unlink(claim, dir_fd=parent)
    return False


def _release(root: TrustedRoot, parent: int, name: str, relative: str, data: bytes) -> None:
    held = _read(root, parent, name, relative)
    if held is None:
        return
    if held.data != data or not _claim(root, parent, name, relative, held):
        raise LedgerRefusal("lock-lost", "the lock was changed while it was held", root.where(relative))
