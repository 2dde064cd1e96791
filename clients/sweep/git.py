"""The lease on a branch that several checkouts push to (sweep state schema, "Topology scope": pushed-shared-branch).

An acquired lease counts only when it was committed, pushed and fetched back as the winner. So the commit is made
beside the checkout, on top of what the remote has, with nothing but the state file in it; the push is a
compare-and-swap on the branch; and the checkout follows only once the lease is ours. A lost race leaves nothing to
undo, and whatever else is staged or changed in the checkout is not touched.
"""

import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from moorage.protocols.sweep import Outcome, Word, emit, load, operations
from moorage.protocols.sweep.lease import record_of

from .file import SweepFile
from .replacing import locked, make_folder

ATTEMPTS = 5
GIT_SECONDS = 120
_ABSENT = ""

# ignored files too: git takes those for expendable and would write over one
CHANGES = ("status", "--porcelain", "--ignored", "--untracked-files=all", "--")
# set where git runs a hook; the repository meant is that of the state file
_OTHERS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY")


class GitFailed(Exception):
    """git refused, or the checkout is not in a state to go on from; the text says what to do."""


@dataclass(frozen=True, slots=True)
class _Base:
    """What the remote branch has: its commit (empty when there is no such branch), and the state file in it."""

    commit: str
    data: bytes | None
    mode: str


class PushedBranch:
    """Takes the lease of `engine`'s state file on `branch` of `remote`.

    The file must lie in a checkout of that branch (or a detached one), unchanged since its last commit, without
    commits that the remote does not have: otherwise ERROR, with the reason, before anything is done.
    """

    def __init__(self, engine: SweepFile, remote: str, branch: str) -> None:
        self._engine = engine
        self._remote = remote
        self._branch = branch
        self._ref = f"refs/heads/{branch}"
        self._seen = f"refs/moorage/sweep/{branch}"
        self._folder = engine.path.parent
        self._path = ""

    def lease_acquire(self, writer: str, ttl_minutes: int | None = None, now: str | None = None) -> Outcome:
        """OK or STALE-RECLAIMED once the lease is on the remote and was fetched back; LOCKED when another has it."""
        try:
            self._locate()
            make_folder(self._engine.path.parent)
            with locked(self._engine.path):
                return self._acquire(writer, ttl_minutes, now)
        except (GitFailed, OSError, subprocess.TimeoutExpired) as error:
            return Outcome(Word.ERROR, reason=str(error))

    def _acquire(self, writer: str, ttl_minutes: int | None, now: str | None) -> Outcome:
        unmoved = 0
        for _ in range(ATTEMPTS):
            base = self._fetch()
            self._follow(base)
            outcome = operations.lease_acquire(
                load(base.data), writer=writer, ttl_minutes=ttl_minutes, now=now or self._engine.clock()
            )
            if outcome.document is None:
                return outcome
            commit = self._commit(base, emit(outcome.document).encode("utf-8"), f"sweep: lease taken by {writer}")
            refusal = self._push(base, commit)
            won = self._fetch()
            if refusal is None or won.commit == commit:
                return self._confirm(outcome, won, writer)
            # Nobody was first: the remote refused for a reason of its own. Once that may be the lock on the branch,
            # held by a push that is about to go through.
            unmoved = unmoved + 1 if won.commit == base.commit else 0
            if unmoved == 2:
                raise GitFailed(f"the push was refused: {refusal}")
        return Outcome(Word.LOCKED, reason=f"others pushed to {self._branch} first, {ATTEMPTS} times")

    def _confirm(self, outcome: Outcome, won: _Base, writer: str) -> Outcome:
        state = load(won.data)
        record = record_of(state.document.get("lease"))
        taken = outcome.document or {}
        if record is None or record != taken["lease"]:
            return Outcome(Word.LOCKED, reason=f"{self._branch} was pushed to again: the lease is not {writer}'s")
        self._advance(won.commit)
        return outcome

    # -- git ----------------------------------------------------------------------------------------------------

    def _git(self, *arguments: str, data: bytes | None = None, env: Mapping[str, str] | None = None) -> bytes:
        result = self._try(*arguments, data=data, env=env)
        if result.returncode:
            said = result.stderr.decode("utf-8", "replace").strip().splitlines()
            raise GitFailed(f"git {arguments[0]}: {said[-1] if said else f'exit {result.returncode}'}")
        return result.stdout

    def _try(
        self, *arguments: str, data: bytes | None = None, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        # never a prompt: nobody may be there to answer; C: messages are parsed
        inherited = {name: value for name, value in os.environ.items() if name not in _OTHERS}
        environment = {**inherited, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", **(env or {})}
        try:
            return subprocess.run(
                ["git", "--literal-pathspecs", "-C", str(self._folder), *arguments],
                input=data if data is not None else b"",
                capture_output=True,
                env=environment,
                timeout=GIT_SECONDS,
                check=False,
            )
        except FileNotFoundError as error:
            raise GitFailed("git is not installed, or the folder of the state file is not there") from error

    def _text(self, *arguments: str, data: bytes | None = None, env: Mapping[str, str] | None = None) -> str:
        return self._git(*arguments, data=data, env=env).decode("utf-8", "surrogateescape").strip()

    def _locate(self) -> None:
        """Finds the path of the state file in its repository, and looks at the two names."""
        path = self._engine.path
        # the folder of a new state file need not be there yet
        self._folder = next((folder for folder in path.parents if folder.is_dir()), path.parent)
        top = self._git("rev-parse", "--show-toplevel").decode("utf-8", "surrogateescape").rstrip("\n")
        self._folder = Path(top)
        self._path = (path.parent.resolve() / path.name).relative_to(self._folder.resolve()).as_posix()
        if self._remote.startswith("-"):
            raise GitFailed(f"{self._remote!r} is no remote")
        if self._try("check-ref-format", self._ref).returncode or self._branch.startswith("-"):
            raise GitFailed(f"{self._branch!r} is no name of a branch")
        head = self._try("symbolic-ref", "--quiet", "HEAD").stdout.decode().strip()
        if head and head != self._ref:
            here = head.removeprefix("refs/heads/")
            raise GitFailed(f"the checkout is on {here}, the state on {self._branch}: check out {self._branch} first")

    def _fetch(self) -> _Base:
        listed = self._text("ls-remote", "--heads", self._remote, self._ref)
        if not listed:
            return _Base(_ABSENT, None, "100644")
        self._git("fetch", "--quiet", "--no-tags", self._remote, f"+{self._ref}:{self._seen}")
        commit = self._text("rev-parse", "--verify", self._seen)
        entry = self._text("ls-tree", "-z", "--full-tree", commit, "--", self._path).rstrip("\0")
        if not entry:
            return _Base(commit, None, "100644")
        mode, kind, blob = entry.partition("\t")[0].split(" ")
        if kind != "blob" or mode == "120000":
            raise GitFailed(f"{self._path} is no plain file on {self._branch}")
        return _Base(commit, self._git("cat-file", "blob", blob), mode)

    def _head(self) -> str:
        found = self._try("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return found.stdout.decode().strip() if found.returncode == 0 else _ABSENT

    def _follow(self, base: _Base) -> None:
        """Brings the checkout to what the remote has. Raises GitFailed where that would lose or mix up something."""
        if self._text(*CHANGES, self._path):
            raise GitFailed(f"{self._path} has changes that are not committed: commit or discard them first")
        head = self._head()
        if base.commit == _ABSENT or head == base.commit:
            return
        if head != _ABSENT and self._try("merge-base", "--is-ancestor", head, base.commit).returncode:
            raise GitFailed(
                f"the checkout has commits that {self._branch} of {self._remote} has not: push them first"
            )
        self._advance(base.commit)

    def _advance(self, commit: str) -> None:
        self._git("merge", "--quiet", "--ff-only", commit)

    def _commit(self, base: _Base, data: bytes, message: str) -> str:
        """A commit that changes nothing but the state file, on top of the remote's, made with an index of its own."""
        parent = base.commit or self._head()
        blob = self._text("hash-object", "-w", "--stdin", data=data)
        with tempfile.TemporaryDirectory() as folder:
            index = {"GIT_INDEX_FILE": str(Path(folder) / "index")}
            if parent:
                self._git("read-tree", parent, env=index)
            self._git("update-index", "--add", "--cacheinfo", f"{base.mode},{blob},{self._path}", env=index)
            tree = self._text("write-tree", env=index)
        parents = ["-p", parent] if parent else []
        return self._text("commit-tree", tree, *parents, data=message.encode("utf-8", "surrogateescape"))

    def _push(self, base: _Base, commit: str) -> str | None:
        """Pushes if the branch is still where it was; None when it went through, else what was said."""
        swap = f"--force-with-lease={self._ref}:{base.commit}"
        result = self._try("push", "--quiet", "--porcelain", swap, self._remote, f"{commit}:{self._ref}")
        if result.returncode == 0:
            return None
        said = (result.stdout + result.stderr).decode("utf-8", "replace").strip().splitlines()
        return next((line for line in said if line.startswith("!")), said[-1] if said else "no reason given")


__all__ = ["GitFailed", "PushedBranch"]
