"""Objects stream both ways in bounded memory, measured in another process; `tests/acceptance` has the 1 GiB size."""

import asyncio
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from .stores import raw_client

ROOT = Path(__file__).resolve().parents[2]
LIMIT_KIB = 64 * 1024


async def growth(kind: str, folder: Path, mebibytes: int, environment: dict[str, str]) -> tuple[int, int]:
    """KiB by which the memory of a streaming process rose on the way in and on the way out."""
    command = [sys.executable, "-m", "tests.r2.streaming", kind, str(folder), str(mebibytes)]
    child = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, errors = await child.communicate()
    assert child.returncode == 0, errors.decode()
    way_in, way_out = output.split()
    return int(way_in), int(way_out)


def s3_bucket(url: str) -> dict[str, str]:
    """The environment that leads a process to a new bucket of the store at `url`."""
    name = f"streams-{secrets.token_hex(6)}"
    client = raw_client(url)
    client.create_bucket(Bucket=name)
    client.close()
    return {
        "BUCKET": name,
        "R2_ENDPOINT_URL": url,
        "R2_ACCESS_KEY_ID": "test-key",
        "R2_SECRET_ACCESS_KEY": "test-secret",
        "R2_REGION": "us-east-1",
    }


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("kind", ["file", "s3"])
async def test_a_large_object_streams_in_bounded_memory(tmp_path: Path, simulated_store: str, kind: str) -> None:
    environment = s3_bucket(simulated_store) if kind == "s3" else {}
    way_in, way_out = await growth(kind, tmp_path, 160, environment)
    print(f"{kind}: {way_in} KiB in, {way_out} KiB out")
    assert max(way_in, way_out) < LIMIT_KIB
