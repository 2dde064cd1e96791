"""Producer locks: dead and reused owners go at once, live ones never."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moorage.clients.ledger import locks
from moorage.clients.ledger.files import TrustedRoot
from moorage.clients.ledger.incarnation import incarnation, is_dead, own_incarnation
from moorage.clients.ledger.locks import Waiting, held_lock
from moorage.protocols.ledger.markers import PRODUCER_LOCK, LockOwner, parse_lock
from moorage.protocols.ledger.refusals import LedgerRefusal

from .support import real

NONCE = "01234567-89ab-cdef-0123-456789abcdef"


def _lock_of(pid: int, digest: str, acquired: int = 0) -> str:
    return LockOwner(pid, digest, acquired, NONCE).text(PRODUCER_LOCK)


class FakeTime:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.sleeps = 0

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.sleeps += 1

    def waiting(self) -> Waiting:
        return Waiting(monotonic=lambda: self.now, sleep=self.sleep)


def test_a_lock_names_its_holder_and_goes_when_released(tmp_path: Path) -> None:
    root = TrustedRoot(real(tmp_path))
    with held_lock(root, "locks/a.lock", PRODUCER_LOCK):
        owner = parse_lock((tmp_path / "locks/a.lock").read_text(), PRODUCER_LOCK)
        assert (owner.pid, owner.incarnation) == (os.getpid(), own_incarnation())
    assert list((tmp_path / "locks").iterdir()) == []


def test_a_live_holder_is_waited_for_and_never_evicted(tmp_path: Path) -> None:
    root, time = TrustedRoot(real(tmp_path)), FakeTime()
    text = _lock_of(os.getpid(), own_incarnation(), acquired=0)
    (tmp_path / "a.lock").write_text(text)
    with (
        pytest.raises(LedgerRefusal, match="lock-timeout"),
        held_lock(root, "a.lock", PRODUCER_LOCK, time.waiting()),
    ):
        pytest.fail("a live lock was taken")
    assert time.now >= 10
    assert time.sleeps >= 1999
    assert (tmp_path / "a.lock").read_text() == text


@pytest.mark.parametrize("acquired", [0, 2**53 - 1])
def test_a_reused_process_id_is_reclaimed_without_waiting(tmp_path: Path, acquired: int) -> None:
    root, time = TrustedRoot(real(tmp_path)), FakeTime()
    (tmp_path / "a.lock").write_text(_lock_of(os.getpid(), "0" * 64, acquired))
    with held_lock(root, "a.lock", PRODUCER_LOCK, time.waiting()):
        assert time.sleeps == 0
    assert list(tmp_path.iterdir()) == []


def test_a_dead_process_and_a_zombie_are_reclaimed(tmp_path: Path) -> None:
    root, time = TrustedRoot(real(tmp_path)), FakeTime()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    digest = incarnation(child.pid)
    assert digest is not None
    assert not is_dead(child.pid, digest)
    (tmp_path / "a.lock").write_text(_lock_of(child.pid, digest))
    child.kill()
    # Not waited for: a zombie until the next line but one.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(child.pid, digest)
    with held_lock(root, "a.lock", PRODUCER_LOCK, time.waiting()):
        pass
    child.communicate()
    assert is_dead(child.pid, digest)
    assert time.sleeps == 0


def test_an_unreadable_lock_stays_for_a_person(tmp_path: Path) -> None:
    root = TrustedRoot(real(tmp_path))
    (tmp_path / "a.lock").write_text("{}\n")
    with pytest.raises(LedgerRefusal, match="lock-invalid"), held_lock(root, "a.lock", PRODUCER_LOCK):
        pytest.fail("an unreadable lock was taken")
    assert (tmp_path / "a.lock").read_text() == "{}\n"


def test_a_lock_that_somebody_changed_is_reported_and_left(tmp_path: Path) -> None:
    root = TrustedRoot(real(tmp_path))
    other = _lock_of(os.getpid(), own_incarnation())

    def change() -> None:
        with held_lock(root, "a.lock", PRODUCER_LOCK):
            (tmp_path / "a.lock").unlink()
            (tmp_path / "a.lock").write_text(other)

    with pytest.raises(LedgerRefusal, match="lock-lost"):
        change()
    assert (tmp_path / "a.lock").read_text() == other


def test_a_lock_that_is_gone_already_is_fine(tmp_path: Path) -> None:
    with held_lock(TrustedRoot(real(tmp_path)), "a.lock", PRODUCER_LOCK):
        (tmp_path / "a.lock").unlink()


def test_macos_tells_the_start_by_second_and_microsecond(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layout of `struct proc_bsdinfo`, played by a stand-in: there is no such library here."""

    class Library:
        status, second, micro, size = 2, 1_783_850_400, 123_456, 136

        def proc_pidinfo(self, pid: int, flavor: int, argument: object, buffer: Any, size: int) -> int:
            assert (pid, flavor, size) == (42, 3, 136)
            data = bytearray(136)
            data[4:8] = self.status.to_bytes(4, sys.byteorder)
            data[120:128] = self.second.to_bytes(8, sys.byteorder)
            data[128:136] = self.micro.to_bytes(8, sys.byteorder)
            buffer.raw = bytes(data)
            return self.size

    library = Library()
    monkeypatch.setattr("ctypes.CDLL", lambda path: library)
    monkeypatch.setattr(sys, "platform", "darwin")
    first = incarnation(42)
    assert first == incarnation(42)
    library.micro += 1
    assert incarnation(42) not in (None, first)
    library.status = 5
    assert incarnation(42) is None
    library.status, library.size = 2, 0
    assert incarnation(42) is None


def test_a_successor_that_was_caught_by_mistake_gets_its_name_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = TrustedRoot(real(tmp_path))
    stale, successor = _lock_of(os.getpid(), "0" * 64), _lock_of(os.getpid(), own_incarnation())
    (tmp_path / "a.lock").write_text(stale)
    with root.folder() as parent:
        seen = locks._read(root, parent, "a.lock", "a.lock")
        assert seen is not None
        rename = os.rename

        def rename_late(*arguments: Any, **options: Any) -> None:
            (tmp_path / "a.lock").unlink()
            (tmp_path / "a.lock").write_text(successor)
            rename(*arguments, **options)

        monkeypatch.setattr(os, "rename", rename_late)
        assert locks._claim(root, parent, "a.lock", "a.lock", seen) is False
    assert [path.name for path in tmp_path.iterdir()] == ["a.lock"]
    assert (tmp_path / "a.lock").read_text() == successor
