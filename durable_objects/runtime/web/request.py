"""`Request`: built by programs, or over an ASGI scope without touching anything that nobody asks for."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from http import HTTPMethod
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .body import Body, Message, Receive, Send, body_of, used_error
from .exchange import Exchange
from .headers import Headers, headers_argument
from .url import normal_url
from .values import js_string, to_platform

if TYPE_CHECKING:
    from .platform import PlatformRequest

Scope = MutableMapping[str, Any]

_METHODS = {method.value: method for method in HTTPMethod}
_UPPER = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"})
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+\Z")
_HTTP = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
_REDIRECTS = frozenset({"follow", "manual", "error"})
# a URL that is already in its normal form: a lower-case name or four decimal bytes, no default port, nothing to
# encode, no dot segments
_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_NORMAL = re.compile(
    r"https?://(?:(?:[a-z0-9][a-z0-9\-]*\.)*[a-z][a-z0-9\-]*|" + rf"{_BYTE}(?:\.{_BYTE}){{3}})"
    r"(?::(?!80\b|443\b|0)[0-9]{1,4})?(?![^?]*/(?:\.|%2[eE]){1,2}(?:[/?]|\Z))"
    r"/[A-Za-z0-9_~%!$&()*+,;=:@/.\-]*(?:\?[A-Za-z0-9_~%!$&()*+,;=:@/.\-?]*)?\Z"
)

# The init members that the Fetch standard knows and that only say something to a browser; kept and given back.
_HINTS = {
    "cache": "no-store",
    "credentials": "same-origin",
    "destination": "",
    "integrity": "",
    "keepalive": False,
    "mode": "same-origin",
    "referrer": "about:client",
    "referrer_policy": "",
}


def method_of(value: Any) -> str:
    """A method name, the six classic ones upper-cased (Fetch standard 2.2.1); TypeError when it is not a token."""
    text = value.value if isinstance(value, HTTPMethod) else js_string(value)
    if not _TOKEN.match(text):
        raise TypeError(f"Invalid HTTP method string: {text}")
    upper = text.upper()
    return upper if upper in _UPPER else text


class Request(Message):
    """`Request(url_or_request, method=, headers=, body=, redirect=, cf=, signal=)` (spec python-workers-api 3).

    Raises TypeError for a URL, method, header or body that is none, and for a body with GET or HEAD. Members of the
    Fetch standard's init beyond these are kept where they can be read back; unknown ones are ignored, as on the
    platform. A request given as the first argument hands its body over.
    """

    __slots__ = ("_cf", "_hints", "_method", "_receive", "_redirect", "_url", "exchange", "scope", "signal")

    _url: str | None
    _method: str
    _redirect: str
    _cf: Any
    _hints: dict[str, Any] | None
    _receive: Receive | None
    scope: Scope | None
    exchange: Exchange | None
    signal: Any

    def __init__(self, input: Any, **options: Any) -> None:
        other: Any = getattr(input, "message", input)
        self.scope = None
        self._receive = None
        self.exchange = None
        self._type = None
        if isinstance(other, Request):
            self._url = other.url
            self._method = other._method
            self._fields = other.fields.copy()
            self._body = other._taken() if options.get("body") is None else None
            self._redirect, self._cf, self.signal = other._redirect, other._cf, other.signal
            self._hints = dict(other._hints) if other._hints else None
            if self._body is not None and self._body.used:
                raise used_error()
        else:
            self._url = normal_url(other)
            self._method = "GET"
            self._fields = None
            self._body = None
            self._redirect, self._cf, self.signal = "follow", None, None
            self._hints = None
        if options:
            self._apply(options)

    def _apply(self, options: dict[str, Any]) -> None:
        if options.get("method") is not None:
            self._method = method_of(options["method"])
        if options.get("headers") is not None:
            self._fields = headers_argument(options["headers"])
        if options.get("body") is not None:
            if self._method in {"GET", "HEAD"}:
                raise TypeError("Request with a GET or HEAD method cannot have a body.")
            self._body, self._type = body_of(options["body"], "Request")
        if options.get("redirect") is not None:
            redirect = js_string(options["redirect"])
            if redirect not in _REDIRECTS:
                raise TypeError(f"redirect must be 'follow', 'manual' or 'error', not {redirect!r}")
            self._redirect = redirect
        if options.get("cf") is not None:
            self._cf = to_platform(options["cf"])
        if options.get("signal") is not None:
            self.signal = options["signal"]
        for name, value in options.items():
            key = "referrer_policy" if name == "referrerPolicy" else name
            if key in _HINTS and value is not None:
                self._hints = {**(self._hints or {}), key: value}

    @classmethod
    def from_asgi(cls, scope: Scope, receive: Receive, send: Send | None = None) -> Request:
        """The request of an ASGI `http` or `websocket` scope. Nothing is parsed or received before it is asked for.

        With `send` the response may be written straight to the server (`workers.asgi.fetch` does so).
        """
        if send is not None:
            return cls.over(scope, Exchange(receive, send))
        request = cls.over(scope, None)
        request._receive = receive
        return request

    @classmethod
    def over(cls, scope: Scope, exchange: Exchange | None) -> Request:
        """The request of a server's scope over its channels: `exchange` is what may write to the server, taken away
        (None) while an application does.
        """
        request = cls.__new__(cls)
        request.scope = scope
        request.exchange = exchange
        request._receive = None if exchange is None else exchange.receive
        request._method = scope.get("method") or "GET"
        request._url = None
        request._fields = None
        request._type = None
        request._body = None
        request._redirect = "manual"
        request._cf = None
        request._hints = None
        request.signal = None
        return request

    @property
    def fields(self) -> Headers:
        if self._fields is None and self.scope is not None:
            self._fields = Headers.from_raw(self.scope["headers"])
        return self._completed_fields()

    @property
    def asgi_receive(self) -> Receive | None:
        """The ASGI channel, while nothing was read from it; None afterwards."""
        return self._receive

    def _taken(self) -> Body | None:
        receive = self._receive
        if receive is not None:
            self._receive = None
            if self._method not in {"GET", "HEAD"} or self._announces_body():
                self._body = Body(receive=receive)
        return self._body

    def _announces_body(self) -> bool:
        assert self.scope is not None
        return any(
            name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
            for name, value in self.scope["headers"]
        )

    @property
    def body_used(self) -> bool:
        return self._body is not None and self._body.used

    @property
    def url(self) -> str:
        if self._url is None:
            assert self.scope is not None
            self._url = scope_url(self.scope)
        return self._url

    @property
    def method(self) -> HTTPMethod | str:
        """An `http.HTTPMethod` (which is a `str`), or a plain `str` for a method that it does not know."""
        return _METHODS.get(self._method) or self._method

    @property
    def cf(self) -> Any:
        """What the platform knows of the connection, read by attribute; None where nobody gave it."""
        return self._cf

    @property
    def redirect(self) -> str:
        return self._redirect

    def hint(self, name: str) -> Any:
        """One of the init members that only matter to a browser, or its default."""
        return (self._hints or {}).get(name, _HINTS[name])

    @property
    def cache(self) -> Any:
        return self.hint("cache")

    @property
    def credentials(self) -> Any:
        return self.hint("credentials")

    @property
    def destination(self) -> Any:
        return self.hint("destination")

    @property
    def integrity(self) -> Any:
        return self.hint("integrity")

    @property
    def is_history_navigation(self) -> bool:
        return False

    @property
    def keepalive(self) -> Any:
        return self.hint("keepalive")

    @property
    def mode(self) -> Any:
        return self.hint("mode")

    @property
    def referrer(self) -> Any:
        return self.hint("referrer")

    @property
    def referrer_policy(self) -> Any:
        return self.hint("referrer_policy")

    async def json(self, **options: Any) -> Any:
        """The body through `json.loads`, which takes the options."""
        return await self._json(**options)

    def clone(self) -> Request:
        """A request of its own with the same body; OSError when the body was read."""
        if self.body_used:
            raise used_error()
        body = self._taken()
        copy = Request.__new__(Request)
        copy.scope, copy._receive, copy.exchange = None, None, None
        copy._url, copy._method, copy._fields, copy._type = self.url, self._method, self.fields.copy(), None
        copy._body = None if body is None else body.clone()
        copy._redirect, copy._cf, copy._hints, copy.signal = self._redirect, self._cf, self._hints, self.signal
        return copy

    async def disconnected(self) -> None:
        """Returns when the client has gone. Waits for ever on a request that did not come from ASGI.

        While the body is being read by somebody the channel is his; an unread body is thrown away here, so call
        this only once the response is being written.
        """
        import asyncio

        body = self._body
        receive = self._receive or (body._receive if body is not None and body.finished else None)
        while receive is not None:
            if (await receive())["type"] == "http.disconnect":
                return
        await asyncio.get_running_loop().create_future()

    @property
    def js_object(self) -> PlatformRequest:
        """The same request under the platform's own spellings (`bodyUsed`, `arrayBuffer()`, live `headers` …)."""
        from .platform import PlatformRequest

        return PlatformRequest(self)

    _js_request = js_object

    def __repr__(self) -> str:
        return f"Request(method={str(self._method)!r}, url={self.url!r})"


def as_request(value: Any) -> Request:
    """`value` itself, what a view shows, or a request made of a URL."""
    if isinstance(value, Request):
        return value
    inner = getattr(value, "message", None)
    return inner if isinstance(inner, Request) else Request(value)


def scope_url(scope: Scope) -> str:
    """The absolute URL of an ASGI scope in the platform's form; the `Host` field wins over the server's address."""
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
    if not host:
        server = scope.get("server") or ("localhost", None)
        host = f"[{server[0]}]" if ":" in str(server[0]) else str(server[0])
        if server[1]:
            host += f":{server[1]}"
    raw = scope.get("raw_path")
    path = (
        raw.decode("latin-1")
        if raw
        else quote(scope.get("root_path", "") + scope["path"], safe="/%:@!$&'()*+,;=~-._")
    )
    query = scope.get("query_string", b"")
    scheme = _HTTP.get(scope.get("scheme", "http"), "http")
    text = f"{scheme}://{host}{path}" + (f"?{query.decode('latin-1')}" if query else "")
    if _NORMAL.match(text):
        return text
    try:
        return normal_url(text)
    except TypeError:
        # a host that is none must not keep a program from answering
        return normal_url(f"{scheme}://localhost{path}")
