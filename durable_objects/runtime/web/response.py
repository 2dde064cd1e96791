"""`Response`: built by programs or by `fetch`, sent to an ASGI server without copies."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from .body import Body, Message, Send, body_of, used_error
from .headers import Headers, RawHeaders, headers_argument
from .url import normal_url
from .values import JsDict, js_string

if TYPE_CHECKING:
    from .platform import PlatformResponse

NULL_BODY = frozenset({101, 204, 205, 304})
REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PHRASES = {status.value: status.phrase for status in HTTPStatus}


def status_of(value: Any) -> int:
    """A status number; ValueError outside 200 to 599 (101 is checked by the response)."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError(f"The response status must be a number, not {type(value).__name__}")
    try:
        status = int(value)
    except (ValueError, OverflowError):
        status = 0
    if status != 101 and not 200 <= status <= 599:
        raise ValueError("Responses may only be constructed with status codes in the range 200 to 599, inclusive.")
    return status


class Response(Message):
    """`Response(body=None, status=None, status_text="", headers=None, web_socket=None)` (spec python-workers-api 3).

    The body is text, bytes or another buffer, a form, a stream, an asynchronous iterator, or a response under the
    platform's spelling (then nothing else may be given). Raises TypeError for another body or for a body with a
    status that has none, ValueError for a status outside 200 to 599.

    `passthrough` is true for an answer that has already been written to the server.
    """

    __slots__ = (
        "_status",
        "_status_text",
        "failure",
        "passthrough",
        "redirected",
        "response_type",
        "url",
        "web_socket",
    )

    def __init__(
        self,
        body: Any = None,
        status: HTTPStatus | int | None = None,
        status_text: str = "",
        headers: Any = None,
        web_socket: Any = None,
    ) -> None:
        self.url = ""
        self.redirected = False
        self.response_type = "default"
        self.passthrough = False
        self.failure: BaseException | None = None
        other = getattr(body, "message", body)
        if isinstance(other, Response):
            if status is not None or status_text or headers is not None:
                raise ValueError("Expected no options when constructing Response from a js.Response")
            self._share(other)
            return
        self._status = 200 if status is None else status_of(status)
        self._status_text = status_text
        self._fields = None if headers is None else headers_argument(headers)
        self._type: str | None
        self._body: Body | None
        if type(body) is str:
            self._body, self._type = Body(body.encode("utf-8", "replace")), "text/plain;charset=UTF-8"
        else:
            self._body, self._type = body_of(body, "Response")
        self.web_socket = web_socket
        if self._status in NULL_BODY:
            if self._body is not None and self._body.content == b"":
                # against the Fetch standard; the platform lets it pass, as it once was the only way
                self._body = self._type = None
            if self._body is not None:
                raise TypeError("Response with null body status (101, 204, 205, or 304) cannot have a body.")
            if self._status == 101 and web_socket is None:
                raise ValueError("Responses with status 101 need a web_socket.")
        elif web_socket is not None:
            raise ValueError("Responses with a WebSocket must have status code 101.")

    def _share(self, other: Response) -> None:
        self._status, self._status_text = other._status, other._status_text
        self._fields, self._type, self._body = other.fields, None, other._body
        self.web_socket, self.passthrough, self.failure = other.web_socket, other.passthrough, other.failure
        self.url, self.redirected, self.response_type = other.url, other.redirected, other.response_type

    @classmethod
    def received(
        cls,
        status: int,
        headers: Headers,
        body: Body | None,
        *,
        url: str = "",
        redirected: bool = False,
        status_text: str = "",
    ) -> Response:
        """An answer that came from elsewhere; its status is not restricted."""
        response = cls()
        response._status, response._fields, response._body = status, headers, body
        response._status_text, response.url, response.redirected = status_text, url, redirected
        return response

    @classmethod
    def sent(cls, status: int = 200, failure: BaseException | None = None) -> Response:
        """What stands for an answer that was written straight to the server.

        `failure` is what ended it before it was complete; `send` raises it, so that the server cuts the connection.
        """
        response = cls.__new__(cls)
        response._status, response.passthrough, response.failure = status, True, failure
        response._status_text = response.url = ""
        response.redirected = False
        response.response_type = "default"
        response._fields = response._type = response._body = response.web_socket = None
        return response

    def raise_failure(self) -> None:
        """Raises what broke off an answer that was written straight to the server, if anything did."""
        if self.failure is not None:
            raise self.failure

    @property
    def status(self) -> int:
        return self._status

    @property
    def webSocket(self) -> Any:
        """The platform's spelling of `web_socket`."""
        return self.web_socket

    @property
    def status_text(self) -> str:
        return self._status_text or _PHRASES.get(self._status, "")

    @property
    def ok(self) -> bool:
        return 200 <= self._status < 300

    @property
    def type(self) -> str:
        return self.response_type

    def json(self: Any, *args: Any, **options: Any) -> Any:
        """On a response: awaitable, the body through `json.loads`. On the class: the same as `from_json`."""
        if isinstance(self, Response):
            return self._json(**options)
        return Response.from_json(self, *args, **options)

    @staticmethod
    def from_json(
        data: Any, status: HTTPStatus | int = HTTPStatus.OK, status_text: str = "", headers: Any = None
    ) -> Response:
        """`json.dumps(data)` as `application/json`, unless the headers name another type."""
        response = Response(json.dumps(data).encode(), status, status_text, headers)
        response._type = "application/json"
        return response

    @staticmethod
    def redirect(url: Any, status: HTTPStatus | int = HTTPStatus.FOUND) -> Any:
        """A redirection to an absolute URL; ValueError for a status that is none, TypeError for a broken URL."""
        code = int(status)
        if code not in REDIRECTS:
            raise ValueError(f"{code} is not a redirect status code.")
        response = Response(None, code, headers=[("location", normal_url(js_string(url)))])
        return response.js_object

    @staticmethod
    def error() -> Any:
        """The platform's network error response: type `error`, status 0."""
        response = Response()
        response._status, response.response_type = 0, "error"
        return response.js_object

    async def string(self) -> str:
        return await self.text()

    async def formData(self) -> Any:
        return await self.form_data()

    async def memoryview(self) -> memoryview:
        return memoryview(await self.bytes())

    def raise_for_status(self) -> None:
        """OSError for a status from 400."""
        if 400 <= self._status < 600:
            kind = "Client" if self._status < 500 else "Server"
            raise OSError(f"{self._status} {kind} Error: {self.status_text} for url: {self.url}")

    def clone(self) -> Response:
        if self.body_used:
            raise used_error()
        copy = Response()
        copy._share(self)
        copy._fields = self.fields.copy()
        copy._body = None if self._body is None else self._body.clone()
        return copy

    def replace_body(self, body: Any) -> Response:
        """A response with the same status and fields and another body."""
        return Response(body, self._status, self._status_text, self.fields.copy(), self.web_socket)

    def raw_headers(self) -> RawHeaders:
        """Fields for ASGI, with a content length when the whole body is known and no field names one."""
        fields, body = self._fields, self._body
        if fields is None:
            raw = [] if self._type is None else [(b"content-type", self._type.encode())]
        else:
            raw = self.fields.raw()
        if self._status in NULL_BODY or (body is not None and body.streaming):
            return raw
        if fields is None or ("content-length" not in fields and "transfer-encoding" not in fields):
            length = 0 if body is None or body.content is None else len(body.content)
            raw.append((b"content-length", b"%d" % length))
        return raw

    async def send(
        self,
        send: Send,
        *,
        head: bool = False,
        gone: Callable[[], Awaitable[None]] | None = None,
        without: frozenset[bytes] = frozenset(),
    ) -> None:
        """Writes the response to an ASGI server; does nothing when it was written already.

        `head` leaves the body out (the answer to HEAD). `without`: fields that the server writes itself. A streamed
        body is sent chunk by chunk, the next one being asked for only when the server took the last; `gone` (an
        awaitable that ends when the client has gone) stops such a stream and closes its source. An error of the
        stream is raised: the server then has to cut the connection, since a clean end would pass for the whole body.

        Raises OSError when the body was read before.
        """
        if self.passthrough:
            self.raise_failure()
            return
        body = self._body
        if body is not None and body.used:
            raise used_error()
        headers = self.raw_headers()
        if without and self._fields is not None:
            headers = [field for field in headers if field[0].lower() not in without]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        if body is None or head or self._status in NULL_BODY:
            if body is not None and body.streaming:
                await body.stream().cancel()
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        elif not body.streaming:
            content = await body.read()
            await send({"type": "http.response.body", "body": content, "more_body": False})
        elif gone is None:
            await _pump(body, send)
        else:
            await _pump_until(body, send, gone)

    @property
    def js_object(self) -> PlatformResponse:
        """The same response under the platform's own spellings (`statusText`, `arrayBuffer()`, live `headers` …)."""
        from .platform import PlatformResponse

        return PlatformResponse(self)

    js_response = js_object

    def __repr__(self) -> str:
        parts = [f"status={self._status}"]
        if self.status_text:
            parts.append(f"status_text={self.status_text!r}")
        content_type = self.fields.get("content-type")
        if content_type is not None:
            parts.append(f"content_type={content_type!r}")
        if self.url:
            parts.append(f"url={self.url!r}")
        if self.response_type != "default":
            parts.append(f"type={self.response_type!r}")
        return f"Response({', '.join(parts)})"


def as_response(value: Any) -> Response:
    """What a handler returned, as a Response: one itself, a view of one, or anything with `.js_response`.

    Raises TypeError for everything else.
    """
    if isinstance(value, Response):
        return value
    for name in ("message", "js_response", "js_object"):
        inner = getattr(value, name, None)
        if isinstance(inner, Response):
            return inner
        if inner is not None and isinstance(getattr(inner, "message", None), Response):
            found: Response = inner.message
            return found
    raise TypeError(f"fetch() must return a Response, not {type(value).__name__}")


async def _pump(body: Body, send: Send) -> None:
    stream = body.stream()
    stream.lock()
    try:
        while (chunk := await stream.next_chunk()) is not None:
            if chunk:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
    finally:
        await stream.cancel()
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _pump_until(body: Body, send: Send, gone: Callable[[], Awaitable[None]]) -> None:
    pump = asyncio.ensure_future(_pump(body, send))
    watch = asyncio.ensure_future(gone())
    try:
        await asyncio.wait({pump, watch}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (pump, watch):
            if not task.done():
                task.cancel()
        await asyncio.gather(pump, watch, return_exceptions=True)
    if not pump.cancelled():
        pump.result()


def response_options(options: Any) -> JsDict:
    """The init object of the platform's constructor (`status`, `statusText`, `headers`, `webSocket`) as keywords."""
    given = dict(options or {})
    return JsDict(
        status=given.get("status"),
        status_text=given.get("statusText") or given.get("status_text") or "",
        headers=given.get("headers"),
        web_socket=given.get("webSocket") or given.get("web_socket"),
    )
