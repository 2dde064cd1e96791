"""The folder that is built beside the target, what is known of it, and the swap at the end.

`<parent>/.<name>.hydrating/` holds `tree/`, which becomes the target, `work/` for partial files, and `state.json`.
An interrupted run leaves it, and the next run of the same kind goes on from it. The target is replaced in one step,
so that a reader sees the old tree or the new one.
"""

import contextlib
import ctypes
import hashlib
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from ..errors import ConfigurationError

MARKER: Final = ".moorage-hydrate.json"
"""Says that a folder was made by hydrate and may be replaced by it; and what it holds."""

FORMAT: Final = 1
_EXCHANGE: Final = 2
_AT_FDCWD: Final = -100


class Staging:
    """The folder beside `target`. `purpose` tells runs apart that may not go on from each other."""

    def __init__(self, target: Path, purpose: Mapping[str, Any], *, fresh: bool = False) -> None:
        self.target = Path(os.path.abspath(target))
        self.folder = self.target.parent / f".{self.target.name}.hydrating"
        self.previous = self.target.parent / f".{self.target.name}.previous"
        self.tree = self.folder / "tree"
        self.work = self.folder / "work"
        self._purpose = hashlib.sha256(msgspec.json.encode(purpose, order="deterministic")).hexdigest()
        self._fresh = fresh
        self.state: dict[str, Any] = {}

    @contextlib.contextmanager
    def opened(self) -> Iterator[bool]:
        """Opens the folder for this run alone; yields whether an earlier run is continued.

        Raises ConfigurationError when the target is not hydrate's to replace, or another run is busy.
        """
        check_target(self.target)
        self.target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(self.target.parent / f".{self.target.name}.lock"):
            self._recover()
            resumed = self._read_state()
            self.tree.mkdir(parents=True, exist_ok=True)
            self.work.mkdir(exist_ok=True)
            self.save()
            yield resumed

    def _recover(self) -> None:
        """Finishes or undoes a swap that was cut off between its two steps."""
        if self.previous.exists():
            if self.target.exists():
                shutil.rmtree(self.previous)
            else:
                self.previous.rename(self.target)

    def _read_state(self) -> bool:
        try:
            state = msgspec.json.decode((self.folder / "state.json").read_bytes())
        except (OSError, msgspec.DecodeError):
            state = None
        if isinstance(state, dict) and state.get("purpose") == self._purpose and not self._fresh:
            self.state = state
            return True
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.state = {"format": FORMAT, "purpose": self._purpose, "repositories": {}}
        return False

    def save(self) -> None:
        """Keeps the state for a run that goes on from here."""
        _write_whole(self.folder / "state.json", msgspec.json.encode(self.state))

    @property
    def repositories(self) -> dict[str, int]:
        """Store revision up to which a repository is complete, by slug."""
        found: dict[str, int] = self.state["repositories"]
        return found

    def finish(self, marker: Mapping[str, Any]) -> None:
        """Puts the tree in the target's place and removes what is left."""
        _write_whole(self.tree / MARKER, msgspec.json.format(msgspec.json.encode(marker), indent=2) + b"\n")
        _sync_folder(self.tree)
        swap(self.tree, self.target, self.previous)
        shutil.rmtree(self.folder, ignore_errors=True)


def check_target(target: Path) -> None:
    """Raises ConfigurationError unless hydrate may make `target`: missing, empty, or made by an earlier run."""
    if not target.exists() and not target.is_symlink():
        return
    if target.is_symlink() or not target.is_dir():
        raise ConfigurationError(f"{target} is no folder")
    if any(target.iterdir()) and not (target / MARKER).is_file():
        raise ConfigurationError(
            f"{target} is not empty and was not made by `moorage hydrate`, which replaces the whole folder: "
            "name another one, or empty it"
        )


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # not on this platform: two runs at once are then the caller's to avoid
        yield
        return
    with path.open("wb") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigurationError(f"another `moorage hydrate` is busy beside {path.parent}") from None
        yield
        # the file stays: a lock on a path that others may have removed and made again would exclude nobody


def _write_whole(path: Path, data: bytes) -> None:
    partial = path.with_name(f"{path.name}.part")
    with partial.open("wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    partial.replace(path)


def _sync_folder(path: Path) -> None:
    if sys.platform == "win32":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def swap(tree: Path, target: Path, previous: Path) -> None:
    """Puts `tree` in the place of `target`; what was there is removed.

    One step where the kernel can exchange two names; elsewhere two, between which `previous` holds the old tree and a
    later run brings it back.
    """
    if not target.exists():
        tree.rename(target)
    elif _exchange(tree, target):
        shutil.rmtree(tree)
    else:
        target.rename(previous)
        try:
            tree.rename(target)
        except BaseException:
            previous.rename(target)
            raise
        shutil.rmtree(previous)
    _sync_folder(target.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two names with `renameat2`; False where that does not exist."""
    if not sys.platform.startswith("linux"):
        return False
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        return False
    result: int = renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _EXCHANGE)
    return result == 0
