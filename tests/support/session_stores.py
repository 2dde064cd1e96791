"""Buckets of every kind, straight and through a state plane, and files to publish on them."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from moorage.clients.sessions.objects import Objects
from moorage.clients.sessions.publish_stage import run_with
from moorage.clients.sessions.publishing import publish
from moorage.clients.sessions.reading import verify_current
from moorage.protocols.sessions.commits import Candidate, Place, Source, sha256
from moorage.protocols.sessions.identities import shared_prefix
from moorage.r2.bucket import Bucket

from .session_folder import SessionFolder
from .sessions_plane import SessionsPlane

PLACE = Place(campaign="north", session_id="s01", prefix=shared_prefix("north", "s01"))

Opened = Callable[[], Awaitable[Objects]]


class Stores:
    """One bucket, and how to reach it: straight, or through a state plane."""

    def __init__(self, bucket: Bucket, opened: Opened, plane: SessionsPlane | None = None) -> None:
        self.bucket = bucket
        self.open = opened
        self.plane = plane


def files(folder: Path, **texts: str) -> list[Candidate]:
    """Files to publish, by name."""
    folder.mkdir(exist_ok=True)
    found = []
    for name, text in texts.items():
        data = text.encode()
        (folder / f"{name}.txt").write_bytes(data)
        source = Source(type="stage_output", id=name)
        found.append(Candidate(source=source, path=f"{name}.txt", sha256=sha256(data), size=len(data)))
    return found


async def published(stores: Stores, folder: Path, run_id: str, holder: str = "h", **texts: str) -> Any:
    objects = await stores.open()
    return await publish(objects, PLACE, run_id, folder, files(folder, **texts), holder=holder)


def current(session: SessionFolder) -> Any:
    """The verified current snapshot of a session on a file bucket."""
    from moorage.clients.sessions.assembly import opener

    resolved = session.session()
    return run_with(opener(resolved), lambda objects: verify_current(objects, resolved.place))
