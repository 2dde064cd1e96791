"""Publication: immutable commits, the conditional pointer, two publishers, a crash after every step, restoring."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from moorage.clients.errors import ClientError
from moorage.clients.http import AsyncHttp
from moorage.clients.sessions.errors import Busy, PublishRefused, SessionFailure, StageFailed
from moorage.clients.sessions.objects import BucketObjects, Objects
from moorage.clients.sessions.publish_stage import run_with
from moorage.clients.sessions.publishing import publish
from moorage.clients.sessions.reading import read_current, verify_current
from moorage.clients.sessions.remote import WorkerObjects
from moorage.clients.sessions.restoring import restore
from moorage.protocols.sessions import NARRATIO, ReadRefused, commits
from moorage.protocols.sessions.commits import Candidate, Place, Source, sha256
from moorage.protocols.sessions.identities import shared_prefix
from moorage.r2.backends.memory import MemoryBackend
from moorage.r2.bucket import Bucket

from ...support.http import PlaneTransport
from ...support.plane import START_MS, WEBHOOK_SECRET
from ...support.session_folder import CONFIG, SessionFolder
from ...support.sessions_plane import SessionsPlane

PLACE = Place(campaign="north", session_id="s01", prefix=shared_prefix("north", "s01"))
ROOT = Path(__file__).parents[3]
NOW = "2026-11-30T12:00:00Z"

Opened = Callable[[], Awaitable[Objects]]


class Stores:
    """One bucket, and how to reach it: straight, or through a state plane."""

    def __init__(self, bucket: Bucket, opened: Opened, plane: SessionsPlane | None = None) -> None:
        self.bucket = bucket
        self.open = opened
        self.plane = plane


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


# -- as a stage ------------------------------------------------------------------------------------------------------


def steps_of(session: SessionFolder, run_id: str) -> list[str]:
    seen: list[str] = []
    session.runner(run_id, step=seen.append).run()
    return seen


def current(session: SessionFolder) -> Any:
    """The verified current snapshot of a session on a file bucket."""
    from moorage.clients.sessions.assembly import opener

    resolved = session.session()
    return run_with(opener(resolved), lambda objects: verify_current(objects, resolved.place))


STEPS = [
    "pointer-read",
    *(f"artifact:{name}.txt" for name in ("t", "m", "r", "e")),
    *(f"artifact:out/{name}.md" for name in ("summary", "recap", "cast")),
    "commit",
    "pointer",
    "verified",
    "obligation",
    "deleted:spool/talk.wav",
    "completed:spool/talk.wav",
]  # fmt: skip


def test_the_steps(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    assert steps_of(session, "r1") == STEPS
    cleanup = session.manifest["post_publish_cleanup"]
    assert cleanup["run_id"] == "r1"
    assert cleanup["commit"] == session.manifest["stages"]["publish"]["metadata"]["commit"]
    (target,) = cleanup["targets"]
    assert (target["root"], target["path"], target["completed"], target["evidence"]) == (
        "spool", "talk.wav", True, "deleted",
    )  # fmt: skip
    assert not (session.folder / "spool" / "talk.wav").exists()


@pytest.mark.parametrize("step", STEPS)
def test_a_kill_after_each_step_leaves_a_readable_snapshot(tmp_path: Path, step: str) -> None:
    session = SessionFolder(tmp_path)
    session.runner("r-old").run()
    session.write("talk.wav", "hello again\n")
    session.run("--only", "prepare", "--force")
    session.run("--from", "transcribe", "--to", "analyze", "--force")
    assert (session.folder / "spool" / "talk.wav").exists()
    process = subprocess.run(
        [sys.executable, "-m", "tests.support.session_publisher", str(session.folder), "r-new", step],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert process.returncode == -9, process.stderr.decode()
    past = STEPS.index(step)
    # a reader sees the old snapshot until the pointer moved, and the new one from then on
    assert current(session).commit.run_id == ("r-old" if past < STEPS.index("pointer") else "r-new")
    assert session.states["publish"] == "running"
    cleanup = session.manifest["post_publish_cleanup"]
    owes = past >= STEPS.index("obligation")
    assert cleanup["run_id"] == ("r-new" if owes else "r-old")
    # deletion never precedes the saved obligation, completion never the deletion
    gone = not (session.folder / "spool" / "talk.wav").exists()
    assert gone == (past >= STEPS.index("deleted:spool/talk.wav"))
    assert cleanup["targets"][0]["completed"] == (not owes or past >= STEPS.index("completed:spool/talk.wav"))
    # the same run again goes on from what is there
    session.runner("r-new").run()
    assert current(session).commit.run_id == "r-new"
    assert session.states["publish"] == session.states["notify"] == "succeeded"
    assert not (session.folder / "spool" / "talk.wav").exists()
    assert all(target["completed"] for target in session.manifest["post_publish_cleanup"]["targets"])


def test_two_publishers_of_one_session_on_two_machines(tmp_path: Path) -> None:
    """B publishes while A is between reading the pointer and moving it: A is told, and its stage failed."""
    a, b = SessionFolder(tmp_path, name="a"), SessionFolder(tmp_path, name="b")
    b.write("talk.wav", "from b\n")

    def step(name: str) -> None:
        if name == "commit":
            b.runner("r-b").run()

    with pytest.raises(StageFailed) as failed:
        a.runner("r-a", step=step).run()
    assert isinstance(failed.value.original, PublishRefused)
    assert failed.value.original.kind == "lost-race"
    assert a.states["publish"] == "failed"
    assert "lost-race" in a.manifest["stages"]["publish"]["reason"]
    assert "post_publish_cleanup" not in a.manifest, "nothing authorises a clean-up"
    assert (a.folder / "spool" / "talk.wav").exists()
    assert current(a).commit.run_id == "r-b"
    assert b.states["publish"] == "succeeded"


def test_the_publish_lock_of_a_folder(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.run("--to", "analyze")
    from moorage.clients.sessions.assembly import store_of

    with store_of(session.session()).publishing():
        result = session.command("publish")
    assert result.exit_code == 1
    assert "another publisher is at work" in result.output
    assert session.command("publish").exit_code == 0
    assert current(session) is not None


def test_publish_is_reused_while_the_current_commit_is_its_own(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.run()
    assert session.run()["publish"] == "reused"
    other = SessionFolder(tmp_path, name="other")
    other.run()
    # somebody else published since: the check against the store rejects
    assert session.plan()["publish"] == "run"


def test_an_incomplete_cleanup_keeps_its_authority_and_is_tried_again(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path, CONFIG.replace('["spool/talk.wav"]', '["spool/link/x", "spool/talk.wav"]'))
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_text("precious")
    (session.folder / "spool").mkdir()
    (session.folder / "spool" / "link").symlink_to(tmp_path / "outside")
    session.runner("r1").run()
    assert (tmp_path / "outside" / "x").read_text() == "precious"
    assert session.states["publish"] == "succeeded", "the snapshot is committed"
    (line,) = session.manifest["stages"]["publish"]["metadata"]["cleanup_incomplete"]
    assert "leads out of" in line
    cleanup = session.manifest["post_publish_cleanup"]
    assert [target["completed"] for target in cleanup["targets"]] == [False, True]
    assert "clean-up owed: spool/link/x" in session.command("status").output
    # an invocation that does not execute publish cleans nothing up
    session.run("--to", "analyze")
    assert session.manifest["post_publish_cleanup"] == cleanup
    # the next publication keeps the run that authorised it, and then works it off
    session.runner("r2").run()
    assert session.manifest["post_publish_cleanup"]["run_id"] == "r1"
    (session.folder / "spool" / "link").unlink()
    session.runner("r3").run()
    assert session.manifest["post_publish_cleanup"]["run_id"] == "r3"
    assert all(target["evidence"] == "absent" for target in session.manifest["post_publish_cleanup"]["targets"])


# -- restoring -------------------------------------------------------------------------------------------------------


def test_restore_rebuilds_a_folder(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.runner("r1").run()
    result = session.command("restore", "--into", str(tmp_path / "back"), "--json")
    assert result.exit_code == 0, result.output
    back = tmp_path / "back"
    for name in ("t.txt", "m.txt", "r.txt", "e.txt", "out/summary.md", "out/recap.md", "out/cast.md"):
        assert (back / name).read_bytes() == (session.folder / name).read_bytes()
    manifest = json.loads((back / "session-manifest.json").read_text())
    # a commit proves files, and no progress
    assert {record["status"] for record in manifest["stages"].values()} == {"pending"}
    assert manifest["run_id"] == "r1"
    assert [artifact["id"] for artifact in manifest["artifacts"]][:2] == ["extract/refs", "merge/text"]
    assert (back / "moorage.session.toml").read_text() == CONFIG
    for name in ("party.json", "talk.wav"):
        shutil.copy(session.folder / name, back / name)
    restored = SessionFolder.__new__(SessionFolder)
    restored.root, restored.folder = tmp_path, back
    assert "7 files compared, 0 differ" in restored.command("verify").output
    assert "stage prepare is pending" in restored.command("run", "--from", "trim").output
    restored.run()
    assert current(restored).commit.run_id == restored.manifest["run_id"]


def test_restore_replaces_a_folder_only_when_told_and_keeps_it(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.runner("r1").run()
    session.write("m.txt", "spoiled")
    before = session.tree()
    refused = session.command("restore")
    assert refused.exit_code == 1
    assert "--replace" in refused.output
    assert session.tree() == before
    shown = json.loads(session.command("restore", "--replace", "--json").stdout)
    former = Path(shown["former"])
    assert (former / "m.txt").read_text() == "spoiled"
    assert (session.folder / "m.txt").read_text() == "hello\n"
    assert (session.folder / "moorage.session.toml").is_file()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    # twice: another name for the former folder
    second = json.loads(session.command("restore", "--replace", "--json").stdout)["former"]
    assert second != shown["former"]


def test_nothing_to_restore(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    result = session.command("restore", "--into", str(tmp_path / "back"))
    assert result.exit_code == 1
    assert "nothing is published" in result.output
    assert not (tmp_path / "back").exists()
    assert session.command("verify", "--remote").output.strip() == "nothing is published"


def test_a_restore_that_fails_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.runner("r1").run()
    found = current(session)
    from moorage.clients.sessions.assembly import opener

    async def spoil(objects: Any) -> None:
        await objects._bucket.put(found.commit.artifacts[-1].key, b"other")

    run_with(opener(session.session()), spoil)
    before = {name: data for name, data in session.tree().items() if name.startswith("session/")}
    result = session.command("restore", "--replace")
    assert result.exit_code == 1
    assert "binding-mismatch" in result.output
    assert {name: data for name, data in session.tree().items() if name.startswith("session/")} == before
    assert session.command("verify", "--remote").exit_code == 1


async def test_the_former_folder_is_never_half_replaced(tmp_path: Path) -> None:
    """Where names cannot be exchanged and the second rename fails, the former folder is back."""
    from moorage.clients.sessions import restoring

    bucket = Bucket(MemoryBackend())
    objects = BucketObjects(bucket)
    await publish(objects, PLACE, "r1", tmp_path / "w", files(tmp_path / "w", a="one"), holder="h")
    target = tmp_path / "t"
    target.mkdir()
    (target / "mine").write_text("kept")
    real = os.rename
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restoring, "_exchange", lambda one, other: False)

        def rename(source: Any, to: Any) -> None:
            if Path(source).name.startswith(".t.restoring"):
                raise OSError(5, "Input/output error")
            real(source, to)

        patch.setattr(os, "rename", rename)
        with pytest.raises(OSError, match="Input/output"):
            await restore(objects, PLACE, target, NARRATIO, lambda: NOW, replace_existing=True)
    assert (target / "mine").read_text() == "kept"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t", "w"]


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


def test_restore_does_not_take_a_folder_from_an_invocation(tmp_path: Path) -> None:
    session = SessionFolder(tmp_path)
    session.runner("r1").run()
    from moorage.clients.sessions.assembly import store_of

    with store_of(session.session()).invocation():
        result = session.command("restore", "--replace")
    assert result.exit_code == 1
    assert "an invocation is running" in result.output
    assert session.command("restore", "--replace").exit_code == 0
