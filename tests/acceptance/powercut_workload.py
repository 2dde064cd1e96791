"""The process whose system calls are replayed: objects that write, checkpoint and are evicted.

    python powercut_workload.py FOLDER WRITES

Every acknowledged write is noted by `write(2)` to FOLDER/acks, after its answer: `object key value`.
"""

import asyncio
import os
import random
import sys
from pathlib import Path

from moorage.durable_objects.runtime import DurableObject, Runtime, RuntimeSettings
from moorage.durable_objects.runtime import database as database_module


class Pair(DurableObject):
    """Writes two keys in one transaction: both are there, or neither."""

    async def put(self, number: int, value: str) -> None:
        await self.ctx.storage.put(f"a/{number}", value)
        await self.ctx.storage.put(f"b/{number}", value)


async def main(folder: Path, writes: int) -> None:
    # Checkpoints come often, so that cuts fall between their steps.
    database_module.CHECKPOINT_COMMITS = 40
    database_module.CHECKPOINT_BYTES = 16 * 1024
    runtime = Runtime(folder / "state", settings=RuntimeSettings(max_open=6, idle_seconds=0.05))
    namespace = runtime.namespace("w-Pair", Pair)
    await runtime.start()
    threads = [str(thread.native_id) for thread in runtime.log._threads]  # type: ignore[attr-defined]
    acks = os.open(folder / "acks", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(acks, f"SYNCERS {' '.join(threads)}\n".encode())
    rng = random.Random(3)

    async def writer(name: str, count: int) -> None:
        for number in range(count):
            value = f"{number}:" + "x" * rng.choice([10, 200, 3000, 9000])
            await namespace.getByName(name).put(number, value)
            os.write(acks, f"ACK {namespace.idFromName(name)} {number} {value}\n".encode())
            if rng.random() < 0.02:
                await asyncio.sleep(0.08)  # idle: the object is evicted, its file closed and opened again

    await asyncio.gather(*(writer(f"object-{index}", writes // 8) for index in range(8)))
    await runtime.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
