"""A bare repository of its own for one publication: fetched without file contents, never checked out.

The commit is built from the fetched tree by object names, so that nothing but the published paths is read or written.
"""

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..errors import ClientError
from ..secret import OPERATOR_VARIABLES, SECRET_VARIABLES

COMMAND_SECONDS: Final = 120.0
_ORIGIN: Final = "origin"
"""Git remembers by this name where file contents that were not fetched are; it would not remember a path."""
_MODE: Final = {False: "100644", True: "100755"}


class GitFailed(ClientError):
    """Git could not do it; the message has what Git said."""


class PushRejected(GitFailed):
    """Somebody else has moved the branch since the fetch; nothing was published."""


@dataclass(frozen=True, slots=True)
class File:
    """A file to be published."""

    content: bytes
    executable: bool = False


class Repository:
    """`folder` must be empty and private to this publication. Raises GitFailed from every method."""

    def __init__(self, folder: Path, remote: str, branch: str, author: str, email: str) -> None:
        self._folder = folder
        self._remote = remote
        self._branch = branch
        self._environment = {
            **{name: value for name, value in os.environ.items() if _is_passed(name)},
            "GIT_DIR": str(folder),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_LITERAL_PATHSPECS": "1",
            "LC_ALL": "C",
            "GIT_AUTHOR_NAME": author,
            "GIT_AUTHOR_EMAIL": email,
            "GIT_COMMITTER_NAME": author,
            "GIT_COMMITTER_EMAIL": email,
        }

    def _git(self, *arguments: str, data: bytes = b"") -> str:
        return self._bytes(*arguments, data=data).decode("utf-8", "replace").strip()

    def _bytes(self, *arguments: str, data: bytes = b"") -> bytes:
        command = ["git", *arguments]
        try:
            done = subprocess.run(
                command,
                input=data,
                capture_output=True,
                env=self._environment,
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except FileNotFoundError:
            raise GitFailed("git is not installed") from None
        except subprocess.TimeoutExpired:
            raise GitFailed(f"git {arguments[0]} did not end within {COMMAND_SECONDS:.0f} s") from None
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()
            kind = PushRejected if arguments[0] == "push" and _is_rejection(said) else GitFailed
            raise kind(f"git {arguments[0]}: {_USER_INFO.sub('://', said)[-2000:]}")
        return done.stdout

    def fetch(self, create: bool) -> str | None:
        """The commit that the branch is at; None for a branch that does not exist yet, where `create` allows it."""
        self._git("init", "--quiet", "--bare", str(self._folder))
        self._git("remote", "add", "--", _ORIGIN, self._remote)
        try:
            self._git(
                "fetch",
                "--quiet",
                "--no-tags",
                "--depth=1",
                "--filter=blob:none",
                "--",
                _ORIGIN,
                f"refs/heads/{self._branch}",
            )
        except GitFailed as error:
            if create and "couldn't find remote ref" in str(error):
                return None
            raise
        return self._git("rev-parse", "--verify", "FETCH_HEAD")

    def read(self, commit: str, path: str, limit: int) -> dict[str, bytes]:
        """Contents by name of the files in the folder `path` (ending in /), or of the file `path`; {} without it.

        Raises GitFailed when there are more than `limit`.
        """
        lines = self._git("ls-tree", "-z", commit, "--", path).split("\0")
        blobs = [line.partition("\t") for line in lines if " blob " in line.partition("\t")[0]]
        if len(blobs) > limit:
            raise GitFailed(f"{path} holds {len(blobs)} files, more than {limit}")
        return {
            name.rpartition("/")[2]: self._bytes("cat-file", "blob", entry.split(" ")[2]) for entry, _, name in blobs
        }

    def commit(self, base: str | None, files: Mapping[str, File | None], message: str) -> str | None:
        """The commit with `files` (None: removed) on top of `base`; None when nothing changes."""
        self._git("read-tree", *([base] if base else ["--empty"]))
        lines = []
        for path, file in files.items():
            if file is None:
                lines.append(f"0 {'0' * 40}\t{path}")
                continue
            blob = self._git("hash-object", "-w", "--stdin", data=file.content)
            lines.append(f"{_MODE[file.executable]} {blob}\t{path}")
        self._git("update-index", "-z", "--index-info", data="\0".join([*lines, ""]).encode())
        tree = self._git("write-tree", "--missing-ok")
        if base is not None and tree == self._git("rev-parse", "--verify", f"{base}^{{tree}}"):
            return None
        parents: Sequence[str] = ["-p", base] if base else []
        return self._git("commit-tree", tree, *parents, data=message.encode())

    def push(self, commit: str) -> None:
        """Moves the branch to `commit`, never by force. Raises PushRejected when somebody else moved it."""
        self._git("push", "--quiet", "--", _ORIGIN, f"{commit}:refs/heads/{self._branch}")


_KEPT: Final = ("GIT_SSH", "GIT_SSL_", "GIT_ASKPASS", "GIT_CONFIG_", "GIT_PROXY_", "GIT_HTTP_")
"""How the beginnings of Git's own variables read that say how to reach the remote; others name another repository."""
_SECRETS: Final = frozenset({*SECRET_VARIABLES, *OPERATOR_VARIABLES})


def _is_passed(name: str) -> bool:
    if name.startswith("GIT_"):
        return name.startswith(_KEPT) and name != "GIT_CONFIG_PARAMETERS"
    return name not in _SECRETS


_USER_INFO: Final = re.compile(r"://[^/\s]*@")
"""The part of an address that may hold a token."""


def _is_rejection(said: str) -> bool:
    return "rejected" in said or "fetch first" in said or "cannot lock ref" in said
