"""What bucket methods return: `R2Object`, `R2ObjectBody`, `R2Objects` (spec durable-object-semantics 15)."""

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from functools import cached_property
from typing import Any, Final

from .arguments import date_of
from .backend import Reader, Record
from .checksums import SIZES
from .metadata import HttpMetadata, write_http_metadata
from .ranges import Span
from .values import Types

_USED: Final = "Body has already been used. It can only be used once. Use tee() first if you need to read it twice."
MEMBERS: Final = (
    "key", "version", "size", "etag", "httpEtag", "uploaded", "httpMetadata", "customMetadata", "range",
    "checksums", "storageClass", "ssecKeyMd5",
)  # fmt: skip
PAGE_MEMBERS: Final = ("objects", "delimitedPrefixes", "truncated", "cursor")


class Checksums:
    """Digests of an object's bytes, as byte arrays; one that is not known is None."""

    __slots__ = ("_buffer", "_hex")

    def __init__(self, digests: dict[str, str], types: Types) -> None:
        self._hex = digests
        self._buffer = types.buffer

    def __getattr__(self, name: str) -> Any:
        if name not in SIZES:
            raise AttributeError(name)
        digest = self._hex.get(name)
        return None if digest is None else self._buffer(bytes.fromhex(digest))

    def __getitem__(self, name: str) -> Any:
        if name not in SIZES:
            raise KeyError(name)
        return getattr(self, name)

    def toJSON(self) -> dict[str, str]:
        """The known ones in hex."""
        return dict(self._hex)

    def __repr__(self) -> str:
        return f"Checksums({self._hex})"


class _Members:
    """Members by name, as a dictionary has them; older and newer programs read results in both ways."""

    def keys(self) -> Iterator[str]:
        """The names that `obj[name]` takes."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> Any:
        raise NotImplementedError

    def __contains__(self, name: object) -> bool:
        return name in set(self.keys())

    def get(self, name: str, default: Any = None) -> Any:
        """The member, or `default` where there is none of that name."""
        try:
            return self[name]
        except KeyError:
            return default

    def items(self) -> Iterator[tuple[str, Any]]:
        """Pairs of name and member."""
        return ((name, self[name]) for name in self.keys())


class R2Object(_Members):
    """An object's metadata. Members are attributes and, equally, keys: `obj.etag`, `obj["etag"]`.

    `uploaded` is an aware UTC datetime, `size` bytes of the whole object, `range` what a `get` or `head` covers (None
    after `put`), `storageClass` empty where the store has no classes.
    """

    def __init__(self, record: Record, types: Types, span: Span | None = None, *, http: bool = True) -> None:
        self._record = record
        self._types = types
        self._span = span
        self._http_known = http
        self.key = record.key
        self.version = record.version
        self.size = record.size
        self.etag = record.etag
        self.storageClass = record.storage_class
        self.ssecKeyMd5: str | None = None

    # most readers look at one of these or at none

    @cached_property
    def httpMetadata(self) -> Any:
        """The header fields that are kept with the object."""
        return self._types.mapping(self._record.http.shown())

    @cached_property
    def customMetadata(self) -> Any:
        """The writer's own names and texts."""
        return self._types.mapping(dict(self._record.custom))

    @cached_property
    def range(self) -> Any:
        """What a `get` or `head` covers, as `{offset, length}`; None after `put`."""
        span = self._span
        return None if span is None else self._types.mapping({"offset": span.offset, "length": span.length})

    @property
    def httpEtag(self) -> str:
        """The etag in double quotes, ready for a header."""
        return f'"{self.etag}"'

    @property
    def uploaded(self) -> datetime:
        """When the object was stored, in UTC, to the millisecond."""
        return date_of(self._record.uploaded)

    @property
    def checksums(self) -> Checksums:
        """MD5 unless the object was made of parts, and the checksum that the writer gave."""
        digests = dict(self._record.checksums)
        if "-" not in self.etag and len(self.etag) == SIZES["md5"] * 2:
            digests = {"md5": self.etag, **digests}
        return Checksums(digests, self._types)

    def writeHttpMetadata(self, headers: Any) -> None:
        """Sets the HTTP metadata that exists on `headers` and leaves its other fields.

        TypeError when a listing was not asked to include it.
        """
        if not self._http_known:
            raise TypeError(
                f"HTTP metadata unknown for key `{self.key}`. "
                "Did you forget to add 'httpMetadata' to `include` when listing?"
            )
        write_http_metadata(self._record.http, headers)

    def __getitem__(self, name: str) -> Any:
        if name in MEMBERS:
            return getattr(self, name)
        raise KeyError(name)

    def keys(self) -> Iterator[str]:
        """The names that `obj[name]` takes."""
        return iter(MEMBERS)

    @property
    def _http(self) -> HttpMetadata:
        return self._record.http

    def __repr__(self) -> str:
        return f"{type(self).__name__}(key={self.key!r}, size={self.size}, etag={self.etag!r})"


class _Chunks:
    """The chunks of a body; remembers whether anybody began to read."""

    __slots__ = ("_buffer", "_reader", "used")

    def __init__(self, reader: Reader, types: Types) -> None:
        self._reader = reader
        self._buffer = types.buffer
        self.used = False

    def __aiter__(self) -> "_Chunks":
        return self

    async def __anext__(self) -> Any:
        self.used = True
        return self._buffer(await anext(self._reader))

    async def whole(self) -> bytes:
        """All that is left, as the store gave it."""
        self.used = True
        try:
            chunks = [chunk async for chunk in self._reader]
        finally:
            await self._reader.aclose()
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def aclose(self) -> None:
        self.used = True
        await self._reader.aclose()


class R2ObjectBody(R2Object):
    """An object with its bytes, read once: as `body` (a stream), by iteration in chunks, or whole."""

    def __init__(self, record: Record, types: Types, span: Span, reader: Reader) -> None:
        super().__init__(record, types, span)
        self._chunks = _Chunks(reader, types)
        self._claimed = False

    @cached_property
    def body(self) -> Any:
        """The bytes as a stream."""
        return self._types.stream(self._chunks)

    @property
    def bodyUsed(self) -> bool:
        """Whether reading has begun."""
        return self._chunks.used or self._claimed

    def _claim(self) -> None:
        if self.bodyUsed:
            raise TypeError(_USED)
        self._claimed = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._claim()
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._chunks:
                yield chunk
        finally:
            await self._chunks.aclose()

    async def _whole(self) -> bytes:
        self._claim()
        return await self._chunks.whole()

    async def bytes(self) -> Any:
        """The bytes. TypeError when the body was read already, as for all of these."""
        return self._types.buffer(await self._whole())

    async def arrayBuffer(self) -> Any:
        """The bytes."""
        return self._types.buffer(await self._whole())

    async def text(self) -> str:
        """The bytes as UTF-8: a byte-order mark is dropped, wrong sequences become U+FFFD."""
        return (await self._whole()).removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")

    async def json(self) -> Any:
        """The text as JSON; ValueError when it is none."""
        return self._types.json(await self.text())

    async def blob(self) -> Any:
        """The bytes as a Blob of the object's content type."""
        return self._types.blob(await self._whole(), content_type=self._http.contentType)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name) if name in {"body", "bodyUsed"} else super().__getitem__(name)

    def keys(self) -> Iterator[str]:
        """The names that `obj[name]` takes."""
        return iter((*MEMBERS, "body", "bodyUsed"))


class R2Objects(_Members):
    """One page of a listing. `cursor` is None unless `truncated`."""

    def __init__(self, objects: list[R2Object], prefixes: list[str], cursor: str | None, types: Types) -> None:
        self.objects = types.array(objects)
        self.delimitedPrefixes = types.array(prefixes)
        self.truncated = cursor is not None
        self.cursor = cursor

    def __getitem__(self, name: str) -> Any:
        if name in PAGE_MEMBERS:
            return getattr(self, name)
        raise KeyError(name)

    def keys(self) -> Iterator[str]:
        """The names that `page[name]` takes."""
        return iter(PAGE_MEMBERS)

    def __repr__(self) -> str:
        return f"R2Objects({len(self.objects)} objects, truncated={self.truncated})"
