"""Objects in an S3 store: R2 itself, Amazon S3, MinIO, Ceph, or moto in tests. boto3 in worker threads.

A write is one conditional request. `If-None-Match: *` and `If-Match` say directly what create-only and
compare-and-swap mean; every other condition is evaluated on a head, and the write then carries the etag that the
head saw. A request that was repeated after a lost answer may be refused because of itself: the version in the
metadata tells.
"""

import asyncio
import base64
import hashlib
import logging
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass
from typing import IO, Any, Final, TypeVar

from ..assembly import assemble
from ..backend import Choose, Draft, Page, Query, Reader, Record, UploadedPart
from ..conditions import Condition, Strength
from ..errors import BadUpload, InternalError, InvalidObjectName, NoSuchUpload, R2Error, UnknownUpload
from ..ranges import Span
from ..source import Block, Source
from .common import in_thread, new_version, wall_clock
from .s3_calls import NOT_IN_XML, Body, is_missing, translated, unwrap_upload, was_retried, wrap_upload
from .s3_listing import list_page
from .s3_metadata import bare_etag, record_of, request_fields
from .s3_probe import REFUSALS, probe, status_of
from .s3_settings import S3Settings
from .s3_uploads import Uploads

T = TypeVar("T")
log = logging.getLogger("moorage.r2")

DIFFERENCES: Final = {
    "empty key": "S3 cannot name it: 10020",
    "etag of large values": (
        "a value above 12 MiB without a condition is sent in parts, and its etag has the form of a multipart one; "
        "`checksums` then holds only what the writer gave"
    ),
    "listing": (
        "S3 lists no metadata: `version` is derived from etag and time, `uploaded` is the store's, often to the "
        "second, and the writer's checksum is missing, unless `include` asks for metadata, at a request an object"
    ),
    "part etag": "it is the part's MD5: a part replaced by the same bytes keeps its etag",
    "no parts": "S3 makes no object of an empty list of parts: 10048",
    "create-only completion": (
        "a condition on the completion of an upload is kept where the store keeps it, found out at the first one; "
        "else the object is looked for first, and the log warns"
    ),
    "upload time of parts": "of an object made of parts `uploaded` is the store's time, often to the second",
    "metadata limit": (
        "Amazon S3 takes 2 KiB of user metadata, ours included, and refuses more (10012); names and values that S3 "
        "cannot carry travel encoded in one entry, `moorage`, and are invisible to other S3 programs"
    ),
    "storage class": "given to the store (`Standard`, `InfrequentAccess`), and shown when it is not the standard one",
    "open readers": "a body goes on after a cut connection only while the object is the same; else 10001",
    "date conditions": (
        "evaluated on a head; the write then demands the etag seen, so an overwrite with the same bytes in between "
        "goes unnoticed"
    ),
}
RACES: Final = 12
"""How often a write whose condition had to be looked up is tried anew after somebody else wrote in between."""
PARTS_IN_FLIGHT: Final = 2


@dataclass(slots=True)
class _Payload:
    """A verified value for one request: bytes, or a temporary file that is read again for every attempt."""

    body: bytes | IO[bytes]
    size: int
    md5: str
    checksums: dict[str, str]

    def fields(self) -> dict[str, Any]:
        if not isinstance(self.body, bytes):
            self.body.seek(0)
        return {"Body": self.body, "ContentMD5": base64.b64encode(bytes.fromhex(self.md5)).decode()}

    def close(self) -> None:
        if not isinstance(self.body, bytes):
            self.body.close()


class S3Reader:
    """Chunks of a body, read in a worker thread."""

    def __init__(self, backend: "S3Backend", body: Body) -> None:
        self._backend = backend
        self._body = body

    def __aiter__(self) -> "S3Reader":
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._backend.run(self._body.read)
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        self._body.close()


class S3Backend:
    """See `backend.Backend`. Open one with `await S3Backend.open(settings, bucket)`."""

    differences: Mapping[str, str] = DIFFERENCES

    def __init__(
        self, client: Any, bucket: str, settings: S3Settings, *, now: Callable[[], int] = wall_clock
    ) -> None:
        self.client = client
        self.bucket = bucket
        self._settings = settings
        self._now = now
        self._executor = ThreadPoolExecutor(settings.threads, thread_name_prefix="r2-s3")
        self._closed = False
        self._uploads = Uploads(client, bucket, self._head)

    @classmethod
    async def open(
        cls, settings: S3Settings, bucket: str, *, now: Callable[[], int] = wall_clock, check: bool = True
    ) -> "S3Backend":
        """The bucket, after the store has shown that it honours conditional writes; StoreRefused when it does not."""

        def connect() -> Any:
            client = settings.client()
            if check:
                try:
                    probe(client, bucket)
                except BaseException:
                    client.close()
                    raise
            return client

        with ThreadPoolExecutor(1) as executor:
            client = await in_thread(executor, connect)
        return cls(client, bucket, settings, now=now)

    async def run(self, function: Callable[[], T]) -> T:
        """The result of `function` in a worker thread; botocore's errors become the bucket's."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            if self._closed:
                raise OSError("the bucket is closed")
            return await in_thread(self._executor, function)
        except (ClientError, BotoCoreError, OSError) as error:
            found = translated(error)
            if isinstance(found, InternalError):
                log.error("the S3 store of bucket %s failed: %s", self.bucket, error)
            raise found from error

    def _head(self, key: str) -> Record | None:
        from botocore.exceptions import ClientError

        try:
            answer = self.client.head_object(Bucket=self.bucket, Key=key)
        except ClientError as error:
            if is_missing(error):
                return None
            raise
        return record_of(key, answer, answer["ContentLength"])

    async def head(self, key: str) -> Record | None:
        return await self.run(lambda: self._head(key)) if key else None

    async def get(self, key: str, choose: Choose, *, whole: bool) -> tuple[Record, Reader | None] | None:
        if not key:
            return None
        found = await self.run(lambda: self._open(key, choose, whole))
        if found is None:
            return None
        record, body = found
        return record, None if body is None else S3Reader(self, body)

    def _open(self, key: str, choose: Choose, whole: bool) -> tuple[Record, Body | None] | None:
        from botocore.exceptions import ClientError

        for _ in range(RACES):
            fields: dict[str, Any] = {}
            record: Record | None = None
            span: Span | None = None
            if not whole:
                record = self._head(key)
                if record is None:
                    return None
                span = choose(record)
                if span is None:
                    return record, None
                fields["IfMatch"] = f'"{record.etag}"'
                if span != Span(0, record.size):
                    fields["Range"] = f"bytes={span.offset}-{span.offset + span.length - 1}"
            try:
                answer = self.client.get_object(Bucket=self.bucket, Key=key, **fields)
            except ClientError as error:
                if is_missing(error) and record is None:
                    return None
                if record is not None and (is_missing(error) or status_of(error) == 412):
                    continue  # replaced or deleted since the head
                raise
            if record is None or span is None:
                record = record_of(key, answer, answer["ContentLength"])
                span = choose(record)
                if span is None:
                    answer["Body"].close()
                    return record, None
            body = Body(self.client, self.bucket, key, record.etag, answer["Body"], span.offset, span.length)
            return record, body
        raise InternalError from ConnectionError(f"{key!r} was replaced too fast to be read")

    async def put(self, draft: Draft, source: Source, condition: Condition | None) -> Record | None:
        if not draft.key:
            raise InvalidObjectName
        async with aclosing(source.blocks(self._settings.part_size)) as blocks:
            first = await self._take(source, blocks)
            if first is not None and condition is None:
                return await self._put_in_parts(draft, source, first, blocks)
            payload = await self._payload(source, first, blocks)
        try:
            return await self.run(lambda: self._put_at_once(draft, payload, condition))
        finally:
            payload.close()

    async def _take(self, source: Source, blocks: AsyncIterator[Block]) -> list[Block] | None:
        """The first blocks of a value that is too large for one request from memory; None of one that is not.

        A value that is not stays in `source.data`.
        """
        if source.data is not None and len(source.data) <= self._settings.single_put:
            return None
        taken: list[Block] = []
        total = 0
        async for block in blocks:
            taken.append(block)
            total += len(block)
            if total > self._settings.single_put:
                return taken
        source.data = b"".join(taken)
        return None

    async def _payload(self, source: Source, first: list[Block] | None, rest: AsyncIterator[Block]) -> _Payload:
        """The value, drained and verified: in memory when it is small, else in a temporary file."""
        digester = source.digester
        if first is None:
            data = source.data or b""

            def whole() -> _Payload:
                digester.update(data)
                checksums = digester.verified()
                return _Payload(data, len(data), digester.md5, checksums)

            return await self.run(whole)

        file = await self.run(_temporary_file)

        def step(block: Block) -> None:
            digester.update(block)
            file.write(block)

        try:
            while first:
                block = first.pop(0)
                await self.run(lambda block=block: step(block))  # type: ignore[misc]
            async for block in rest:
                await self.run(lambda block=block: step(block))  # type: ignore[misc]
            return _Payload(file, digester.size, digester.md5, digester.verified())
        except BaseException:
            file.close()
            raise

    def _put_at_once(self, draft: Draft, payload: _Payload, condition: Condition | None) -> Record | None:
        """One conditional request; tried anew when the condition was looked up and somebody wrote in between."""
        from botocore.exceptions import ClientError

        version, uploaded = new_version(), self._now()
        fields = request_fields(draft, version=version, uploaded=uploaded, checksums=payload.checksums)
        direct = _direct(condition)
        for _ in range(RACES):
            demand = direct
            if condition is not None and direct is None:
                seen = self._head(draft.key)
                if seen is None:
                    if not condition.holds_for_missing():
                        return None
                    demand = {"IfNoneMatch": "*"}
                else:
                    if not condition.holds(seen.etag, seen.uploaded):
                        return None
                    demand = {"IfMatch": f'"{seen.etag}"'}
            try:
                answer = self.client.put_object(
                    Bucket=self.bucket, Key=draft.key, **payload.fields(), **fields, **(demand or {})
                )
            except ClientError as error:
                refused = status_of(error) in REFUSALS or (is_missing(error) and "IfMatch" in (demand or {}))
                if demand is None or not refused:
                    raise
                if was_retried(error):
                    stored = self._head(draft.key)
                    if stored is not None and stored.version == version:
                        return stored  # the refusal was of our own repetition
                if direct is not None and status_of(error) != 409:
                    return None
                continue
            return Record(
                draft.key,
                version,
                payload.size,
                bare_etag(answer["ETag"]),
                uploaded,
                payload.checksums,
                draft.http,
                draft.custom,
                draft.storage_class if fields.get("StorageClass", "STANDARD") != "STANDARD" else "",
            )
        raise InternalError from ConnectionError(f"{draft.key!r} was overwritten too often by others to be compared")

    async def _put_in_parts(
        self, draft: Draft, source: Source, first: list[Block], rest: AsyncIterator[Block]
    ) -> Record:
        """An unconditional large value: parts as the bytes come, made visible after they were verified."""
        digester, version = source.digester, new_version()
        fields = request_fields(draft, version=version, uploaded=None, checksums=digester.promised)
        place = {"Bucket": self.bucket, "Key": draft.key}
        answer = await self.run(lambda: self.client.create_multipart_upload(**place, **fields))
        place["UploadId"] = answer["UploadId"]
        parts: list[asyncio.Task[tuple[int, str]]] = []

        async def send(number: int, block: Block) -> tuple[int, str]:
            body = bytes(block)
            md5 = await self.run(lambda: _content_md5(body))
            answer = await self.run(
                lambda: self.client.upload_part(**place, PartNumber=number, Body=body, ContentMD5=md5)
            )
            return number, answer["ETag"]

        async def accept(block: Block) -> None:
            await self.run(lambda: digester.update(block))
            while len(running := [part for part in parts if not part.done()]) >= PARTS_IN_FLIGHT:
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for part in parts:
                if part.done():
                    part.result()  # one that failed ends the upload now
            parts.append(asyncio.create_task(send(len(parts) + 1, block)))

        try:
            while first:
                await accept(first.pop(0))
            async for block in rest:
                await accept(block)
                del block  # it would stay in memory while the next one is gathered
            sent = await asyncio.gather(*parts)
            digester.verified()
            return await self.run(lambda: self._uploads.complete(place, sent, version))
        except BaseException:
            await self._give_up(place, parts)
            raise

    async def _give_up(self, place: dict[str, str], parts: Iterable["asyncio.Task[Any]"]) -> None:
        for part in parts:
            part.cancel()
        await asyncio.gather(*parts, return_exceptions=True)
        try:
            await self.run(lambda: self.client.abort_multipart_upload(**place))
        except R2Error:
            pass  # nothing of it is visible; the store's own clean-up drops the parts

    async def delete(self, keys: Sequence[str]) -> None:
        together = [key for key in keys if key and not NOT_IN_XML.search(key)]
        alone = [key for key in keys if NOT_IN_XML.search(key)]
        if len(together) == 1:
            alone, together = [*alone, *together], []
        for key in alone:
            await self.run(lambda key=key: self.client.delete_object(Bucket=self.bucket, Key=key))  # type: ignore[misc]
        for start in range(0, len(together), 1000):
            names = [{"Key": key} for key in together[start : start + 1000]]
            answer = await self.run(
                lambda names=names: self.client.delete_objects(  # type: ignore[misc]
                    Bucket=self.bucket, Delete={"Objects": names, "Quiet": True}
                )
            )
            if answer.get("Errors"):
                raise InternalError from OSError(
                    f"the store did not delete {len(answer['Errors'])} objects: {answer['Errors'][:3]}"
                )

    async def list(self, query: Query) -> Page:
        page = await self.run(lambda: list_page(self.client, self.bucket, query))
        if not query.metadata:
            return page
        found = await asyncio.gather(*(self.head(record.key) for record in page.records))
        # an object that was deleted since the listing is left out
        return Page([record for record in found if record is not None], page.prefixes, page.position)

    async def create_upload(self, draft: Draft) -> str:
        if not draft.key:
            raise InvalidObjectName
        version = new_version()
        fields = request_fields(draft, version=version, uploaded=None, checksums={})
        answer = await self.run(
            lambda: self.client.create_multipart_upload(Bucket=self.bucket, Key=draft.key, **fields)
        )
        return wrap_upload(draft.key, answer["UploadId"], version)

    async def put_part(self, key: str, upload: str, number: int, source: Source) -> str:
        raw, _ = unwrap_upload(key, upload)
        async with aclosing(source.blocks(self._settings.part_size)) as blocks:
            payload = await self._payload(source, await self._take(source, blocks), blocks)
        try:
            answer = await self.run(
                lambda: self.client.upload_part(
                    Bucket=self.bucket, Key=key, UploadId=raw, PartNumber=number, **payload.fields()
                )
            )
        finally:
            payload.close()
        return bare_etag(answer["ETag"])

    async def complete_upload(
        self, key: str, upload: str, parts: Sequence[UploadedPart], *, create_only: bool
    ) -> Record | None:
        raw, version = unwrap_upload(key, upload)
        place = {"Bucket": self.bucket, "Key": key, "UploadId": raw}
        try:
            stored = await self.run(lambda: self._uploads.parts(place))
        except NoSuchUpload:
            if version is not None:
                raise
            raise UnknownUpload from None
        chosen = assemble(stored, parts)
        if not chosen:
            raise BadUpload
        named = [(part.number, f'"{part.etag}"') for part in chosen]
        if not create_only:
            return await self.run(lambda: self._uploads.complete(place, named, version))
        return await self.run(lambda: self._uploads.complete_new(place, named, version))

    async def abort_upload(self, key: str, upload: str) -> None:
        raw, version = unwrap_upload(key, upload)
        try:
            await self.run(lambda: self.client.abort_multipart_upload(Bucket=self.bucket, Key=key, UploadId=raw))
        except NoSuchUpload:
            if version is None:
                raise UnknownUpload from None

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        await asyncio.to_thread(self._executor.shutdown)
        self.client.close()


def _direct(condition: Condition | None) -> dict[str, str] | None:
    """The header that says exactly what the condition says; None when no single one does."""
    if condition is None:
        return None
    match condition:
        case Condition(etag_matches=None, etag_does_not_match=(tag,), uploaded_before=None, uploaded_after=None):
            if tag.strength is Strength.WILDCARD:
                return {"IfNoneMatch": "*"}
        case Condition(etag_matches=(tag,), etag_does_not_match=None, uploaded_before=None, uploaded_after=None):
            if tag.strength is Strength.STRONG and tag.value.isascii() and tag.value.isprintable() and tag.value:
                return {"IfMatch": f'"{tag.value}"'}
    return None


def _content_md5(body: bytes) -> str:
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


def _temporary_file() -> IO[bytes]:
    return tempfile.TemporaryFile(prefix="moorage-r2-")
