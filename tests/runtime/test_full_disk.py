"""The disk is full, for real: files that may not grow (RLIMIT_FSIZE) in a process of its own."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.durable_objects.runtime import Runtime

from .full_disk import Notes


@pytest.mark.parametrize("limit", [65_536, 500_001])
async def test_a_full_disk_loses_nothing_that_was_answered(tmp_path: Path, limit: int) -> None:
    state = tmp_path / "state"
    made = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "tests.runtime.full_disk", str(state), str(limit)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    said = json.loads(made.stdout)
    assert set(said["errors"]) == {"plain", "explicit", "large", "late"}, "the disk never got full"
    for errors in said["errors"].values():
        assert all("disk" in error or "internal error" in error for error in errors), errors

    runtime = Runtime(state)
    notes = runtime.namespace("w-Notes", Notes)
    await runtime.start()
    for name, kept in said["kept"].items():
        found = await notes.getByName(name).notes()
        stored = {int(key.removeprefix("note:")) for key in found["keys"] if key.startswith("note:")}
        assert set(kept) <= stored, f"{name}: an answered write is lost"
        if name == "explicit":
            pairs = {int(key.removeprefix("second:")) for key in found["keys"] if key.startswith("second:")}
            assert stored - {999} == pairs, "half a transaction was kept"
        if name == "large":
            assert found["large"] == 0, "half of a transaction that failed was kept"
            assert stored == {999}
        else:
            assert found["alarm"] == 4_000_000_000_000 + max(kept)
    await runtime.close()
