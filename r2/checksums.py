"""Checksums that a caller gives, and digests taken while bytes pass (spec durable-object-semantics 15.8)."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .arguments import wrong_field
from .errors import ALGORITHM_NAMES, BadDigest

SIZES: Final = {"md5": 16, "sha1": 20, "sha256": 32, "sha384": 48, "sha512": 64}
"""Bytes of a digest, by option name, in the order in which the options are looked at."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """A promise of the caller: the value's digest under `algorithm`, in lower-case hex."""

    algorithm: str
    digest: str


def checksum_of(options: Mapping[str, Any]) -> Checksum | None:
    """The one checksum among the options; None when there is none. TypeError for two, a wrong length, or what is
    no hex.
    """
    found: Checksum | None = None
    for algorithm, size in SIZES.items():
        value = options.get(algorithm)
        if value is None:
            continue
        if found is not None:
            raise TypeError("You cannot specify multiple hashing algorithms.")
        found = Checksum(algorithm, _hex(algorithm, size, value))
    return found


def _hex(algorithm: str, size: int, value: Any) -> str:
    name = ALGORITHM_NAMES[algorithm]
    if isinstance(value, str):
        if len(value.encode("utf-8", "replace")) != size * 2:
            raise TypeError(f"{name} is {size * 2} hex characters, not {len(value.encode('utf-8', 'replace'))}")
        if not all(character in "0123456789abcdefABCDEF" for character in value):
            raise TypeError(f"Provided {name} wasn't a valid hex string")
        return value.lower()
    try:
        data = bytes(memoryview(value))
    except TypeError:
        raise wrong_field("PutOptions", algorithm, "ArrayBuffer or ArrayBufferView or string") from None
    if len(data) != size:
        raise TypeError(f"{name} is {size} bytes, not {len(data)}")
    return data.hex()


class Digester:
    """MD5, and the algorithm of a promised checksum, over the bytes that pass `update` in order."""

    __slots__ = ("_hashes", "_promise", "size")

    def __init__(self, promise: Checksum | None = None) -> None:
        self._promise = promise
        algorithms = {"md5"} if promise is None else {"md5", promise.algorithm}
        # not for security: the etag is defined as MD5
        self._hashes = {name: hashlib.new(name, usedforsecurity=False) for name in algorithms}
        self.size = 0

    def update(self, chunk: bytes | memoryview) -> None:
        """Takes the next bytes."""
        self.size += len(chunk)
        for digest in self._hashes.values():
            digest.update(chunk)

    @property
    def md5(self) -> str:
        """MD5 of everything so far, in hex."""
        return self._hashes["md5"].hexdigest()

    @property
    def promised(self) -> dict[str, str]:
        """The checksum that the caller gave, which is the digest if the bytes keep the promise."""
        return {} if self._promise is None else {self._promise.algorithm: self._promise.digest}

    def verified(self) -> dict[str, str]:
        """The checksums to keep beside MD5 (the promised one); BadDigest when the bytes did not keep the promise."""
        if self._promise is None:
            return {}
        actual = self._hashes[self._promise.algorithm].hexdigest()
        if actual != self._promise.digest:
            raise BadDigest(self._promise.algorithm, self._promise.digest, actual)
        return {self._promise.algorithm: actual}


def multipart_etag(md5s: list[str]) -> str:
    """The etag of an object made of parts: MD5 of the parts' MD5s, a dash, their count."""
    joined = hashlib.md5(bytes.fromhex("".join(md5s)), usedforsecurity=False).hexdigest()
    return f"{joined}-{len(md5s)}"
