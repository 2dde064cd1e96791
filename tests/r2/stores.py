"""Buckets for tests: one of every backend, each empty and its own.

`R2_TEST_ENDPOINT_URL`, with `R2_TEST_ACCESS_KEY_ID` and `R2_TEST_SECRET_ACCESS_KEY` where the store looks at them,
sends the `s3` kind to another store than the simulated one.
"""

import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from moorage.r2 import Bucket, open_bucket
from moorage.r2.backends.common import wall_clock
from moorage.r2.backends.moto import acquire_server, release_server
from moorage.r2.backends.s3_settings import S3Settings

KINDS = ("memory", "file", "s3", "moto")
KEY_ID = os.environ.get("R2_TEST_ACCESS_KEY_ID", "test-key")
SECRET = os.environ.get("R2_TEST_SECRET_ACCESS_KEY", "test-secret")


class HandClock:
    """Milliseconds since 1970, moved by hand."""

    def __init__(self, ms: int = 1_700_000_000_500) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms

    def advance(self, ms: int) -> None:
        self.ms += ms


@contextmanager
def s3_environment() -> Iterator[tuple[str, dict[str, str]]]:
    """A new S3 bucket: its name, and the environment that leads the `s3` backend to it."""
    url = os.environ["R2_TEST_ENDPOINT_URL"] if "R2_TEST_ENDPOINT_URL" in os.environ else acquire_server().url
    try:
        bucket = f"tests-{secrets.token_hex(8)}"
        environment = {
            "R2_ENDPOINT_URL": url,
            "R2_ACCESS_KEY_ID": KEY_ID,
            "R2_SECRET_ACCESS_KEY": SECRET,
            "R2_REGION": "us-east-1",
        }
        client = raw_client(url)
        client.create_bucket(Bucket=bucket)
        client.close()
        yield bucket, environment
    finally:
        if "R2_TEST_ENDPOINT_URL" not in os.environ:
            release_server()


def raw_client(url: str) -> Any:
    """A plain S3 client, as another program would use."""
    return S3Settings(KEY_ID, SECRET, url, region="us-east-1").client(proxies=False)


@asynccontextmanager
async def bucket_of(kind: str, folder: Path, clock: HandClock | None = None) -> AsyncIterator[Bucket]:
    """An empty bucket on a backend of that kind."""
    now = clock or wall_clock
    if kind == "s3":
        with s3_environment() as (name, environment):
            bucket = await open_bucket("s3", name=name, environment=environment, now=now)
            try:
                yield bucket
            finally:
                await bucket.close()
        return
    bucket = await open_bucket(kind, name="tests", state_folder=folder, now=now)
    try:
        yield bucket
    finally:
        await bucket.close()
