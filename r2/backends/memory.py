"""Objects in a dictionary, for unit tests. Nothing survives the process."""

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ..assembly import StoredPart, assemble
from ..backend import Choose, Draft, Page, Query, Reader, Record, UploadedPart
from ..checksums import multipart_etag
from ..conditions import Condition
from ..errors import InternalError, NoSuchUpload, UnknownUpload
from ..listing import page_of
from ..source import Source
from .common import BytesReader, new_token, new_version, wall_clock

DIFFERENCES: Final = {
    "durability": "everything is lost with the process: this backend is for unit tests",
    "storage class": "there is one; the option is taken and `storageClass` is empty, as on the local runtime",
}


@dataclass(slots=True)
class _Part:
    stored: StoredPart
    md5: str
    data: bytes


@dataclass(slots=True)
class _Upload:
    draft: Draft
    parts: dict[int, _Part] = field(default_factory=dict)
    open: bool = True


class MemoryBackend:
    """See `backend.Backend`. Every step after the source is drained runs without a pause, so it is atomic on the
    loop.
    """

    differences: Mapping[str, str] = DIFFERENCES

    def __init__(self, *, now: Callable[[], int] = wall_clock) -> None:
        self._now = now
        self._objects: dict[str, tuple[Record, bytes]] = {}
        self._order: list[bytes] = []
        self._uploads: dict[tuple[str, str], _Upload] = {}
        self._closed = False

    async def head(self, key: str) -> Record | None:
        self._check_open()
        found = self._objects.get(key)
        return None if found is None else found[0]

    async def get(self, key: str, choose: Choose, *, whole: bool) -> tuple[Record, Reader | None] | None:
        self._check_open()
        found = self._objects.get(key)
        if found is None:
            return None
        record, data = found
        span = choose(record)
        return record, None if span is None else BytesReader(data, span)

    async def put(self, draft: Draft, source: Source, condition: Condition | None) -> Record | None:
        data = await _drain(source)
        checksums = source.digester.verified()
        if condition is not None:
            found = self._objects.get(draft.key)
            met = (
                condition.holds_for_missing() if found is None else condition.holds(found[0].etag, found[0].uploaded)
            )
            if not met:
                return None
        return self._store(draft, data, source.digester.md5, checksums)

    def _store(self, draft: Draft, data: bytes, etag: str, checksums: dict[str, str]) -> Record:
        self._check_open()
        record = Record(
            draft.key, new_version(), len(data), etag, self._now(), checksums, draft.http, dict(draft.custom)
        )
        if draft.key not in self._objects:
            bisect.insort(self._order, draft.key.encode())
        self._objects[draft.key] = record, data
        return record

    async def delete(self, keys: Sequence[str]) -> None:
        self._check_open()
        for key in keys:
            if self._objects.pop(key, None) is not None:
                del self._order[bisect.bisect_left(self._order, key.encode())]

    async def list(self, query: Query) -> Page:
        self._check_open()

        def scan(low: bytes, high: bytes | None, limit: int) -> Sequence[tuple[bytes, Record]]:
            start = bisect.bisect_left(self._order, low)
            end = len(self._order) if high is None else bisect.bisect_left(self._order, high)
            return [(key, self._objects[key.decode()][0]) for key in self._order[start : min(end, start + limit)]]

        return page_of(query, scan, lambda record: record)

    async def create_upload(self, draft: Draft) -> str:
        self._check_open()
        upload = new_token()
        self._uploads[draft.key, upload] = _Upload(draft)
        return upload

    async def put_part(self, key: str, upload: str, number: int, source: Source) -> str:
        data = await _drain(source)
        found = self._uploads.get((key, upload))
        if found is None or not found.open:
            raise NoSuchUpload
        etag = new_token()
        found.parts[number] = _Part(StoredPart(number, etag, len(data)), source.digester.md5, data)
        return etag

    async def complete_upload(
        self, key: str, upload: str, parts: Sequence[UploadedPart], *, create_only: bool
    ) -> Record | None:
        found = self._uploads.get((key, upload))
        if found is None:
            raise UnknownUpload
        if not found.open:
            raise NoSuchUpload
        chosen = assemble({number: part.stored for number, part in found.parts.items()}, parts)
        if create_only and key in self._objects:
            return None
        held = [found.parts[part.number] for part in chosen]
        etag = multipart_etag([part.md5 for part in held])
        record = self._store(found.draft, b"".join(part.data for part in held), etag, {})
        found.open = False
        found.parts.clear()
        return record

    async def abort_upload(self, key: str, upload: str) -> None:
        found = self._uploads.get((key, upload))
        if found is None:
            raise UnknownUpload
        found.open = False
        found.parts.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise InternalError from RuntimeError("the bucket is closed")

    async def close(self) -> None:
        self._closed = True
        self._objects.clear()
        self._order.clear()
        self._uploads.clear()


async def _drain(source: Source) -> bytes:
    blocks = []
    async for block in source.blocks():
        source.digester.update(block)
        blocks.append(bytes(block))
    return b"".join(blocks)
