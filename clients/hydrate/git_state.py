"""The paths that Git retains, out of a local clone of the state repository. Off unless asked for by name.

Only this module starts a process, and it is imported only then. It reads no token and reaches no network: the clone
is made and brought up to date by whoever has the right to it. Objects are read as they are stored: an archive or a
checkout would change bytes by the clone's attributes and settings (line ends, keywords, filters, files left out).
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from ..errors import ClientError, ConfigurationError
from . import RETAINED
from .local import check_names, remove

_PASSED: Final = ("PATH", "HOME", "LANG", "TMPDIR", "SYSTEMROOT")
_SETTINGS: Final = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    # a partial clone would fetch what it lacks
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
}
_FILES: Final = {"100644", "100755"}
_PIECE: Final = 1024 * 1024


class GitFailed(ClientError):
    """Git could not give the paths; the text is its own."""


def _git(repository: Path, *arguments: str, given: IO[bytes] | None = None, output: IO[bytes] | None = None) -> bytes:
    """Runs Git without prompts, hooks or the caller's other variables, tokens among them."""
    environment = {name: os.environ[name] for name in _PASSED if name in os.environ} | _SETTINGS
    command = ["git", "-c", "core.hooksPath=/dev/null", "-C", str(repository), *arguments]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL if given is None else given,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
        )
    except FileNotFoundError:
        raise GitFailed("git is not installed") from None
    if done.returncode:
        raise GitFailed(f"git {arguments[0]}: {done.stderr.decode('utf-8', 'replace').strip()[:500]}")
    return done.stdout or b""


def _listed(repository: Path, commit: str) -> Iterator[tuple[str, str]]:
    """Yields path and object of every retained file. Raises GitFailed for what is no plain file below its folder."""
    found = _git(repository, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *RETAINED)
    for line in found.split(b"\0"):
        if not line:
            continue
        described, _, raw = line.partition(b"\t")
        mode, _, rest = described.decode("ascii").partition(" ")
        path = os.fsdecode(raw)
        parts = path.split("/")
        if parts[0] not in RETAINED or any(part in ("", ".", "..") or "\\" in part for part in parts):
            raise GitFailed(f"{path!r} leads out of its folder")
        if mode not in _FILES:
            raise GitFailed(f"{path!r} is a link or a repository of its own: only plain files are taken")
        yield path, rest.rpartition(" ")[2]


def hydrate_git_state(repository: Path, ref: str, tree: Path, *, folding: bool = False) -> int:
    """Makes the retained paths below `tree` those of `ref`, byte for byte, and returns the number of files.

    Raises ConfigurationError, GitFailed, CannotBeFiles, OSError.
    """
    if not repository.is_dir():
        raise ConfigurationError(f"--git-state {repository} is no folder")
    if ref.startswith("-"):
        raise ConfigurationError(f"{ref!r} is no name of a branch or commit")
    commit = _git(repository, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}").decode().strip()
    listed = list(_listed(repository, commit))
    check_names([path for path, _ in listed], folding=folding)
    for name in RETAINED:
        remove(tree / name)
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as objects:
        asked.write("".join(f"{object_id}\n" for _, object_id in listed).encode())
        asked.seek(0)
        _git(repository, "cat-file", "--batch", given=asked, output=objects)
        objects.seek(0)
        for path, object_id in listed:
            target = tree / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as written:
                _copy(objects, object_id, path, written)
    return len(listed)


def _copy(objects: IO[bytes], object_id: str, path: str, target: IO[bytes]) -> None:
    header = objects.readline().decode("ascii", "replace").split()
    if header[:2] != [object_id, "blob"] or len(header) != 3:
        raise GitFailed(f"git cat-file: {path!r} is not in the clone")
    left = int(header[2])
    while left and (piece := objects.read(min(left, _PIECE))):
        target.write(piece)
        left -= len(piece)
    if left or objects.read(1) != b"\n":
        raise GitFailed(f"git cat-file: {path!r} is cut off")
