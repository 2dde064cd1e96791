"""The catalogue of the `file` backend: which values it holds, older layouts, reading without a thread."""

import asyncio
import hashlib
import os
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from moorage.r2 import Bucket, R2Error, R2ObjectBody
from moorage.r2.backends.file import INLINE_BYTES, FileBackend
from moorage.r2.backends.file_blobs import nothing
from moorage.r2.backends.file_catalogue import AWAY_SECONDS, VERSION, Catalogue, _Task
from moorage.r2.checksums import multipart_etag

from .test_file_faults import content, files, opened, rows

# what version 1 of this program made, as it made it
FIRST_SCHEMA = """
CREATE TABLE objects (
    key BLOB PRIMARY KEY, blob TEXT, upload TEXT, version TEXT NOT NULL, size INTEGER NOT NULL, etag TEXT NOT NULL,
    uploaded INTEGER NOT NULL, checksums TEXT NOT NULL, http_metadata TEXT NOT NULL, custom_metadata TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE uploads (
    upload TEXT PRIMARY KEY, key BLOB NOT NULL, http_metadata TEXT NOT NULL, custom_metadata TEXT NOT NULL,
    created INTEGER NOT NULL, open INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;
CREATE TABLE parts (
    upload TEXT NOT NULL, number INTEGER NOT NULL, blob TEXT NOT NULL, size INTEGER NOT NULL, etag TEXT NOT NULL,
    md5 TEXT NOT NULL, PRIMARY KEY (upload, number)
) WITHOUT ROWID;
CREATE TABLE garbage (blob TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE INDEX objects_by_blob ON objects (blob) WHERE blob IS NOT NULL;
CREATE INDEX parts_by_blob ON parts (blob);
PRAGMA user_version = 1;
"""


def first_layout(folder: Path) -> dict[str, bytes]:
    """A bucket as version 1 left it: an object in a file, one of parts, an open upload, garbage, a staged name."""
    (folder / "staging").mkdir(parents=True)
    values = {"small": b"small", "large": os.urandom(300_000)}
    connection = sqlite3.connect(folder / "bucket.sqlite")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(FIRST_SCHEMA)

    def blob(data: bytes, *, staged: bool = False) -> str:
        name = os.urandom(20).hex()
        (folder / "blobs" / name[:2]).mkdir(parents=True, exist_ok=True)
        (folder / "blobs" / name[:2] / name).write_bytes(data)
        if staged:
            (folder / "staging" / name).write_bytes(data)
        return name

    def add(key: str, blob: str | None, upload: str | None, size: int, etag: str) -> None:
        connection.execute(
            "INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?, 1700000000000, '{}', ?, ?)",
            (key.encode(), blob, upload, "0" * 32, size, etag, '{"contentType":"text/plain"}', '{"a":"1"}'),
        )

    for key, value in values.items():
        add(key, blob(value), None, len(value), hashlib.md5(value).hexdigest())
    parts = [os.urandom(5 * 1024**2), b"end"]
    values["parts"] = b"".join(parts)
    connection.execute("INSERT INTO uploads VALUES ('done', ?, '{}', '{}', 0, 0)", (b"parts",))
    for number, part in enumerate(parts, 1):
        md5 = hashlib.md5(part).hexdigest()
        connection.execute(
            "INSERT INTO parts VALUES ('done', ?, ?, ?, ?, ?)", (number, blob(part), len(part), f"e{number}", md5)
        )
    etag = multipart_etag([hashlib.md5(part).hexdigest() for part in parts])
    add("parts", None, "done", len(values["parts"]), etag)
    connection.execute("INSERT INTO uploads VALUES ('open', ?, '{}', '{}', 0, 1)", (b"new",))
    open_part = blob(b"open part", staged=True)
    connection.execute(
        "INSERT INTO parts VALUES ('open', 1, ?, 9, 'o1', ?)", (open_part, hashlib.md5(b"open part").hexdigest())
    )
    connection.execute("INSERT INTO garbage VALUES (?)", (blob(b"replaced long ago"),))
    blob(b"never committed", staged=True)
    connection.commit()
    connection.close()
    return values


async def test_a_bucket_of_the_first_layout_goes_on(tmp_path: Path) -> None:
    values = first_layout(tmp_path)
    bucket = await opened(tmp_path)
    for key, value in values.items():
        assert await content(bucket, key) == value
        head = await bucket.head(key)
        assert head is not None
        assert (head.customMetadata, head.httpMetadata) == ({"a": "1"}, {"contentType": "text/plain"})
    # two objects' files, three parts; the garbage and what was never committed are gone
    assert files(tmp_path) == {"blobs": 5, "staged": 0}
    upload = bucket.resumeMultipartUpload("new", "open")
    assert (await upload.complete([{"partNumber": 1, "etag": "o1"}])).size == 9
    await bucket.put("small", b"now in the catalogue")
    await bucket.put("parts", b"this one too")
    assert files(tmp_path) == {"blobs": 2, "staged": 0}
    assert rows(tmp_path, "contents") == 2
    assert [item.key for item in (await bucket.list()).objects] == ["large", "new", "parts", "small"]
    await bucket.close()
    bucket = await opened(tmp_path)
    assert await content(bucket, "small") == b"now in the catalogue"
    assert await content(bucket, "large") == values["large"]
    await bucket.close()


async def test_another_process_must_close_an_older_layout_first(tmp_path: Path) -> None:
    """It would go on with what it knows, and take a small object for an empty one."""
    values = first_layout(tmp_path)
    other = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    import fcntl

    fcntl.flock(other, fcntl.LOCK_SH)
    try:
        with pytest.raises(sqlite3.DatabaseError, match="close the other process"):
            await opened(tmp_path)
    finally:
        os.close(other)
    bucket = await opened(tmp_path)
    assert await content(bucket, "small") == values["small"]
    await bucket.close()


async def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    first_layout(tmp_path)
    with sqlite3.connect(tmp_path / "bucket.sqlite") as connection:
        connection.execute("CREATE TABLE contents (in_the_way)")
    connection.close()
    with pytest.raises(sqlite3.OperationalError, match="already exists"):
        await opened(tmp_path)
    with sqlite3.connect(tmp_path / "bucket.sqlite") as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (1,)
        assert "content" not in {row[1] for row in connection.execute("PRAGMA table_info(objects)")}
        connection.execute("DROP TABLE contents")
    connection.close()
    await (await opened(tmp_path)).close()


async def test_old_and_new_layouts_have_the_same_tables(tmp_path: Path) -> None:
    def tables(folder: Path) -> dict[str, list[Any]]:
        connection = sqlite3.connect(folder / "bucket.sqlite")
        try:
            assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)
            names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {
                name: [row[1:] for row in connection.execute(f"PRAGMA table_info({name})")] for name in sorted(names)
            }
        finally:
            connection.close()

    old, new = tmp_path / "old", tmp_path / "new"
    first_layout(old)
    for folder in (old, new):
        await (await opened(folder)).close()
    assert tables(old) == tables(new)


@pytest.mark.parametrize("size", [0, 1, INLINE_BYTES - 1, INLINE_BYTES, INLINE_BYTES + 1])
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_the_size_decides_where_bytes_are_kept(tmp_path: Path, size: int, streamed: bool) -> None:
    data = os.urandom(size)

    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, size, 50_000):
            yield data[start : start + 50_000]

    bucket = await opened(tmp_path)
    put = await bucket.put("k", pieces() if streamed else data, sha256=hashlib.sha256(data).hexdigest())
    assert put is not None
    assert put.etag == hashlib.md5(data).hexdigest()
    small = size <= INLINE_BYTES
    assert (rows(tmp_path, "contents"), files(tmp_path)["blobs"]) == ((1, 0) if small else (0, 1))
    assert await content(bucket) == data
    if size > 2:
        ranged = await bucket.get("k", range={"offset": 1, "length": size - 2})
        assert isinstance(ranged, R2ObjectBody)
        assert await ranged.bytes() == data[1:-1]
    await bucket.delete("k")
    assert (rows(tmp_path, "contents"), files(tmp_path)["blobs"]) == (0, 0)
    await bucket.close()


async def test_a_wrong_checksum_of_a_small_value_fails_alone(tmp_path: Path) -> None:
    """It is found in the transaction that others share."""
    bucket = await opened(tmp_path)
    wrong = {"sha256": "0" * 64}
    results = await asyncio.gather(
        *(bucket.put(f"k{number}", b"x", wrong if number % 3 == 0 else None) for number in range(12)),
        return_exceptions=True,
    )
    assert [isinstance(result, R2Error) for result in results] == [number % 3 == 0 for number in range(12)]
    kept = [item.key for item in (await bucket.list()).objects]
    assert kept == sorted(f"k{number}" for number in range(12) if number % 3)
    assert rows(tmp_path, "contents") == len(kept)
    await bucket.close()


async def test_an_open_small_body_survives_overwrite_and_delete(tmp_path: Path) -> None:
    bucket = await opened(tmp_path)
    await bucket.put("k", b"old")
    first, second = await bucket.get("k"), await bucket.get("k")
    await bucket.put("k", b"new")
    await bucket.delete("k")
    await bucket.put("k", b"third")  # it may get the row number of the first
    for body in (first, second):
        assert isinstance(body, R2ObjectBody)
        assert await body.bytes() == b"old"
    await bucket.close()


async def test_lost_content_is_an_error_and_not_an_empty_body(tmp_path: Path) -> None:
    bucket = await opened(tmp_path)
    await bucket.put("k", b"here")
    with sqlite3.connect(tmp_path / "bucket.sqlite") as connection:
        connection.execute("DELETE FROM contents")
    connection.close()
    with pytest.raises(R2Error, match="10001"):
        await bucket.get("k")
    await bucket.close()


# looks


class Clock:
    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def thread_of(_connection: sqlite3.Connection) -> str:
    return threading.current_thread().name


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def catalogue(tmp_path: Path, clock: Clock) -> Any:
    made = Catalogue(tmp_path / "bucket.sqlite", nothing, alone=True, timer=clock)
    yield made
    made.close()


async def test_a_look_needs_no_thread_until_the_disk_was_needed(
    catalogue: Catalogue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = threading.current_thread().name
    monkeypatch.setattr("moorage.r2.backends.file_catalogue._blocks_read", lambda: 0)
    assert await catalogue.look(thread_of) == here
    blocks = iter([0, 128])
    monkeypatch.setattr("moorage.r2.backends.file_catalogue._blocks_read", lambda: next(blocks))
    assert await catalogue.look(thread_of) == here
    assert await catalogue.look(thread_of) == "r2-catalogue-reader"
    clock.seconds += AWAY_SECONDS
    monkeypatch.setattr("moorage.r2.backends.file_catalogue._blocks_read", lambda: 128)
    assert await catalogue.look(thread_of) == here


async def test_a_look_goes_to_a_thread_where_the_system_does_not_count_reads(
    catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moorage.r2.backends.file_catalogue._THREAD", None)
    assert await catalogue.look(thread_of) == "r2-catalogue-reader"


async def test_a_look_leaves_waiting_for_other_processes_to_a_thread(catalogue: Catalogue) -> None:
    here = threading.current_thread().name
    seen = []

    def busy(_connection: sqlite3.Connection) -> str:
        seen.append(threading.current_thread().name)
        if seen[-1] == here:
            raise sqlite3.OperationalError("database is locked")
        return "found"

    assert await catalogue.look(busy) == "found"
    assert seen == [here, "r2-catalogue-reader"]


async def test_a_look_sees_what_was_written_before(catalogue: Catalogue) -> None:
    def write(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO garbage VALUES ('b')")

    def read(connection: sqlite3.Connection) -> list[Any]:
        return connection.execute("SELECT * FROM garbage").fetchall()

    await catalogue.write(write)
    assert await catalogue.look(read) == [("b",)]
    assert await catalogue.read(read) == [("b",)]

    def forbidden(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM garbage")

    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        await catalogue.look(forbidden)


async def test_a_closed_catalogue_says_so(tmp_path: Path) -> None:
    made = Catalogue(tmp_path / "bucket.sqlite", nothing, alone=True)
    made.close()
    made.close()
    for method in (made.look, made.read, made.write):
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            await method(thread_of)


# tasks


async def test_a_cancelled_write_waits_for_its_outcome(catalogue: Catalogue) -> None:
    started, go = threading.Event(), threading.Event()

    def slow(connection: sqlite3.Connection) -> None:
        started.set()
        go.wait(10)
        connection.execute("INSERT INTO garbage VALUES ('written')")

    writing = asyncio.create_task(catalogue.write(slow))
    await asyncio.to_thread(started.wait, 10)
    writing.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not writing.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await writing
    found = await catalogue.read(lambda connection: connection.execute("SELECT * FROM garbage").fetchall())
    assert found == [("written",)]


@pytest.mark.parametrize("failing", [False, True], ids=["returned", "raised"])
async def test_a_cancellation_after_the_outcome_is_a_cancellation(failing: bool) -> None:
    task = _Task(lambda _connection: None)
    if failing:
        task.error = ValueError("nobody will see this")
    waiting = asyncio.create_task(task.outcome())
    await asyncio.sleep(0)
    task.settle()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_backend_whose_reads_came_from_the_disk_goes_on(tmp_path: Path) -> None:
    """Through the whole backend, with every look sent to the threads."""
    backend = await FileBackend.open(tmp_path)
    backend._catalogue._away_until = float("inf")
    bucket = Bucket(backend)
    await bucket.put("k", b"value")
    assert await content(bucket) == b"value"
    assert await bucket.head("none") is None
    await bucket.close()
