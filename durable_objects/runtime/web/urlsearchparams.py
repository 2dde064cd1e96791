"""`application/x-www-form-urlencoded` and the platform's `URLSearchParams` over it (URL Standard 5 and 6.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import unquote_to_bytes

from .errors import javascript_errors
from .values import JsList, js_string, pairs_of

_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789*-._")


def parse_form(text: str | bytes) -> list[tuple[str, str]]:
    """Pairs of an urlencoded text; undecodable bytes become U+FFFD, empty pieces are skipped."""
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    return [
        (_decode(name), _decode(value))
        for piece in data.split(b"&")
        if piece
        for name, _, value in (piece.partition(b"="),)
    ]


def _decode(piece: bytes) -> str:
    return unquote_to_bytes(piece.replace(b"+", b" ")).decode("utf-8", "replace")


def serialize_form(pairs: Iterable[tuple[str, str]]) -> str:
    return "&".join(f"{_encode(name)}={_encode(value)}" for name, value in pairs)


def _encode(text: str) -> str:
    return "".join(
        chr(byte) if byte in _SAFE else "+" if byte == 0x20 else f"%{byte:02X}"
        for byte in text.encode("utf-8", "replace")
    )


class URLSearchParams:
    """An ordered list of pairs. Built from a query (`?` allowed), a mapping, pairs, another one, or nothing."""

    __slots__ = ("_changed", "_pairs")

    def __init__(self, init: Any = None) -> None:
        self._changed: Callable[[str], None] | None = None
        self._pairs: list[tuple[str, str]] = []
        if init is None:
            return
        if isinstance(init, URLSearchParams):
            self._pairs = init._pairs.copy()
        elif isinstance(init, str):
            self._pairs = parse_form(init.removeprefix("?"))
        else:
            self._pairs = [(js_string(name), js_string(value)) for name, value in pairs_of(init)]

    @classmethod
    @javascript_errors
    def new(cls, init: Any = None) -> URLSearchParams:
        return cls(init)

    def load(self, query: str) -> None:
        """Replaces all pairs by those of `query`, without telling the URL."""
        self._pairs = parse_form(query)

    def watch(self, changed: Callable[[str], None]) -> None:
        """`changed` is called with the serialised pairs after every change."""
        self._changed = changed

    def _tell(self) -> None:
        if self._changed is not None:
            self._changed(self.toString())

    def append(self, name: Any, value: Any) -> None:
        self._pairs.append((js_string(name), js_string(value)))
        self._tell()

    def delete(self, name: Any, value: Any = None) -> None:
        wanted = js_string(name)
        self._pairs = [
            pair for pair in self._pairs if pair[0] != wanted or (value is not None and pair[1] != js_string(value))
        ]
        self._tell()

    def get(self, name: Any, default: Any = None) -> Any:
        wanted = js_string(name)
        return next((value for have, value in self._pairs if have == wanted), default)

    def getAll(self, name: Any) -> JsList:
        wanted = js_string(name)
        return JsList(value for have, value in self._pairs if have == wanted)

    def has(self, name: Any, value: Any = None) -> bool:
        wanted = js_string(name)
        return any(have == wanted and (value is None or js_string(value) == held) for have, held in self._pairs)

    def set(self, name: Any, value: Any) -> None:
        wanted, text = js_string(name), js_string(value)
        pairs: list[tuple[str, str]] = []
        placed = False
        for pair in self._pairs:
            if pair[0] != wanted:
                pairs.append(pair)
            elif not placed:
                pairs.append((wanted, text))
                placed = True
        if not placed:
            pairs.append((wanted, text))
        self._pairs = pairs
        self._tell()

    def sort(self) -> None:
        """Stable, by the UTF-16 code units of the names."""
        self._pairs.sort(key=lambda pair: pair[0].encode("utf-16-be", "surrogatepass"))
        self._tell()

    @property
    def size(self) -> int:
        return len(self._pairs)

    def entries(self) -> Iterator[tuple[str, str]]:
        return iter(list(self._pairs))

    def items(self) -> Iterator[tuple[str, str]]:
        return self.entries()

    def keys(self) -> Iterator[str]:
        return iter([name for name, _ in self._pairs])

    def values(self) -> Iterator[str]:
        return iter([value for _, value in self._pairs])

    def forEach(self, function: Callable[..., Any]) -> None:
        for name, value in self.entries():
            function(value, name, self)

    def toString(self) -> str:
        return serialize_form(self._pairs)

    def to_py(self, **_options: Any) -> dict[str, str]:
        return dict(self._pairs)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return self.entries()

    def __len__(self) -> int:
        return len(self._pairs)

    def __bool__(self) -> bool:
        return True

    def __contains__(self, name: object) -> bool:
        return self.has(name)

    def __str__(self) -> str:
        return self.toString()

    def __repr__(self) -> str:
        return f"URLSearchParams({self.toString()!r})"
