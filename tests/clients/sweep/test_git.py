"""The lease on a pushed branch, against a bare repository on disk: committed, pushed, fetched back, or not ours."""

import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from moorage.clients.sweep import SweepFile, cli
from moorage.clients.sweep.git import ATTEMPTS, PushedBranch
from moorage.protocols.sweep import Outcome, Word, load

NOW = "2026-07-02T12:00:00+00:00"
LATER = "2026-07-02T14:00:00+00:00"
IDENTITY = {
    "GIT_AUTHOR_NAME": "Sweep",
    "GIT_AUTHOR_EMAIL": "sweep@example.test",
    "GIT_COMMITTER_NAME": "Sweep",
    "GIT_COMMITTER_EMAIL": "sweep@example.test",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True, text=True)
    return done.stdout.strip()


class World:
    """A bare repository with one commit on `main`, and clones of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.remote = root / "remote.git"
        git(root, "init", "--quiet", "--bare", "--initial-branch=main", str(self.remote))
        seed = self.clone("seed")
        (seed / "README").write_text("a repository\n")
        git(seed, "checkout", "--quiet", "-B", "main")
        git(seed, "add", "README")
        git(seed, "commit", "--quiet", "-m", "first")
        git(seed, "push", "--quiet", "origin", "main")

    def clone(self, name: str) -> Path:
        git(self.root, "clone", "--quiet", str(self.remote), name)
        return self.root / name

    def pushed(self) -> dict[str, object]:
        """The document on the remote's branch."""
        text = git(self.remote, "show", "main:docs/sweep.yaml") + "\n"
        return load(text.encode()).document

    def changed(self, commit: str = "main") -> list[str]:
        return git(self.remote, "diff-tree", "--no-commit-id", "--name-only", "-r", commit).splitlines()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def engine(clone: Path) -> SweepFile:
    return SweepFile(clone / "docs" / "sweep.yaml", now=lambda: NOW)


def acquire(clone: Path, writer: str, now: str = NOW) -> Outcome:
    return PushedBranch(engine(clone), "origin", "main").lease_acquire(writer, None, now)


def test_the_lease_is_committed_pushed_and_fetched_back(world: World) -> None:
    clone = world.clone("a")
    assert acquire(clone, "w1").word is Word.OK
    assert world.pushed()["lease"] == {"writer": "w1", "timestamp": NOW, "ttl_minutes": 60}
    assert world.changed() == ["docs/sweep.yaml"]
    # the checkout stands where the remote stands, clean, and the file is that of the commit
    assert git(clone, "rev-parse", "HEAD") == git(world.remote, "rev-parse", "main")
    assert git(clone, "status", "--porcelain", "--untracked-files=no") == ""
    assert engine(clone).upsert_item("s", "1", "{}", "w1").word is Word.OK


def test_another_clone_sees_it_and_backs_off(world: World) -> None:
    first, second = world.clone("a"), world.clone("b")
    assert acquire(first, "w1").word is Word.OK
    tip = git(world.remote, "rev-parse", "main")
    outcome = acquire(second, "w2")
    assert outcome.word is Word.LOCKED
    assert git(world.remote, "rev-parse", "main") == tip
    # it follows the remote, so that a reader sees who has it
    assert engine(second).read().payload["lease"]["writer"] == "w1"
    assert acquire(first, "w1", LATER).word is Word.OK
    reclaimed = acquire(second, "w2", "2026-07-02T16:00:00+00:00")
    assert reclaimed.word is Word.STALE_RECLAIMED
    assert reclaimed.payload == {"previous_writer": "w1", "previous_timestamp": LATER}


def test_only_the_state_file_is_committed(world: World) -> None:
    clone = world.clone("a")
    (clone / "staged").write_text("mine")
    (clone / "README").write_text("changed\n")
    git(clone, "add", "staged")
    assert acquire(clone, "w1").word is Word.OK
    assert world.changed() == ["docs/sweep.yaml"]
    assert git(clone, "diff", "--cached", "--name-only") == "staged"
    assert (clone / "README").read_text() == "changed\n"
    assert (clone / "docs" / "sweep.yaml.lock").exists()


class Racing(PushedBranch):
    """Runs `before` each time it is about to push."""

    before: Callable[[], object]

    def _push(self, base: object, commit: str) -> str | None:
        self.before()
        return super()._push(base, commit)  # type: ignore[arg-type]


def racing(clone: Path, before: Callable[[], object]) -> Racing:
    branch = Racing(engine(clone), "origin", "main")
    branch.before = before
    return branch


def test_a_rejected_push_means_another_writer_won(world: World) -> None:
    first, second = world.clone("a"), world.clone("b")
    slow = racing(first, lambda: acquire(second, "w2"))
    head = git(first, "rev-parse", "HEAD")
    assert slow.lease_acquire("w1", None, NOW).word is Word.LOCKED
    assert world.pushed()["lease"] == {"writer": "w2", "timestamp": NOW, "ttl_minutes": 60}
    # nothing of the lost race is left in the checkout
    assert git(first, "rev-parse", "HEAD") == git(world.remote, "rev-parse", "main") != head
    assert git(first, "log", "--format=%s") == "sweep: lease taken by w2\nfirst"


def test_a_push_of_something_else_is_only_a_delay(world: World) -> None:
    first, other = world.clone("a"), world.clone("b")
    pushes: list[int] = []

    def push_something() -> None:
        if len(pushes) < 2:
            pushes.append(1)
            (other / f"file{len(pushes)}").write_text("x")
            git(other, "add", ".")
            git(other, "commit", "--quiet", "-m", "other work")
            git(other, "push", "--quiet", "origin", "main")

    assert racing(first, push_something).lease_acquire("w1", None, NOW).word is Word.OK
    assert (first / "file2").exists()
    assert world.changed() == ["docs/sweep.yaml"]


def test_a_branch_that_never_stands_still_ends_in_backing_off(world: World) -> None:
    first, other = world.clone("a"), world.clone("b")
    pushes: list[int] = []

    def push_something() -> None:
        pushes.append(1)
        git(other, "commit", "--quiet", "--allow-empty", "-m", "other work")
        git(other, "push", "--quiet", "origin", "main")

    outcome = racing(first, push_something).lease_acquire("w1", None, NOW)
    assert outcome.word is Word.LOCKED
    assert len(pushes) == ATTEMPTS


def test_two_clones_race_and_one_wins(world: World) -> None:
    clones = [world.clone("a"), world.clone("b")]
    together = threading.Barrier(2)
    outcomes: dict[int, Outcome] = {}

    def run(number: int) -> None:
        first = [True]

        def meet() -> None:
            if first:
                first.clear()
                together.wait(timeout=60)

        outcomes[number] = racing(clones[number], meet).lease_acquire(f"w{number}", None, NOW)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome.word.value for outcome in outcomes.values()) == ["LOCKED", "OK"], outcomes
    winner = next(number for number, outcome in outcomes.items() if outcome.word is Word.OK)
    lease = world.pushed()["lease"]
    assert isinstance(lease, dict)
    assert lease["writer"] == f"w{winner}"


def test_a_branch_that_does_not_exist_yet_is_made(tmp_path: Path) -> None:
    world = World(tmp_path)
    clone = world.clone("a")
    git(clone, "checkout", "--quiet", "-b", "sweeps")
    outcome = PushedBranch(engine(clone), "origin", "sweeps").lease_acquire("w1", None, NOW)
    assert outcome.word is Word.OK, outcome
    assert git(world.remote, "ls-tree", "-r", "--name-only", "sweeps") == "README\ndocs/sweep.yaml"


def test_an_empty_repository(tmp_path: Path) -> None:
    remote = tmp_path / "empty.git"
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch=main", str(remote))
    git(tmp_path, "clone", "--quiet", str(remote), "a")
    clone = tmp_path / "a"
    git(clone, "symbolic-ref", "HEAD", "refs/heads/main")
    assert acquire(clone, "w1").word is Word.OK
    assert git(remote, "ls-tree", "-r", "--name-only", "main") == "docs/sweep.yaml"
    assert git(clone, "status", "--porcelain", "--untracked-files=no") == ""


def test_changes_of_the_state_file_that_are_not_committed_stay(world: World) -> None:
    clone = world.clone("a")
    assert acquire(clone, "w1").word is Word.OK
    assert engine(clone).upsert_item("s", "1", "{}", "w1").word is Word.OK
    text = (clone / "docs" / "sweep.yaml").read_text()
    outcome = acquire(clone, "w1", LATER)
    assert outcome.word is Word.ERROR
    assert "not committed" in outcome.reason
    assert (clone / "docs" / "sweep.yaml").read_text() == text
    git(clone, "commit", "--quiet", "-am", "swept")
    outcome = acquire(clone, "w1", LATER)
    assert outcome.word is Word.ERROR
    assert "push them first" in outcome.reason
    git(clone, "push", "--quiet", "origin", "main")
    assert acquire(clone, "w1", LATER).word is Word.OK


def test_an_ignored_state_file_is_not_written_over(world: World) -> None:
    first, second = world.clone("a"), world.clone("b")
    assert acquire(first, "w1").word is Word.OK
    (second / ".git" / "info" / "exclude").write_text("docs/sweep.yaml\n")
    (second / "docs").mkdir()
    (second / "docs" / "sweep.yaml").write_text("precious\n")
    assert acquire(second, "w2").word is Word.ERROR
    assert (second / "docs" / "sweep.yaml").read_text() == "precious\n"


def test_a_corrupt_file_on_the_branch_is_left_alone(world: World) -> None:
    clone = world.clone("a")
    (clone / "docs").mkdir()
    engine(clone).path.write_text("not a state\n")
    git(clone, "add", "docs/sweep.yaml")
    git(clone, "commit", "--quiet", "-m", "broken")
    git(clone, "push", "--quiet", "origin", "main")
    tip = git(world.remote, "rev-parse", "main")
    assert acquire(world.clone("b"), "w1").word is Word.CORRUPT
    assert git(world.remote, "rev-parse", "main") == tip


def test_a_branch_that_is_locked_for_a_moment_is_only_a_delay(world: World) -> None:
    lock = world.remote / "refs" / "heads" / "main.lock"
    pushes: list[int] = []

    def hold_once() -> None:
        pushes.append(1)
        if len(pushes) == 1:
            lock.touch()
        else:
            lock.unlink()

    assert racing(world.clone("a"), hold_once).lease_acquire("w1", None, NOW).word is Word.OK
    assert len(pushes) == 2


def test_a_refusal_of_the_remote_is_told(world: World) -> None:
    hook = world.remote / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'no pushes on holidays' >&2\nexit 1\n")
    hook.chmod(0o755)
    clone = world.clone("a")
    outcome = acquire(clone, "w1")
    assert outcome.word is Word.ERROR
    assert "refused" in outcome.reason
    assert not (clone / "docs" / "sweep.yaml").exists()


@pytest.mark.parametrize(
    ("remote", "branch", "reason"),
    [
        ("nowhere", "main", "git ls-remote"),
        ("--upload-pack=x", "main", "no remote"),
        ("origin", "bad..name", "no name of a branch"),
        ("origin", "-x", "no name of a branch"),
        ("origin", "other", "check out other first"),
    ],
)
def test_what_cannot_be_gone_on_from(world: World, remote: str, branch: str, reason: str) -> None:
    outcome = PushedBranch(engine(world.clone("a")), remote, branch).lease_acquire("w1")
    assert outcome.word is Word.ERROR
    assert reason in outcome.reason


def test_outside_of_a_repository(tmp_path: Path) -> None:
    outcome = PushedBranch(SweepFile(tmp_path / "sweep.yaml"), "origin", "main").lease_acquire("w1")
    assert outcome.word is Word.ERROR
    assert "git rev-parse" in outcome.reason
    missing = PushedBranch(SweepFile(tmp_path / "none" / "sweep.yaml"), "origin", "main").lease_acquire("w1")
    assert missing.word is Word.ERROR
    assert list(tmp_path.iterdir()) == []


def test_the_command(world: World) -> None:
    clone = world.clone("a")
    arguments = ["lease-acquire", "--state", str(engine(clone).path), "--writer", "w1", "--git", "origin", "main"]
    result = CliRunner().invoke(cli.command, [*arguments, "--now", NOW, "--ttl-minutes", "5"])
    assert (result.exit_code, result.stdout) == (0, "OK\n")
    assert world.pushed()["lease"] == {"writer": "w1", "timestamp": NOW, "ttl_minutes": 5}
