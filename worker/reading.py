"""Reading a request's body, bounded."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from moorage.protocols.wire import RequestBodyTooLarge

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


class ClientGone(Exception):
    """The client closed the connection before its body was complete: nobody is left to answer."""


def _too_large(cap: int) -> RequestBodyTooLarge:
    # the rest of the body is never read, so the connection cannot be used again
    return RequestBodyTooLarge(maxBytes=cap, headers={"connection": "close"})


async def read_body(receive: Receive, headers: list[tuple[bytes, bytes]], cap: int) -> bytes:
    """The whole body. Raises RequestBodyTooLarge as soon as it exceeds `cap` bytes, ClientGone when it is cut off."""
    for name, value in headers:
        if name == b"content-length" and value.isdigit() and (len(value) > 18 or int(value) > cap):
            raise _too_large(cap)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > cap:
            raise _too_large(cap)
        if not message.get("more_body", False):
            return b"".join((*chunks, chunk)) if chunks else chunk
        chunks.append(chunk)
