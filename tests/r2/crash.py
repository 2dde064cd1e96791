"""A process that dies at a step of the `file` backend: `python -m tests.r2.crash FOLDER OPERATION STEP OCCURRENCE`.

It exits with 70 at the step, by `os._exit`: no handler, no flush, no close. With 0 when the operation ended before.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from moorage.r2 import Bucket
from moorage.r2.backends.file import FileBackend

OLD = b"old" * 60_000
NEW = b"new" * 100_000
"""Both too large for the catalogue, so that they are files."""
SMALL_OLD = b"o" * 3_000
SMALL_NEW = b"n" * 100_000


async def stream(value: bytes = NEW) -> AsyncIterator[bytes]:
    for start in range(0, len(value), 70_000):
        yield value[start : start + 70_000]


async def perform(bucket: Bucket, operation: str) -> None:
    """One of the operations that change a bucket: `k` is in a file, `s` in the catalogue."""
    if operation == "put":
        await bucket.put("k", NEW)
    elif operation == "stream":
        await bucket.put("k", stream())
    elif operation == "shrink":
        await bucket.put("k", SMALL_NEW)
    elif operation == "delete":
        await bucket.delete("k")
    elif operation == "small put":
        await bucket.put("s", SMALL_NEW)
    elif operation == "small stream":
        await bucket.put("s", stream(SMALL_NEW))
    elif operation == "grow":
        await bucket.put("s", NEW)
    elif operation == "small delete":
        await bucket.delete("s")
    elif operation == "part":
        upload = bucket.resumeMultipartUpload("k", os.environ["UPLOAD"])
        await upload.uploadPart(2, NEW)
    elif operation == "complete":
        upload = bucket.resumeMultipartUpload("k", os.environ["UPLOAD"])
        await upload.complete([{"partNumber": 1, "etag": os.environ["PART"]}])
    elif operation == "abort":
        await bucket.resumeMultipartUpload("k", os.environ["UPLOAD"]).abort()


async def main(folder: Path, operation: str, step: str, occurrence: int) -> None:
    armed = False
    seen = 0

    def checkpoint(name: str) -> None:
        nonlocal seen
        if armed and name == step:
            seen += 1
            if seen == occurrence:
                os._exit(70)

    bucket = Bucket(await FileBackend.open(folder, checkpoint=checkpoint))
    armed = True
    await perform(bucket, operation)
    await bucket.close()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
