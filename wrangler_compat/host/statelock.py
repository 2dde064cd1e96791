"""One process a state folder: SQLite's own locks would not keep two hosts from serving the same object."""

import os
from pathlib import Path


class StateInUse(RuntimeError):
    """Another process serves from this state folder."""


class StateLock:
    """An advisory lock on `<state>/lock`, held until `release()` or the end of the process."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Takes the lock. Raises StateInUse when another process holds it, OSError when it cannot be tried."""
        import fcntl

        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise StateInUse(
                f"{self._path.parent} is in use by process {holder or 'unknown'}; choose another folder with --state"
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def release(self) -> None:
        """Gives the lock up; harmless when it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
