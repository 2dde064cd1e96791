"""Reading snapshots that somebody else made: every member is checked before a byte of it is written.

Nothing is ever extracted by name: a member must be a regular file `<section>/<id>.<extension>`. Links, devices,
absolute names, `..`, second occurrences and archives that unpack to more than they said are refused; so are, before
their contents are read, headers that describe other members, which have no bound of their own.
"""

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, Self, cast

from moorage.protocols.records import EXTENSIONS, MAX_RECORD_BYTES, is_record_id

from ..errors import ClientError

MAX_PADDING: Final = 1024 * 1024
"""Zeros behind the end that writers of archives add, and more than any of them adds."""


class UnsafeArchive(ClientError):
    """An archive holds what it must not hold, or is damaged; nothing of that member was written."""


class _Member(tarfile.TarInfo):
    """A header that is judged as soon as it was parsed; the library would first read what extended ones announce."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.type != tarfile.REGTYPE:
            raise UnsafeArchive(f"{member.name!r} in the snapshot is no plain file")
        if member.size > MAX_RECORD_BYTES:
            raise UnsafeArchive(f"{member.name!r} in the snapshot is more than a record may be")
        return member


@contextmanager
def _damage_is_said() -> Iterator[None]:
    try:
        yield
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        raise UnsafeArchive(f"the archive cannot be read: {error}") from None


def _members(stream: IO[bytes]) -> Iterator[tuple[tarfile.TarInfo, tarfile.TarFile]]:
    with _damage_is_said():
        # the streaming mode never seeks back, so a member is looked at once, in order
        archive = tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member)  # noqa: SIM115 - closed below
    with archive:
        while True:
            with _damage_is_said():
                member = archive.next()
            if member is None:
                break
            yield member, archive
    with _damage_is_said():
        # to its end: only there a compressed stream proves that it is whole
        rest = stream.read(MAX_PADDING + 1)
    if len(rest) > MAX_PADDING or rest.strip(b"\0"):
        raise UnsafeArchive("something follows the archive's end")


def _read(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    with _damage_is_said():
        opened = archive.extractfile(member)
        data = b"" if opened is None else opened.read()
    if len(data) != member.size:
        raise UnsafeArchive(f"{member.name!r} is cut off")
    return data


def extract_snapshot(source: IO[bytes], folder: Path, *, file_count: int, uncompressed_bytes: int) -> int:
    """Writes the files of a snapshot below `folder` as `<section>/<file name>` and returns their number.

    `file_count` and `uncompressed_bytes` are what the service said of it. Raises UnsafeArchive, OSError.
    """
    seen: set[str] = set()
    size = 0
    for member, archive in _members(cast(IO[bytes], gzip.GzipFile(fileobj=source, mode="rb"))):
        section, slash, name = member.name.partition("/")
        stem, _, extension = name.rpartition(".")
        if not slash or EXTENSIONS.get(section) != extension or not is_record_id(section, stem):
            raise UnsafeArchive(f"{member.name!r} in the snapshot is no record")
        if member.name in seen:
            raise UnsafeArchive(f"{member.name!r} is in the snapshot twice")
        seen.add(member.name)
        size += member.size
        if size > uncompressed_bytes or len(seen) > file_count:
            raise UnsafeArchive("the snapshot holds more than the service said")
        target = folder / section
        target.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(_read(archive, member))
    if len(seen) != file_count:
        raise UnsafeArchive(f"the snapshot holds {len(seen)} files, and {file_count} were promised")
    return len(seen)
