"""Publishing to Git: against a local bare repository, with rivals, and killed after every step."""

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.clients.errors import ConfigurationError
from moorage.clients.git.paths import OWNED_ELSEWHERE, RETAINED, Necessity, check_path, necessity_of
from moorage.clients.git.publish import Publication, Published, publish, read_files
from moorage.clients.git.repository import File, GitFailed, PushRejected
from moorage.clients.state_writer import LeaseLost
from tests.support.command_line import served_plane
from tests.support.git_remote import Leases, Remote, git

STEPS = ("lease", "fetch", "commit", "push")


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    made = Remote(tmp_path)
    made.rival_pushes({"jobs/old.json": "{}", "records/a/items/1.md": "kept", "README.md": "about"})
    return made


def publication(
    remote: Remote, files: Mapping[str, str | None], message: str = "ours", create: bool = False
) -> Publication:
    wanted = {name: None if text is None else File(text.encode()) for name, text in files.items()}
    return Publication(str(remote.path), wanted, message, create=create)


def run(
    remote: Remote,
    files: Mapping[str, str | None],
    leases: Leases | None = None,
    after: Callable[[str], None] = lambda step: None,
) -> Published:
    return publish(publication(remote, files), (leases or Leases()).lease, after=after)


def test_one_commit_with_the_paths_and_nothing_else(remote: Remote) -> None:
    leases, steps = Leases(), list[str]()
    done = run(remote, {"jobs/new.json": "[1]", "results/r.json": "[2]", "jobs/old.json": None}, leases, steps.append)
    assert done.commit == git(remote.path, "rev-parse", "state")
    assert remote.commits() == ["ours", "rival"]
    assert remote.files() == {
        "jobs/new.json": "[1]",
        "results/r.json": "[2]",
        "records/a/items/1.md": "kept",
        "README.md": "about",
    }
    assert tuple(steps) == STEPS
    assert (leases.given, leases.returned) == (1, 1)


def test_git_gets_its_configuration_and_none_of_our_secrets(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.signingkey")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "x")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    monkeypatch.setenv("CLAWSWEEPER_WEBHOOK_SECRET", "hunter2")
    monkeypatch.setenv("EXACT_REVIEW_OPERATOR_SECRET", "hunter2")
    seen: list[Mapping[str, str]] = []
    real = subprocess.run

    def watched(*arguments: Any, **options: Any) -> Any:
        seen.append(options["env"])
        return real(*arguments, **options)

    monkeypatch.setattr("moorage.clients.git.repository.subprocess.run", watched)
    assert run(remote, {"jobs/new.json": "[1]"}).commit is not None
    assert {environment.get("GIT_CONFIG_KEY_0") for environment in seen} == {"user.signingkey"}
    assert not [name for environment in seen for name, value in environment.items() if "hunter2" in value]


def test_what_the_branch_has_already_makes_no_commit(remote: Remote) -> None:
    assert run(remote, {"jobs/old.json": "{}"}).commit is None
    assert run(remote, {"jobs/never.json": None}).commit is None
    assert remote.commits() == ["rival"]


def test_a_branch_is_started_only_on_request(tmp_path: Path) -> None:
    remote = Remote(tmp_path)
    with pytest.raises(GitFailed, match="state"):
        run(remote, {"jobs/a.json": "1"})
    assert remote.commits() == []
    assert publish(publication(remote, {"jobs/a.json": "1"}, create=True), Leases().lease).commit
    assert publish(publication(remote, {"jobs/b.json": "2"}, "more", create=True), Leases().lease).commit
    assert remote.commits() == ["more", "ours"]
    assert remote.files() == {"jobs/a.json": "1", "jobs/b.json": "2"}


@pytest.mark.parametrize("moment", ["fetch", "commit"])
def test_a_rival_between_fetch_and_push_wins_and_nothing_is_half_done(remote: Remote, moment: str) -> None:
    leases = Leases()

    def rival(step: str) -> None:
        if step == moment:
            remote.rival_pushes({"jobs/theirs.json": "theirs"})

    with pytest.raises(PushRejected):
        run(remote, {"jobs/a.json": "1", "results/b.json": "2"}, leases, rival)
    assert leases.returned == 1
    assert "jobs/a.json" not in remote.files()
    assert run(remote, {"jobs/a.json": "1", "results/b.json": "2"}).commit
    assert remote.commits() == ["ours", "rival", "rival"]
    assert remote.files()["jobs/theirs.json"] == "theirs"


@pytest.mark.parametrize("last", STEPS)
def test_killed_after_any_step_and_run_again_there_is_one_commit(remote: Remote, last: str) -> None:
    class Killed(BaseException):
        pass

    def kill(step: str) -> None:
        if step == last:
            raise Killed

    with pytest.raises(Killed):
        run(remote, {"jobs/a.json": "1"}, after=kill)
    assert remote.commits() == (["ours", "rival"] if last == "push" else ["rival"])
    run(remote, {"jobs/a.json": "1"})
    assert remote.commits() == ["ours", "rival"]


def test_a_lost_lease_pushes_nothing(remote: Remote) -> None:
    leases = Leases()
    leases.lost = True
    with pytest.raises(LeaseLost):
        run(remote, {"jobs/a.json": "1"}, leases)
    assert remote.commits() == ["rival"]


def test_failures_of_best_effort_paths_are_returned(remote: Remote) -> None:
    def rival(step: str) -> None:
        if step == "fetch":
            remote.rival_pushes({"jobs/theirs.json": str(len(remote.commits()))})

    done = run(remote, {"notifications/n.json": "1", "apply-report.json": "{}"}, after=rival)
    assert done.commit is None
    assert done.error
    with pytest.raises(PushRejected):
        run(remote, {"notifications/n.json": "1", "results/r.json": "1"}, after=rival)


def test_a_token_in_an_address_is_not_repeated() -> None:
    wanted = Publication("http://someone:s3cr3t@127.0.0.1:9/state.git", {"jobs/a": File(b"")}, "m")
    with pytest.raises(GitFailed) as failed:
        publish(wanted, Leases().lease)
    assert "s3cr3t" not in str(failed.value)


@pytest.mark.parametrize("folder", sorted(OWNED_ELSEWHERE))
def test_what_has_another_owner_is_refused_by_name(folder: str, remote: Remote) -> None:
    leases = Leases()
    for path in (f"{folder}/a.json", folder, f"{folder.upper()}/a.json"):
        with pytest.raises(ConfigurationError, match="never written to Git"):
            run(remote, {path: "x"}, leases)
    assert leases.given == 0


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/jobs/a",
        "jobs//a",
        "jobs/../records/a",
        "jobs/.git/x",
        "jobs/.GIT/x",
        "jobs/a\nb",
        "README.md",
        "jobs",
        "./jobs/a",
    ],
)
def test_other_paths_are_refused(path: str) -> None:
    with pytest.raises(ConfigurationError):
        check_path(path)


def test_what_must_arrive() -> None:
    assert necessity_of(["jobs/a"]) is necessity_of(["results/a"]) is Necessity.MANDATORY
    assert necessity_of(["notifications/a", "apply-report.json"]) is Necessity.BEST_EFFORT
    assert necessity_of(["notifications/a", "jobs/a"]) is Necessity.MANDATORY


@given(st.text(max_size=40), st.sampled_from(["", "jobs/", "results/", "records/", "notifications/"]))
def test_an_accepted_path_stays_below_a_retained_one(text: str, prefix: str) -> None:
    path = prefix + text
    try:
        check_path(path)
    except ConfigurationError:
        return
    assert path.startswith(tuple(RETAINED))
    assert not {"", ".", "..", ".git"} & set(path.split("/"))


def test_files_are_read_below_the_source(tmp_path: Path) -> None:
    (tmp_path / "jobs/deep").mkdir(parents=True)
    (tmp_path / "jobs/deep/a.json").write_bytes(b"a")
    (tmp_path / "jobs/run").write_bytes(b"#!")
    (tmp_path / "jobs/run").chmod(0o755)
    assert read_files(tmp_path, ["jobs/"], ["results/gone.json"]) == {
        "jobs/deep/a.json": File(b"a"),
        "jobs/run": File(b"#!", executable=True),
        "results/gone.json": None,
    }
    with pytest.raises(ConfigurationError, match="plain file"):
        read_files(tmp_path, ["jobs/none.json"], [])
    with pytest.raises(ConfigurationError, match="both"):
        read_files(tmp_path, ["jobs/run"], ["jobs/run"])
    (tmp_path / "jobs/link").symlink_to("/etc/hostname")
    with pytest.raises(ConfigurationError, match="plain file"):
        read_files(tmp_path, ["jobs/"], [])


def test_the_command_publishes_under_the_lease_of_a_state_plane(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    (source / "jobs").mkdir(parents=True)
    (source / "jobs/a.json").write_text("1")
    (source / "notifications").mkdir()
    (source / "notifications/n.json").write_text("1")
    common = ("git", "publish", "--source", str(source), "-m", "ours", "--remote")
    with served_plane(monkeypatch) as served:
        done = served.run(*common, str(remote.path), "jobs/", "--json")
        assert done.exit_code == 0, done.output
        assert remote.files()["jobs/a.json"] == "1"
        again = served.run(*common, str(remote.path), "jobs/")
        assert (again.exit_code, again.output.strip()) == (0, "nothing to publish")
        refused = served.run(*common, str(remote.path), "records/a.md")
        assert refused.exit_code == 1
        assert "belongs to" in refused.output
        assert served.run(*common, str(tmp_path / "nowhere"), "jobs/").exit_code == 1
        lost = served.run(*common, str(tmp_path / "nowhere"), "notifications/")
        assert lost.exit_code == 0
        assert "WARNING" in lost.output
    assert remote.commits() == ["ours", "rival"]
