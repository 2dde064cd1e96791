"""Power cuts: a killed process proves nothing about them, so the system calls are replayed on a model of a disk.

Needs `strace`. The control replays the same trace with our own syncs ignored: there acknowledged writes must be lost,
or the proof proves nothing.
"""

import random
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from moorage.durable_objects.runtime.clone import loads

from .powercut import CALLS, Call, Disk, calls, strings

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

WORKLOAD = Path(__file__).with_name("powercut_workload.py")
KINDS = ("none", "all", "prefix", "random", "random")


def traced(folder: Path, writes: int) -> list[Call]:
    """Runs the workload under strace; returns its calls."""
    trace = folder / "trace"
    command = ["strace", "-f", "-xx", "-y", "-s", "200000", "-e", f"trace={CALLS}", "-o", str(trace)]
    done = subprocess.run(
        [*command, sys.executable, str(WORKLOAD), str(folder), str(writes)],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode != 0 and "ptrace" in done.stderr.lower():
        pytest.skip("this machine does not let processes be traced")
    assert done.returncode == 0, done.stderr
    found = list(calls(trace))
    trace.unlink()
    return found


def lost(image: Path, acknowledged: dict[tuple[str, str], str]) -> int:
    """How many acknowledged writes an image lacks; asserts that what is there is whole."""
    by_object: dict[str, dict[str, str]] = {}
    for (object_id, number), value in acknowledged.items():
        by_object.setdefault(object_id, {})[number] = value
    missing = 0
    for object_id, wanted in by_object.items():
        path = image / "state" / "do" / "w-Pair" / f"{object_id}.sqlite"
        stored: dict[str, Any] = {}
        if path.exists():
            with closing(sqlite3.connect(path)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
                if connection.execute("SELECT 1 FROM sqlite_master WHERE name='_cf_KV'").fetchone():
                    stored = {key: loads(data) for key, data in connection.execute("SELECT key, value FROM _cf_KV")}
        for key, value in stored.items():
            twin = ("b" if key[0] == "a" else "a") + key[1:]
            assert stored.get(twin) == value, "half of a transaction is there"
        missing += sum(stored.get(f"a/{number}") != value for number, value in wanted.items())
    return missing


def replayed(
    found: list[Call], folder: Path, target: Path, cuts: int, *, ignore_our_syncs: bool
) -> tuple[int, int, int]:
    """Returns images built, images that lack an acknowledged write, and acknowledged writes at the end."""
    root = str(folder)
    syncers: frozenset[int] = frozenset()
    for call in found:
        text = strings(call.arguments)[0].decode("latin-1") if call.name == "write" else ""
        if text.startswith("SYNCERS "):
            syncers = frozenset(int(number) for number in text.split()[1:])
            break
    assert syncers, "the workload did not say which threads sync"
    disk = Disk(root, syncers if ignore_our_syncs else frozenset())
    rng = random.Random(11)
    points = set(rng.sample(range(len(found)), min(cuts, len(found))))
    acknowledged: dict[tuple[str, str], str] = {}
    images = failures = 0
    for index, call in enumerate(found):
        text = strings(call.arguments)[0].decode("latin-1") if call.name == "write" else ""
        if text.startswith("ACK "):
            _, object_id, number, value = text.rstrip("\n").split(" ", 3)
            acknowledged[object_id, number] = value
        elif not text.startswith("SYNCERS"):
            disk.replay(call)
        if index in points:
            for kind in KINDS:
                shutil.rmtree(target, ignore_errors=True)
                target.mkdir()
                disk.image(target, rng, kind)
                images += 1
                failures += lost(target, acknowledged) > 0
    return images, failures, len(acknowledged)


@pytest.mark.timeout(1800)
def test_power_cuts_lose_nothing_acknowledged(tmp_path: Path, full_size: bool) -> None:
    work = tmp_path / "work"
    work.mkdir()
    writes, cuts = (2400, 300) if full_size else (240, 30)
    found = traced(work, writes)
    images, failures, acknowledged = replayed(found, work, tmp_path / "image", cuts, ignore_our_syncs=False)
    assert acknowledged == writes
    assert images >= 5 * cuts * 0.9
    assert failures == 0, f"{failures} of {images} images lack an acknowledged write"
    control, lossy, _ = replayed(found, work, tmp_path / "image", cuts, ignore_our_syncs=True)
    assert lossy > control // 10, "the control lost nothing: the proof proves nothing"
