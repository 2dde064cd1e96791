"""One publication: lease, one fetch, one commit, one push, lease back."""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from ..errors import ClientError, ConfigurationError
from .paths import Necessity, check_path, necessity_of
from .repository import File, Repository

DEFAULT_BRANCH: Final = "state"
MAX_FILES: Final = 1000


class Held(Protocol):
    """A lease that is held (`moorage.clients.state_writer.Lease`)."""

    def check(self) -> None:
        """Raises when the lease is over."""


@dataclass(frozen=True, slots=True)
class Publication:
    """What is published where. `files` by path, None removes."""

    remote: str
    files: Mapping[str, File | None]
    message: str
    branch: str = DEFAULT_BRANCH
    author: str = "moorage"
    email: str = "moorage@localhost"
    create: bool = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.files) <= MAX_FILES:
            raise ConfigurationError(f"1 to {MAX_FILES} files are published at once, not {len(self.files)}")
        for path in self.files:
            check_path(path)
        if not self.message.strip():
            raise ConfigurationError("a commit needs a message")

    @property
    def necessity(self) -> Necessity:
        """Whether a failure matters."""
        return necessity_of(self.files)


@dataclass(frozen=True, slots=True)
class Published:
    """`commit` None: the branch had it all already. `error`: a best-effort publication failed."""

    commit: str | None
    error: str | None = None


def read_files(source: Path, paths: list[str], removed: list[str]) -> dict[str, File | None]:
    """The files of `paths` below `source`, folders with everything in them. Raises ConfigurationError."""
    files: dict[str, File | None] = {}
    for path in paths:
        check_path(path if not path.endswith("/") else path + "x")
        found = source / path
        chosen = sorted(entry for entry in found.rglob("*") if not entry.is_dir()) if found.is_dir() else [found]
        for entry in chosen:
            if entry.is_symlink() or not entry.is_file():
                raise ConfigurationError(f"{entry} must be a plain file that exists")
            name = entry.relative_to(source).as_posix()
            try:
                files[name] = File(entry.read_bytes(), bool(entry.stat().st_mode & 0o100))
            except OSError as error:
                raise ConfigurationError(f"{entry} cannot be read: {error.strerror}") from None
    for path in removed:
        if path in files:
            raise ConfigurationError(f"{path!r} cannot be both published and removed")
        files[path] = None
    return files


def publish(
    publication: Publication,
    lease: Callable[[], AbstractContextManager[Held]],
    *,
    after: Callable[[str], None] = lambda step: None,
) -> Published:
    """Publishes under the lease that `lease` gives. `after` is told each step that is done, for progress and tests.

    A failed best-effort publication is returned with its error. Raises ClientError for a mandatory one. Nothing is
    half published: the push is the only step that anybody else can see. After a lost answer, publish again: what has
    arrived is not committed twice.
    """
    try:
        return _publish(publication, lease, after)
    except ClientError as error:
        if publication.necessity is Necessity.MANDATORY:
            raise
        return Published(None, str(error))


def _publish(
    publication: Publication, lease: Callable[[], AbstractContextManager[Held]], after: Callable[[str], None]
) -> Published:
    with lease() as held, tempfile.TemporaryDirectory(prefix="moorage-git-") as folder:
        after("lease")
        repository = Repository(
            Path(folder), publication.remote, publication.branch, publication.author, publication.email
        )
        base = repository.fetch(publication.create)
        after("fetch")
        commit = repository.commit(base, publication.files, publication.message)
        after("commit")
        if commit is None:
            return Published(None)
        held.check()
        repository.push(commit)
        after("push")
        return Published(commit)
