"""The main job, end to end: a publisher fills a served state plane, the server and the hydration are killed with
SIGKILL, and a second machine's tree is the first's byte for byte.
"""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moorage.clients.blobs import Blobs
from moorage.clients.http import Http
from moorage.clients.hydrate.staging import MARKER
from moorage.clients.records import Records
from moorage.clients.snapshots import Snapshots
from tests.support.serving import ServedProcess

pytestmark = pytest.mark.timeout(900)

SECRET = "hydrate-test-secret"
ENVIRON = {"CLAWSWEEPER_WEBHOOK_SECRET": SECRET, "EXACT_REVIEW_OPERATOR_SECRET": "operator"}
SMALL, FULL = 4, 60
"""How often a hydration is killed."""


def fill(url: str, count: int) -> dict[str, bytes]:
    """Writes records, commits and blobs, a snapshot in between, and returns the tree that they make."""
    tree: dict[str, bytes] = {}
    with Http(url, SECRET) as http:
        records, blobs = Records(http), Blobs(http)
        for number in range(1, count + 1):
            content = (
                f"---\nnumber: {number}\n---\n".encode() + hashlib.shake_256(b"%d" % number).hexdigest(800).encode()
            )
            closed = number % 5 == 0
            section = "closed" if closed else "items"
            records.put("acme-widgets", number, {section: content})
            tree[f"records/acme-widgets/{section}/{number}.md"] = content
            if number == count // 2:
                Snapshots(http).trigger("acme-widgets")
        gone = count // 3 // 5 * 5 + 1
        records.put("acme-widgets", gone, {})
        del tree[f"records/acme-widgets/items/{gone}.md"]
        sha = hashlib.sha1(b"commit").hexdigest()
        records.commit("acme-widgets", {sha: b"commit\n"})
        tree[f"records/acme-widgets/commits/{sha}.md"] = b"commit\n"
        for name, data in (
            ("ledger/v1/a/b.jsonl", b"{}\n" * 1000),
            ("assets/c.bin", random.Random(1).randbytes(100_000)),
        ):
            blobs.put(name, data)
            tree[name] = data
    return tree


def hydration(folder: Path, url: str, *arguments: str) -> "subprocess.Popen[bytes]":
    program = "from moorage.clients.cli import main; main()"
    environment = {**os.environ, **ENVIRON, "MOORAGE_URL": url}
    return subprocess.Popen(
        [sys.executable, "-c", program, "hydrate", str(folder / "tree"), *arguments],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def finished(running: "subprocess.Popen[bytes]") -> None:
    """Waits for a hydration, which must succeed."""
    output, _ = running.communicate()
    assert running.returncode == 0, output.decode()


def read_tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != MARKER
    }


def test_killed_again_and_again_it_still_makes_the_tree(tmp_path: Path, full_size: bool) -> None:
    server = ServedProcess(tmp_path, ["--state", str(tmp_path / "state")], environ=ENVIRON).wait()
    try:
        tree = fill(server.url, 300 if full_size else 30)
    finally:
        server.kill()
    server = ServedProcess(tmp_path, ["--state", str(tmp_path / "state")], environ=ENVIRON).wait()
    chance = random.Random(7)
    killed = 0
    try:
        start = time.monotonic()
        finished(hydration(tmp_path, server.url))
        whole = time.monotonic() - start
        assert read_tree(tmp_path / "tree") == tree
        for _ in range(FULL if full_size else SMALL):
            running = hydration(tmp_path, server.url)
            try:
                running.wait(chance.uniform(0.3, 1.0) * whole)
            except subprocess.TimeoutExpired:
                running.send_signal(signal.SIGKILL)
                killed += 1
            running.communicate()
            # whatever the moment, the target is a whole tree
            assert read_tree(tmp_path / "tree") == tree
        finished(hydration(tmp_path, server.url))
        finished(hydration(tmp_path, server.url, "--check"))
        assert read_tree(tmp_path / "tree") == tree
        assert sorted(path.name for path in tmp_path.glob(".tree*")) == [".tree.lock"]
    finally:
        server.stop()
    print(f"{killed} hydrations killed")
