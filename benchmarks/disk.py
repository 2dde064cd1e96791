"""Baselines without HTTP: what SQLite and the disk do alone, on this disk, in this run."""

import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path

SECONDS = 1.5


def sync_rate(folder: Path) -> float:
    """Appends of 4 KiB with `fdatasync`, a second."""
    path = folder / "sync"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        count, end = 0, time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            os.write(descriptor, os.urandom(4096))
            os.fdatasync(descriptor)
            count += 1
        return count / SECONDS
    finally:
        os.close(descriptor)
        path.unlink()


def commits(folder: Path) -> dict[str, float]:
    """One synced upsert a transaction, as a cursor write needs it: commits a second, CPU µs a commit."""
    with closing(_open(folder / "commits.sqlite")) as connection:
        connection.execute("CREATE TABLE kv (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID")
        count, cpu, end = 0, time.process_time(), time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT OR REPLACE INTO kv VALUES (?, ?)", (f"k{count % 32}", os.urandom(64)))
            connection.execute("COMMIT")
            count += 1
        return {"rps": count / SECONDS, "cpu_us": (time.process_time() - cpu) / count * 1e6}


def batches(folder: Path, rows: int = 50, size: int = 4096) -> dict[str, float]:
    """One transaction of `rows` records of `size` bytes with their journal rows: batches a second, CPU µs a batch."""
    with closing(_open(folder / "batches.sqlite")) as connection:
        connection.execute(
            "CREATE TABLE records (slug TEXT, sha TEXT, content TEXT, digest TEXT, PRIMARY KEY (slug, sha))"
        )
        connection.execute(
            "CREATE TABLE journal (slug TEXT, id TEXT, revision INTEGER UNIQUE, PRIMARY KEY (slug, id))"
        )
        count, cpu, end = 0, time.process_time(), time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            made = [os.urandom(20).hex() for _ in range(rows)]
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO records VALUES ('s', ?, ?, ?)", [(sha, sha * (size // 40), sha) for sha in made]
            )
            connection.executemany(
                "INSERT INTO journal VALUES ('s', ?, ?)",
                [(sha, count * rows + index) for index, sha in enumerate(made)],
            )
            connection.execute("COMMIT")
            count += 1
        return {"rps": count / SECONDS, "cpu_us": (time.process_time() - cpu) / count * 1e6}


def files(folder: Path, size: int) -> dict[str, float]:
    """A new file of `size` bytes with `fsync` of file and folder: files a second, CPU µs a file."""
    target = folder / f"files-{size}"
    target.mkdir()
    content = os.urandom(size)
    parent = os.open(target, os.O_RDONLY)
    count, cpu, end = 0, time.process_time(), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        descriptor = os.open(target / str(count), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(descriptor, content)
        os.fsync(descriptor)
        os.close(descriptor)
        os.fsync(parent)
        count += 1
    os.close(parent)
    return {"rps": count / SECONDS, "cpu_us": (time.process_time() - cpu) / count * 1e6}


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection
