"""The files of an assets folder: which may be served, their types, their tags, their bytes."""

import asyncio
import hashlib
import mimetypes
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moorage.durable_objects.runtime import gate as gates

from .ignoring import Ignored

CHUNK: Final = 256 * 1024
IN_MEMORY: Final = 1024 * 1024
"""Files up to this size are answered whole; larger ones are read as the client takes them."""

# The machine's own table is not read: an answer must not depend on where it is given.
_TYPES: Final = mimetypes.MimeTypes(filenames=())
for _ending, _type in {
    ".avif": "image/avif", ".csv": "text/csv", ".ico": "image/vnd.microsoft.icon", ".js": "text/javascript",
    ".jsonld": "application/ld+json", ".map": "application/json", ".md": "text/markdown", ".mjs": "text/javascript",
    ".otf": "font/otf", ".ttf": "font/ttf", ".wasm": "application/wasm", ".webm": "video/webm",
    ".webmanifest": "application/manifest+json", ".webp": "image/webp", ".woff": "font/woff",
    ".woff2": "font/woff2", ".xml": "text/xml", ".yaml": "text/yaml", ".yml": "text/yaml",
}.items():  # fmt: skip
    _TYPES.add_type(_type, _ending)


def content_type(path: str) -> str | None:
    """The media type by the name's ending, `text/` with its charset; None for an unknown ending."""
    kind, coding = _TYPES.guess_type(path, strict=False)
    if coding is not None:
        return {"gzip": "application/gzip", "bzip2": "application/x-bzip2"}.get(coding, "application/octet-stream")
    if kind is not None and kind.startswith("text/"):
        return f"{kind}; charset=utf-8"
    return kind


@dataclass(frozen=True, slots=True)
class Asset:
    """One file: its place, its size in bytes, and its tag, a hash of its contents."""

    file: Path
    size: int
    tag: str


class Files:
    """The folder `root`. A file that is ignored, hidden, or outside of it by a link does not exist."""

    def __init__(self, root: Path) -> None:
        self.root = Path(os.path.realpath(root))
        self._prefix = str(self.root).rstrip(os.sep) + os.sep
        ignore = self.root / ".assetsignore"
        self.ignored = Ignored(ignore.read_text(encoding="utf-8").splitlines() if ignore.is_file() else ())
        self._tags: dict[str, tuple[int, int, str]] = {}

    def exists(self, path: str) -> bool:
        """Whether `path`, one that `rules.decoded_path` let through or made of one, is a file to be served."""
        if not path.startswith("/") or path.endswith("/") or self.ignored(path):
            return False
        try:
            file = self._prefix + path[1:]
            return os.path.isfile(file) and os.path.realpath(file).startswith(self._prefix)
        except (OSError, ValueError):
            return False

    async def open(self, path: str) -> Asset:
        """The file at `path`. Raises OSError when it is gone."""
        file = self.root / path[1:]
        status = os.stat(file)
        known = self._tags.get(path)
        if known is None or known[:2] != (status.st_mtime_ns, status.st_size):
            tag = await gates.outside(asyncio.to_thread, _hash, file)
            known = self._tags[path] = (status.st_mtime_ns, status.st_size, tag)
        return Asset(file, status.st_size, known[2])


def _hash(file: Path) -> str:
    with open(file, "rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()[:32]


async def chunks(asset: Asset) -> AsyncIterator[bytes]:
    """The bytes of a file, in pieces. Raises OSError when it became shorter meanwhile."""
    left = asset.size
    source = await asyncio.to_thread(open, asset.file, "rb")
    with source:
        while left:
            chunk = await asyncio.to_thread(source.read, min(CHUNK, left))
            if not chunk:
                raise OSError(f"{asset.file.name} became shorter while it was sent")
            left -= len(chunk)
            yield chunk
