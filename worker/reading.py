"""Reading a request's body, bounded in bytes and in time."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from moorage.protocols.wire import RequestBodyTimeout, RequestBodyTooLarge

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

IDLE_SECONDS: Final = 30.0
"""The longest wait for the next piece of a body."""
WHOLE_SECONDS: Final = 600.0
"""The longest time that a body may take in all: a client that trickles does not hold its memory for ever."""


class ClientGone(Exception):
    """The client closed the connection before its body was complete: nobody is left to answer."""


def _too_large(cap: int) -> RequestBodyTooLarge:
    # the rest of the body is never read, so the connection cannot be used again
    return RequestBodyTooLarge(maxBytes=cap, headers={"connection": "close"})


async def read_body(
    receive: Receive,
    headers: list[tuple[bytes, bytes]],
    cap: int,
    *,
    announced: bool = False,
    idle: float = IDLE_SECONDS,
    whole: float = WHOLE_SECONDS,
) -> bytes:
    """The whole body. With `announced` a field always says that there is one (HTTP/1, RFC 9112 6.3): without it
    nothing is received.

    Raises RequestBodyTooLarge as soon as it exceeds `cap` bytes, RequestBodyTimeout when a piece does not come within
    `idle` seconds or the body within `whole`, ClientGone when it is cut off.
    """
    has_body = False
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            if len(value) > 18 or int(value) > cap:
                raise _too_large(cap)
            has_body = value != b"0"
        elif name == b"transfer-encoding":
            has_body = True
    if not has_body and announced:
        return b""
    time = asyncio.get_running_loop().time
    end = time() + whole
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(idle if has_body else None) as limit:
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
                limit.reschedule(min(time() + idle, end))
    except TimeoutError:
        raise RequestBodyTimeout(headers={"connection": "close"}) from None
