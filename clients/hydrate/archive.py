"""Reading snapshots that somebody else made: every member is checked before a byte of it is written.

A snapshot is a gzip-compressed ustar archive of regular files `<section>/<id>.<extension>` and nothing else (spec
state-plane-protocol 4.4), so it is read header by header here: a general reader first reads whatever extended headers
announce, of any size. Links, devices, absolute names, `..`, second occurrences, extended headers and archives that
unpack to more than they said are refused.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, cast

from moorage.protocols.records import EXTENSIONS, MAX_RECORD_BYTES, is_record_id

from ..errors import ClientError

BLOCK: Final = 512
MAX_PADDING: Final = 1024 * 1024
"""Zeros behind the end that writers of archives add, and more than any of them adds."""


class UnsafeArchive(ClientError):
    """An archive holds what it must not hold, or is damaged; nothing of that member was written."""


def _read(stream: IO[bytes], size: int) -> bytes:
    try:
        return stream.read(size)
    except (zlib.error, EOFError, OSError, ValueError) as error:
        raise UnsafeArchive(f"the archive cannot be read: {error}") from None


def _exactly(stream: IO[bytes], size: int) -> bytes:
    data = _read(stream, size)
    if len(data) != size:
        raise UnsafeArchive("the archive is cut off")
    return data


def _octal(field: bytes) -> int:
    text = field.strip(b" \0")
    if not text or not set(text) <= set(b"01234567"):
        raise UnsafeArchive("the archive cannot be read: a number in a header is none")
    return int(text, 8)


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("ascii", "backslashreplace")


def _member(header: bytes) -> tuple[str, int]:
    """Name and size in a header of a regular file. Raises UnsafeArchive."""
    counted = sum(header) - sum(header[148:156]) + 8 * ord(" ")
    if not header[257:262] == b"ustar" or _octal(header[148:156]) != counted:
        raise UnsafeArchive("the archive cannot be read: it is no ustar archive, or damaged")
    prefix, name = _text(header[345:500]) if header[257:263] == b"ustar\0" else "", _text(header[:100])
    name = f"{prefix}/{name}" if prefix else name
    if header[156:157] != b"0":
        raise UnsafeArchive(f"{name!r} in the snapshot is no plain file")
    return name, _octal(header[124:136])


def _members(stream: IO[bytes]) -> Iterator[tuple[str, int]]:
    """Name and size of every member; the caller reads its bytes, and the zeros behind them, before the next."""
    while any(header := _exactly(stream, BLOCK)):
        yield _member(header)
    # to its end: only there a compressed stream proves that it is whole
    rest = _read(stream, MAX_PADDING + 1)
    if len(rest) < BLOCK or len(rest) > MAX_PADDING or any(rest):
        raise UnsafeArchive("the archive does not end where it says, or something follows its end")


def extract_snapshot(source: IO[bytes], folder: Path, *, file_count: int, uncompressed_bytes: int) -> int:
    """Writes the files of a snapshot below `folder` as `<section>/<file name>` and returns their number.

    `file_count` and `uncompressed_bytes` are what the service said of it. Raises UnsafeArchive, OSError.
    """
    seen: set[str] = set()
    total = 0
    stream = cast(IO[bytes], gzip.GzipFile(fileobj=source, mode="rb"))
    for path, size in _members(stream):
        section, slash, name = path.partition("/")
        stem, _, extension = name.rpartition(".")
        if not slash or EXTENSIONS.get(section) != extension or not is_record_id(section, stem):
            raise UnsafeArchive(f"{path!r} in the snapshot is no record")
        if path in seen:
            raise UnsafeArchive(f"{path!r} is in the snapshot twice")
        seen.add(path)
        total += size
        if size > MAX_RECORD_BYTES or total > uncompressed_bytes or len(seen) > file_count:
            raise UnsafeArchive("the snapshot holds more than the service said")
        data = _exactly(stream, size + -size % BLOCK)[:size]
        target = folder / section
        target.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(data)
    if len(seen) != file_count:
        raise UnsafeArchive(f"the snapshot holds {len(seen)} files, and {file_count} were promised")
    return len(seen)
