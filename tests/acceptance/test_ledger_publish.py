"""Publication with real processes: publishers and servers that are killed, and publishers that race."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.clients.http import Http
from moorage.clients.ledger.finalise import finalise
from moorage.clients.ledger.import_index import WorkerIndex
from moorage.clients.ledger.importer import import_shards
from moorage.clients.ledger.publisher import BlobSource, publish_tree
from moorage.clients.ledger.readers import iter_events
from moorage.clients.ledger.verify import verify_tree
from moorage.clients.ledger.worker_blobs import WorkerBlobs

from ..clients.ledger.support import real, record_item, recorder_in, tree
from ..clients.ledger.test_import_index import opposing
from ..support.serving import served
from ..support.sweep_plane import ENVIRONMENT

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(900)]

KILLS = int(os.environ.get("LEDGER_KILLS", "9"))
"""How often a publisher is killed; every third time the server too."""
RACES = int(os.environ.get("LEDGER_RACES", "3"))
"""How often two with opposing parents race."""
SECRET = ENVIRONMENT["CLAWSWEEPER_WEBHOOK_SECRET"]

# publishes a tree under a lock of one second, and prints a line for each blob, then how it ended
PUBLISHER = """
import sys
from moorage.clients.http import Http
from moorage.clients.ledger.import_index import WorkerIndex
from moorage.clients.ledger.publisher import publish_tree
from moorage.clients.ledger.worker_blobs import WorkerBlobs
from moorage.protocols.ledger.refusals import LedgerRefusal
with Http(sys.argv[1], sys.argv[3]) as http:
    try:
        publish_tree(
            WorkerBlobs(http),
            sys.argv[2],
            index=WorkerIndex(http, ttl_seconds=1),
            progress=lambda done, total: print("blob", done, flush=True),
        )
    except LedgerRefusal as refusal:
        print(refusal.code, flush=True)
    else:
        print("published", flush=True)
"""


def publisher(url: str, source: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PUBLISHER, url, source, SECRET],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def ending(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    with process:
        return process.stdout.read().split("\n")[-2]


def test_publishers_and_servers_that_are_killed(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    recorder = recorder_in(tmp_path)
    for index in range(1, 25):
        record_item(recorder, index, component=f"lane{index % 3}")
    finalise(recorder, real(tmp_path / "out"))
    source = real(tmp_path / "out")
    (tmp_path / "expected").mkdir()
    import_shards(source, real(tmp_path / "expected"))
    expected = tree(tmp_path / "expected")
    choice = random.Random(1)
    state = str(tmp_path / "state")
    for kill in range(KILLS + 1):
        with served(tmp_path, "--state", state, environ=ENVIRONMENT) as server:
            with publisher(server.url, source) as process:
                assert process.stdout is not None
                for _ in range(choice.randrange(len(expected) + 5)):
                    process.stdout.readline()
                if kill < KILLS:
                    process.kill()
                else:
                    process.stdout.read()
            with Http(server.url, SECRET) as http:
                store = WorkerBlobs(http)
                # whatever there is to be seen belongs to whole sets
                seen = set(store.walk("ledger/v1"))
                assert seen <= set(expected)
                assert all(store.get(path, 1 << 21) == expected[path] for path in seen)
                list(iter_events(BlobSource(store)))
            if kill % 3 == 2:
                server.kill()
    with served(tmp_path, "--state", state, environ=ENVIRONMENT) as server, Http(server.url, SECRET) as http:
        publish_tree(WorkerBlobs(http), source, index=WorkerIndex(http))
        store = WorkerBlobs(http)
        assert {path: store.get(path, 1 << 21) for path in store.walk("ledger/v1")} == expected
        report = verify_tree(BlobSource(store), event_bindings=True)
        assert (report.fault, report.events) == (None, 24)
        status = WorkerIndex(http).ask("status", {})
        assert (status["sets"], status["complete"], status["events"], status["unfinished"]) == (3, 3, 24, [])


def test_of_two_processes_with_opposing_parents_one_commits(tmp_path: Path) -> None:
    for race in range(RACES):
        folder = tmp_path / str(race)
        trees = opposing(folder)
        with served(folder, "--state", str(folder / "state"), environ=ENVIRONMENT) as server:
            both = [publisher(server.url, source) for source in trees]
            assert sorted(ending(process) for process in both) == ["causal-cycle", "published"]
            with Http(server.url, SECRET) as http:
                assert len(list(iter_events(BlobSource(WorkerBlobs(http))))) == 1
