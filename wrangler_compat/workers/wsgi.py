"""`wsgi`: a Worker answers with a WSGI application (PEP 3333, spec python-workers-api 3).

The application runs on the loop's own thread on a stack of its own: reading the request's body, `run_sync` in the
middle of it and generating the answer wait without holding up other requests, while everything that belongs to the
loop (bindings, an object's storage) may be used. Code that computes for long holds the loop up, as on the platform.
"""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import unquote

from moorage.durable_objects.runtime.web import (
    URL,
    Body,
    Headers,
    ReadableStream,
    Request,
    Response,
    as_request,
)

from .switching import Switchable, run_sync

logger = logging.getLogger("wsgi")

_NULL_BODY = frozenset({101, 103, 204, 205, 304})


class _Input(io.RawIOBase):
    """`wsgi.input`: reads the request's body as the application asks for it."""

    def __init__(self, stream: ReadableStream) -> None:
        self._stream = stream
        self._left = b""
        stream.lock()

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._left:
            chunk = run_sync(self._stream.next_chunk())
            if chunk is None:
                return 0
            self._left = chunk
        count = min(len(target), len(self._left))
        target[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


def build_environ(req: Any, env: Any, body: Any = b"") -> dict[str, Any]:
    """The WSGI environment of a request; `workers.env` holds the bindings, `body` is bytes or a file."""
    request = as_request(req)
    url = URL(request.url)
    environ: dict[str, Any] = {
        "REQUEST_METHOD": str(request.method),
        "SCRIPT_NAME": "",
        "PATH_INFO": unquote(url.pathname, "latin-1"),
        "RAW_URI": url.pathname + url.search,
        "QUERY_STRING": url.search[1:],
        "SERVER_NAME": url.hostname,
        "SERVER_PORT": url.port or ("443" if url.protocol == "https:" else "80"),
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": url.protocol[:-1],
        "wsgi.input": io.BytesIO(body) if isinstance(body, bytes | bytearray) else body,
        "wsgi.errors": sys.stderr,
        "wsgi.multithread": False,
        "wsgi.multiprocess": False,
        "wsgi.run_once": False,
        "workers.env": env,
    }
    client = request.scope.get("client") if request.scope is not None else None
    if client:
        environ["REMOTE_ADDR"] = client[0]
    for name, value in request.fields.raw():
        key = name.decode("ascii").upper().replace("-", "_")
        if key not in {"CONTENT_TYPE", "CONTENT_LENGTH"}:
            key = f"HTTP_{key}"
        text = value.decode("latin-1")
        environ[key] = f"{environ[key]},{text}" if key in environ else text
    if isinstance(body, bytes | bytearray) and body:
        environ.setdefault("CONTENT_LENGTH", str(len(body)))
    return environ


class _Answer:
    """What the application said by `start_response` and `write`."""

    def __init__(self) -> None:
        self.status: str | None = None
        self.headers: list[tuple[str, str]] = []
        self.written: list[bytes] = []
        self.sent = False

    def start(self, status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Callable[[bytes], None]:
        if exc_info is not None:
            try:
                if self.sent:
                    raise exc_info[1].with_traceback(exc_info[2])
            finally:
                exc_info = None
        elif self.status is not None:
            raise AssertionError("start_response() was called more than once, without exc_info")
        self.status, self.headers = status, headers
        return self.written.append


def _call(app: Any, request: Request, env: Any) -> tuple[_Answer, Any, Iterator[bytes], bytes]:
    """Calls the application up to its first chunk, by which PEP 3333 lets it call `start_response`."""
    stream = request.body
    source: Any = io.BytesIO() if stream is None else io.BufferedReader(_Input(stream), 65_536)
    answer = _Answer()
    result = app(build_environ(request, env, source), answer.start)
    chunks = iter(result)
    try:
        first = b""
        for chunk in chunks:
            if chunk:
                first = chunk
                break
        if answer.status is None:
            raise RuntimeError("The WSGI application did not call start_response()")
    except BaseException:
        _close(result)
        raise
    return answer, result, chunks, first


def _close(result: Any) -> None:
    close = getattr(result, "close", None)
    if close is not None:
        close()


async def _next(chunks: Iterator[bytes]) -> bytes | None:
    async def step() -> bytes | None:
        return next(chunks, None)

    return await Switchable(step())


async def _rest(answer: _Answer, result: Any, chunks: Iterator[bytes], first: bytes) -> AsyncIterator[bytes]:
    try:
        for written in answer.written:
            yield written
        if first:
            yield first
        while (chunk := await _next(chunks)) is not None:
            if chunk:
                yield chunk
    finally:

        async def close() -> None:
            _close(result)

        await Switchable(close())


async def fetch(app: Any, req: Any, env: Any, ctx: Any = None) -> Response:
    """Runs `app` for `req` and returns its Response; what it generates is streamed.

    Raises what the application raises before its first chunk, and RuntimeError when it never calls
    `start_response`.
    """
    request = as_request(req)

    async def begin() -> tuple[_Answer, Any, Iterator[bytes], bytes]:
        return _call(app, request, env)

    try:
        answer, result, chunks, first = await Switchable(begin())
    except Exception:
        logger.exception("WSGI request failed")
        raise
    answer.sent = True
    assert answer.status is not None
    code, _, reason = answer.status.partition(" ")
    status = int(code)
    headers = Headers.from_raw((name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers)
    if status in _NULL_BODY or str(request.method) == "HEAD":
        await _drop(result)
        return Response.received(status, headers, None, status_text=reason)
    if isinstance(result, list | tuple) and len(result) <= 1 and not answer.written:
        await _drop(result)
        return Response.received(status, headers, Body(bytes(first)), status_text=reason)
    body = Body(stream=ReadableStream(_rest(answer, result, chunks, first)))
    return Response.received(status, headers, body, status_text=reason)


async def _drop(result: Any) -> None:
    """Ends the application's iterable without asking for more."""

    async def close() -> None:
        _close(result)

    await Switchable(close())


__all__ = ["build_environ", "fetch"]
