"""From an answer value to bytes and headers: the only place where the state plane writes HTTP."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

import msgspec

from moorage.protocols.wire import WireError

from .routing import Answer, Raw, Result, Style

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

CORS: Headers = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET,POST,OPTIONS"),
    (b"access-control-allow-headers", b"authorization,content-type"),
]
_STYLE_HEADERS: dict[Style, Headers] = {
    Style.INDENTED: [(b"content-type", b"application/json; charset=utf-8"), (b"cache-control", b"no-store"), *CORS],
    Style.COMPACT: [(b"content-type", b"application/json")],
}
_encoder = msgspec.json.Encoder()
_format = msgspec.json.format


def style_headers(style: Style) -> dict[str, str]:
    """The headers of an answer in `style`, for a handler that gives JSON as bytes (`Raw`): large ones, compact."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in _STYLE_HEADERS[style]}


def encode(value: Any, style: Style) -> bytes:
    """`value` as JSON in `style`: an indent of two spaces, or compact."""
    text = _encoder.encode(value)
    return _format(text, indent=2) if style is Style.INDENTED else text


def refusal(error: WireError) -> Answer:
    """The answer for `error`: the one mapping from a wire error to HTTP."""
    return Answer(error.body(), error.status, error.headers)


def _pairs(headers: Mapping[str, str] | None) -> Headers:
    if not headers:
        return []
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]


async def send_answer(send: Send, result: Result, style: Style, *, with_body: bool = True) -> int:
    """Sends `result` and returns its status. `with_body` false sends the headers alone (HEAD)."""
    if isinstance(result, Raw):
        return await _send_raw(send, result, with_body)
    if isinstance(result, dict):
        result = Answer(result)
    style = result.style or style
    body = encode(result.value, style)
    headers = [*_STYLE_HEADERS[style], (b"content-length", b"%d" % len(body)), *_pairs(result.headers)]
    await send({"type": "http.response.start", "status": result.status, "headers": headers})
    await send({"type": "http.response.body", "body": body if with_body else b""})
    return result.status


async def _send_raw(send: Send, result: Raw, with_body: bool) -> int:
    body = result.body
    headers = _pairs(result.headers)
    length = len(body) if isinstance(body, bytes) else result.length
    if length is not None and not any(name == b"content-length" for name, _ in headers):
        headers.append((b"content-length", b"%d" % length))
    await send({"type": "http.response.start", "status": result.status, "headers": headers})
    if isinstance(body, bytes):
        await send({"type": "http.response.body", "body": body if with_body else b""})
        return result.status
    try:
        if with_body:
            async for chunk in body:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        close = getattr(body, "aclose", None)
        if close is not None:
            await asyncio.shield(close())
    return result.status


async def send_preflight(send: Send) -> None:
    """204 with the CORS headers, for OPTIONS on any path (spec state-plane-protocol 1)."""
    await send({"type": "http.response.start", "status": 204, "headers": list(CORS)})
    await send({"type": "http.response.body", "body": b""})
