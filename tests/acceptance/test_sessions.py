"""Session commits through a real server that is killed after each publish step, and many racing processes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from moorage.clients.sessions.assembly import opener
from moorage.clients.sessions.errors import StageFailed
from moorage.clients.sessions.publish_stage import run_with
from moorage.clients.sessions.reading import verify_current

from ..support.serving import served
from ..support.session_folder import CONFIG, SessionFolder

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

SECRETS = {"CLAWSWEEPER_WEBHOOK_SECRET": "webhook-secret", "EXACT_REVIEW_OPERATOR_SECRET": "operator-secret"}
PUBLISHERS = int(os.environ.get("SESSION_PUBLISHERS", "4"))
"""Processes that publish at once; others by `SESSION_PUBLISHERS=16`."""
WORKER = CONFIG.replace(
    'kind = "file"\nbucket = "snapshots"\nstate_folder = "../state"', 'kind = "worker"\nlease_seconds = 2'
)
STEPS = ["pointer-read", "artifact:t.txt", "artifact:out/cast.md", "commit", "pointer"]


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Starts a server on the one state folder; its address is in the environment."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "plane").mkdir()
    with ExitStack() as stack:

        def start() -> Any:
            state = str(tmp_path / "plane" / "state")
            arguments = ("--state", state, "--admin-port", "-1")
            server = stack.enter_context(served(tmp_path / "plane", *arguments, environ=SECRETS))
            monkeypatch.setenv("MOORAGE_URL", server.url)
            return server

        yield start


def current(session: SessionFolder) -> Any:
    resolved = session.session()
    return run_with(opener(resolved), lambda objects: verify_current(objects, resolved.place))


@pytest.mark.parametrize("wanted", STEPS)
def test_a_server_killed_after_a_step(servers: Any, tmp_path: Path, wanted: str) -> None:
    server = servers()
    session = SessionFolder(tmp_path, WORKER)
    session.runner("r-old").run()
    session.write("talk.wav", "hello again\n")
    session.runner("r-x").run(last="analyze", force=["prepare", "transcribe"])

    def step(name: str) -> None:
        if name == wanted:
            server.kill()

    with pytest.raises(StageFailed):
        session.runner("r-new", step=step).run()
    assert session.states["publish"] == "failed"
    servers()
    moved = wanted == "pointer"
    assert current(session).commit.run_id == ("r-new" if moved else "r-old")
    # the lease of the dead publication runs out by itself; the same run goes on from what is there
    for _ in range(100):
        result = session.command("run", "--run-id", "r-new")
        if result.exit_code == 0:
            break
        assert "another publisher" in result.output, result.output
    assert current(session).commit.run_id == "r-new"
    assert session.states["publish"] == session.states["notify"] == "succeeded"


def test_processes_race_and_a_reader_always_sees_a_whole_commit(servers: Any, tmp_path: Path) -> None:
    servers()
    sessions = [SessionFolder(tmp_path, WORKER, f"s{number}") for number in range(PUBLISHERS)]
    for number, session in enumerate(sessions):
        session.write("talk.wav", f"talk {number}\n")
        session.run("--to", "analyze")
    program = "from moorage.clients.cli import main; main()"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program, "session", "publish", "--json", "--run-id", f"r{number}"],
            cwd=session.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for number, session in enumerate(sessions)
    ]
    while any(process.poll() is None for process in running):
        current(sessions[0])
    outcomes = []
    for process, session in zip(running, sessions, strict=True):
        out, _ = process.communicate()
        (row,) = json.loads(out)["stages"]
        assert row["action"] == session.states["publish"]
        if row["action"] == "failed":
            assert "another publisher" in row["reason"] or "lost-race" in row["reason"]
        outcomes.append(row["action"])
    assert "succeeded" in outcomes
    found = current(sessions[0])
    winner = int(found.commit.run_id[1:])
    assert outcomes[winner] == "succeeded"
    assert sessions[winner].run("--only", "publish") == {"publish": "reused"}
