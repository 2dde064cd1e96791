"""Bundles: many files in one deterministic, byte-preserving archive (spec state-plane-protocol 8).

The line `clawsweeper-exact-review-bundle-v1` LF, a 32-bit big-endian length, that many bytes of compact JSON
`{"version":1,"files":[{"path","bytes","sha256"},…]}`, then the files' bytes in that order, and nothing after.
The same
files always make the same bytes, so that the archive's digest names them.
"""

import hashlib
import json
import re
import struct
from collections.abc import Mapping
from typing import Any, Final

MAGIC: Final = b"clawsweeper-exact-review-bundle-v1\n"
MAX_FILES: Final = 512
MAX_MANIFEST_BYTES: Final = 1024 * 1024
_LENGTH: Final = struct.Struct(">I")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


class InvalidBundle(ValueError):
    """The files cannot be bundled, or the bytes are no bundle; the message says what would be right."""


def check_path(path: Any) -> str:
    """`path` when it is relative with `/` between segments that are not empty, `.` or `..`. Raises InvalidBundle."""
    if not isinstance(path, str) or not path or "\0" in path or "\\" in path:
        raise InvalidBundle(f"{path!r}: a path is a text without NUL and backslash")
    if any(segment in {"", ".", ".."} for segment in path.split("/")):
        raise InvalidBundle(f"{path!r}: a path is relative, and no segment is empty, '.' or '..'")
    return path


def _in_order(paths: Mapping[str, bytes]) -> list[str]:
    return sorted(paths, key=lambda path: path.encode("utf-16-be", "surrogatepass"))


def _check_tree(paths: list[str]) -> None:
    """A file cannot be a folder of another one."""
    known = set(paths)
    for path in paths:
        parts = path.split("/")
        for end in range(1, len(parts)):
            if "/".join(parts[:end]) in known:
                raise InvalidBundle(f"{path!r}: {'/'.join(parts[:end])!r} is a file")


def pack(files: Mapping[str, bytes]) -> bytes:
    """The archive of `files` by path, in order of their paths. Raises InvalidBundle for more or fewer than 1
    to 512."""
    if not 1 <= len(files) <= MAX_FILES:
        raise InvalidBundle(f"a bundle has 1 to {MAX_FILES} files, not {len(files)}")
    order = _in_order(files)
    for path in order:
        check_path(path)
    _check_tree(order)
    entries = [
        {"path": path, "bytes": len(files[path]), "sha256": hashlib.sha256(files[path]).hexdigest()} for path in order
    ]
    text = json.dumps({"version": 1, "files": entries}, ensure_ascii=False, separators=(",", ":"))
    try:
        manifest = text.encode()
    except UnicodeEncodeError:
        raise InvalidBundle("a path is no Unicode text") from None
    if len(manifest) > MAX_MANIFEST_BYTES:
        raise InvalidBundle(f"the list of files exceeds {MAX_MANIFEST_BYTES} bytes")
    return b"".join([MAGIC, _LENGTH.pack(len(manifest)), manifest, *(files[path] for path in order)])


def unpack(data: bytes) -> dict[str, bytes]:
    """The files of an archive by path, each with its digest verified. Raises InvalidBundle for anything else."""
    start = len(MAGIC) + _LENGTH.size
    if not data.startswith(MAGIC) or len(data) < start:
        raise InvalidBundle("the bytes do not begin as a bundle does")
    (length,) = _LENGTH.unpack_from(data, len(MAGIC))
    if length > MAX_MANIFEST_BYTES or start + length > len(data):
        raise InvalidBundle("the list of files is longer than the bundle, or than is allowed")
    files: dict[str, bytes] = {}
    offset = start + length
    for path, size, digest in _entries(data[start:offset]):
        content = data[offset : offset + size]
        if len(content) != size or hashlib.sha256(content).hexdigest() != digest:
            raise InvalidBundle(f"{path!r}: its bytes are not those of the list")
        files[path] = content
        offset += size
    if offset != len(data):
        raise InvalidBundle(f"{len(data) - offset} bytes follow the last file")
    _check_tree(list(files))
    return files


def _entries(manifest: bytes) -> list[tuple[str, int, str]]:
    try:
        value = json.loads(manifest.decode())
    except (ValueError, RecursionError):
        raise InvalidBundle("the list of files is no JSON") from None
    entries = value.get("files") if isinstance(value, dict) and value.get("version") == 1 else None
    if not isinstance(entries, list) or not 1 <= len(entries) <= MAX_FILES:
        raise InvalidBundle(f"the list of files has version 1 and 1 to {MAX_FILES} entries")
    found: dict[str, tuple[str, int, str]] = {}
    for entry in entries:
        path = check_path(entry.get("path") if isinstance(entry, dict) else None)
        size, digest = entry.get("bytes"), entry.get("sha256")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise InvalidBundle(f"{path!r}: bytes must be a number of at least 0")
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise InvalidBundle(f"{path!r}: sha256 must be 64 lower-case hex digits")
        if path in found:
            raise InvalidBundle(f"{path!r} is listed twice")
        found[path] = (path, size, digest)
    return list(found.values())
