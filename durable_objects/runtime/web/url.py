"""URLs as the platform spells them: the parser of the URL Standard for absolute URLs and their relatives.

Special schemes (http, https, ws, wss, ftp, file) follow the standard's rules for hosts, ports, dot segments and
percent-encoding; other schemes keep their host and path as given, percent-encoded where the standard asks for it.
"""

from __future__ import annotations

import re
from typing import Any

from .errors import javascript_errors
from .hosts import parse_host, percent_encode
from .urlsearchparams import URLSearchParams
from .values import js_string

SPECIAL = {"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21", "file": ""}

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):")
_EDGES = "".join(chr(code) for code in range(0x21))
_INNER = re.compile(r"[\t\n\r]")
# What is percent-encoded in each component, beside C0 controls and everything above U+007E (URL Standard 1.3).
_FRAGMENT = frozenset(' "<>`')
_QUERY = frozenset(' "#<>')
_SPECIAL_QUERY = _QUERY | {"'"}
_PATH = _QUERY | frozenset("?^`{}")
_USERINFO = _PATH | frozenset("/:;=@[\\]|")


class URL:
    """A parsed URL: `.href .protocol .host .hostname .port .pathname .search .searchParams .hash .origin …`.

    Raises TypeError (`Invalid URL`) when the text, resolved against `base` if there is one, is no URL. The parts
    can be assigned, as on the platform; `searchParams` writes back to `search`.
    """

    __slots__ = (
        "_params",
        "_scheme",
        "host_text",
        "opaque",
        "password",
        "path",
        "port_text",
        "query",
        "tail",
        "username",
    )

    def __init__(self, url: Any, base: Any = None) -> None:
        self._params: URLSearchParams | None = None
        self._scheme: str = ""
        self._parse(js_string(url), None if base is None else URL(base))

    @classmethod
    @javascript_errors
    def new(cls, url: Any, base: Any = None) -> URL:
        return cls(url, base)

    @classmethod
    def canParse(cls, url: Any, base: Any = None) -> bool:
        return cls.parse(url, base) is not None

    @classmethod
    def parse(cls, url: Any, base: Any = None) -> URL | None:
        try:
            return cls(url, base)
        except TypeError:
            return None

    def _parse(self, text: str, base: URL | None) -> None:
        given = text
        text = _INNER.sub("", text.strip(_EDGES))
        match = _SCHEME.match(text)
        self.username = self.password = self.port_text = ""
        self.host_text: str | None = None
        self.query: str | None = None
        self.tail: str | None = None
        self.opaque = False
        if match is None:
            if base is None or (base.opaque and not text.startswith("#")):
                raise TypeError(f"Invalid URL: {given!r}")
            self._scheme = base._scheme
            self._relative(text, base, given)
            return
        self._scheme = match[1].lower()
        rest = text[match.end() :]
        if self._scheme in SPECIAL and self._scheme != "file":
            if base is not None and base._scheme == self._scheme and not _slashed(rest, special=True):
                self._relative(rest, base, given)
                return
            self._authority(rest.lstrip("/\\"), given)
        elif self._scheme == "file":
            self._file(rest, base, given)
        elif rest.startswith("//"):
            self._authority(rest[2:], given)
        else:
            rest = self._cut(rest)
            self.opaque = not rest.startswith("/")
            self.path = (
                percent_encode(rest.rstrip(" ") if self.query is None and self.tail is None else rest, frozenset())
                if self.opaque
                else self._segments(rest)
            )

    def _cut(self, rest: str) -> str:
        """Takes fragment and query off `rest`, keeps them, and returns what is left."""
        rest, mark, tail = rest.partition("#")
        self.tail = percent_encode(tail, _FRAGMENT) if mark else None
        rest, mark, query = rest.partition("?")
        unsafe = _SPECIAL_QUERY if self._scheme in SPECIAL else _QUERY
        self.query = percent_encode(query, unsafe) if mark else None
        return rest

    def _authority(self, rest: str, given: str) -> None:
        rest = self._cut(rest)
        ends = "/\\" if self._scheme in SPECIAL else "/"
        place = next((index for index, letter in enumerate(rest) if letter in ends), len(rest))
        authority, path = rest[:place], rest[place:]
        credentials, at, host = authority.rpartition("@")
        if at:
            name, _, secret = credentials.partition(":")
            self.username = percent_encode(name, _USERINFO)
            self.password = percent_encode(secret, _USERINFO)
        port = ""
        colon = host.rfind(":")
        if colon >= 0 and colon > host.rfind("]"):
            host, port = host[:colon], host[colon + 1 :]
        if not host and (self._scheme in SPECIAL or at or port):
            raise TypeError(f"Invalid URL: {given!r}")
        self.host_text = parse_host(host, special=self._scheme in SPECIAL)
        self.port_text = self._checked_port(port)
        self.path = self._segments(path)

    def _checked_port(self, port: str) -> str:
        if not port:
            return ""
        if not (port.isascii() and port.isdigit()) or int(port) > 65535:
            raise TypeError(f"Invalid URL: the port {port!r} is not a number from 0 to 65535")
        number = str(int(port))
        return "" if number == SPECIAL.get(self._scheme) else number

    def _file(self, rest: str, base: URL | None, given: str) -> None:
        rest = rest.replace("\\", "/") if "?" not in rest and "#" not in rest else rest
        if rest.startswith("//"):
            rest = self._cut(rest[2:])
            host, slash, path = rest.partition("/")
            self.host_text = "" if not host else parse_host(host, special=True)
            if self.host_text == "localhost":
                self.host_text = ""
            self.path = self._segments(slash + path)
        elif base is not None and base._scheme == "file":
            self._relative(rest, base, given)
        else:
            self.host_text = ""
            self.path = self._segments(self._cut(rest))

    def _relative(self, text: str, base: URL, given: str) -> None:
        special = self._scheme in SPECIAL
        if _slashed(text, special=special):
            if self._scheme == "file":
                self._file(text, None, given)
            else:
                self._authority(text[2:].lstrip("/\\") if special else text[2:], given)
            return
        self.username, self.password = base.username, base.password
        self.host_text, self.port_text = base.host_text, base.port_text
        self.opaque = base.opaque
        rest = self._cut(text)
        if not rest:
            self.path = base.path
            if self.query is None and "?" not in text.partition("#")[0]:
                self.query = base.query
        elif rest[0] == "/" or (special and rest[0] == "\\"):
            self.path = self._segments(rest)
        else:
            self.path = self._segments(base.path[: base.path.rfind("/") + 1] + rest)

    def _segments(self, path: str) -> str:
        special = self._scheme in SPECIAL
        if special:
            path = path.replace("\\", "/")
        if not path:
            return "/" if special else ""
        out: list[str] = []
        parts = path.split("/")[1:] if path.startswith("/") else path.split("/")
        for place, part in enumerate(parts):
            lowered = part.lower().replace("%2e", ".")
            last = place == len(parts) - 1
            if lowered == "..":
                if out:
                    out.pop()
                if last:
                    out.append("")
            elif lowered == ".":
                if last:
                    out.append("")
            else:
                out.append(percent_encode(part, _PATH))
        return "/" + "/".join(out)

    @property
    def href(self) -> str:
        text = f"{self._scheme}:"
        if self.host_text is not None:
            text += "//"
            if self.username or self.password:
                text += self.username + (f":{self.password}" if self.password else "") + "@"
            text += self.host
        elif self.path.startswith("//"):
            text += "/."
        return (
            text
            + self.path
            + ("" if self.query is None else f"?{self.query}")
            + ("" if self.tail is None else f"#{self.tail}")
        )

    @href.setter
    def href(self, value: Any) -> None:
        self._parse(js_string(value), None)
        if self._params is not None:
            self._params.load(self.query or "")

    @property
    def origin(self) -> str:
        if self._scheme in SPECIAL and self._scheme != "file":
            return f"{self._scheme}://{self.host}"
        return "null"

    @property
    def protocol(self) -> str:
        return f"{self._scheme}:"

    @protocol.setter
    def protocol(self, value: Any) -> None:
        scheme = js_string(value).partition(":")[0].lower()
        if _SCHEME.match(scheme + ":") and (scheme in SPECIAL) == (self._scheme in SPECIAL):
            self._scheme = scheme
            self.port_text = self._checked_port(self.port_text)

    @property
    def host(self) -> str:
        return (self.host_text or "") + (f":{self.port_text}" if self.port_text else "")

    @host.setter
    def host(self, value: Any) -> None:
        name, colon, port = js_string(value).partition(":") if "[" not in js_string(value) else (value, "", "")
        self.hostname = name
        if colon:
            self.port = port

    @property
    def hostname(self) -> str:
        return self.host_text or ""

    @hostname.setter
    def hostname(self, value: Any) -> None:
        try:
            self.host_text = parse_host(js_string(value), special=self._scheme in SPECIAL)
        except TypeError:
            return  # the standard's setters ignore what does not parse

    @property
    def port(self) -> str:
        return self.port_text

    @port.setter
    def port(self, value: Any) -> None:
        try:
            self.port_text = self._checked_port(js_string(value))
        except TypeError:
            return

    @property
    def pathname(self) -> str:
        return self.path

    @pathname.setter
    def pathname(self, value: Any) -> None:
        if not self.opaque:
            self.path = self._segments(js_string(value)) if js_string(value) else self._segments("")

    @property
    def search(self) -> str:
        return f"?{self.query}" if self.query else ""

    @search.setter
    def search(self, value: Any) -> None:
        text = js_string(value).removeprefix("?")
        unsafe = _SPECIAL_QUERY if self._scheme in SPECIAL else _QUERY
        self.query = percent_encode(text, unsafe) if text else None
        if self._params is not None:
            self._params.load(self.query or "")

    @property
    def searchParams(self) -> URLSearchParams:
        if self._params is None:
            self._params = URLSearchParams(self.query or "")
            self._params.watch(self._params_changed)
        return self._params

    def _params_changed(self, text: str) -> None:
        self.query = text or None

    @property
    def hash(self) -> str:
        return f"#{self.tail}" if self.tail else ""

    @hash.setter
    def hash(self, value: Any) -> None:
        text = js_string(value).removeprefix("#")
        self.tail = percent_encode(text, _FRAGMENT) if text else None

    def toString(self) -> str:
        return self.href

    def toJSON(self) -> str:
        return self.href

    def __str__(self) -> str:
        return self.href

    def __repr__(self) -> str:
        return f"URL({self.href!r})"


def _slashed(text: str, *, special: bool) -> bool:
    slashes = "/\\" if special else "/"
    return len(text) > 1 and text[0] in slashes and text[1] in slashes


def normal_url(text: Any) -> str:
    """`text` as the platform writes an absolute URL; TypeError when it is none."""
    return URL(text).href
