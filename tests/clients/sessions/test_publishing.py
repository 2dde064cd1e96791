"""Publication: immutable commits, the conditional pointer, strict readers, publishers in a race."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from moorage.clients.errors import ClientError
from moorage.clients.http import AsyncHttp
from moorage.clients.sessions.errors import Busy, PublishRefused, SessionFailure
from moorage.clients.sessions.objects import BucketObjects, Objects
from moorage.clients.sessions.publishing import publish
from moorage.clients.sessions.reading import read_current, verify_current
from moorage.clients.sessions.remote import WorkerObjects
from moorage.clients.sessions.restoring import restore
from moorage.protocols.sessions import NARRATIO, ReadRefused, commits
from moorage.protocols.sessions.commits import Candidate, Source, sha256

from ...support.http import PlaneTransport
from ...support.plane import START_MS, WEBHOOK_SECRET
from ...support.session_stores import PLACE, Stores, files, published
from ...support.sessions_plane import SessionsPlane

NOW = "2026-11-30T12:00:00Z"


async def test_nothing_published_is_an_answer(stores: Stores) -> None:
    assert await read_current(await stores.open(), PLACE) is None


async def test_a_published_run_reads_back(stores: Stores, tmp_path: Path) -> None:
    done = await published(stores, tmp_path / "w", "r1", a="one", b="")
    assert not done.unchanged
    found = await verify_current(await stores.open(), PLACE)
    assert found is not None
    assert found == done.snapshot
    assert [(entry.source.id, entry.size) for entry in found.commit.artifacts] == [("a", 3), ("b", 0)]
    assert found.pointer.commit.key == f"{PLACE.prefix}/runs/r1/commit.json"
    head = await (await stores.open()).head(found.pointer.commit.key)
    assert head is not None
    assert head.generation == found.pointer.commit.generation
    assert await verify_current(await stores.open(), PLACE, heads_only=True) == found


async def test_the_same_run_again_changes_nothing(stores: Stores, tmp_path: Path) -> None:
    first = await published(stores, tmp_path / "w", "r1", a="one")
    again = await published(stores, tmp_path / "w", "r1", a="one")
    assert again.unchanged
    assert again.snapshot == first.snapshot


async def test_other_bytes_under_a_key_of_the_run_are_refused(stores: Stores, tmp_path: Path) -> None:
    first = await published(stores, tmp_path / "w", "r1", a="one")
    for texts in ({"a": "two"}, {"a": "one", "b": "more"}):
        with pytest.raises(PublishRefused) as refused:
            await published(stores, tmp_path / "w", "r1", **texts)
        assert refused.value.kind == "binding-mismatch"
    assert (await read_current(await stores.open(), PLACE)) == first.snapshot


async def test_a_file_that_changed_since_it_was_recorded_is_refused(stores: Stores, tmp_path: Path) -> None:
    candidates = files(tmp_path / "w", a="one")
    (tmp_path / "w" / "a.txt").write_text("two")
    with pytest.raises(PublishRefused, match="run its stage again"):
        await publish(await stores.open(), PLACE, "r1", tmp_path / "w", candidates, holder="h")
    (tmp_path / "w" / "a.txt").unlink()
    with pytest.raises(PublishRefused, match="gone"):
        await publish(await stores.open(), PLACE, "r1", tmp_path / "w", candidates, holder="h")
    assert await read_current(await stores.open(), PLACE) is None


async def test_the_loser_of_a_race_is_told(stores: Stores, tmp_path: Path) -> None:
    """B publishes as a whole between A's reading of the pointer and A's writing of it."""
    first = await published(stores, tmp_path / "o", "r0", a="zero")
    straight = BucketObjects(stores.bucket)

    class Overtaken:
        """A's store; the rival is one that needs no lease, as another machine straight on the bucket."""

        def __init__(self, objects: Objects) -> None:
            self._objects = objects

        def __getattr__(self, name: str) -> Any:
            return getattr(self._objects, name)

        async def move_pointer(self, *arguments: Any) -> Any:
            await publish(straight, PLACE, "rB", tmp_path / "b", files(tmp_path / "b", a="B"), holder="b")
            return await self._objects.move_pointer(*arguments)

    overtaken: Any = Overtaken(await stores.open())
    with pytest.raises(PublishRefused) as refused:
        await publish(overtaken, PLACE, "rA", tmp_path / "a", files(tmp_path / "a", a="A"), holder="a")
    assert refused.value.kind == "lost-race"
    assert "run rB" in str(refused.value)
    found = await verify_current(await stores.open(), PLACE)
    assert found is not None
    assert found.commit.run_id == "rB"
    # both runs and the former one are there, whole
    for run_id in ("r0", "rA", "rB"):
        assert await stores.bucket.head(PLACE.commit_key(run_id)) is not None
    assert first.snapshot.commit.run_id == "r0"


async def test_many_publishers_one_pointer(stores: Stores, tmp_path: Path) -> None:
    """Of publishers that read the same pointer at most one moves it; a reader at any moment sees a whole commit."""
    await published(stores, tmp_path / "o", "r0", a="zero")
    seen: list[str] = []

    async def one(number: int) -> str:
        try:
            folder = tmp_path / f"w{number}"
            await published(stores, folder, f"r{number}", f"h{number}", a=f"text {number}")
        except (PublishRefused, Busy) as error:
            return str(error).split(":")[0]
        return "won"

    async def reader() -> None:
        while len(seen) < 15:
            found = await verify_current(await stores.open(), PLACE)
            assert found is not None
            seen.append(found.commit.run_id)
            await asyncio.sleep(0)

    outcomes = (await asyncio.gather(*(one(number) for number in range(1, 6)), reader()))[:-1]
    assert "won" in outcomes
    found = await verify_current(await stores.open(), PLACE)
    assert found is not None
    assert outcomes[int(found.commit.run_id[1:]) - 1] == "won"


async def test_a_repeated_pointer_write_finds_itself(stores: Stores, tmp_path: Path) -> None:
    """The answer of the conditional write was lost, and the retry is refused because of the first."""

    class Deaf:
        def __init__(self, objects: Objects) -> None:
            self._objects = objects

        def __getattr__(self, name: str) -> Any:
            return getattr(self._objects, name)

        async def move_pointer(self, *arguments: Any) -> Any:
            assert await self._objects.move_pointer(*arguments) is not None
            return await self._objects.move_pointer(*arguments)

    deaf: Any = Deaf(await stores.open())
    done = await publish(deaf, PLACE, "r1", tmp_path / "w", files(tmp_path / "w", a="one"), holder="h")
    assert done.unchanged
    assert done.snapshot.commit.run_id == "r1"


SPOILED: list[tuple[str, str]] = [
    ("pointer-bytes", "malformed"),
    ("pointer-field", "malformed"),
    ("pointer-version", "unsupported-version"),
    ("pointer-session", "identity-mismatch"),
    ("commit-gone", "missing-object"),
    ("commit-replaced", "binding-mismatch"),
    ("commit-other", "binding-mismatch"),
    ("artifact-gone", "missing-object"),
    ("artifact-other", "binding-mismatch"),
    ("artifact-replaced", "binding-mismatch"),
]


@pytest.mark.parametrize(("what", "kind"), SPOILED)
async def test_every_mismatch_is_refused(stores: Stores, tmp_path: Path, what: str, kind: str) -> None:
    done = await published(stores, tmp_path / "w", "r1", a="one")
    bucket, snapshot = stores.bucket, done.snapshot
    pointer = json.loads(commits.encode(snapshot.pointer))
    artifact = snapshot.commit.artifacts[0]
    match what.split("-"):
        case ["pointer", how]:
            changed = {
                "bytes": b"{",
                "field": json.dumps({**pointer, "extra": 1}).encode(),
                "version": json.dumps({**pointer, "schema_version": "v9"}).encode(),
                "session": json.dumps({**pointer, "session_id": "s02"}).encode(),
            }[how]
            await bucket.put(PLACE.pointer_key, changed)
        case ["commit", "gone"]:
            await bucket.delete(snapshot.pointer.commit.key)
        case ["commit", how]:
            data = commits.encode(snapshot.commit)
            await bucket.put(snapshot.pointer.commit.key, data if how == "replaced" else data + b" ")
        case ["artifact", "gone"]:
            await bucket.delete(artifact.key)
        case ["artifact", how]:
            # the same bytes written again are another generation
            await bucket.put(artifact.key, b"one" if how == "replaced" else b"two")
    for heads_only in (False, True):
        with pytest.raises(ReadRefused) as refused:
            await verify_current(await stores.open(), PLACE, heads_only=heads_only)
        assert refused.value.kind == kind
    with pytest.raises(ReadRefused):
        await restore(await stores.open(), PLACE, tmp_path / "restored", NARRATIO, lambda: NOW)
    assert not (tmp_path / "restored").exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".restored")] == []


async def test_large_artifacts_go_in_parts(stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from moorage.protocols.sessions import shared

    size = shared.PART_BYTES + 1234
    folder = tmp_path / "w"
    folder.mkdir()
    data = bytes(range(256)) * (size // 256 + 1)
    (folder / "big.bin").write_bytes(data[:size])
    source = Source(type="stage_output", id="big")
    candidate = Candidate(source=source, path="big.bin", sha256=sha256(data[:size]), size=size)
    for _ in range(2):
        done = await publish(await stores.open(), PLACE, "r1", folder, [candidate], holder="h")
    assert done.unchanged
    restored = await restore(await stores.open(), PLACE, tmp_path / "back", NARRATIO, lambda: NOW)
    assert restored.former is None
    assert (tmp_path / "back" / "big.bin").read_bytes() == data[:size]
    left = await stores.bucket.list({"prefix": f"{PLACE.prefix}/uploads/"})
    assert list(left.objects) == []


async def test_a_plane_without_the_routes_is_told_from_an_empty_one(tmp_path: Path) -> None:
    async with SessionsPlane() as plane:
        http = AsyncHttp(
            "http://127.0.0.1:8787/other",
            WEBHOOK_SECRET,
            transport=PlaneTransport(plane),
            now=lambda: START_MS / 1000 + 5,
        )
        with pytest.raises(ClientError, match="no session routes"):
            await read_current(WorkerObjects(http, PLACE), PLACE)
        assert issubclass(SessionFailure, ClientError)


async def test_a_publisher_that_was_stopped_past_its_lease_is_told(tmp_path: Path) -> None:
    """A is stopped right before it moves the pointer; its lease runs out, B publishes, A goes on."""
    async with SessionsPlane() as plane:

        def opened() -> WorkerObjects:
            http = AsyncHttp(
                "http://127.0.0.1:8787",
                WEBHOOK_SECRET,
                transport=PlaneTransport(plane),
                now=lambda: plane.clock.now() / 1000 + 5,
            )
            return WorkerObjects(http, PLACE, ttl_seconds=60)

        class Stopped:
            def __init__(self, objects: Objects) -> None:
                self._objects = objects

            def __getattr__(self, name: str) -> Any:
                return getattr(self._objects, name)

            async def move_pointer(self, *arguments: Any) -> Any:
                rival = files(tmp_path / "b", a="B")
                with pytest.raises(Busy, match="another publisher"):
                    await publish(opened(), PLACE, "rB", tmp_path / "b", rival, holder="b")
                await plane.clock.advance(60_001)
                await publish(opened(), PLACE, "rB", tmp_path / "b", rival, holder="b")
                return await self._objects.move_pointer(*arguments)

        stopped: Any = Stopped(opened())
        with pytest.raises(PublishRefused) as refused:
            await publish(stopped, PLACE, "rA", tmp_path / "a", files(tmp_path / "a", a="A"), holder="a")
        assert refused.value.kind == "lease-lost"
        found = await verify_current(opened(), PLACE)
        assert found is not None
        assert found.commit.run_id == "rB"
