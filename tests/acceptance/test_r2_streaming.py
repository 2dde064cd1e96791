"""1 GiB through a bucket, both ways, in under 64 MiB of additional memory: `file`, and `s3` in another process."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from ..r2.test_streaming import LIMIT_KIB, ROOT, growth, s3_bucket

pytestmark = pytest.mark.acceptance

MEBIBYTES = int(os.environ.get("R2_STREAM_MEBIBYTES", "1024"))
"""Size of the object; `R2_STREAM_MEBIBYTES` sets another."""


@pytest_asyncio.fixture
async def distant_store() -> AsyncIterator[str]:
    """An S3 server in a process of its own; its address."""
    command = [sys.executable, "-m", "tests.r2.store_process"]
    child = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    assert child.stdin is not None
    line = (await child.stdout.readline()).decode()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+\n", line)
    yield line.strip()
    child.stdin.close()
    await child.wait()


@pytest.mark.timeout(600)
async def test_a_gibibyte_through_a_folder(tmp_path: Path) -> None:
    way_in, way_out = await growth("file", tmp_path, MEBIBYTES, {})
    print(f"file, {MEBIBYTES} MiB: {way_in} KiB in, {way_out} KiB out")
    assert max(way_in, way_out) < LIMIT_KIB


@pytest.mark.timeout(600)
async def test_a_gibibyte_through_a_store_in_another_process(tmp_path: Path, distant_store: str) -> None:
    way_in, way_out = await growth("s3", tmp_path, MEBIBYTES, s3_bucket(distant_store))
    print(f"s3, {MEBIBYTES} MiB: {way_in} KiB in, {way_out} KiB out")
    assert max(way_in, way_out) < LIMIT_KIB
