"""Header fields with the rules of the Fetch standard, and the message form that Python programs read.

`Headers` is the platform's own class: names are case-insensitive, repeated fields are joined with a comma and a space
when read, `Set-Cookie` stays several, iteration gives pairs sorted by name. `request.headers` of the Python API is an
`http.client.HTTPMessage` instead (spec python-workers-api 3); `Headers.message()` makes one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from http.client import HTTPMessage
from typing import Any

from .errors import javascript_errors
from .values import JsList, js_string, pairs_of

# RFC 9110 5.6.2: a field name is a token; the Fetch standard refuses NUL, CR and LF in a value.
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_BAD_VALUE = re.compile(r"[\x00\r\n]")
_BLANK = " \t\r\n"

RawHeaders = list[tuple[bytes, bytes]]


class HeadersMessage(HTTPMessage):
    """What `.headers` of a request or a response gives: a copy; changing it changes nothing that is sent."""

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> HeadersMessage:
        message = cls()
        for name, value in pairs:
            message.set_raw(name, value)
        return message

    def has(self, name: str) -> bool:
        return name in self

    def getSetCookie(self) -> list[str]:
        return [str(value) for value in self.get_all("set-cookie", [])]


def header_name(name: Any) -> str:
    """`name` in lower case; TypeError when it is not a token."""
    text = js_string(name)
    if not _TOKEN.match(text):
        raise TypeError(f"Invalid header name: {text!r} is not a token (RFC 9110 5.6.2)")
    return text.lower()


def header_value(value: Any) -> str:
    """`value` as text without blanks around it; TypeError for NUL, CR or LF in it."""
    text = js_string(value).strip(_BLANK)
    if _BAD_VALUE.search(text):
        raise TypeError("Invalid header value: it may not contain NUL, CR or LF")
    return text


def decode_value(value: bytes) -> str:
    """Bytes of a field value as text: UTF-8 as the platform reads it, Latin-1 where that fails."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


class Headers:
    """The platform's `Headers`. Built from a mapping, pairs, another `Headers`, an `HTTPMessage`, or nothing."""

    __slots__ = ("_pairs",)

    def __init__(self, init: Any = None) -> None:
        self._pairs: list[tuple[str, str]] = []
        if init is None:
            return
        if isinstance(init, Headers):
            self._pairs = init._pairs.copy()
            return
        if isinstance(init, str | bytes):
            raise TypeError("Received unexpected type for headers argument")
        for name, value in pairs_of(init):
            self._pairs.append((header_name(name), header_value(value)))

    @classmethod
    @javascript_errors
    def new(cls, init: Any = None) -> Headers:
        return cls(init)

    @classmethod
    def from_raw(cls, raw: Iterable[tuple[bytes, bytes]]) -> Headers:
        """Of the byte pairs of an ASGI scope, which the server has checked."""
        headers = cls()
        headers._pairs = [(name.decode("latin-1").lower(), decode_value(value)) for name, value in raw]
        return headers

    def raw(self) -> RawHeaders:
        """Byte pairs for ASGI, lower-case names, in the order in which they were given; values as UTF-8."""
        return [(name.encode("latin-1"), value.encode()) for name, value in self._pairs]

    def message(self) -> HeadersMessage:
        """A fresh `HTTPMessage` of the sorted and joined fields; every `Set-Cookie` comes first and alone."""
        cookies = [("Set-Cookie", value) for name, value in self._pairs if name == "set-cookie"]
        return HeadersMessage.of([*cookies, *(pair for pair in self if pair[0] != "set-cookie")])

    def copy(self) -> Headers:
        other = Headers()
        other._pairs = self._pairs.copy()
        return other

    def append(self, name: Any, value: Any) -> None:
        self._pairs.append((header_name(name), header_value(value)))

    def set(self, name: Any, value: Any) -> None:
        """Replaces the first field of that name, keeps its place, and drops the others."""
        wanted, text = header_name(name), header_value(value)
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

    def delete(self, name: Any) -> None:
        wanted = header_name(name)
        self._pairs = [pair for pair in self._pairs if pair[0] != wanted]

    def get(self, name: Any, default: Any = None) -> Any:
        """The values of that name joined with `, `, or `default`."""
        wanted = name.lower() if isinstance(name, str) else header_name(name)
        found: str | None = None
        for have, value in self._pairs:
            if have == wanted:
                found = value if found is None else f"{found}, {value}"
        return default if found is None else found

    def has(self, name: Any) -> bool:
        wanted = header_name(name)
        return any(have == wanted for have, _ in self._pairs)

    def getSetCookie(self) -> JsList:
        return JsList(value for name, value in self._pairs if name == "set-cookie")

    def getAll(self, name: Any) -> JsList:
        """Every `Set-Cookie` value; TypeError for another name, as on the platform."""
        if header_name(name) != "set-cookie":
            raise TypeError('getAll() can only be used with the header name "Set-Cookie".')
        return self.getSetCookie()

    def get_all(self, name: Any, failobj: Any = None) -> Any:
        wanted = header_name(name)
        found = [value for have, value in self if have == wanted]
        return found or failobj

    def __iter__(self) -> Iterator[tuple[str, str]]:
        joined: dict[str, str] = {}
        cookies: list[tuple[str, str]] = []
        for name, value in self._pairs:
            if name == "set-cookie":
                cookies.append((name, value))
            elif name in joined:
                joined[name] = f"{joined[name]}, {value}"
            else:
                joined[name] = value
        return iter(sorted([*joined.items(), *cookies], key=lambda pair: pair[0]))

    def entries(self) -> Iterator[tuple[str, str]]:
        return iter(self)

    def items(self) -> Iterator[tuple[str, str]]:
        return iter(self)

    def keys(self) -> Iterator[str]:
        return (name for name, _ in self)

    def values(self) -> Iterator[str]:
        return (value for _, value in self)

    def forEach(self, function: Callable[..., Any]) -> None:
        for name, value in self:
            function(value, name, self)

    def to_py(self, **_options: Any) -> dict[str, str]:
        return dict(self)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(have == name.lower() for have, _ in self._pairs)

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return str(value)

    def __setitem__(self, name: str, value: Any) -> None:
        self.set(name, value)

    def __delitem__(self, name: str) -> None:
        self.delete(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Headers) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"Headers({list(self)!r})"


def headers_argument(value: Any) -> Headers:
    """The `headers=` argument of requests and responses: a mapping, a list of pairs, `Headers`, `HTTPMessage`.

    Raises TypeError for anything else (spec python-workers-api 3).
    """
    if value is None:
        return Headers()
    if isinstance(value, Headers | dict | list | tuple | HTTPMessage) or callable(getattr(value, "items", None)):
        return Headers(value)
    raise TypeError("Received unexpected type for headers argument")
