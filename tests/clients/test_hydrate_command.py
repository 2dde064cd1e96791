"""`moorage hydrate`, and the paths of Git that are off unless asked for: no process, no token."""

import json
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from moorage.clients.errors import ClientError, ConfigurationError
from moorage.clients.hydrate import Wanted, hydrate
from tests.clients.hydrate_world import SLUG, World, read_tree
from tests.support.command_line import ENVIRONMENT, Served, served_plane
from tests.support.plane import Plane


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with Plane() as plane:
        made = World(plane)
        yield made
        await made.http.close()


def git(folder: Path, *arguments: str) -> None:
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.test",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.test",
    }  # fmt: skip
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, env=environment, capture_output=True)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "clone"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "state")
    for path in ("jobs/1.json", "results/a/b.json", "apply-report.json", "records/x/items/1.md", "secret.txt"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(path)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "state")
    return folder


class TestGitState:
    async def test_retained_paths_only(self, world: World, tmp_path: Path, clone: Path) -> None:
        await world.fill()
        wanted = Wanted(git_state=clone)

        report = await hydrate(world.http, tmp_path / "state", wanted)

        tree = read_tree(tmp_path / "state")
        expected = {name: name.encode() for name in ("jobs/1.json", "results/a/b.json", "apply-report.json")}
        assert tree == world.tree | expected
        assert report.git_files == 3

    async def test_bytes_are_those_that_git_stores(self, world: World, tmp_path: Path, clone: Path) -> None:
        await world.fill()
        kept = {"jobs/lines.json": b"{\n}\n", "results/id.txt": b"$Id$\n", "results/left-out.txt": b"here\n"}
        kept["jobs/\u00e9 \n.json"] = b"odd name"
        for path, data in kept.items():
            (clone / path).write_bytes(data)
        (clone / ".gitattributes").write_text("*.txt ident\nresults/left-out.txt export-ignore\n")
        git(clone, "add", ".")
        git(clone, "commit", "-q", "-m", "more")
        git(clone, "config", "core.autocrlf", "true")

        await hydrate(world.http, tmp_path / "state", Wanted(git_state=clone))

        tree = read_tree(tmp_path / "state")
        assert {path: tree[path] for path in kept} == kept

    async def test_links_are_refused(self, world: World, tmp_path: Path, clone: Path) -> None:
        await world.fill()
        (clone / "jobs/link").symlink_to("/etc/passwd")
        git(clone, "add", ".")
        git(clone, "commit", "-q", "-m", "link")
        with pytest.raises(ClientError, match="'jobs/link' is a link"):
            await hydrate(world.http, tmp_path / "state", Wanted(git_state=clone))
        assert not (tmp_path / "state").exists()

    async def test_a_branch_without_any_of_them(self, world: World, tmp_path: Path, clone: Path) -> None:
        await world.fill()
        git(clone, "rm", "-rq", "jobs", "results", "apply-report.json")
        git(clone, "commit", "-q", "-m", "none")
        assert (await hydrate(world.http, tmp_path / "state", Wanted(git_state=clone))).git_files == 0

    async def test_a_bad_ref_is_said(self, world: World, tmp_path: Path, clone: Path) -> None:
        await world.fill()
        with pytest.raises(ClientError, match="git rev-parse"):
            await hydrate(world.http, tmp_path / "state", Wanted(git_state=clone, git_ref="nowhere"))
        with pytest.raises(ConfigurationError, match="no name"):
            await hydrate(world.http, tmp_path / "state", Wanted(git_state=clone, git_ref="--output=x"))

    async def test_git_sees_no_token(
        self, world: World, tmp_path: Path, clone: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        await world.fill()
        monkeypatch.setenv("GITHUB_TOKEN", "t")
        seen: list[dict[str, str]] = []
        real = subprocess.run

        def run(*arguments: Any, **options: Any) -> Any:
            seen.append(options["env"])
            return real(*arguments, **options)

        monkeypatch.setattr(subprocess, "run", run)
        await hydrate(world.http, tmp_path / "state", Wanted(git_state=clone))

        assert seen
        assert not any("TOKEN" in name or "SECRET" in name for environment in seen for name in environment)


class Watched(dict[str, str]):
    """An environment that remembers what was read from it."""

    def __init__(self, values: dict[str, str]) -> None:
        super().__init__(values)
        self.read: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Any:
    with served_plane(monkeypatch) as made:
        yield made


def test_without_git_state_no_process_starts_and_no_token_is_read(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert served.run("records", "put", SLUG, "7", "--report", _file(tmp_path, "one\n")).exit_code == 0
    started: list[Any] = []

    def refuse(*arguments: Any, **options: Any) -> Any:
        started.append(arguments)
        raise AssertionError("a process was started")

    for name in ("Popen", "run", "call", "check_call", "check_output"):
        monkeypatch.setattr(subprocess, name, refuse)
    for name in ("system", "popen", "fork", "execv", "execve", "posix_spawn"):
        monkeypatch.setattr(os, name, refuse, raising=False)
    names = ("GITHUB_TOKEN", "GH_TOKEN", "CLAWSWEEPER_STATE_TOKEN", "GIT_ASKPASS")
    watched = Watched({**os.environ, **ENVIRONMENT, **dict.fromkeys(names, "t")})
    monkeypatch.setattr(os, "environ", watched)
    import sys

    sys.modules.pop("moorage.clients.hydrate.git_state", None)

    result = served.run("hydrate", str(tmp_path / "state"), "--allow-empty", "--json", env={})

    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["repositories"] == {SLUG: 4}
    assert started == []
    assert not watched.read & set(names)
    assert "moorage.clients.hydrate.git_state" not in sys.modules


def _file(folder: Path, text: str, name: str = "report.md") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_the_command_hydrates_checks_and_tells_differences(served: Served, tmp_path: Path) -> None:
    for number in ("7", "8"):
        assert served.run("records", "put", SLUG, number, "--report", _file(tmp_path, f"{number}\n")).exit_code == 0
    target = str(tmp_path / "state")
    done = served.run("hydrate", target, "--allow-empty")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == f"{target}: {SLUG} at revision 8; 0 blobs of ledger; 0 blobs of assets\n"
    assert served.run("hydrate", target, "--check", "--allow-empty").exit_code == 0
    (tmp_path / "state/records" / SLUG / "items/7.md").write_text("x")

    result = served.run("hydrate", target, "--check", "--allow-empty", "--json")

    assert result.exit_code == 1
    assert json.loads(result.output)["differences"] == [{"path": f"records/{SLUG}/items/7.md", "kind": "different"}]
    focused = served.run("hydrate", str(tmp_path / "few"), "--repo", "Acme/Widgets", "--item", "8", "--item", "99")
    assert focused.exit_code == 0
    assert "no record of items 99" in focused.output
    assert read_tree(tmp_path / "few") == {f"records/{SLUG}/items/8.md": b"8\n"}


def test_a_folder_that_cannot_be_made_is_one_line(served: Served, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    result = served.run("hydrate", str(tmp_path / "file" / "state"), "--allow-empty")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"Error: {tmp_path / 'file'}: File exists\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--item", "1"), "exactly one repository"),
        (("--repo", "a b"), "neither owner/name nor"),
        (("--no-records", "--no-ledger", "--no-assets"), "nothing is left"),
        (("--check", "--git-state", "."), "no part of it"),
    ],
)
def test_what_makes_no_sense_is_said(
    served: Served, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    result = served.run("hydrate", str(tmp_path / "state"), *arguments)

    assert result.exit_code != 0
    assert message in result.output.replace("\n", " ")
