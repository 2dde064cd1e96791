"""A session that ran once, and buckets of every kind."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from moorage.clients.http import AsyncHttp
from moorage.clients.sessions.objects import BucketObjects, Objects
from moorage.clients.sessions.remote import WorkerObjects

from ...support.http import PlaneTransport
from ...support.plane import START_MS, WEBHOOK_SECRET
from ...support.session_folder import CALLS, SessionFolder
from ...support.session_stores import PLACE, Stores
from ...support.sessions_plane import SessionsPlane


@pytest.fixture
def done(tmp_path: Path) -> SessionFolder:
    """A session that ran through once."""
    session = SessionFolder(tmp_path)
    session.run()
    assert session.calls == CALLS
    return session


@pytest.fixture(params=["memory", "file", "moto", "worker"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stores]:
    """The same bucket for every opener."""
    if request.param == "worker":
        async with SessionsPlane() as plane:

            async def through() -> Objects:
                http = AsyncHttp(
                    "http://127.0.0.1:8787",
                    WEBHOOK_SECRET,
                    transport=PlaneTransport(plane),
                    now=lambda: START_MS / 1000 + 5,
                )
                return WorkerObjects(http, PLACE)

            yield Stores(plane.bucket, through, plane)
        return
    from moorage.r2 import open_bucket

    bucket = await open_bucket(request.param, name="snapshots", state_folder=tmp_path / "state")

    async def straight() -> Objects:
        return BucketObjects(bucket)

    yield Stores(bucket, straight)
    await bucket.close()
