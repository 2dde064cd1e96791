"""Job queues at length: 10,000 claims by eight processes, and a shared queue on a real server that is killed."""

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.clients.jobs.folder import JobsFolder
from moorage.clients.jobs.remote import RemoteQueue
from moorage.clients.jobs.transport import Keys, Transport

from ..clients.test_jobs_concurrency import ROOT, each_exactly_once
from ..support.jobs_bulk import fill as fill_local
from ..worker.test_jobs import install_body, target

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

MANY = int(os.environ.get("JOBS_CLAIMED", "10000"))
"""Jobs of the local run; others by `JOBS_CLAIMED=1000`."""
SHARED = int(os.environ.get("JOBS_SHARED", "400"))
"""Jobs of the shared run; others by `JOBS_SHARED=5000`."""

KEYS = Keys("webhook-secret", "operator-secret")
MOORAGE = Path(sys.executable).with_name("moorage")


def test_eight_processes_claim_ten_thousand(tmp_path: Path) -> None:
    each_exactly_once(tmp_path, MANY, "running")


class Server:
    """`moorage serve` in a process of its own, on a port that it keeps over restarts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = 0
        self._process: subprocess.Popen[str] | None = None
        self._reader = threading.Thread()
        self.queues: list[RemoteQueue] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        environment = os.environ | {
            "CLAWSWEEPER_WEBHOOK_SECRET": str(KEYS.webhook),
            "EXACT_REVIEW_OPERATOR_SECRET": str(KEYS.operator),
        }
        command = [str(MOORAGE), "serve", "--port", str(self._port), "--admin-port", "-1", "--no-access-log"]
        self._process = subprocess.Popen(
            [*command, "--state", str(self._folder)],
            env=environment,
            cwd=self._folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
            if found:
                self._port = int(found[1])
                break
        self._reader = threading.Thread(target=self._process.stdout.read, daemon=True)
        self._reader.start()

    def _reap(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.wait(20)
        self._reader.join()
        self._process.stdout.close()

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._reap()

    def stop(self) -> None:
        for queue in self.queues:
            queue.close()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._reap()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def queue_of(server: Server) -> RemoteQueue:
    queue = RemoteQueue(Transport(server.url, KEYS))
    server.queues.append(queue)
    return queue


def fill(queue: RemoteQueue, count: int) -> None:
    queue.call("install", install_body())
    queue.call("agent", {})
    targets = [target(f"notes/{number}.md", f"Body {number}.\n") for number in range(count)]
    for start in range(0, count, 200):
        queue.call("targets", {"targets": targets[start : start + 200], "replace": start == 0})
    assert queue.call("submit", {"extension": "fx/brief", "all": True})["counts"]["submitted"] == count


def test_eight_claimers_over_http(server: Server) -> None:
    fill(queue_of(server), SHARED)
    claimed: list[str] = []

    def work() -> None:
        queue = queue_of(server)
        while (job := queue.call("claim", {})["job"]) is not None:
            claimed.append(job["id"])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(claimed) == len(set(claimed)) == SHARED


def test_a_held_claim_is_woken_by_a_submit_of_another_process(server: Server) -> None:
    queue = queue_of(server)
    fill(queue, 1)
    assert queue.call("claim", {})["job"] is not None
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(queue_of(server).claim_wait("fx/digest", timeout=30)))
    thread.start()
    job = queue.call("submit", {"extension": "fx/digest", "node": "notes/0.md"})["job"]
    thread.join(20)
    assert found[0]["job"]["id"] == job["id"]


def test_no_acknowledged_claim_is_lost_when_the_server_is_killed(server: Server) -> None:
    fill(queue_of(server), SHARED)
    acknowledged: list[dict[str, Any]] = []

    def work() -> None:
        queue = queue_of(server)
        try:
            while (job := queue.call("claim", {})["job"]) is not None:
                acknowledged.append(job)
        except Exception:  # the server is gone
            return

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(acknowledged) < SHARED // 4:
        threads[0].join(0.01)
    server.kill()
    for thread in threads:
        thread.join()
    server.start()
    queue = queue_of(server)
    seen = {job["id"] for job in acknowledged}
    running = {job["id"] for job in queue.call("list", {"status": "running"})["jobs"]}
    assert seen <= running
    # at most one claim a client was answered by nobody
    assert len(running - seen) <= len(threads)
    report = {"confidence": 1, "safety": {"injectionDetected": False, "contentQuality": "clean"}}
    for job in acknowledged[:20]:
        body = {"id": job["id"], "nonce": job["nonce"], "status": "completed"}
        queue.record(body, lambda: json.dumps(report))
    while (job := queue.call("claim", {})["job"]) is not None:
        assert job["id"] not in seen
    assert queue.call("doctor", {})["exit"] == 0


def test_the_event_stream_survives_a_restart(server: Server) -> None:
    queue = queue_of(server)
    fill(queue, 3)
    stream = queue_of(server).events(0)
    assert [next(stream)[1]["type"] for _ in range(3)] == ["job.submitted"] * 3
    server.kill()
    server.start()
    queue = queue_of(server)
    queue.call("cancel", {"all": True})
    assert [next(stream)[1]["type"] for _ in range(3)] == ["job.cancelled"] * 3


def test_a_process_killed_between_claims_and_records(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    kills = request.config.getoption("--kills", None) or 20
    fill_local(tmp_path, 2000)
    command = [sys.executable, "-m", "tests.support.jobs_claimer", str(tmp_path), "record"]
    for _ in range(kills):
        child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write("go\n")
        child.stdin.flush()
        child.stdout.readline()
        threading.Event().wait(random.uniform(0, 0.05))
        child.kill()
        child.communicate()
    connection = sqlite3.connect(JobsFolder(tmp_path).database)
    try:
        rows = connection.execute(
            "SELECT status, (SELECT count(*) FROM state_executions WHERE job_id = state_jobs.id), count(*)"
            " FROM state_jobs GROUP BY 1, 2"
        ).fetchall()
        # an execution is there exactly when its job is closed; a job that was only claimed stays running
        assert {(status, executions) for status, executions, _ in rows} <= {
            ("queued", 0), ("running", 0), ("failed", 1),
        }  # fmt: skip
        assert sum(count for status, _, count in rows if status == "running") <= kills
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    finally:
        connection.close()
