"""What the `file` backend reads and writes in its catalogue.

Functions that write take a connection inside a transaction.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..assembly import StoredPart, assemble
from ..backend import Draft, Page, Query, Record, UploadedPart
from ..checksums import multipart_etag
from ..conditions import Condition
from ..errors import NoSuchUpload, UnknownUpload
from ..listing import page_of
from ..metadata import NO_HTTP_METADATA, HttpMetadata

COLUMNS = "key, version, size, etag, uploaded, checksums, http_metadata, custom_metadata"
Row = tuple[bytes, str, int, str, int, str, str, str]


@dataclass(frozen=True, slots=True)
class Segment:
    """A blob that holds a stretch of an object."""

    blob: str
    size: int


@dataclass(frozen=True, slots=True)
class Stored:
    """An object with its bytes, when the catalogue holds them, or else where they are."""

    record: Record
    segments: tuple[Segment, ...] = ()
    content: bytes | None = None


def _text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _value(text: str) -> dict[str, Any]:
    value: dict[str, Any] = {} if text == "{}" else msgspec.json.decode(text)
    return value


def record_of(row: Row) -> Record:
    """The record in a row of `COLUMNS`."""
    key, version, size, etag, uploaded, checksums, http, custom = row
    return Record(
        key.decode(),
        version,
        size,
        etag,
        uploaded,
        _value(checksums),
        NO_HTTP_METADATA if http == "{}" else HttpMetadata(**_value(http)),
        _value(custom),
    )


def find_record(connection: sqlite3.Connection, key: str) -> Record | None:
    """The object's record, or None."""
    row = connection.execute(f"SELECT {COLUMNS} FROM objects WHERE key = ?", (key.encode(),)).fetchone()
    return None if row is None else record_of(row)


_FIND_STORED = f"""
SELECT blob, upload, content, data, {COLUMNS} FROM objects LEFT JOIN contents ON id = content WHERE key = ?
"""


def find_stored(connection: sqlite3.Connection, key: str) -> Stored | None:
    """The object, and its content or its segments in order, of one moment; None when there is none."""
    row = connection.execute(_FIND_STORED, (key.encode(),)).fetchone()
    if row is None:
        return None
    blob, upload, content, data, *rest = row
    record = record_of(tuple(rest))
    if data is not None:
        return Stored(record, content=data)
    if content is not None:
        raise sqlite3.DatabaseError(f"the catalogue has lost content {content}")
    if blob is not None:
        return Stored(record, (Segment(blob, record.size),))
    segments = _segments(connection, key, upload)
    # else it was replaced between the two, so what is there now is looked at
    return Stored(record, segments) if segments is not None else find_stored(connection, key)


def _segments(connection: sqlite3.Connection, key: str, upload: str) -> tuple[Segment, ...] | None:
    """The parts of the object that `upload` made; None when it is not there any more."""
    rows = connection.execute(
        "SELECT parts.blob, parts.size FROM objects LEFT JOIN parts ON parts.upload = objects.upload "
        "WHERE objects.key = ? AND objects.upload = ? ORDER BY parts.number",
        (key.encode(), upload),
    ).fetchall()
    if not rows:
        return None
    return tuple(Segment(blob, size) for blob, size in rows if blob is not None)


def list_page(connection: sqlite3.Connection, query: Query) -> Page:
    """A page of the listing, of one moment."""

    def scan(low: bytes, high: bytes | None, limit: int) -> Sequence[tuple[bytes, Row]]:
        bound = "" if high is None else "AND key < ?"
        values = (low, limit) if high is None else (low, high, limit)
        rows = connection.execute(
            f"SELECT {COLUMNS} FROM objects WHERE key >= ? {bound} ORDER BY key LIMIT ?", values
        )
        return [(row[0], row) for row in rows]

    connection.execute("BEGIN")
    try:
        return page_of(query, scan, record_of)
    finally:
        connection.execute("ROLLBACK")


def _drop(connection: sqlite3.Connection, key: bytes) -> list[str]:
    """Removes the object's rows and returns the blobs that nothing points at any more, noted as garbage."""
    row = connection.execute("DELETE FROM objects WHERE key = ? RETURNING blob, upload, content", (key,)).fetchone()
    if row is None:
        return []
    blob, upload, content = row
    if content is not None:
        connection.execute("DELETE FROM contents WHERE id = ?", (content,))
        return []
    if blob is not None:
        return _discard(connection, [blob])
    gone = connection.execute("DELETE FROM parts WHERE upload = ? RETURNING blob", (upload,)).fetchall()
    return _discard(connection, [part for (part,) in gone])


def _discard(connection: sqlite3.Connection, blobs: list[str]) -> list[str]:
    connection.executemany("INSERT OR IGNORE INTO garbage VALUES (?)", ((blob,) for blob in blobs))
    return blobs


def _insert(
    connection: sqlite3.Connection,
    record: Record,
    *,
    blob: str | None = None,
    upload: str | None = None,
    content: int | None = None,
) -> None:
    connection.execute(
        "INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            record.key.encode(),
            blob,
            upload,
            record.version,
            record.size,
            record.etag,
            record.uploaded,
            _text(dict(record.checksums)),
            _text(record.http.stored()),
            _text(dict(record.custom)),
            content,
        ),
    )


def put_object(
    connection: sqlite3.Connection, record: Record, held: str | bytes, condition: Condition | None
) -> list[str] | None:
    """Replaces the object when the condition holds for what is there; the blobs that became garbage, or None.

    `held`: the name of the blob that holds the bytes, or the bytes themselves, to be kept in the catalogue.
    """
    key = record.key.encode()
    if condition is not None:
        found = connection.execute("SELECT etag, uploaded FROM objects WHERE key = ?", (key,)).fetchone()
        if not (condition.holds_for_missing() if found is None else condition.holds(*found)):
            return None
    garbage = _drop(connection, key)
    if isinstance(held, str):
        _insert(connection, record, blob=held)
    else:
        content = connection.execute("INSERT INTO contents (data) VALUES (?)", (held,)).lastrowid
        _insert(connection, record, content=content)
    return garbage


def delete_objects(connection: sqlite3.Connection, keys: Sequence[str]) -> list[str]:
    """Removes the objects; the blobs that became garbage."""
    return [blob for key in keys for blob in _drop(connection, key.encode())]


def insert_upload(connection: sqlite3.Connection, draft: Draft, upload: str, created: int) -> None:
    """Opens an upload."""
    connection.execute(
        "INSERT INTO uploads (upload, key, http_metadata, custom_metadata, created) VALUES (?, ?, ?, ?, ?)",
        (upload, draft.key.encode(), _text(draft.http.stored()), _text(dict(draft.custom)), created),
    )


def _is_open(connection: sqlite3.Connection, key: str, upload: str) -> bool | None:
    row = connection.execute(
        "SELECT open FROM uploads WHERE upload = ? AND key = ?", (upload, key.encode())
    ).fetchone()
    return None if row is None else bool(row[0])


def check_open(connection: sqlite3.Connection, key: str, upload: str) -> None:
    """NoSuchUpload unless the upload is open under this key."""
    if not _is_open(connection, key, upload):
        raise NoSuchUpload


def put_part(
    connection: sqlite3.Connection, key: str, upload: str, part: StoredPart, blob: str, md5: str
) -> list[str]:
    """Stores or replaces a part; the blobs that became garbage."""
    check_open(connection, key, upload)
    old = connection.execute(
        "DELETE FROM parts WHERE upload = ? AND number = ? RETURNING blob", (upload, part.number)
    ).fetchall()
    connection.execute(
        "INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?)", (upload, part.number, blob, part.size, part.etag, md5)
    )
    return _discard(connection, [gone for (gone,) in old])


def complete_upload(
    connection: sqlite3.Connection,
    key: str,
    upload: str,
    named: Sequence[UploadedPart],
    version: str,
    uploaded: int,
    create_only: bool,
) -> tuple[Record, list[str]] | None:
    """Makes the object and closes the upload; the record, and the blobs that became garbage.

    With `create_only`, None when there is an object: the upload stays open.
    """
    state = _is_open(connection, key, upload)
    if state is None:
        raise UnknownUpload
    if not state:
        raise NoSuchUpload
    stored, md5s = {}, {}
    for number, size, etag, md5 in connection.execute(
        "SELECT number, size, etag, md5 FROM parts WHERE upload = ?", (upload,)
    ):
        stored[number] = StoredPart(number, etag, size)
        md5s[number] = md5
    parts = assemble(stored, named)
    if create_only and find_record(connection, key) is not None:
        return None
    kept = {part.number for part in parts}
    unused = []
    for number in stored.keys() - kept:
        unused += connection.execute(
            "DELETE FROM parts WHERE upload = ? AND number = ? RETURNING blob", (upload, number)
        ).fetchall()
    http, custom = connection.execute(
        "SELECT http_metadata, custom_metadata FROM uploads WHERE upload = ?", (upload,)
    ).fetchone()
    record = Record(
        key,
        version,
        sum(part.size for part in parts),
        multipart_etag([md5s[part.number] for part in parts]),
        uploaded,
        {},
        HttpMetadata(**_value(http)),
        _value(custom),
    )
    garbage = _drop(connection, key.encode()) + _discard(connection, [blob for (blob,) in unused])
    _insert(connection, record, upload=upload)
    connection.execute("UPDATE uploads SET open = 0 WHERE upload = ?", (upload,))
    return record, garbage


def abort_upload(connection: sqlite3.Connection, key: str, upload: str) -> list[str]:
    """Drops an open upload's parts and closes it; the blobs that became garbage. Nothing for a closed one."""
    state = _is_open(connection, key, upload)
    if state is None:
        raise UnknownUpload
    if not state:
        return []
    gone = connection.execute("DELETE FROM parts WHERE upload = ? RETURNING blob", (upload,)).fetchall()
    connection.execute("UPDATE uploads SET open = 0 WHERE upload = ?", (upload,))
    return _discard(connection, [blob for (blob,) in gone])


def is_referenced(connection: sqlite3.Connection, blob: str) -> bool:
    """Whether an object or a part points at the blob."""
    row = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM objects WHERE blob = ?1) OR EXISTS (SELECT 1 FROM parts WHERE blob = ?1)",
        (blob,),
    ).fetchone()
    return bool(row[0])


def all_garbage(connection: sqlite3.Connection) -> list[str]:
    """Blobs noted as garbage whose bytes may still be there."""
    return [blob for (blob,) in connection.execute("SELECT blob FROM garbage")]


def forget_garbage(connection: sqlite3.Connection, blobs: Sequence[str]) -> None:
    """Drops the notes of blobs whose bytes have been removed."""
    connection.executemany("DELETE FROM garbage WHERE blob = ?", ((blob,) for blob in blobs))
