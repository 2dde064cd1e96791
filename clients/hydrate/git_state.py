"""The paths that Git retains, out of a local clone of the state repository. Off unless asked for by name.

Only this module starts a process, and it is imported only then. It reads no token and reaches no network: the clone
is made and brought up to date by whoever has the right to it.
"""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from ..errors import ClientError, ConfigurationError
from .archive import extract_paths

RETAINED: Final = ("jobs", "results", "notifications", "apply-report.json", "repair-apply-report.json")
"""What the state branch still owns (seed "State storage", the table of owners)."""

_PASSED: Final = ("PATH", "HOME", "LANG", "TMPDIR", "SYSTEMROOT")


class GitFailed(ClientError):
    """Git could not give the paths; the text is its own."""


def _git(repository: Path, *arguments: str, output: int | None = None) -> bytes:
    """Runs Git without prompts, hooks or the caller's other variables, tokens among them."""
    environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
    environment |= {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-c", "core.hooksPath=/dev/null", "-C", str(repository), *arguments]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
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


def hydrate_git_state(repository: Path, ref: str, tree: Path) -> int:
    """Writes the retained paths of `ref` below `tree`, and returns the number of files.

    Raises ConfigurationError, GitFailed, UnsafeArchive.
    """
    if not repository.is_dir():
        raise ConfigurationError(f"--git-state {repository} is no folder")
    if ref.startswith("-"):
        raise ConfigurationError(f"{ref!r} is no name of a branch or commit")
    commit = _git(repository, "rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}").decode().strip()
    listed = _git(repository, "ls-tree", "-z", "--name-only", commit, "--", *RETAINED)
    present = [name for name in listed.decode("utf-8", "replace").split("\0") if name in RETAINED]
    if not present:
        return 0
    with tempfile.TemporaryFile() as archive:
        _git(repository, "archive", "--format=tar", commit, "--", *present, output=archive.fileno())
        archive.seek(0)
        return extract_paths(archive, tree, present)
