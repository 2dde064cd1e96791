"""Making an object's SQLite file, durably, and connecting to it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from pathlib import Path
from typing import Final

from .commitlog import sync_folder

PAGE_SIZE: Final = 4096

_template: bytes | None = None
_template_lock = threading.Lock()


def _empty_file() -> bytes:
    """An empty database of one page in WAL mode, made once a process by SQLite itself."""
    global _template
    with _template_lock:
        if _template is None:
            import tempfile

            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "template.sqlite")
                connection = sqlite3.connect(path, isolation_level=None)
                connection.execute(f"PRAGMA page_size={PAGE_SIZE}")
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA user_version=1")
                connection.close()
                _template = Path(path).read_bytes()
        return _template


def create_file(path: str) -> None:
    """Creates an empty database at `path` durably, or leaves the one that is there. Raises OSError."""
    folder = os.path.dirname(path)
    temporary = f"{path}.new-{os.getpid()}-{threading.get_ident()}"
    try:
        with open(temporary, "wb") as file:
            file.write(_empty_file())
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    sync_folder(folder)


def connect(path: str | None, factory: type[sqlite3.Connection] = sqlite3.Connection) -> sqlite3.Connection:
    """A connection to the database at `path`, which is created if need be, or to an empty one in memory for None.

    Raises OSError, sqlite3.Error. For a thread: it also does the first write into a new -wal, which syncs it and its
    folder.
    """
    if path is not None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not os.path.exists(path):
            create_file(path)
    connection = sqlite3.connect(
        path or ":memory:",
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
        factory=factory,
        cached_statements=256,
    )
    try:
        execute = connection.execute
        if path is not None and execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            execute("PRAGMA journal_mode=WAL")
        execute("PRAGMA synchronous=NORMAL")
        execute("PRAGMA wal_autocheckpoint=0")
        execute("PRAGMA foreign_keys=ON")
        execute("PRAGMA recursive_triggers=OFF")
        execute("PRAGMA trusted_schema=ON")
        if path is not None:
            version = execute("PRAGMA user_version").fetchone()[0]
            execute(f"PRAGMA user_version={1 if version < 1 else version}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection
