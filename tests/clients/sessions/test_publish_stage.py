"""Publishing as a stage: steps, a crash after each of them, two machines, the clean-up."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.clients.sessions.errors import PublishRefused, StageFailed

from ...support.session_folder import CONFIG, SessionFolder
from ...support.session_stores import current

ROOT = Path(__file__).parents[3]


def steps_of(session: SessionFolder, run_id: str) -> list[str]:
    seen: list[str] = []
    session.runner(run_id, step=seen.append).run()
    return seen


STEPS = [
    "pointer-read",
    *(f"artifact:{name}.txt" for name in ("t", "m", "r", "e")),
    *(f"artifact:out/{name}.md" for name in ("summary", "recap", "cast")),
    "commit",
    "pointer",
    "verified",
    "obligation",
    "deleted:spool/talk.wav",
    "completed:spool/talk.wav",
]  # fmt: skip


def test_the_steps(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    assert steps_of(session, "r1") == STEPS
    cleanup = session.manifest["post_publish_cleanup"]
    assert cleanup["run_id"] == "r1"
    assert cleanup["commit"] == session.manifest["stages"]["publish"]["metadata"]["commit"]
    (target,) = cleanup["targets"]
    assert (target["root"], target["path"], target["completed"], target["evidence"]) == (
        "spool", "talk.wav", True, "deleted",
    )  # fmt: skip
    assert not (session.folder / "spool" / "talk.wav").exists()


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_after_each_step_leaves_a_readable_snapshot(tmp_path: Path, step: str) -> None:
    session = SessionFolder(tmp_path)
    session.runner("r-old").run()
    session.write("talk.wav", "hello again\n")
    session.run("--only", "prepare", "--force")
    session.run("--from", "transcribe", "--to", "analyze", "--force")
    assert (session.folder / "spool" / "talk.wav").exists()
    process = subprocess.run(
        [sys.executable, "-m", "tests.support.session_publisher", str(session.folder), "r-new", step],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert process.returncode == -9, process.stderr.decode()
    past = STEPS.index(step)
    # a reader sees the old snapshot until the pointer moved, and the new one from then on
    assert current(session).commit.run_id == ("r-old" if past < STEPS.index("pointer") else "r-new")
    assert session.states["publish"] == "running"
    cleanup = session.manifest["post_publish_cleanup"]
    owes = past >= STEPS.index("obligation")
    assert cleanup["run_id"] == ("r-new" if owes else "r-old")
    # deletion never precedes the saved obligation, completion never the deletion
    gone = not (session.folder / "spool" / "talk.wav").exists()
    assert gone == (past >= STEPS.index("deleted:spool/talk.wav"))
    assert cleanup["targets"][0]["completed"] == (not owes or past >= STEPS.index("completed:spool/talk.wav"))
    # the same run again goes on from what is there
    session.runner("r-new").run()
    assert current(session).commit.run_id == "r-new"
    assert session.states["publish"] == session.states["notify"] == "succeeded"
    assert not (session.folder / "spool" / "talk.wav").exists()
    assert all(target["completed"] for target in session.manifest["post_publish_cleanup"]["targets"])


def test_two_publishers_of_one_session_on_two_machines(tmp_path: Path) -> None:
    """B publishes while A is between reading the pointer and moving it: A is told, and its stage failed."""
    a, b = SessionFolder(tmp_path, name="a"), SessionFolder(tmp_path, name="b")
    b.write("talk.wav", "from b\n")

    def step(name: str) -> None:
        if name == "commit":
            b.runner("r-b").run()

    with pytest.raises(StageFailed) as failed:
        a.runner("r-a", step=step).run()
    assert isinstance(failed.value.original, PublishRefused)
    assert failed.value.original.kind == "lost-race"
    assert a.states["publish"] == "failed"
    assert "lost-race" in a.manifest["stages"]["publish"]["reason"]
    assert "post_publish_cleanup" not in a.manifest, "nothing authorises a clean-up"
    assert (a.folder / "spool" / "talk.wav").exists()
    assert current(a).commit.run_id == "r-b"
    assert b.states["publish"] == "succeeded"


def test_the_publish_lock_of_a_folder(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.run("--to", "analyze")
    from moorage.clients.sessions.assembly import store_of

    with store_of(session.session()).publishing():
        result = session.command("publish")
    assert result.exit_code == 1
    assert "another publisher is at work" in result.output
    assert session.command("publish").exit_code == 0
    assert current(session) is not None


def test_publish_is_reused_while_the_current_commit_is_its_own(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.run()
    assert session.run()["publish"] == "reused"
    other = SessionFolder(tmp_path, name="other")
    other.run()
    # somebody else published since: the check against the store rejects
    assert session.plan()["publish"] == "run"


def test_an_incomplete_cleanup_keeps_its_authority_and_is_tried_again(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path, CONFIG.replace('["spool/talk.wav"]', '["spool/link/x", "spool/talk.wav"]'))
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_text("precious")
    (session.folder / "spool").mkdir()
    (session.folder / "spool" / "link").symlink_to(tmp_path / "outside")
    session.runner("r1").run()
    assert (tmp_path / "outside" / "x").read_text() == "precious"
    assert session.states["publish"] == "succeeded", "the snapshot is committed"
    (line,) = session.manifest["stages"]["publish"]["metadata"]["cleanup_incomplete"]
    assert "leads out of" in line
    cleanup = session.manifest["post_publish_cleanup"]
    assert [target["completed"] for target in cleanup["targets"]] == [False, True]
    assert "clean-up owed: spool/link/x" in session.command("status").output
    # an invocation that does not execute publish cleans nothing up
    session.run("--to", "analyze")
    assert session.manifest["post_publish_cleanup"] == cleanup
    # the next publication keeps the run that authorised it, and then works it off
    session.runner("r2").run()
    assert session.manifest["post_publish_cleanup"]["run_id"] == "r1"
    (session.folder / "spool" / "link").unlink()
    session.runner("r3").run()
    assert session.manifest["post_publish_cleanup"]["run_id"] == "r3"
    assert all(target["evidence"] == "absent" for target in session.manifest["post_publish_cleanup"]["targets"])


def test_many_targets_that_stay_do_not_fail_what_is_committed(tmp_path: Path) -> None:
    targets = [f"spool/link/{number:04}-{'x' * 200}" for number in range(400)]
    session = SessionFolder(tmp_path, CONFIG.replace('["spool/talk.wav"]', json.dumps(targets)))
    (tmp_path / "outside").mkdir()
    (session.folder / "spool").mkdir()
    (session.folder / "spool" / "link").symlink_to(tmp_path / "outside")
    session.run()
    metadata = session.manifest["stages"]["publish"]["metadata"]
    assert session.states["publish"] == "succeeded"
    assert (len(metadata["cleanup_incomplete"]), metadata["cleanup_incomplete_count"]) == (16, 400)
    assert len(session.manifest["post_publish_cleanup"]["targets"]) == 400
