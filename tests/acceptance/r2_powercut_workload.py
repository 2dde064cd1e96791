"""The process whose system calls are replayed: callers that put, replace and delete objects of a bucket on disk.

    python r2_powercut_workload.py FOLDER WRITES

What is asked and what is acknowledged is noted by `write(2)` to FOLDER/acks: `ASK key number`, and after the answer
`ACK key number`; number 0 is the object's absence. An object's bytes begin with its key and number.
"""

import asyncio
import os
import random
import sys
import threading
from pathlib import Path

from moorage.r2 import open_bucket
from moorage.r2.backends import file_catalogue
from moorage.r2.backends.file import INLINE_BYTES

SIZES = (40, 3_000, 20_000, INLINE_BYTES, INLINE_BYTES + 1, 180_000)
"""Most are kept in the catalogue; the last two are files."""


async def main(folder: Path, writes: int) -> None:
    # Checkpoints come often, so that cuts fall between their steps.
    file_catalogue.CHECKPOINT_BYTES = 512 * 1024
    bucket = await open_bucket("file", name="b", state_folder=folder / "state")
    acks = os.open(folder / "acks", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    async def caller(key: str, count: int) -> None:
        rng = random.Random(key)
        there = False
        for number in range(1, count + 1):
            if there and rng.random() < 0.2:
                # refused, once its bytes are staged and linked
                refused = await bucket.put(key, rng.randbytes(180_000), onlyIf={"etagDoesNotMatch": "*"})
                assert refused is None
            gone = rng.random() < 0.1
            there = not gone
            os.write(acks, f"ASK {key} {0 if gone else number}\n".encode())
            if gone:
                await bucket.delete(key)
            else:
                value = f"{key} {number} ".encode()
                size = rng.choice(SIZES)
                await bucket.put(key, value + rng.randbytes(size - len(value)))
            os.write(acks, f"ACK {key} {0 if gone else number}\n".encode())

    await asyncio.gather(*(caller(f"key-{index}", writes // 6) for index in range(6)))
    threads = [str(thread.native_id) for thread in threading.enumerate() if thread.name.startswith("r2-")]
    os.write(acks, f"SYNCERS {' '.join(threads)}\n".encode())
    await bucket.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
