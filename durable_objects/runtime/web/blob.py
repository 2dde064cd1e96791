"""`Blob` and `File`: immutable bytes with a media type (spec python-workers-api 3)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Any

from .streams import ReadableStream, chunk_bytes
from .values import JsBytes

_NEWLINE = re.compile(r"\r\n|\r|\n")
_PRINTABLE = re.compile(r"[\x20-\x7e]*\Z")


def media_type(value: str) -> str:
    """A blob's type: lower case, and empty when it holds anything unprintable (File API 3)."""
    return value.lower() if _PRINTABLE.match(value) else ""


class Blob:
    """`Blob(parts_or_one, content_type=, endings=)`: parts are text, bytes, views and blobs.

    One `Blob` given alone passes its type on, a list of blobs does not. `endings="native"` writes every line end of
    text parts as a line feed.
    """

    __slots__ = ("_data", "content_type")

    content_type: str

    def __init__(self, parts: Any = (), content_type: str | None = None, endings: str | None = None) -> None:
        if endings not in {None, "transparent", "native"}:
            raise TypeError(f"endings must be 'transparent' or 'native', not {endings!r}")
        if isinstance(parts, Blob):
            content_type = parts.content_type if content_type is None else content_type
            pieces: Iterable[Any] = (parts,)
        elif isinstance(parts, str | bytes | bytearray | memoryview) or hasattr(parts, "to_bytes"):
            pieces = (parts,)
        elif isinstance(parts, Iterable):
            pieces = parts
        else:
            raise TypeError(f"A Blob is made of text, bytes or blobs, not {type(parts).__name__}")
        self._data = b"".join(_piece(piece, endings == "native") for piece in pieces)
        self.content_type = media_type(content_type or "")

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self._data)

    @property
    def type(self) -> str:
        return self.content_type

    @property
    def js_object(self) -> Blob:
        return self

    @property
    def data(self) -> bytes:
        """The bytes themselves; what `await .bytes()` gives."""
        return self._data

    async def text(self) -> str:
        return self._data.decode("utf-8", "replace")

    async def bytes(self) -> bytes:
        return self._data

    async def arrayBuffer(self) -> JsBytes:
        return JsBytes(self._data)

    async def buffer(self) -> JsBytes:
        return JsBytes(self._data)

    def stream(self) -> ReadableStream:
        return ReadableStream((self._data,) if self._data else ())

    def slice(self, start: int | None = None, end: int | None = None, content_type: str | None = None) -> Blob:
        """The bytes from `start` to `end`, negative ones counted from the end, as a Blob of its own type."""
        return Blob(self._data[start:end], content_type=content_type)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(size={self.size}, content_type={self.content_type!r})"


class File(Blob):
    """A Blob with `.name` and `.last_modified` (milliseconds since 1970; the time of making it unless given)."""

    __slots__ = ("last_modified", "name")

    name: str
    last_modified: int

    def __init__(
        self,
        parts: Any = (),
        filename: str | None = None,
        content_type: str | None = None,
        endings: str | None = None,
        last_modified: int | None = None,
    ) -> None:
        super().__init__(parts, content_type=content_type, endings=endings)
        if isinstance(parts, File):
            filename = parts.name if filename is None else filename
            last_modified = parts.last_modified if last_modified is None else last_modified
        if filename is None:
            raise TypeError("File() needs a filename")
        self.name = filename
        self.last_modified = int(time.time() * 1000) if last_modified is None else int(last_modified)

    @property
    def lastModified(self) -> int:
        return self.last_modified

    def __repr__(self) -> str:
        return f"File(name={self.name!r}, size={self.size}, content_type={self.content_type!r})"


def _piece(piece: Any, native: bool) -> bytes:
    if isinstance(piece, Blob):
        return piece.data
    if isinstance(piece, str):
        return (_NEWLINE.sub("\n", piece) if native else piece).encode("utf-8", "replace")
    return chunk_bytes(piece)
