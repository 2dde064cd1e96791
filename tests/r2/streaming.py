"""A process that streams an object through a bucket: `python -m tests.r2.streaming KIND FOLDER MEBIBYTES`.

Prints how far its memory rose above what it was before, in KiB, for the way in and the way out. The `s3` kind takes
its store from the environment.
"""

import asyncio
import hashlib
import os
import re
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

from moorage.r2 import R2ObjectBody, open_bucket

BLOCK = os.urandom(1024 * 1024)


def resident() -> int:
    """KiB of this process that are in memory and are its own (Linux)."""
    text = Path("/proc/self/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", text)
    assert found is not None
    return int(found[1])


class Peak:
    """The greatest memory seen while it is open, by looking every few milliseconds."""

    def __enter__(self) -> "Peak":
        self.start = self.highest = resident()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._stop.wait(0.005):
            self.highest = max(self.highest, resident())

    def __exit__(self, *_exception: object) -> None:
        self._stop.set()
        self._thread.join()
        self.highest = max(self.highest, resident())

    @property
    def growth(self) -> int:
        return self.highest - self.start


async def source(mebibytes: int, digest: "hashlib._Hash") -> AsyncIterator[bytes]:
    for number in range(mebibytes):
        block = number.to_bytes(8, "big") + BLOCK[8:]
        digest.update(block)
        yield block


async def main(kind: str, folder: Path, mebibytes: int) -> None:
    bucket = await open_bucket(kind, name=os.environ.get("BUCKET", "streams"), state_folder=folder)
    await bucket.put("warm", BLOCK)  # what every first call loads is not the stream's
    warm = await bucket.get("warm")
    assert isinstance(warm, R2ObjectBody)
    await warm.bytes()
    del warm
    sent, received = hashlib.sha256(), hashlib.sha256()
    with Peak() as way_in:
        put = await bucket.put("big", source(mebibytes, sent))
    assert put is not None
    assert put.size == mebibytes * 1024 * 1024
    with Peak() as way_out:
        got = await bucket.get("big")
        assert isinstance(got, R2ObjectBody)
        async for chunk in got:
            received.update(chunk)
    assert received.digest() == sent.digest()
    await bucket.delete("big")
    await bucket.close()
    print(way_in.growth, way_out.growth)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
