"""Cluster intake: pending claims first, then the new one, each in the branch before it is dispatched.

Seed "State storage": the intake publishes jobs/ and results/ under the state-writer lease, persists the claim before
the side effect, and runs the recovery of pending claims before it accepts new work. Killed anywhere, the next run
goes on: a claim whose dispatch may or may not have happened is dispatched again under the same id.
"""

import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..errors import ConfigurationError
from .claims import PENDING, Claim, ClaimConflict
from .dispatch import Dispatch
from .publish import DEFAULT_BRANCH, MAX_FILES, Held
from .repository import File, Repository

MAX_RECOVERED: Final = 100
"""Pending claims dispatched by one run; more are an error, since new work must wait for all of them."""


@dataclass(frozen=True, slots=True)
class Intake:
    """Work to be accepted into `branch` of `remote`. Without `claim` pending claims are recovered and that is all."""

    remote: str
    claim: Claim | None = None
    files: Mapping[str, File] = field(default_factory=dict)
    branch: str = DEFAULT_BRANCH
    author: str = "moorage"
    email: str = "moorage@localhost"
    create: bool = False

    @classmethod
    def of(
        cls, remote: str, claim_id: str, event: str, payload: dict[str, Any], files: Mapping[str, File], **more: Any
    ) -> "Intake":
        """Work with the claim that describes it. Raises ConfigurationError."""
        if len(files) > MAX_FILES:
            raise ConfigurationError(f"at most {MAX_FILES} files are accepted at once, not {len(files)}")
        return cls(remote, Claim.of(claim_id, event, payload, files), files, **more)


@dataclass(frozen=True, slots=True)
class Taken:
    """`recovered`: ids of earlier claims, dispatched now. `dispatched`: so was the claim given, not earlier."""

    recovered: tuple[str, ...]
    dispatched: bool


def intake(
    work: Intake,
    lease: Callable[[], AbstractContextManager[Held]],
    dispatch: Dispatch,
    *,
    after: Callable[[str], None] = lambda step: None,
) -> Taken:
    """Accepts the work under the lease that `lease` gives. `after` is told each step, for progress and tests.

    Raises ClaimConflict when the id is other work's, DispatchFailed when a dispatch failed (the claim stays pending;
    when it was an earlier one, nothing new was accepted), PushRejected when somebody pushed meanwhile, ClientError.
    """
    with lease() as held, tempfile.TemporaryDirectory(prefix="moorage-git-") as folder:
        after("lease")
        repository = Repository(Path(folder), work.remote, work.branch, work.author, work.email)
        branch = _Branch(repository, repository.fetch(work.create), held, after)
        after("fetch")
        waiting = [Claim.decode(name, content) for name, content in branch.read(PENDING, MAX_RECOVERED).items()]
        claim = work.claim
        if claim is not None:
            _check_same(branch, claim)
        for earlier in waiting:
            _dispatch(branch, earlier, dispatch, after)
        recovered = tuple(earlier.id for earlier in waiting)
        if claim is None or claim.id in recovered:
            return Taken(recovered, claim is not None)
        if branch.file(claim.dispatched_path) is not None:
            return Taken(recovered, False)
        branch.change({**work.files, **claim.accepted()}, f"Accept {claim.id}")
        _dispatch(branch, claim, dispatch, after)
        return Taken(recovered, True)


def _check_same(branch: "_Branch", claim: Claim) -> None:
    for path in (claim.pending_path, claim.dispatched_path):
        known = branch.file(path)
        if known is not None and known != claim.encode():
            raise ClaimConflict(f"claim {claim.id!r} was accepted with another event, payload or other files")


def _dispatch(branch: "_Branch", claim: Claim, dispatch: Dispatch, after: Callable[[str], None]) -> None:
    branch.check()
    dispatch(claim.id, claim.event, claim.payload)
    after("dispatch")
    branch.change(claim.settled(), f"Dispatched {claim.id}")


class _Branch:
    """The branch as this run has fetched and moved it."""

    def __init__(self, repository: Repository, head: str | None, held: Held, after: Callable[[str], None]) -> None:
        self._repository = repository
        self._head = head
        self._held = held
        self._after = after

    def check(self) -> None:
        self._held.check()

    def read(self, folder: str, limit: int) -> dict[str, bytes]:
        return {} if self._head is None else self._repository.read(self._head, folder, limit)

    def file(self, path: str) -> bytes | None:
        return None if self._head is None else self._repository.read(self._head, path, 1).get(path.rpartition("/")[2])

    def change(self, files: Mapping[str, File | None], message: str) -> None:
        commit = self._repository.commit(self._head, files, message)
        if commit is None:
            return
        self._held.check()
        self._repository.push(commit)
        self._head = commit
        self._after("push")
