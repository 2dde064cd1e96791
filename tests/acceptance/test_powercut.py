"""Power cuts: a killed process proves nothing about them, so the system calls are replayed on a model of a disk.

Needs `strace`. The control replays the same trace with our own syncs ignored: there acknowledged writes must be lost,
or the proof proves nothing.
"""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from moorage.durable_objects.runtime.clone import loads

from .powercut import replayed, traced

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")

WORKLOAD = Path(__file__).with_name("powercut_workload.py")


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


class Acknowledged(dict[tuple[str, str], str]):
    """The value of every acknowledged write, by object and number."""

    def note(self, line: str) -> bool:
        """Takes a line of the workload's notes in; False for any other."""
        if not line.startswith("ACK "):
            return False
        _, object_id, number, value = line.rstrip("\n").split(" ", 3)
        self[object_id, number] = value
        return True

    async def lost(self, image: Path) -> int:
        return lost(image, self)


@pytest.mark.timeout(1800)
async def test_power_cuts_lose_nothing_acknowledged(tmp_path: Path, full_size: bool) -> None:
    work = tmp_path / "work"
    work.mkdir()
    writes, cuts = (2400, 300) if full_size else (240, 30)
    found = traced(WORKLOAD, work, writes)

    async def cut(ignore_our_syncs: bool) -> tuple[int, int, int]:
        known = Acknowledged()
        images, failures = await replayed(
            found,
            work,
            tmp_path / "image",
            cuts,
            note=known.note,
            lost=known.lost,
            ignore_our_syncs=ignore_our_syncs,
        )
        return images, failures, len(known)

    images, failures, acknowledged = await cut(ignore_our_syncs=False)
    assert acknowledged == writes
    assert images >= 5 * cuts * 0.9
    assert failures == 0, f"{failures} of {images} images lack an acknowledged write"
    control, lossy, _ = await cut(ignore_our_syncs=True)
    assert lossy > control // 10, "the control lost nothing: the proof proves nothing"
