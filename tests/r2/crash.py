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

OLD = b"old" * 1000
NEW = b"new" * 100_000


async def stream() -> AsyncIterator[bytes]:
    for start in range(0, len(NEW), 100_000):
        yield NEW[start : start + 100_000]


async def perform(bucket: Bucket, operation: str) -> None:
    """One of the operations that change a bucket."""
    if operation == "put":
        await bucket.put("k", NEW)
    elif operation == "stream":
        await bucket.put("k", stream())
    elif operation == "delete":
        await bucket.delete("k")
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
