"""The `file` backend when things go wrong: dying processes, failing disks, failing commits."""

import asyncio
import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from moorage.r2 import Bucket, R2Error, R2ObjectBody
from moorage.r2.backends.file import FileBackend
from moorage.r2.backends.file_blobs import STEPS, UNSYNCED, BlobStore

from .crash import NEW, OLD, SMALL_NEW, SMALL_OLD

ROOT = Path(__file__).resolve().parents[2]


async def opened(folder: Path) -> Bucket:
    return Bucket(await FileBackend.open(folder))


async def content(bucket: Bucket, key: str = "k") -> bytes | None:
    found = await bucket.get(key)
    if found is None:
        return None
    assert isinstance(found, R2ObjectBody)
    data: bytes = await found.bytes()
    assert len(data) == found.size
    return data


def files(folder: Path) -> dict[str, int]:
    """Blobs and staged names on disk."""
    blobs = [path for path in (folder / "blobs").rglob("*") if path.is_file()]
    return {"blobs": len(blobs), "staged": len(list((folder / "staging").iterdir()))}


def rows(folder: Path, table: str) -> int:
    connection = sqlite3.connect(folder / "bucket.sqlite")
    try:
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(count)
    finally:
        connection.close()


WRITING = (
    "opened",
    "written",
    "synced",
    "linked",
    "folder synced",
    "row written",
    "committed",
    "unstaged",
    "unlinked",
)
COMMITTING = ("row written", "committed", "unlinked")
CRASHES = [
    *(("put", step) for step in WRITING),
    *(("stream", step) for step in WRITING),
    *(("part", step) for step in WRITING[:-1]),
    *(("shrink", step) for step in COMMITTING),
    *(("grow", step) for step in WRITING[:-1]),
    *(("small put", step) for step in COMMITTING[:-1]),
    *(("small stream", step) for step in COMMITTING[:-1]),
    *(("small delete", step) for step in COMMITTING[:-1]),
    *(("delete", step) for step in COMMITTING),
    *(("complete", step) for step in COMMITTING),
    *(("abort", step) for step in COMMITTING),
]


def test_every_step_is_crashed_at() -> None:
    assert set(WRITING) == set(STEPS)


@pytest.mark.parametrize(("operation", "step"), CRASHES, ids=lambda value: value)
async def test_a_process_that_dies_leaves_the_old_or_the_new(tmp_path: Path, operation: str, step: str) -> None:
    bucket = await opened(tmp_path)
    await bucket.put("k", OLD)
    await bucket.put("s", SMALL_OLD)
    await bucket.put("other", b"other")
    upload = await bucket.createMultipartUpload("k")
    part = await upload.uploadPart(1, NEW)
    await bucket.close()

    command = [sys.executable, "-m", "tests.r2.crash", str(tmp_path), operation, step, "1"]
    environment = {**os.environ, "UPLOAD": upload.uploadId, "PART": part.etag}
    child = await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=environment, stderr=subprocess.PIPE)
    _, errors = await child.communicate()
    assert child.returncode == 70, errors.decode()

    bucket = await opened(tmp_path)
    committed = step in {"committed", "unstaged", "unlinked"}
    large = {"put": NEW, "stream": NEW, "complete": NEW, "delete": None, "shrink": SMALL_NEW}
    small = {"small put": SMALL_NEW, "small stream": SMALL_NEW, "grow": NEW, "small delete": None}
    assert await content(bucket, "k") == (large.get(operation, OLD) if committed else OLD)
    assert await content(bucket, "s") == (small.get(operation, SMALL_OLD) if committed else SMALL_OLD)
    assert await content(bucket, "other") == b"other"
    # nothing is left but what rows point at
    parts = rows(tmp_path, "parts")
    assert files(tmp_path) == {"blobs": parts + rows(tmp_path, "objects where blob IS NOT NULL"), "staged": 0}
    assert rows(tmp_path, "contents") == rows(tmp_path, "objects where content IS NOT NULL")
    # and the bucket goes on working, the upload included
    await bucket.put("k", b"next")
    assert await content(bucket) == b"next"
    resumed = bucket.resumeMultipartUpload("k", upload.uploadId)
    if operation in {"complete", "abort"} and committed:
        with pytest.raises(R2Error, match="10024"):
            await resumed.complete([part])
    else:
        assert (await resumed.complete([part])).size == len(NEW)
    await bucket.close()


class Failure:
    """A checkpoint that fails once at a step, as the disk would."""

    def __init__(self) -> None:
        self.step = ""
        self.error: Exception = OSError(errno.ENOSPC, "No space left on device")

    def __call__(self, step: str) -> None:
        if step == self.step:
            self.step = ""
            raise self.error


@pytest.mark.parametrize("step", WRITING)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_a_step_that_fails_leaves_nothing_half(tmp_path: Path, step: str, streamed: bool) -> None:
    failure = Failure()
    bucket = Bucket(await FileBackend.open(tmp_path, checkpoint=failure))
    await bucket.put("k", OLD)

    async def stream() -> AsyncIterator[bytes]:
        yield NEW

    failure.step = step
    if step in {"unstaged", "unlinked"}:  # after the commit nothing can fail the put any more
        await bucket.put("k", stream() if streamed else NEW)
    else:
        with pytest.raises(
            R2Error, match=r"^put: We encountered an internal error. Please try again. \(10001\)$"
        ) as caught:
            await bucket.put("k", stream() if streamed else NEW)
        cause = caught.value.__cause__
        assert cause is not None
        assert "No space left" in str(cause)
    survives = NEW if step in {"committed", "unstaged", "unlinked"} else OLD
    assert await content(bucket) == survives
    if step not in {"row written", "committed", "unstaged", "unlinked"}:
        assert files(tmp_path) == {"blobs": 1, "staged": 0}
    await bucket.put("k", OLD)
    assert await content(bucket) == OLD
    await bucket.close()
    bucket = await opened(tmp_path)
    assert await content(bucket) == OLD
    assert files(tmp_path) == {"blobs": 1, "staged": 0}
    await bucket.close()


@pytest.mark.parametrize("step", ["row written", "committed"])
async def test_a_small_value_that_cannot_be_committed_leaves_nothing_half(tmp_path: Path, step: str) -> None:
    failure = Failure()
    bucket = Bucket(await FileBackend.open(tmp_path, checkpoint=failure))
    await bucket.put("k", SMALL_OLD)
    failure.step = step
    with pytest.raises(R2Error, match=r"^put: .*\(10001\)$"):
        await bucket.put("k", SMALL_NEW)
    # after the commit it is there, though its writer was told otherwise: durable, and whole
    assert await content(bucket) == (SMALL_NEW if step == "committed" else SMALL_OLD)
    assert rows(tmp_path, "contents") == 1
    await bucket.put("k", b"next")
    assert await content(bucket) == b"next"
    await bucket.close()
    bucket = await opened(tmp_path)
    assert await content(bucket) == b"next"
    assert rows(tmp_path, "contents") == 1
    await bucket.close()


FULL = """
import asyncio, resource, sys
from pathlib import Path
from moorage.r2 import R2Error, open_bucket

async def big():
    for _ in range(20):
        yield bytes(100_000)

async def main():
    bucket = await open_bucket("file", name="b", state_folder=Path(sys.argv[1]))
    await bucket.put("k", b"old")
    # no file may grow beyond this: the kernel cuts a write short and then refuses it, as a full disk does
    resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))
    for value in (big(), bytes(2_000_000), *(bytes([number]) * 120_000 for number in range(5))):
        try:
            await bucket.put("k", value)
        except R2Error as error:
            print(error.code, type(error.__cause__).__name__)
        print(len(await (await bucket.get("k")).bytes()))
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    await bucket.put("k", b"new")
    await bucket.close()

asyncio.run(main())
"""


async def test_a_disk_that_refuses_bytes(tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FULL, str(tmp_path), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, errors = await child.communicate()
    lines = output.decode().split()
    assert lines[:6] == ["10001", "OSError", "3", "10001", "OSError", "3"], errors.decode()
    # some small values find room in the log that is there; then the log may not grow, and the last one stays
    rest = lines[6:]
    first = rest.index("10001")
    assert 0 < first < 5
    assert rest == ["120000"] * first + ["10001", "CommitFailed", "120000"] * (5 - first), errors.decode()
    assert files(tmp_path / "r2" / "b") == {"blobs": 0, "staged": 0}
    bucket = await opened(tmp_path / "r2" / "b")
    assert await content(bucket) == b"new"
    await bucket.close()


async def test_a_refused_condition_leaves_no_bytes(tmp_path: Path) -> None:
    bucket = await opened(tmp_path)
    await bucket.put("k", OLD)
    for value in (NEW, SMALL_NEW):
        assert await bucket.put("k", value, onlyIf={"etagDoesNotMatch": "*"}) is None
    assert files(tmp_path) == {"blobs": 1, "staged": 0}
    assert rows(tmp_path, "contents") == 0
    await bucket.close()


async def test_replaced_bytes_stay_while_a_reader_of_parts_has_them(tmp_path: Path) -> None:
    bucket = await opened(tmp_path)
    upload = await bucket.createMultipartUpload("k")
    parts = [await upload.uploadPart(number, bytes([number]) * 5 * 1024**2) for number in (1, 2)]
    await upload.complete(parts)
    reader = await bucket.get("k")
    assert isinstance(reader, R2ObjectBody)
    await bucket.put("k", NEW)
    assert files(tmp_path)["blobs"] == 3
    assert len(await reader.bytes()) == 10 * 1024**2
    await bucket.close()  # waits for the removal that the reader's end began
    assert files(tmp_path)["blobs"] == 1


async def test_concurrent_writes_share_commits(tmp_path: Path) -> None:
    commits = 0

    def count(step: str) -> None:
        nonlocal commits
        commits += step == "committed"

    bucket = Bucket(await FileBackend.open(tmp_path, checkpoint=count))
    backend = bucket.backend
    assert isinstance(backend, FileBackend)
    await asyncio.gather(*(bucket.put(f"k{number}", b"x") for number in range(64)))
    assert commits < 64
    assert len((await bucket.list()).objects) == 64
    await bucket.close()


async def test_one_failing_write_of_a_group_fails_alone(tmp_path: Path) -> None:
    bucket = await opened(tmp_path)
    results = await asyncio.gather(
        *(bucket.put(f"k{number}", b"x") for number in range(8)),
        bucket.resumeMultipartUpload("k", "unknown").uploadPart(1, b"x"),
        *(bucket.put(f"k{number}", b"x") for number in range(8, 16)),
        return_exceptions=True,
    )
    assert sum(isinstance(result, R2Error) for result in results) == 1
    assert len((await bucket.list()).objects) == 16
    await bucket.close()


async def test_commits_are_synced(tmp_path: Path) -> None:
    """`synchronous` must be FULL in WAL mode: NORMAL would lose acknowledged puts in a power cut."""
    bucket = await opened(tmp_path)
    backend = bucket.backend
    assert isinstance(backend, FileBackend)

    def ask(connection: sqlite3.Connection) -> tuple[str, int]:
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        (level,) = connection.execute("PRAGMA synchronous").fetchone()
        return mode, level

    assert await backend._write(ask) == ("wal", 2)
    await bucket.close()


async def test_the_order_of_syncs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are synced before they are linked, the link before the row is written."""
    events: list[str] = []
    bucket = Bucket(await FileBackend.open(tmp_path, checkpoint=events.append))
    real = os.fsync

    def fsync(descriptor: int) -> None:
        events.append("fsync folder" if os.path.isdir(f"/proc/self/fd/{descriptor}") else "fsync file")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    await bucket.put("k", OLD)
    # a new folder for the link may be synced before it
    linked = events.index("linked")
    order = [event for event in events[:linked] if event != "fsync folder"] + events[linked:]
    assert order == [
        "opened", "written", "fsync file", "synced", "linked", "fsync folder", "folder synced", "row written",
        "committed", "unstaged",
    ]  # fmt: skip
    events.clear()
    await bucket.put("s", SMALL_NEW)  # the commit's own sync is the only one: `test_commits_are_synced`
    assert events == ["row written", "committed"]
    await bucket.close()


async def test_two_buckets_on_one_folder(tmp_path: Path) -> None:
    """A second opener does not sweep the first one's staged bytes, and both see each other's commits."""
    reached, go = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"x" * 600_000
        reached.set()
        await go.wait()
        yield b"y"

    first = await opened(tmp_path)
    upload = asyncio.create_task(first.put("slow", slow()))
    await reached.wait()
    second = await opened(tmp_path)
    assert files(tmp_path)["staged"] == 1
    go.set()
    await upload
    assert await content(second, "slow") == b"x" * 600_000 + b"y"
    results = await asyncio.gather(
        *(bucket.put("race", b"x", onlyIf={"etagDoesNotMatch": "*"}) for bucket in (first, second) for _ in range(5))
    )
    assert sum(result is not None for result in results) == 1
    await first.close()
    await second.close()


async def test_missing_bytes_are_an_error_and_not_an_empty_body(tmp_path: Path) -> None:
    bucket = await opened(tmp_path)
    await bucket.put("k", OLD)
    (blob,) = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    os.truncate(blob, 10)
    found = await bucket.get("k")
    assert isinstance(found, R2ObjectBody)
    with pytest.raises(R2Error, match="10001"):
        await found.bytes()
    blob.unlink()
    with pytest.raises(R2Error, match="10001"):
        await bucket.get("k")
    await bucket.close()


async def test_a_catalogue_of_another_version_is_refused(tmp_path: Path) -> None:
    await (await opened(tmp_path)).close()
    connection = sqlite3.connect(tmp_path / "bucket.sqlite")
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(sqlite3.DatabaseError, match="version 7"):
        await opened(tmp_path)


async def test_odd_names(tmp_path: Path) -> None:
    bucket = await opened(tmp_path)
    for key in ("new\nline", "nul\0byte", "\ud83d\ude00", "lone \ud800"):
        await bucket.put(key, key.encode("utf-8", "replace"))
    keys = [item.key for item in (await bucket.list()).objects]
    assert keys == sorted(["new\nline", "nul\0byte", "😀", "lone \ufffd"], key=str.encode)
    await bucket.close()


async def test_a_note_of_garbage_stays_until_the_removal_is_durable(tmp_path: Path) -> None:
    """Else a power cut could bring the file back, and nothing would ever lead to it again."""
    backend = await FileBackend.open(tmp_path)
    bucket = Bucket(backend)
    await bucket.put("k", NEW)
    (blob,) = [path for path in (tmp_path / "blobs").rglob("*") if path.is_file()]
    await bucket.delete("k")
    assert not blob.exists()
    await bucket.put("other", b"x")
    assert rows(tmp_path, "garbage") == 1
    await bucket.close()
    # the next start removes it once more, should it have come back
    blob.write_bytes(NEW)
    backend = await FileBackend.open(tmp_path)
    assert not blob.exists()
    assert rows(tmp_path, "garbage") == 1
    backend._blobs.sync(blob.parent)  # as the next blob of the folder does
    await Bucket(backend).put("other", b"y")
    assert rows(tmp_path, "garbage") == 0
    await backend.close()


def test_folders_with_much_garbage_are_synced(tmp_path: Path) -> None:
    store = BlobStore(tmp_path)
    names = [f"aa{number}" for number in range(UNSYNCED + 1)]
    store.remove_all(names[:-2])
    assert store.forgettable == set()
    store.remove_all(names[-2:])
    assert store.forgettable == set(names[:-1])
