"""Many idle sockets of sleeping objects: what they cost, and that every one of them still wakes its object.

`make test` opens 400, `make acceptance` 10,000 (or as many as the limit of open files allows).
"""

import asyncio
import resource
from pathlib import Path

from benchmarks import websockets

SMALL, FULL = 400, 10_000
MOST_BYTES = 64 * 1024


def test_idle_sockets_cost_little_and_wake_their_objects(tmp_path: Path, full_size: bool) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    count = min(FULL if full_size else SMALL, soft - 200)
    rooms = [f"room-{number % 20}" for number in range(count)]
    with websockets.worker(tmp_path / "worker") as server:
        row = asyncio.run(websockets.idle(server, rooms, wait=1.5))  # raises unless all answer
    assert row["sockets"] == count
    assert row["bytes_a_socket"] < MOST_BYTES
