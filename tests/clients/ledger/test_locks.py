"""Producer locks: dead and reused owners go at once, live ones never."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
