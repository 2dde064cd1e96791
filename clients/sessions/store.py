"""The session manifest as a file: strict loading, atomic and durable replacement (spec session-manifest 5)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from moorage.protocols.sessions import NARRATIO, Pipeline, SessionError, SessionManifest, encode, parse
from moorage.protocols.sessions.documents import check

from ..sweep.replacing import replace as replace_file
from .errors import Busy, SaveFailed, SessionFailure
from .files import MANIFEST_NAME

PUBLISH_LOCK_NAME = "publish.lock"


def utc_now() -> str:
    """The present instant as the manifest writes it: UTC, milliseconds, `Z`."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class LocalStore:
    """The manifest at `path`.

    `now` gives instants as texts; `write` puts bytes at a path, atomically. After a save that failed nothing is known
    of the file: `save` refuses until `load` was called.
    """

    def __init__(
        self,
        path: Path,
        pipeline: Pipeline = NARRATIO,
        *,
        now: Callable[[], str] = utc_now,
        write: Callable[[Path, bytes], None] = replace_file,
    ) -> None:
        self.path = path
        self.pipeline = pipeline
        self.now = now
        self._write = write
        self.needs_reload = False

    def load(self) -> SessionManifest | None:
        """The manifest, or None when there is no file.

        Raises UnsupportedState or IdentityRefused, and OSError when the file cannot be read.
        """
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            self.needs_reload = False
            return None
        manifest = parse(data, self.pipeline)
        self.needs_reload = False
        return manifest

    def save(self, manifest: SessionManifest) -> SessionManifest:
        """Writes the manifest with a fresh `updated_at` and returns it as written.

        The new file is whole and synced before it takes the old one's name. Raises SaveFailed; then load again.
        """
        if self.needs_reload:
            raise SaveFailed(f"{self.path}: the last save failed; load the manifest again first")
        saved = replace(manifest, updated_at=self.now())
        try:
            check(saved, self.pipeline)
            data = encode(saved)
            parse(data, self.pipeline)
        except (SessionError, TypeError) as error:
            raise SaveFailed(f"{self.path}: what was to be saved is no manifest: {error}") from error
        try:
            self._write(self.path, data)
        except BaseException as error:
            self.needs_reload = True
            if not isinstance(error, Exception):
                raise
            raise SaveFailed(f"{self.path}: it was not saved: {error}") from error
        return saved

    @contextmanager
    def invocation(self) -> Iterator[None]:
        """Holds the session's folder for one invocation. Raises Busy at once when another has it."""
        with exclusive(invocation_lock(self.path), "another invocation is running in this session"):
            yield

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Holds the publish lock of the session's folder. Raises Busy at once when another publisher has it."""
        with exclusive(self.path.with_name(PUBLISH_LOCK_NAME), "another publisher is at work on this session"):
            yield


def invocation_lock(manifest: Path) -> Path:
    """The lock file of invocations, beside the manifest."""
    return manifest.with_name(manifest.name + ".lock")


@contextmanager
def exclusive(path: Path, busy: str) -> Iterator[None]:
    """Holds the exclusive lock on a lock file, which stays behind with the holder's process id in it.

    The lock goes when the process does, however it ends. Raises Busy; SessionFailure when there can be no such file.
    """
    import fcntl
    import os

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise SessionFailure(f"the lock file {path} cannot be made: {error.strerror or error}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
            raise Busy(f"{busy} ({path.name} is held{f' by process {holder}' if holder else ''})") from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


__all__ = ["MANIFEST_NAME", "LocalStore", "exclusive", "invocation_lock", "utc_now"]
