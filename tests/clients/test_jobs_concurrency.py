"""Many processes at one queue: each job goes to exactly one of them, and losers change nothing."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moorage.clients.jobs.folder import JobsFolder
from moorage.clients.jobs.local import LocalQueue
from moorage.protocols.jobs.errors import Refused

from ..contract.jobs_world import World
from ..contract.test_jobs import FIXTURE
from ..support.jobs_bulk import fill

ROOT = Path(__file__).parents[2]
PROCESSES = 8


def claim_all(root: Path, *arguments: str) -> list[str]:
    """The ids that eight processes claimed at once."""
    command = [sys.executable, "-m", "tests.support.jobs_claimer", str(root), *arguments]
    children = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    try:
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        outputs = []
        threads = [
            threading.Thread(target=lambda c=child: outputs.append(c.communicate("go\n")[0])) for child in children
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [child.returncode for child in children] == [0] * PROCESSES
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
                child.communicate()
    return [line.split()[0] for output in outputs for line in output.splitlines()]


def each_exactly_once(root: Path, count: int, status: str, *arguments: str) -> None:
    fill(root, count)
    claimed = claim_all(root, *arguments)
    assert len(claimed) == count
    assert len(set(claimed)) == count
    connection = sqlite3.connect(JobsFolder(root).database)
    try:
        assert connection.execute("SELECT status, count(*) FROM state_jobs GROUP BY status").fetchall() == [
            (status, count)
        ]
        events = connection.execute("SELECT count(*) FROM state_events WHERE envelope_json LIKE '%job.claimed%'")
        assert events.fetchone()[0] in range(min(count, 10_000) - 255, count + 1)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        connection.close()


def test_eight_processes_claim_each_job_once(tmp_path: Path) -> None:
    each_exactly_once(tmp_path, 200, "running")


def test_eight_processes_claim_and_record(tmp_path: Path) -> None:
    each_exactly_once(tmp_path, 80, "failed", "record")


def at_once(*actions: Callable[[], Any]) -> list[Any]:
    """What each action gave, or its refusal, when all begin at the same moment."""
    barrier = threading.Barrier(len(actions))
    results: list[Any] = [None] * len(actions)

    def run(index: int) -> None:
        barrier.wait()
        try:
            results[index] = actions[index]()
        except Refused as error:
            results[index] = error.code

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(actions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def call(root: Path, verb: str, body: dict[str, Any]) -> Any:
    with LocalQueue.open(root) as queue:
        return queue.call(verb, body)


@pytest.mark.parametrize("attempt", range(5))
def test_two_identical_submits_at_once(tmp_path: Path, attempt: int) -> None:
    world = World(tmp_path, FIXTURE)
    body = {"extension": "fx/brief", "node": "notes/a.md"}
    results = at_once(*[lambda: call(tmp_path, "submit", body)] * 3)
    assert sum(isinstance(result, dict) for result in results) == 1
    assert [result for result in results if not isinstance(result, dict)] == ["duplicate"] * 2
    assert len(world.tables()["jobs"]) == 1


@pytest.mark.parametrize("attempt", range(5))
def test_a_record_against_a_cancel_and_a_second_record(tmp_path: Path, attempt: int) -> None:
    world = World(tmp_path, FIXTURE)
    job = call(tmp_path, "submit", {"extension": "fx/brief", "node": "notes/a.md"})["job"]
    call(tmp_path, "claim", {})
    record = {"id": job["id"], "nonce": job["nonce"], "status": "failed", "error": "why"}
    results = at_once(
        lambda: call(tmp_path, "record", record),
        lambda: call(tmp_path, "cancel", {"id": job["id"]}),
        lambda: call(tmp_path, "record", record),
    )
    assert sum(isinstance(result, dict) for result in results) == 1
    row = world.tables()["jobs"][(job["id"],)]
    executions = world.tables()["executions"]
    assert (row["status"], len(executions)) in (("failed", 1), ("cancelled", 0))
    assert isinstance(results[1], dict) == (row["status"] == "cancelled")
