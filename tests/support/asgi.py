"""One request to an ASGI application in this process, as a server would hand it over.

The path goes out as given: no client library normalises it.
"""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import msgspec

Message = MutableMapping[str, Any]
App = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; header names in lower case, of a repeated one the last."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return msgspec.json.decode(self.body)


async def call(
    app: App,
    method: str,
    target: str,
    *,
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    body: bytes | Sequence[bytes] = b"",
    env: Any = None,
    disconnect: bool = False,
    http_version: str = "1.1",
) -> Response:
    """Sends one request and returns its answer. `target`: path and query. `body`: whole, or in chunks.

    `disconnect`: the client goes away after the chunks, before the end of the body. In HTTP/2 no field announces it.
    """
    path, _, query = target.partition("?")
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    names = {name.lower() for name, _ in pairs}
    chunks = [body] if isinstance(body, bytes) else list(body)
    if "host" not in names:
        pairs.append(("host", "127.0.0.1:8787"))
    if "content-length" not in names and not http_version.startswith("2"):
        whole = isinstance(body, bytes)
        pairs.append(("content-length", str(len(body))) if whole else ("transfer-encoding", "chunked"))
    scope: Message = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": http_version,
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "root_path": "",
        "server": ("127.0.0.1", 8787),
        "headers": [(name.lower().encode("latin-1"), value.strip(" \t").encode("latin-1")) for name, value in pairs],
        "env": env,
    }
    pending = [
        {"type": "http.request", "body": chunk, "more_body": disconnect or place < len(chunks) - 1}
        for place, chunk in enumerate(chunks)
    ]
    sent: list[Message] = []

    async def receive() -> Message:
        return pending.pop(0) if pending else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(dict(message))

    await app(scope, receive, send)
    if not sent:
        return Response(0, {}, b"")
    start = sent[0]
    assert start["type"] == "http.response.start", start
    return Response(
        start["status"],
        {name.decode("latin-1"): value.decode("latin-1") for name, value in start["headers"]},
        b"".join(message.get("body", b"") for message in sent[1:]),
    )
