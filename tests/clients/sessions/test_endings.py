"""How attempts end: cancelled, killed, too long, refused; and stages as callables."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.clients.sessions.errors import Busy, Refused
from moorage.clients.sessions.runner import Runner
from moorage.clients.sessions.stages import Stage, StageContext
from moorage.clients.sessions.store import LocalStore
from moorage.protocols.sessions import NARRATIO, Pipeline, Projection, Result, Skip, StageSpec
from moorage.protocols.sessions.fingerprints import fingerprint

from ...support.session_folder import CONFIG, STAGES, SessionFolder

# -- ends and interruptions ------------------------------------------------------------------------------------------

WAITING = CONFIG.replace("cp t.txt m.txt", "echo $$ > pid; exec sleep 60")


def waiting(root: Path) -> SessionFolder:
    """A session whose merge says its process id into a pipe and then waits."""
    session = SessionFolder(root, WAITING)
    os.mkfifo(session.folder / "pid")
    return session


def started(session: SessionFolder) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", "from moorage.clients.cli import main; main()", "session", "run", "--json"],
        cwd=session.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancellation_leaves_interrupted_and_ends_the_command(tmp_path: Path, number: signal.Signals) -> None:
    session = waiting(tmp_path)
    process = started(session)
    child = int((session.folder / "pid").read_text())
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert json.loads(out)["stages"][-1]["action"] == "interrupted"
    assert session.states == {
        **dict.fromkeys(STAGES, "pending"), "prepare": "succeeded", "transcribe": "succeeded", "merge": "interrupted",
    }  # fmt: skip
    assert set(session.manifest["stages"]["merge"]) == {"name", "status", "started_at", "finished_at", "reason"}
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    session.edit("echo $$ > pid; exec sleep 60", "cp t.txt m.txt")
    assert session.run()["merge"] == "succeeded"


def test_a_killed_run_leaves_running_and_the_next_one_runs_it(tmp_path: Path) -> None:
    session = waiting(tmp_path)
    process = started(session)
    child = int((session.folder / "pid").read_text())
    # while it runs no other invocation gets in
    refused = session.command("run")
    assert refused.exit_code == 1
    assert f"process {process.pid}" in refused.output
    process.kill()
    process.communicate(timeout=30)
    os.kill(child, signal.SIGKILL)
    assert session.states["merge"] == "running"
    session.edit("echo $$ > pid; exec sleep 60", "cp t.txt m.txt")
    assert session.run("--to", "merge") == {"prepare": "reused", "transcribe": "reused", "merge": "succeeded"}


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    slow = CONFIG.replace('"echo merge >> calls && cp t.txt m.txt"', '"sleep 60"\ntimeout = 0.2')
    session = SessionFolder(tmp_path, slow)
    session.run(status=1)
    assert "longer than 0.2 s" in session.manifest["stages"]["merge"]["reason"]


PASSWD = {"outputs": [{"id": "x", "path": "/etc/passwd"}]}
BOTH = {"skipped": "x", "outputs": [{"id": "x", "path": "t.txt"}]}


def said(value: object) -> str:
    """A result inside a TOML text."""
    return json.dumps(value).replace('"', '\\"')


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("no-such-command-here", "status 127"),
        ("true", "there is no file m.txt"),
        ("kill -9 $$", "SIGKILL"),
        ("ln -s /etc/hostname m.txt", "is a link"),
        ("echo nonsense > $MOORAGE_SESSION_RESULT", "not what a command may say"),
        (f"echo '{said(PASSWD)}' > $MOORAGE_SESSION_RESULT; cp t.txt m.txt", "absolute"),
        (f"echo '{said(BOTH)}' > $MOORAGE_SESSION_RESULT", "a skipped stage has none"),
    ],
)  # fmt: skip
def test_what_a_command_may_not_do(tmp_path: Path, command: str, reason: str) -> None:
    session = SessionFolder(tmp_path, CONFIG.replace("echo merge >> calls && cp t.txt m.txt", command))
    session.run("--to", "merge", status=1)
    assert session.states["merge"] == "failed"
    found = session.manifest["stages"]["merge"]["reason"]
    assert reason in found


# -- stages as callables ---------------------------------------------------------------------------------------------


def test_stages_as_callables(tmp_path: Path) -> None:
    pipeline = Pipeline([StageSpec("a"), StageSpec("b", ("a",)), StageSpec("c", ("b",))])
    asked: list[str] = []

    def first(context: StageContext) -> Result:
        (context.folder / "a.txt").write_text("a")
        context.log("made a")
        return Result((context.output("a", "a.txt"),), metadata={"k": 1})

    def validate(manifest: object) -> bool:
        asked.append("a")
        return "reject" not in asked

    prints = [fingerprint(1, "x")]
    stages = [
        Stage("a", first, lambda: prints[0], validate),
        Stage("b", lambda context: None),
        Stage("c", lambda context: Skip("not today")),
    ]

    def run(run_id: str, *force: str) -> list[str]:
        store = LocalStore(tmp_path / "m.json", pipeline)
        runner = Runner(tmp_path, store, stages, Projection("n", "s", run_id))
        return [report.action for report in runner.run(force=force)]

    assert run("r1") == ["succeeded", "succeeded", "skipped"]
    assert asked == []
    assert run("r2") == ["reused", "reused", "skipped"]
    assert asked == ["a"]
    prints[0] = fingerprint(1, "y")
    assert run("r3") == ["succeeded", "succeeded", "skipped"]
    # evidence comes first: a mismatch does not ask the validator
    assert asked == ["a"]
    assert run("r4", "a")[:2] == ["succeeded", "succeeded"]
    assert asked == ["a"]
    asked.append("reject")
    assert run("r5")[:2] == ["succeeded", "succeeded"]
    assert (tmp_path / "runs/r1/logs/a.log").read_text() == "made a\n"


def test_what_is_not_configured_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    runner = Runner(tmp_path, LocalStore(tmp_path / "m.json"), [], Projection("n", "s", "r"))
    with pytest.raises(Exception, match="stage prepare is selected"):
        runner.run()
    with pytest.raises(Refused, match="no stage"):
        runner.run("upload")
    assert list(tmp_path.iterdir()) == []
    assert NARRATIO.order[0] == "prepare"


def test_two_invocations_exclude_each_other(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "m.json")
    with store.invocation():
        with pytest.raises(Busy, match="another invocation"):
            with LocalStore(tmp_path / "m.json").invocation():
                pass
    with store.publishing(), store.invocation():
        pass


def test_functions_named_in_the_configuration(tmp_path: Path) -> None:
    old = 'command = "echo merge >> calls && cp t.txt m.txt"'
    session = SessionFolder(tmp_path, CONFIG.replace(old, 'call = "own_merge:merge"'))
    session.write(
        "own_merge.py",
        "def merge(context):\n"
        "    context.log('merging')\n"
        "    text = (context.folder / 't.txt').read_text()\n"
        "    (context.folder / 'm.txt').write_text(text.upper())\n",
    )
    assert session.run("--to", "merge")["merge"] == "succeeded"
    record = session.manifest["stages"]["merge"]
    assert [output["id"] for output in record["outputs"]] == ["text"]
    assert (session.folder / record["logs"][0]).read_text() == "merging\n"
    assert (session.folder / "m.txt").read_text() == "HELLO\n"
    assert str(session.folder) not in sys.path
    session.edit("own_merge:merge", "own_merge:none")
    session.run("--only", "merge", "--force", status=1)
    assert "own_merge:none cannot be loaded" in session.manifest["stages"]["merge"]["reason"]
    session.edit("own_merge:none", "own merge")
    assert "is not module:function" in session.command("plan").output
