"""Reads, copies and replaces the storage of objects in a state folder, with or without a server that runs on it.

Reading goes over read-only connections: SQLite gives a consistent snapshot while a server goes on writing.
"""

import os
import re
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moorage.durable_objects.runtime.alarms import alarm_in_file
from moorage.durable_objects.runtime.clone import loads
from moorage.durable_objects.runtime.commitlog import sync_folder
from moorage.durable_objects.runtime.ids import IdFactory

from .migrate import MigrationError, unique_key
from .statelock import StateLock

_ID = re.compile(r"[0-9a-f]{64}\Z")


class InspectionError(Exception):
    """What was asked for is not there or cannot be done; the text says what is."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object's file. `name` is known only where an alarm's index has it; sizes are bytes, times milliseconds."""

    namespace: str
    id: str
    name: str | None
    bytes: int
    alarm: int | None


@dataclass(frozen=True, slots=True)
class Contents:
    """What an object holds: its alarm, its keys with their values, its tables with their row counts."""

    alarm: int | None
    keys: dict[str, Any]
    tables: dict[str, int]


def namespaces(state: Path) -> list[str]:
    """Returns the namespaces (`<worker>-<Class>`) that have a folder."""
    folder = state / "do"
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def _folder(state: Path, namespace: str) -> Path:
    if namespace not in namespaces(state):
        known = ", ".join(namespaces(state)) or "none"
        raise InspectionError(f"{state} has no namespace {namespace!r}; it has: {known}")
    return state / "do" / namespace


def _names(folder: Path) -> dict[str, str]:
    index = folder / "alarms.sqlite"
    if not index.exists():
        return {}
    with closing(_reader(index)) as connection:
        try:
            return dict(connection.execute("SELECT actor_id, actor_name FROM _cf_ALARM WHERE actor_name NOT NULL"))
        except sqlite3.OperationalError:
            return {}


def _reader(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)


def listed(state: Path, namespace: str | None = None) -> Iterator[StoredObject]:
    """Yields every stored object, of one namespace or of all. Raises InspectionError."""
    for key in [namespace] if namespace else namespaces(state):
        folder = _folder(state, key)
        names = _names(folder)
        for path in sorted(folder.glob("*.sqlite")):
            if _ID.match(path.stem):
                alarm = alarm_in_file(str(path))
                size = path.stat().st_size
                yield StoredObject(key, path.stem, names.get(path.stem), size, _milliseconds(alarm))


def _milliseconds(nanoseconds: int | None) -> int | None:
    return None if nanoseconds is None else nanoseconds // 1_000_000


def _digits(state: Path, namespace: str, which: str) -> str:
    """The id of an object, given its id or its name. A class that was renamed makes ids from its first name."""
    text = which.lower()
    if _ID.match(text):
        return text
    try:
        key = unique_key(state, namespace)
    except MigrationError as error:
        raise InspectionError(f"{error}; until then an object is found by its id alone") from None
    return str(IdFactory(key, secrets.token_bytes).from_name(which))


def locate(state: Path, namespace: str, which: str) -> Path:
    """Returns the file of an object, given its 64-digit id or its name. Raises InspectionError when it has none."""
    folder = _folder(state, namespace)
    digits = _digits(state, namespace, which)
    path = folder / f"{digits}.sqlite"
    if not path.exists():
        raise InspectionError(f"{namespace} has stored nothing for {which!r} (id {digits})")
    return path


def contents(path: Path) -> Contents:
    """Returns what an object's file holds. Raises sqlite3.Error for a file that is no database."""
    with closing(_reader(path)) as connection:
        connection.execute("BEGIN")
        tables = [
            name
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type='table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' "
                "ORDER BY name"
            )
        ]
        keys: dict[str, Any] = {}
        if "_cf_KV" in tables:
            keys = {
                key: loads(data) for key, data in connection.execute("SELECT key, value FROM _cf_KV ORDER BY key")
            }
        counts = {}
        for name in tables:
            if not name.startswith("_cf_"):
                quoted = name.replace('"', '""')
                counts[name] = connection.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()[0]
    return Contents(_milliseconds(alarm_in_file(str(path))), keys, counts)


def export(path: Path, target: Path) -> int:
    """Copies a consistent snapshot into the new file `target`; returns its bytes. Raises InspectionError."""
    _refuse_existing(target)
    temporary = target.with_name(f"{target.name}.new")
    with closing(_reader(path)) as source, closing(sqlite3.connect(temporary)) as copy:
        source.backup(copy)
    return _publish(temporary, target)


def write_new(target: Path, data: bytes) -> int:
    """Writes the new file `target` durably; returns its bytes. Raises InspectionError when it is there already."""
    _refuse_existing(target)
    temporary = target.with_name(f"{target.name}.new")
    temporary.write_bytes(data)
    return _publish(temporary, target)


def _refuse_existing(target: Path) -> None:
    if target.exists():
        raise InspectionError(f"{target} is there already; an export never overwrites")


def _publish(temporary: Path, target: Path) -> int:
    _sync(temporary)
    try:
        os.link(temporary, target)
    finally:
        temporary.unlink()
    sync_folder(target.parent)
    return target.stat().st_size


def restore(state: Path, namespace: str, which: str, source: Path) -> Path:
    """Replaces an object's storage by the exported file `source`; returns the object's file.

    The state folder must not be served meanwhile. Raises InspectionError, StateInUse, and sqlite3.Error for a source
    that is no database.
    """
    folder = _folder(state, namespace)
    digits = _digits(state, namespace, which)
    with closing(_reader(source)) as connection:
        verdict = connection.execute("PRAGMA integrity_check").fetchone()[0]
        if verdict != "ok":
            raise InspectionError(f"{source} is damaged: {verdict}")
    lock = StateLock(state)
    lock.acquire()
    try:
        target = folder / f"{digits}.sqlite"
        temporary = folder / f"{digits}.restoring"
        temporary.unlink(missing_ok=True)
        with closing(_reader(source)) as connection, closing(sqlite3.connect(temporary)) as copy:
            connection.backup(copy)
        _sync(temporary)
        if target.exists():
            # Old frames must not be taken for the new file's: closing after this removes the WAL.
            with closing(sqlite3.connect(target, isolation_level=None)) as old:
                old.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        os.replace(temporary, target)
        sync_folder(folder)
        _index(folder, digits, alarm_in_file(str(target)))
        return target
    finally:
        lock.release()


def _index(folder: Path, digits: str, alarm: int | None) -> None:
    index = folder / "alarms.sqlite"
    if not index.exists():
        return  # the next start reads every object back
    with closing(sqlite3.connect(index, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=FULL")
        if alarm is None:
            connection.execute("DELETE FROM _cf_ALARM WHERE actor_id=?", (digits,))
        else:
            connection.execute(
                "INSERT INTO _cf_ALARM(actor_id, scheduled_time) VALUES(?,?) ON CONFLICT(actor_id) DO UPDATE SET "
                "scheduled_time=excluded.scheduled_time",
                (digits, alarm),
            )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
