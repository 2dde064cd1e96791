"""The platform's bucket over a backend (spec durable-object-semantics 15, python-workers-api 5).

Options may be a trailing dictionary, keyword arguments, or both (the keywords win).
"""

from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import replace
from typing import Any, Final, overload

from .arguments import MISSING, integer, merge_options, text_of, text_option, wrong_field
from .assembly import part_number, parts_of
from .backend import Backend, Draft, Query, Record, UploadedPart
from .checksums import SIZES, checksum_of
from .conditions import CREATE_ONLY, condition_of
from .errors import InvalidMaxKeys, RangeError, operation
from .keys import check_key, decode_cursor, encode_cursor, key_of
from .metadata import NO_HTTP_METADATA, check_custom_metadata, custom_metadata_of, http_metadata_of
from .objects import R2Object, R2ObjectBody, R2Objects
from .ranges import Span, range_of
from .source import source_of
from .values import Types

MAX_LIST: Final = 1000
MAX_LIST_WITH_METADATA: Final = 100
"""A page that carries metadata is shorter; the platform promises no more than that it may be."""

_BUCKET: Final = "R2Bucket"
_UPLOAD_OPTIONS: Final = frozenset({"httpMetadata", "customMetadata", "storageClass"})
_PUT_OPTIONS: Final = _UPLOAD_OPTIONS | {"onlyIf"} | set(SIZES)
_GET_OPTIONS: Final = frozenset({"onlyIf", "range"})
_COMPLETE_OPTIONS: Final = frozenset({"onlyIf"})
_LIST_OPTIONS: Final = frozenset({"limit", "prefix", "cursor", "delimiter", "startAfter", "include"})
_NO_CUSTOM_METADATA: Final[Mapping[str, str]] = {}
_INCLUDES: Final = ("httpMetadata", "customMetadata")


Before = Callable[[], Awaitable[None]]


async def _at_once() -> None:
    """Nothing to wait for."""


class Bucket:
    """One bucket. Methods are coroutines; texts of errors and codes are the platform's."""

    def __init__(self, backend: Backend, *, types: Types | None = None, before: Before | None = None) -> None:
        """`types`: what results are made of. `before` is awaited before a call leaves for the store; what it raises
        ends the call.
        """
        self._backend = backend
        self._types = Types() if types is None else types
        self._before = _at_once if before is None else before

    @property
    def backend(self) -> Backend:
        """The store behind this bucket."""
        return self._backend

    async def close(self) -> None:
        """Releases what the store holds: files, threads, connections. May be called twice."""
        await self._backend.close()

    async def head(self, key: Any = MISSING) -> R2Object | None:
        """The object's metadata, or None when there is no such object."""
        name = key_of(key, _BUCKET, "head")
        with operation("head"):
            check_key(name)
            await self._before()
            record = await self._backend.head(name)
        return None if record is None else R2Object(record, self._types, Span(0, record.size))

    async def get(self, key: Any = MISSING, options: Any = None, **keywords: Any) -> R2Object | None:
        """The object with its body, an `R2ObjectBody`; None when there is no such object.

        Options `onlyIf` (when it does not hold, the result is an `R2Object` without a body) and `range`. Raises
        RangeNotSatisfiable (10039), and TypeError or RangeError for wrong options.
        """
        name = key_of(key, _BUCKET, "get")
        given = merge_options(options, keywords, _GET_OPTIONS, "get", 2, "GetOptions")
        condition = condition_of(given.get("onlyIf"), "GetOptions")
        asked = range_of(given.get("range"))

        def choose(record: Record) -> Span | None:
            if condition is not None and not condition.holds(record.etag, record.uploaded):
                return None
            return Span(0, record.size) if asked is None else asked.resolve(record.size)

        span: Span | None = None

        def remember(record: Record) -> Span | None:
            nonlocal span
            span = choose(record)
            return span

        with operation("get"):
            check_key(name)
            await self._before()
            found = await self._backend.get(name, remember, whole=condition is None and asked is None)
        if found is None:
            return None
        record, reader = found
        if reader is None or span is None:
            return R2Object(record, self._types, Span(0, record.size))
        return R2ObjectBody(record, self._types, span, reader)

    async def put(
        self, key: Any = MISSING, value: Any = None, options: Any = None, **keywords: Any
    ) -> R2Object | None:
        """Stores `value` and returns the object's metadata, or None when `onlyIf` did not hold and nothing was
        changed.

        `value`: text, bytes of any kind, an asynchronous iterable of them (streamed), a binary file, a Blob, or
        None for an empty object. Options: `onlyIf`, `httpMetadata`, `customMetadata`, `storageClass`, and one of
        `md5`, `sha1`, `sha256`, `sha384`, `sha512`. Raises BadDigest (10037), MetadataTooLarge (10012),
        InvalidObjectName (10020).
        """
        name = key_of(key, _BUCKET, "put")
        given = merge_options(options, keywords, _PUT_OPTIONS, "put", 3, "PutOptions")
        condition = condition_of(given.get("onlyIf"), "PutOptions")
        draft = _draft(name, given, "PutOptions")
        promise = checksum_of(given)
        with operation("put"):
            source = await source_of(b"" if value is None else value, _BUCKET, "put", promise)
            try:
                check_key(name)
                check_custom_metadata(draft.custom)
                await self._before()
                record = await self._backend.put(draft, source, condition)
            finally:
                await source.close()
        return None if record is None else R2Object(record, self._types)

    async def delete(self, keys: Any = MISSING) -> None:
        """Removes one object or, given a list of names, many; missing ones are no error."""
        if isinstance(keys, list | tuple | set | frozenset):
            names = [key_of(key, _BUCKET, "delete", "string or Array") for key in keys]
        else:
            names = [key_of(keys, _BUCKET, "delete", "string or Array")]
        with operation("delete"):
            for name in names:
                check_key(name)
            if names:
                await self._before()
                await self._backend.delete(list(dict.fromkeys(names)))

    async def list(self, options: Any = None, **keywords: Any) -> R2Objects:
        """One page of objects in the order of the names' UTF-8 bytes.

        Options: `prefix`, `limit` (1 to 1,000), `cursor` of the page before, `startAfter`, `delimiter`, and
        `include`, a list of `httpMetadata` and `customMetadata`. Raises InvalidMaxKeys (10022).
        """
        given = merge_options(options, keywords, _LIST_OPTIONS, "list", 1, "ListOptions")
        text = {
            name: text_option(given, name, "ListOptions") for name in ("prefix", "cursor", "delimiter", "startAfter")
        }
        include = _include(given.get("include"))
        after = text["startAfter"]
        if text["cursor"] is not None:
            position = decode_cursor(text["cursor"])
            after = position if after is None else max(after, position)
        with operation("list"):
            limit = integer(given["limit"]) if "limit" in given else MAX_LIST
            if not 1 <= limit <= MAX_LIST:
                raise InvalidMaxKeys
            if include:
                limit = min(limit, MAX_LIST_WITH_METADATA)
            await self._before()
            page = await self._backend.list(
                Query(text["prefix"] or "", after, text["delimiter"] or "", limit, metadata=bool(include))
            )
        http, custom = (name in include for name in _INCLUDES)
        objects = [R2Object(_bare(record, http, custom), self._types, http=http) for record in page.records]
        cursor = None if page.position is None else encode_cursor(page.position)
        return R2Objects(objects, list(page.prefixes), cursor, self._types)

    async def createMultipartUpload(
        self, key: Any = MISSING, options: Any = None, **keywords: Any
    ) -> "R2MultipartUpload":
        """Opens a multipart upload. Options: `httpMetadata`, `customMetadata`, `storageClass`."""
        name = key_of(key, _BUCKET, "createMultipartUpload")
        given = merge_options(options, keywords, _UPLOAD_OPTIONS, "createMultipartUpload", 2, "MultipartOptions")
        draft = _draft(name, given, "MultipartOptions")
        with operation("createMultipartUpload"):
            check_key(name)
            await self._before()
            upload = await self._backend.create_upload(draft)
        return R2MultipartUpload(self._backend, self._types, name, upload, self._before)

    def resumeMultipartUpload(self, key: Any = MISSING, uploadId: Any = MISSING) -> "R2MultipartUpload":
        """A handle on an upload by its id. Nothing is looked up: a wrong id shows when the handle is used."""
        name = key_of(key, _BUCKET, "resumeMultipartUpload")
        if uploadId is MISSING or uploadId is None:
            raise TypeError(
                "Failed to execute 'resumeMultipartUpload' on 'R2Bucket': parameter 2 is not of type 'string'."
            )
        return R2MultipartUpload(self._backend, self._types, name, text_of(uploadId), self._before)


class R2MultipartUpload:
    """An upload in parts. `key` and `uploadId` are all that is needed to resume it elsewhere.

    Awaiting the handle gives the handle, so that `await bucket.resumeMultipartUpload(…)` works too.
    """

    def __init__(self, backend: Backend, types: Types, key: str, upload: str, before: Before) -> None:
        self._backend = backend
        self._types = types
        self._before = before
        self.key = key
        self.uploadId = upload

    def __await__(self) -> Generator[Any, None, "R2MultipartUpload"]:
        return self
        yield

    def __getitem__(self, name: str) -> Any:
        if name in {"key", "uploadId"}:
            return getattr(self, name)
        raise KeyError(name)

    async def uploadPart(self, partNumber: Any = MISSING, value: Any = MISSING, options: Any = None) -> UploadedPart:
        """Stores a part (1 to 10,000) and returns its number and etag for `complete`; a number used again is
        replaced.
        """
        if partNumber is MISSING:
            raise TypeError(
                "Failed to execute 'uploadPart' on 'R2MultipartUpload': parameter 1 is not of type 'integer'."
            )
        with operation("uploadPart"):
            source = await source_of(value, "R2MultipartUpload", "uploadPart")
            try:
                number = part_number(partNumber)
                check_key(self.key)
                await self._before()
                etag = await self._backend.put_part(self.key, self.uploadId, number, source)
            finally:
                await source.close()
        return UploadedPart(number, etag)

    @overload
    async def complete(self, uploadedParts: Any = MISSING) -> R2Object: ...

    @overload
    async def complete(
        self, uploadedParts: Any, options: Mapping[str, Any] | None = None, **keywords: Any
    ) -> R2Object | None: ...

    async def complete(self, uploadedParts: Any = MISSING, options: Any = None, **keywords: Any) -> R2Object | None:
        """Makes the object of the parts listed and returns its metadata.

        Option `onlyIf`, which the platform does not have, and only as `{"etagDoesNotMatch": "*"}`: None when there is
        an object under the key already; the upload stays open. Raises NoSuchUpload (10024), InvalidPart (10025),
        EntityTooSmall (10011), BadUpload (10048).
        """
        parts = parts_of(uploadedParts)
        given = merge_options(options, keywords, _COMPLETE_OPTIONS, "complete", 2, "CompleteOptions")
        condition = condition_of(given.get("onlyIf"), "CompleteOptions")
        if condition not in (None, CREATE_ONLY):
            raise TypeError("An upload is completed at once or, with onlyIf={'etagDoesNotMatch': '*'}, create-only.")
        with operation("completeMultipartUpload"):
            check_key(self.key)
            await self._before()
            record = await self._backend.complete_upload(
                self.key, self.uploadId, parts, create_only=condition is not None
            )
        return None if record is None else R2Object(record, self._types)

    async def abort(self) -> None:
        """Drops the parts. May be repeated, and does nothing after `complete`."""
        with operation("abortMultipartUpload"):
            check_key(self.key)
            await self._before()
            await self._backend.abort_upload(self.key, self.uploadId)

    def __repr__(self) -> str:
        return f"R2MultipartUpload(key={self.key!r}, uploadId={self.uploadId!r})"


def _draft(key: str, options: Mapping[str, Any], struct: str) -> Draft:
    storage_class = options.get("storageClass")
    return Draft(
        key,
        http_metadata_of(options.get("httpMetadata"), struct),
        custom_metadata_of(options.get("customMetadata"), struct),
        "" if storage_class is None else text_of(storage_class),
    )


def _include(value: Any) -> frozenset[str]:
    if value is None:
        return frozenset()
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        raise wrong_field("ListOptions", "include", "Array")
    names = list(value)
    for name in names:
        if name not in _INCLUDES:
            raise RangeError(f"Unsupported include value {text_of(name)}")
    return frozenset(names)


def _bare(record: Record, http: bool, custom: bool) -> Record:
    return replace(
        record,
        http=record.http if http else NO_HTTP_METADATA,
        custom=record.custom if custom else _NO_CUSTOM_METADATA,
    )
