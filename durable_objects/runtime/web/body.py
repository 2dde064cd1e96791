"""Bodies of requests and responses: complete bytes, a stream, or what an ASGI server still has to hand over.

A body is read once (`OSError("Body already used")` afterwards) and never gathered in memory unless somebody asks for
all of it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from .blob import Blob
from .formdata import FormData
from .headers import Headers
from .multipart import encode_multipart, new_boundary, parse_form_body
from .streams import ReadableStream
from .urlsearchparams import URLSearchParams
from .values import JsBytes, to_platform

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

TEXT = "text/plain;charset=UTF-8"
FORM = "application/x-www-form-urlencoded;charset=UTF-8"


def used_error() -> OSError:
    return OSError("Body already used")


class Body:
    """One body, from exactly one of `content` (bytes), `stream` and `receive` (an ASGI channel)."""

    __slots__ = ("_read", "_receive", "_stream", "content", "finished")

    def __init__(
        self, content: bytes | None = None, stream: ReadableStream | None = None, receive: Receive | None = None
    ) -> None:
        self.content = content
        self._stream = stream
        self._receive = receive
        self._read = False
        self.finished = receive is None

    @property
    def used(self) -> bool:
        stream = self._stream
        return self._read or (stream is not None and stream.disturbed)

    @property
    def streaming(self) -> bool:
        """Whether the bytes are not all there yet."""
        return self._stream is not None or self._receive is not None

    def stream(self) -> ReadableStream:
        """The body as a stream, the same one at every call; reading from it uses the body."""
        if self._stream is None:
            if self._receive is not None:
                self._stream = ReadableStream(self._received(self._receive))
            elif self._read:
                self._stream = ReadableStream()
                self._stream.disturbed = True
            else:
                self._stream = ReadableStream((self.content,) if self.content else ())
        return self._stream

    async def _received(self, receive: Receive) -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                raise ConnectionResetError("The client disconnected before its whole body was read")
            more = message.get("more_body", False)
            if not more:
                self.finished = True
            if chunk := message.get("body", b""):
                yield chunk

    async def read(self) -> bytes:
        """All bytes. Raises OSError when the body was read before, or when the client goes away meanwhile."""
        if self._read:
            raise used_error()
        stream = self._stream
        if stream is not None:
            if stream.disturbed or stream.locked:
                raise used_error()
            self._read = True
            return await stream.read_all()
        self._read = True
        if self._receive is None:
            return self.content or b""
        chunks = [chunk async for chunk in self._received(self._receive)]
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def clone(self) -> Body:
        """A second body of the same bytes; OSError when this one was read."""
        if self.used:
            raise used_error()
        if not self.streaming:
            return Body(self.content)
        mine, other = self.stream().tee()
        self._stream, self._receive = mine, None
        return Body(stream=other)


def body_of(value: Any, owner: str) -> tuple[Body | None, str | None]:
    """The body that `value` gives and the content type it brings along.

    Raises TypeError(`Unsupported type in <owner>: <name>`) for what is no body.
    """
    if value is None:
        return None, None
    if isinstance(value, str):
        return Body(value.encode("utf-8", "replace")), TEXT
    if isinstance(value, bytes):
        return Body(value), None
    if isinstance(value, FormData):
        boundary = new_boundary()
        return Body(encode_multipart(value, boundary)), f"multipart/form-data; boundary={boundary}"
    if isinstance(value, URLSearchParams):
        return Body(value.toString().encode()), FORM
    if isinstance(value, Blob):
        return Body(value.data), value.content_type or None
    if isinstance(value, ReadableStream):
        if value.locked or value.disturbed:
            raise TypeError(
                "This ReadableStream is disturbed (has already been read from), and cannot be used as a body."
            )
        return Body(stream=value), None
    if isinstance(value, bytearray | memoryview):
        return Body(bytes(value)), None
    if isinstance(value, AsyncIterable):
        return Body(stream=ReadableStream(value)), None
    convert = getattr(value, "to_bytes", None)
    if callable(convert) and not isinstance(value, int):
        return Body(bytes(convert())), None
    raise TypeError(f"Unsupported type in {owner}: {type(value).__name__}")


class Message:
    """What requests and responses share: fields and a body, and the ways to read it."""

    __slots__ = ("_body", "_fields", "_type")

    _body: Body | None
    _fields: Headers | None
    _type: str | None  # the content type that the body brought along, unless a field names one

    @property
    def fields(self) -> Headers:
        """The header fields themselves; changing them changes what is sent."""
        return self._completed_fields()

    def _completed_fields(self) -> Headers:
        fields = self._fields
        if fields is None:
            fields = self._fields = Headers()
        if self._type is not None:
            if "content-type" not in fields:
                fields.append("content-type", self._type)
            self._type = None
        return fields

    @property
    def headers(self) -> Any:
        """A fresh `http.client.HTTPMessage`: names in lower case, repeats joined, every Set-Cookie alone."""
        return self.fields.message()

    @property
    def body(self) -> ReadableStream | None:
        """The body as a stream of bytes, None when there is none."""
        body = self._taken()
        return None if body is None else body.stream()

    @property
    def body_used(self) -> bool:
        body = self._body
        return body is not None and body.used

    def _taken(self) -> Body | None:
        return self._body

    async def bytes(self) -> bytes:
        body = self._taken()
        return b"" if body is None else await body.read()

    async def buffer(self) -> JsBytes:
        """The bytes, as something that answers to `.to_bytes()` and `.byteLength` too."""
        return JsBytes(await self.bytes())

    async def text(self) -> str:
        """UTF-8 without a byte-order mark; undecodable bytes become U+FFFD."""
        data = await self.bytes()
        return data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")

    async def blob(self) -> Blob:
        return Blob(await self.bytes(), content_type=self.fields.get("content-type", ""))

    async def form_data(self) -> FormData:
        """The form of an urlencoded or multipart body; TypeError when it is neither or broken."""
        if self.body_used:
            raise used_error()
        return parse_form_body(self.fields.get("content-type", ""), await self.bytes())

    async def _json(self, **options: Any) -> Any:
        """Dictionaries and lists that also answer to JavaScript's spellings: `(await request.json()).name`."""
        return to_platform(json.loads(await self.text(), **options))
