"""HTTP/1 as uvicorn speaks it on httptools, with a bounded head and one clear JSON answer for each refusal.

uvicorn waits for a head without end, keeps as much of it as comes, and answers what it cannot read with a text that
says nothing; a refusal would also be written into the middle of an answer that is still being sent.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import httptools
import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from . import metrics

MAX_FIELDS: Final = 1000
"""Header fields of one request, at most."""
VERSIONS: Final = frozenset({"1.0", "1.1"})
LINGER_SECONDS: Final = 2.0
"""How long what a refused client goes on sending is read and thrown away: closing at once would reset the connection,
and with it the answer that the client has not yet read."""

_log = logging.getLogger("moorage.host")


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that no Worker gets to see: the answer's status, its code, and what would be right."""

    status: int
    code: str
    message: str


class _Stop(Exception):
    """Raised into the parser, which reports an error of its own then."""


class _Transport:
    """The connection's transport, whose `close` lingers while the client may still be sending a body."""

    __slots__ = ("_linger", "_transport", "lingering", "unread", "write")

    def __init__(self, transport: asyncio.Transport, linger: Callable[[], None]) -> None:
        self._transport = transport
        self._linger = linger
        self.write = transport.write
        self.lingering = False
        self.unread: Callable[[], bool] = lambda: False

    def close(self) -> None:
        if self.lingering or not self.unread():
            self._transport.close()
        else:
            self.lingering = True
            self._linger()

    def is_closing(self) -> bool:
        return self.lingering or self._transport.is_closing()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `max_head`: bytes of a request's line and fields; `head_seconds`: how long they may take;
    `body_seconds`: how long the next piece of a body may take while the Worker waits for it.

    Refused with 400: what is no HTTP/1, and (RFC 9112 3.2) a request of version 1.1 without exactly one Host field.
    408: a head that does not end in time, a body that does not go on. 431: a head that is too long, or has more than
    1,000 fields. 505: another version. The connection is closed after each. One on which nothing arrives is closed
    after the time of a head.
    """

    def __init__(self, *args: Any, max_head: int, head_seconds: float, body_seconds: float, **options: Any) -> None:
        super().__init__(*args, **options)
        self._max_head = max_head
        self._head_seconds = head_seconds
        self._body_seconds = body_seconds
        self._body_timer: asyncio.TimerHandle | None = None
        self._heard = 0.0
        self._head_timer: asyncio.TimerHandle | None = None
        self._in_head = False
        # Of the head that is being read: bytes of earlier pieces. Of the piece: bytes, and requests that begin in it.
        self._head_bytes = self._piece = self._begins = 0
        self._hosts = 0
        self._refusal: Refusal | None = None
        self._refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._real = transport
        made = _Transport(transport, self._linger)
        made.unread = self._unread
        self.transport = made  # type: ignore[assignment]
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        if self._body_timer is not None:
            self._body_timer.cancel()
        super().connection_lost(exc)

    # The head's bounds.

    def _arm(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self._head_seconds, self._late)

    def _disarm(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _late(self) -> None:
        self._head_timer = None
        if self.transport.is_closing():
            return
        if self._in_head:
            self._refuse(
                Refusal(408, "request_head_timeout", f"the head did not end within {self._head_seconds:g} seconds")
            )
        elif self._idle:
            self.transport.close()

    # The body's bounds: a timer only for one that was not whole in what came with its head.

    @property
    def _awaits_body(self) -> bool:
        cycle = self.cycle
        return cycle is not None and cycle.more_body and not cycle.response_complete

    def _listen(self, seconds: float) -> None:
        if self._body_timer is None:
            self._body_timer = self.loop.call_later(seconds, self._stalled)

    def _stalled(self) -> None:
        self._body_timer = None
        if self.transport.is_closing() or not self._awaits_body:
            return
        now, cycle = self.loop.time(), self.cycle
        if self.flow.read_paused or self.pipeline or cycle.waiting_for_100_continue:
            self._heard = now  # it is the Worker's turn, or another request's
        left = self._heard + self._body_seconds - now
        if left > 0:
            self._listen(left)
        elif cycle.response_started:
            cycle.disconnected = True
            cycle.message_event.set()
            self.transport.close()
        else:
            message = f"no piece of the body came for {self._body_seconds:g} seconds"
            self._refuse(Refusal(408, "request_body_timeout", message))

    def _unread(self) -> bool:
        cycle = self.cycle
        return self._refused or (cycle is not None and cycle.more_body)

    def _linger(self) -> None:
        if self._real.can_write_eof():
            self._real.write_eof()
        self.flow.resume_reading()
        self.loop.call_later(LINGER_SECONDS, self._real.close)

    def handle_websocket_upgrade(self) -> None:
        self._disarm()
        self.transport = self._real
        super().handle_websocket_upgrade()

    @property
    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        self._piece, self._begins = len(data), 0
        between = self.cycle is None or not self.cycle.more_body
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            # any other upgrade is optional (RFC 9110 7.8): the request is answered as it stands
            return
        except httptools.HttpParserError as error:
            self._refuse(self._refusal or Refusal(400, "bad_request", f"this is no HTTP/1.1: {_reason(error)}"))
            return
        if self._in_head:
            if self._begins == 0:
                self._head_bytes += len(data)
            elif self._begins == 1 and between:
                self._head_bytes = len(data)
            # else it began behind something else: where in the piece is not known, so it counts from the next one
            if self._head_bytes > self._max_head:
                self._refuse(self._too_large())
                return
        if self._in_head or self._idle:
            self._arm()
        elif self._awaits_body:
            self._heard = self.loop.time()
            self._listen(self._body_seconds)

    def _too_large(self) -> Refusal:
        return Refusal(
            431,
            "request_head_too_large",
            f"the request line and the header fields may have {self._max_head} bytes and {MAX_FIELDS} fields in all",
        )

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        self._begins += 1
        self._head_bytes = self._hosts = 0
        self._refusal = None

    def on_header(self, name: bytes, value: bytes) -> None:
        # trailers of a chunked body come here too: they are no part of the head, and nobody reads them
        if self._in_head:
            name = name.lower()
            if name == b"host":
                self._hosts += 1
            elif name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._disarm()
        if self._head_bytes + self._piece > self._max_head or len(self.headers) > MAX_FIELDS:
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self._max_head or len(self.headers) > MAX_FIELDS:
                self._stop(self._too_large())
        version = self.parser.get_http_version()
        if version not in VERSIONS:
            self._stop(Refusal(505, "http_version_not_supported", "HTTP/1.1 and HTTP/1.0 are spoken here"))
        if self._hosts > 1 or (self._hosts == 0 and version == "1.1"):
            self._stop(Refusal(400, "bad_request", f"a request has one Host field, this one has {self._hosts}"))
        super().on_headers_complete()

    def _stop(self, refusal: Refusal) -> None:
        self._refusal = refusal
        raise _Stop(refusal.code)

    # Refusing.

    def _refuse(self, refusal: Refusal) -> None:
        """Answers a request that cannot be read, and closes; an answer that is under way goes out first."""
        self._disarm()
        client = f"{self.client[0]}:{self.client[1]}" if self.client else "a socket"
        _log.info("a request from %s was refused: %s", client, refusal.message, extra={"status": refusal.status})
        metrics.request(refusal.status, 0.0)
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            if cycle.response_started or not cycle.more_body or self.pipeline:
                cycle.keep_alive = False
                self.flow.pause_reading()
                return
            # the fault is in this request's own body: its Worker finds the client gone
            cycle.disconnected = True
            cycle.message_event.set()
        body = msgspec.json.encode({"error": refusal.code, "message": refusal.message})
        phrase = HTTPStatus(refusal.status).phrase
        lines = [f"HTTP/1.1 {refusal.status} {phrase}".encode("ascii")]
        lines += [name + b": " + value for name, value in self.server_state.default_headers]
        lines += [b"content-type: application/json; charset=utf-8", b"content-length: %d" % len(body)]
        self.transport.write(b"\r\n".join([*lines, b"connection: close", b"", body]))
        self._refused = True
        self.transport.close()


def _reason(error: httptools.HttpParserError) -> str:
    if isinstance(error, httptools.HttpParserCallbackError):
        return "its target cannot be parsed"  # the parser's own words would repeat it, with what its query holds
    return str(error).strip() or "it cannot be parsed"


def protocol(max_head: int, head_seconds: float, body_seconds: float) -> Callable[..., BoundedProtocol]:
    """Returns what makes a connection's protocol for `uvicorn.Config(http=…)`."""

    def make(*args: Any, **options: Any) -> BoundedProtocol:
        return BoundedProtocol(
            *args, max_head=max_head, head_seconds=head_seconds, body_seconds=body_seconds, **options
        )

    return make
