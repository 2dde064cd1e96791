"""Durable Object ids: 64 hex digits that carry a check of their namespace (spec wrangler-config 7)."""

import hashlib
import hmac
import re
from collections.abc import Callable

MAX_NAME_BYTES = 1024
_HEX = re.compile(r"[0-9a-fA-F]{64}\Z")


class DurableObjectId:
    """An id of one namespace. Equal when the 64 hex digits are equal; `name` does not count."""

    __slots__ = ("_hex", "_name")

    def __init__(self, hex_digits: str, name: str | None = None) -> None:
        self._hex = hex_digits
        self._name = name

    @property
    def name(self) -> str | None:
        """The name the id was made from, or None for unique ids and ids made from text."""
        return self._name

    @property
    def jurisdiction(self) -> None:
        """Always None: there are no jurisdictions here."""
        return None

    def toString(self) -> str:
        """Returns the 64 lower-case hex digits."""
        return self._hex

    def equals(self, other: object) -> bool:
        """Whether `other` has the same digits. Raises TypeError when it is no id."""
        if not isinstance(other, DurableObjectId):
            raise TypeError(f"equals() takes a Durable Object id, not {type(other).__name__}")
        return other._hex == self._hex

    def __eq__(self, other: object) -> bool:
        return self.equals(other) if isinstance(other, DurableObjectId) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._hex)

    def __str__(self) -> str:
        return self._hex

    def __repr__(self) -> str:
        return f"DurableObjectId({self._hex!r}, name={self._name!r})"


class IdFactory:
    """Makes and checks the ids of one namespace.

    `unique_key` is `<worker name>-<class name>`; the same key gives the same ids as the platform's local runtime.
    """

    def __init__(self, unique_key: str, random_bytes: Callable[[int], bytes]) -> None:
        self._key = hashlib.sha256(unique_key.encode()).digest()
        self._random_bytes = random_bytes
        self._by_name: dict[str, str] = {}

    def _mac(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, "sha256")[:16]

    def from_name(self, name: str) -> DurableObjectId:
        """Returns the id of `name`. A lone surrogate counts as U+FFFD, as in the platform's UTF-8 conversion."""
        digits = self._by_name.get(name)
        if digits is None:
            base = self._mac(name.encode("utf-8", "surrogatepass" if name.isascii() else "replace"))
            digits = (base + self._mac(base)).hex()
            if len(self._by_name) < 4096:
                self._by_name[name] = digits
        return DurableObjectId(digits, name)

    def unique(self) -> DurableObjectId:
        """Returns a fresh id without a name."""
        base = self._random_bytes(16)
        return DurableObjectId((base + self._mac(base)).hex())

    def from_string(self, text: str) -> DurableObjectId:
        """Returns the id that prints as `text`, in lower case.

        Raises TypeError when it is not 64 hex digits or was not minted for this namespace.
        """
        if not _HEX.match(text):
            raise TypeError("Invalid Durable Object ID: must be 64 hex digits")
        raw = bytes.fromhex(text)
        if not hmac.compare_digest(self._mac(raw[:16]), raw[16:]):
            raise TypeError("Durable Object ID is not valid for this namespace.")
        return DurableObjectId(text.lower())


def visible_name(name: str | None) -> str | None:
    """The name as `ctx.id.name` shows it: names over 1,024 bytes are dropped inside the object (semantics 1.5)."""
    if name is None or len(name.encode("utf-8", "replace")) > MAX_NAME_BYTES:
        return None
    return name
