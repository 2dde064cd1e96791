"""`fetch`: requests that leave the Worker, over one HTTP client a loop.

Before anything leaves, the output gate is waited for: what the running object has written is durable by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, finalize

from moorage.durable_objects.runtime.web import Body, Headers, ReadableStream, Request, Response, as_request

from .current import current

if TYPE_CHECKING:
    import httpx

_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx.AsyncClient] = WeakKeyDictionary()

# of the connection, not of the message (RFC 9110 7.6.1)
_HOP = frozenset({"connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"})
_DECODED = frozenset({"gzip", "x-gzip", "deflate"})
CONNECT_SECONDS = 30.0


async def fetch(resource: Any, **options: Any) -> Response:
    """Sends a request and returns its Response, whose body is streamed.

    `resource` is a URL or a Request; the options are those of Request: `method`, `headers`, `body`, `redirect`
    (`follow`, `manual`, `error`), `cf` (kept, without effect here) and `signal`.

    Raises OSError when the network fails, TypeError for a URL that is none or is not http(s), and the signal's error
    when it is aborted.
    """
    request = Request(resource, **options) if options else as_request(resource)
    signal = request.signal
    if signal is not None:
        signal.throwIfAborted()
    worker = current()
    await worker.before_outgoing()
    sending = _send(request)
    if signal is None:
        return await worker.outside(sending)  # type: ignore[no-any-return]
    task = asyncio.ensure_future(worker.outside(sending))
    aborted = asyncio.ensure_future(signal.wait())
    try:
        await asyncio.wait({task, aborted}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        aborted.cancel()
        if not task.done():
            task.cancel()
    if signal.aborted:
        raise signal.error()
    return task.result()  # type: ignore[no-any-return]


def client() -> httpx.AsyncClient:
    """The client of the running loop: no cookies are kept, no limit on connections, a limit only on connecting."""
    import httpx

    loop = asyncio.get_running_loop()
    known = _clients.get(loop)
    if known is None or known.is_closed:
        known = _clients[loop] = httpx.AsyncClient(
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            timeout=httpx.Timeout(None, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
            max_redirects=20,
        )
    return known


async def close() -> None:
    """Closes the client of the running loop; the host calls it when it stops."""
    known = _clients.pop(asyncio.get_running_loop(), None)
    if known is not None:
        await known.aclose()


async def _send(request: Request) -> Response:
    import httpx

    url = request.url
    if not url.startswith(("http://", "https://")):
        raise TypeError(f"Fetch API cannot load: {url}")
    fields = request.fields.copy()
    if (fields.get("upgrade") or "").lower() == "websocket":
        from . import sockets

        return await sockets.upgrade(request)
    for name in ("host", *_HOP):
        fields.delete(name)
    if not fields.has("accept-encoding"):
        fields.append("accept-encoding", "gzip")
    body = request._taken()
    if body is not None and body.used:
        raise OSError("Body already used")
    content: Any = None
    if body is not None:
        if body.streaming:
            content = body.stream()
        else:
            content = await body.read()
            fields.delete("content-length")
    follow = request.redirect == "follow" and not (body is not None and body.streaming)
    try:
        sent = httpx.Request(str(request.method), url, headers=fields.raw(), content=content)
        answer = await client().send(sent, stream=True, follow_redirects=follow)
        redirected = bool(answer.history)
        if request.redirect == "follow" and not follow and answer.status_code == 303 and answer.next_request:
            # the only redirect that a streamed body can follow: it goes on without one (Fetch 4.4, step 11)
            await answer.aclose()
            answer = await client().send(answer.next_request, stream=True, follow_redirects=True)
            redirected = True
    except httpx.InvalidURL as error:
        raise TypeError(f"Invalid URL: {error}") from error
    except httpx.HTTPError as error:
        raise OSError(f"fetch to {url} failed: {str(error) or type(error).__name__}") from error
    if answer.is_redirect and (request.redirect == "error" or (request.redirect == "follow" and not follow)):
        await answer.aclose()
        raise OSError(f"fetch to {url} was redirected, which {_why(request)}")
    return _response(answer, request.signal, redirected=redirected)


def _why(request: Request) -> str:
    if request.redirect == "error":
        return "redirect='error' forbids"
    return "a streamed body cannot follow"


def _response(answer: httpx.Response, signal: Any, *, redirected: bool) -> Response:
    coded = [
        coding.strip().lower() for coding in answer.headers.get("content-encoding", "").split(",") if coding.strip()
    ]
    decode = bool(coded) and all(coding in _DECODED for coding in coded)
    dropped = _HOP | ({"content-encoding", "content-length"} if decode else frozenset())
    headers = Headers.from_raw(
        (name, value) for name, value in answer.headers.raw if name.decode().lower() not in dropped
    )
    has_body = answer.request.method != "HEAD" and answer.status_code not in {101, 204, 205, 304}
    body = Body(stream=ReadableStream(_Chunks(answer, signal, decode=decode))) if has_body else None
    if body is None:
        _close_soon(answer, asyncio.get_running_loop())
    return Response.received(answer.status_code, headers, body, url=str(answer.url), redirected=redirected)


class _Chunks:
    """The body of an answer. Its connection is given back at the end, on cancelling, and when nobody wants it.

    Once `signal` (None for none) is aborted, reading raises its error.
    """

    def __init__(self, answer: httpx.Response, signal: Any, *, decode: bool) -> None:
        self._answer = answer
        self._signal = signal
        self._source: AsyncIterator[bytes] = answer.aiter_bytes() if decode else answer.aiter_raw()
        self._forgotten = finalize(self, _close_soon, answer, asyncio.get_running_loop())
        self._forgotten.atexit = False

    def __aiter__(self) -> _Chunks:
        return self

    async def __anext__(self) -> bytes:
        signal = self._signal
        if signal is None:
            return await self._next()
        reading, aborted = asyncio.ensure_future(self._next()), asyncio.ensure_future(signal.wait())
        try:
            await asyncio.wait({reading, aborted}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            aborted.cancel()
            if not reading.done():
                reading.cancel()
        if signal.aborted:
            await self.aclose()
            raise signal.error()
        return reading.result()

    async def _next(self) -> bytes:
        import httpx

        try:
            return await anext(self._source)
        except httpx.HTTPError as error:
            raise OSError(f"the body of {self._answer.url} broke off: {error}") from error

    async def aclose(self) -> None:
        self._forgotten.detach()
        await self._answer.aclose()


_closing: set[asyncio.Task[None]] = set()


def _close_soon(answer: httpx.Response, loop: asyncio.AbstractEventLoop) -> None:
    if answer.is_closed or loop.is_closed():
        return

    def start() -> None:
        task = loop.create_task(answer.aclose())
        _closing.add(task)
        task.add_done_callback(_closing.discard)

    loop.call_soon_threadsafe(start)
