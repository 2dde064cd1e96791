"""The folder that is built beside the target, what is known of it, and the swap at the end.

`<parent>/.<name>.hydrating/` holds `tree/`, which becomes the target, `work/` for partial files, and `state.json`.
An interrupted run leaves it, and the next run of the same kind goes on from it. The target is replaced in one step,
so that a reader sees the old tree or the new one.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from ..errors import ConfigurationError
from .local import folds_case, is_plain_folder
from .replacing import swap, sync_file_system

MARKER: Final = ".moorage-hydrate.json"
"""Says that a folder was made by hydrate and may be replaced by it; and what it holds."""

FORMAT: Final = 1


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
        self.folds_case = False
        """Whether the file system takes names for one that differ in case alone; known once it is open."""

    @contextlib.contextmanager
    def opened(self) -> Iterator[bool]:
        """Opens the folder for this run alone; yields whether an earlier run is continued.

        Raises ConfigurationError when the target is not hydrate's to replace, the folders beside it are another
        user's, or another run is busy.
        """
        check_target(self.target)
        self.target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(self.target.parent / f".{self.target.name}.lock"):
            for folder in (self.folder, self.previous):
                _check_owner(folder)
            self._recover()
            resumed = self._read_state()
            self.folder.mkdir(mode=0o700, exist_ok=True)
            self.tree.mkdir(exist_ok=True)
            self.work.mkdir(exist_ok=True)
            self.folds_case = folds_case(self.work)
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
        begun = {"format": FORMAT, "purpose": self._purpose, "boot": _boot()}
        # after a power cut the tree may lack what the state says: then nothing of it is believed
        known = isinstance(state, dict) and {name: state.get(name) for name in begun} == begun
        if known and not self._fresh and _is_revisions(state["repositories"]):
            self.state = state
            return True
        if self.folder.exists():
            shutil.rmtree(self.folder)
        self.state = {**begun, "repositories": {}}
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
        sync_file_system(self.tree)
        # from here on what lies in the staging folder is another tree, or none: nobody may go on from it
        (self.folder / "state.json").unlink()
        swap(self.tree, self.target, self.previous)
        shutil.rmtree(self.folder, ignore_errors=True)


def check_target(target: Path) -> None:
    """Raises ConfigurationError unless hydrate may make `target`: missing, empty, or made by an earlier run.

    A mount point cannot be replaced: another folder never takes its name.
    """
    if not target.exists() and not target.is_symlink():
        return
    if target.is_symlink() or not target.is_dir():
        raise ConfigurationError(f"{target} is no folder")
    if os.path.ismount(target):
        raise ConfigurationError(f"{target} is a mount point, which no other folder can replace: name one inside it")
    if any(target.iterdir()) and not (target / MARKER).is_file():
        raise ConfigurationError(
            f"{target} is not empty and was not made by `moorage hydrate`, which replaces the whole folder: "
            "name another one, or empty it"
        )


def _check_owner(folder: Path) -> None:
    """Raises ConfigurationError for a link, and for a folder that another user may have filled at will."""
    try:
        found = folder.lstat()
    except FileNotFoundError:
        return
    if not is_plain_folder(folder) or (hasattr(os, "geteuid") and found.st_uid != os.geteuid()):
        raise ConfigurationError(f"{folder} is in the way and no folder of yours: remove it")


def _is_revisions(value: Any) -> bool:
    return isinstance(value, dict) and all(type(revision) is int for revision in value.values())


def _boot() -> str:
    """What tells this start of the machine from others, where the system says it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    try:
        import fcntl
    except ImportError:  # not on this platform: two runs at once are then the caller's to avoid
        yield
        return
    try:
        # never through a link, and never emptied: beside the target others may have put one
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be opened: {error.strerror}") from None
    with os.fdopen(descriptor, "r+b") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigurationError(f"another `moorage hydrate` is busy in {path.parent} ({path.name})") from None
        yield
        # the file stays: a lock on a path that others may have removed and made again would exclude nobody


def _write_whole(path: Path, data: bytes) -> None:
    partial = path.with_name(f"{path.name}.part")
    with partial.open("wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    partial.replace(path)
