"""Which process a process id means: a digest that a later process with the same id cannot have (spec 9.3)."""

import os
import sys
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

_PROC = Path("/proc")
_DEAD = frozenset("ZXx")


@lru_cache(maxsize=1)
def _boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def _digest(system: str, boot: str, start: str) -> str:
    return sha256(f"{system}\0{boot}\0{start}".encode()).hexdigest()


def _linux(pid: int) -> str | None:
    try:
        line = (_PROC / str(pid) / "stat").read_bytes().decode("utf-8", "replace")
        # The name is in parentheses and may hold anything, parentheses too.
        fields = line[line.rindex(")") + 1 :].split()
        if fields[0] in _DEAD:
            return None
        return _digest("linux", _boot_id(), fields[19])
    except (OSError, ValueError, IndexError):
        return None


def _macos(pid: int) -> str | None:
    """Start second and microsecond from libproc: `struct proc_bsdinfo`, whose last two fields they are."""
    import ctypes

    try:
        library = ctypes.CDLL("/usr/lib/libproc.dylib")
        buffer = ctypes.create_string_buffer(136)
        # PROC_PIDTBSDINFO is 3.
        if library.proc_pidinfo(pid, 3, ctypes.c_uint64(0), buffer, len(buffer)) != len(buffer):
            return None
        status = int.from_bytes(buffer.raw[4:8], sys.byteorder)
        if status == 5:  # SZOMB
            return None
        second = int.from_bytes(buffer.raw[120:128], sys.byteorder)
        micro = int.from_bytes(buffer.raw[128:136], sys.byteorder)
    except (OSError, AttributeError):
        return None
    return _digest("darwin", "", f"{second}.{micro:06}")


def incarnation(pid: int) -> str | None:
    """Digest of the process that `pid` means now; None when there is none, it is a zombie, or it cannot be told."""
    if sys.platform.startswith("linux"):
        return _linux(pid)
    if sys.platform == "darwin":
        return _macos(pid)
    return None


def own_incarnation() -> str:
    """Digest of this process. Where the system tells no start time, of its id alone."""
    return incarnation(os.getpid()) or _digest(sys.platform, "", str(os.getpid()))


def is_dead(pid: int, recorded: str) -> bool:
    """Whether the process that `pid` and `recorded` name is gone: none, a zombie, or another one by now."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    current = incarnation(pid)
    if current is not None:
        return current != recorded
    # A process that exists but tells no incarnation: a zombie where incarnations are told, else unknown and kept.
    return sys.platform.startswith("linux") and _is_linux_zombie(pid)


def _is_linux_zombie(pid: int) -> bool:
    try:
        line = (_PROC / str(pid) / "stat").read_bytes()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return line[line.rindex(b")") + 1 :].split()[0].decode("ascii", "replace") in _DEAD
