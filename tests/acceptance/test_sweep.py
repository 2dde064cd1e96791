"""Sweeps with real processes: a holder that is stopped and goes on, a server and a writer that are killed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moorage.clients.http import Http
from moorage.clients.sweep import SharedSweep, SweepFile
from moorage.protocols.sweep import Word, emit

from ..support.serving import ServedProcess, served
from ..support.sweep_plane import ENVIRONMENT

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

KILLS = int(os.environ.get("SWEEP_KILLS", "25"))
"""How often a writer is killed; others by `SWEEP_KILLS=200`."""

# takes the lease, then upserts one item for each line it is sent, and prints each outcome
HOLDER = """
import sys
from moorage.clients.sweep import SharedSweep
with SharedSweep.open(sys.argv[1], "repo") as sweep:
    print(sweep.lease_acquire("w1", 0).word.value, sweep.token, flush=True)
    for line in sys.stdin:
        print(sweep.upsert_item("s", line.strip(), "{}", "w1").word.value, flush=True)
"""

# upserts items until it is killed, and prints each that was acknowledged
WRITER = """
import sys
from moorage.clients.sweep import SweepFile
engine = SweepFile(sys.argv[1])
for number in range(10**9):
    assert engine.upsert_item("s", f"{sys.argv[2]}-{number}", "{}", "w1").word.value == "OK"
    print(f"{sys.argv[2]}-{number}", flush=True)
"""


def start(program: str, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | ENVIRONMENT,
    )


def said(process: "subprocess.Popen[str]", line: str | None = None) -> str:
    """Sends a line, if one is given; the next line of the process."""
    assert process.stdin is not None
    assert process.stdout is not None
    if line is not None:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    return process.stdout.readline().strip()


def shared(url: str) -> SharedSweep:
    return SharedSweep(Http(url, ENVIRONMENT["CLAWSWEEPER_WEBHOOK_SECRET"]), "repo")


def test_a_holder_that_was_stopped_past_its_time_to_live_is_fenced(tmp_path: Path) -> None:
    with (
        served(tmp_path, environ=ENVIRONMENT) as server,
        shared(server.url) as second,
        start(HOLDER, server.url) as holder,
    ):
        assert said(holder) == "OK 1"
        assert said(holder, "first") == "OK"
        os.kill(holder.pid, signal.SIGSTOP)
        # a time-to-live of no minutes: over as soon as any time has passed
        taken = second.lease_acquire("w2")
        assert taken.word is Word.STALE_RECLAIMED
        assert taken.payload["token"] == 2
        assert second.upsert_item("s", "second", "{}", "w2").word is Word.OK
        # the most unlucky case: it goes on while the lease is held under its own name again
        assert second.lease_release("w2").word is Word.OK
        assert second.lease_acquire("w1").payload == {"token": 3}
        os.kill(holder.pid, signal.SIGCONT)
        assert said(holder, "late") == "LEASE-LOST"
        assert set(second.read().payload["items"]) == {"s:first", "s:second"}
        assert holder.stdin is not None
        holder.stdin.close()
        assert holder.wait() == 0


def test_what_a_killed_server_acknowledged_is_there(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    token = None
    for life in range(3):
        server = ServedProcess(tmp_path, environ=ENVIRONMENT).wait()
        with shared(server.url) as sweep:
            if life == 0:
                token = sweep.lease_acquire("w1").payload["token"]
        http = Http(server.url, ENVIRONMENT["CLAWSWEEPER_WEBHOOK_SECRET"])
        with SharedSweep(http, "repo", token=token) as sweep:
            assert acknowledged <= set(sweep.read().payload["items"]) if life else True
            for number in range(30):
                assert sweep.upsert_item("s", f"{life}-{number}", "{}", "w1").word is Word.OK
                acknowledged.add(f"s:{life}-{number}")
        server.kill()
    with served(tmp_path, environ=ENVIRONMENT) as last, shared(last.url) as sweep:
        assert set(sweep.read().payload["items"]) == acknowledged


def test_a_killed_writer_tears_nothing_and_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    engine = SweepFile(path)
    assert engine.lease_acquire("w1").word is Word.OK
    acknowledged: set[str] = set()
    for life in range(KILLS):
        with start(WRITER, str(path), str(life)) as writer:
            for _ in range(1 + life % 5):
                acknowledged.add(f"s:{said(writer)}")
            writer.kill()
            assert writer.stdout is not None
            # what it had printed before the signal reached it
            acknowledged |= {f"s:{line.strip()}" for line in writer.stdout if line.endswith("\n")}
        outcome = engine.read()
        assert outcome.word is Word.OK, outcome
        items: dict[str, Any] = outcome.payload["items"]
        # at most the one write that was under way is there without having been acknowledged
        assert acknowledged <= set(items)
        assert len(set(items) - acknowledged) <= life + 1
        assert path.read_text() == emit(json.loads(json.dumps(outcome.payload)))
