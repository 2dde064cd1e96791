"""A bare Git repository with rivals, and a state writer that counts."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from moorage.clients.state_writer import LeaseLost


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=rival", "-c", "user.email=rival@localhost")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class Remote:
    """A bare repository and a rival's working copy of it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "state.git"
        self.path.mkdir()
        git(self.path, "init", "-q", "--bare", "-b", "state")
        git(self.path, "config", "uploadpack.allowFilter", "true")
        self._copy = folder / "copy"
        git(folder, "clone", "-q", str(self.path), "copy")
        git(self._copy, "checkout", "-q", "-B", "state")

    def rival_pushes(self, files: Mapping[str, str]) -> None:
        if self.commits():
            git(self._copy, "pull", "-q", "--ff-only", "origin", "state")
        for name, text in files.items():
            (self._copy / name).parent.mkdir(parents=True, exist_ok=True)
            (self._copy / name).write_text(text)
        git(self._copy, "add", "-A")
        git(self._copy, "commit", "-q", "-m", "rival")
        git(self._copy, "push", "-q", "origin", "state")

    def commits(self, branch: str = "state") -> list[str]:
        """Subjects of the branch, newest first."""
        if not git(self.path, "branch", "--list", branch):
            return []
        return git(self.path, "log", "--format=%s", branch).splitlines()

    def files(self) -> dict[str, str]:
        names = git(self.path, "ls-tree", "-r", "--name-only", "state").splitlines()
        return {name: git(self.path, "show", f"state:{name}") for name in names}


class Leases:
    """A state writer that gives its lease to anybody, and counts."""

    def __init__(self) -> None:
        self.given = self.returned = 0
        self.lost = False

    @contextmanager
    def lease(self) -> Iterator["Leases"]:
        self.given += 1
        try:
            yield self
        finally:
            self.returned += 1

    def check(self) -> None:
        if self.lost:
            raise LeaseLost("the lease is over")
