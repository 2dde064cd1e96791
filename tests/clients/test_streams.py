"""Lines of an answer as they come."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from moorage.clients.errors import InvalidAnswer, TransportError, Unavailable
from moorage.clients.http import AsyncHttp, Http
from moorage.protocols.signatures import Request, verify_request
from tests.support.http import Script

from .http_client import NOW, SECRET, URL, Sleeps, ok


class Chunks(httpx.AsyncByteStream):
    """A body in pieces; an exception among them is raised, an event is waited for."""

    def __init__(self, *pieces: bytes | Exception | asyncio.Event) -> None:
        self.pieces = pieces
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, asyncio.Event):
                await piece.wait()
            else:
                yield piece

    async def aclose(self) -> None:
        self.closed = True


def stream_of(*pieces: bytes | Exception | asyncio.Event) -> httpx.Response:
    return httpx.Response(200, stream=Chunks(*pieces))


class TestStreams:
    async def lines(self, *answers: httpx.Response | Exception, **options: Any) -> list[str]:
        self.script = Script(list(answers))
        async with AsyncHttp(URL, SECRET, transport=self.script, now=lambda: NOW, sleep=Sleeps()) as http:
            return [line async for line in http.lines("/events?from=now", headers={"last-event-id": "4"}, **options)]

    async def test_lines_end_with_line_feeds_alone(self) -> None:
        body = 'data: "a\u2028b\x85c"\r\n\nid: é\nno end'.encode()
        expected = ['data: "a\u2028b\x85c"', "", "id: é"]
        assert await self.lines(stream_of(body)) == expected
        assert await self.lines(stream_of(*(body[at : at + 1] for at in range(len(body))))) == expected
        request = self.script.seen[0]
        assert request.headers["last-event-id"] == "4"
        fields = [(name.lower(), value) for name, value in request.headers.raw]
        verify_request(Request("GET", b"/events", b"from=now", fields), b"", {"webhook": [SECRET.encode()]}, NOW)

    async def test_a_refusal_is_told_and_not_repeated(self) -> None:
        with pytest.raises(Unavailable, match="busy"):
            await self.lines(httpx.Response(503, json={"error": "busy"}), ok())
        assert len(self.script.seen) == 1

    async def test_a_service_that_has_just_started_is_signed_for_again(self) -> None:
        early = {"error": "invalid_signature", "reason": "created_before_start", "not_before": int(NOW) + 2}
        assert await self.lines(httpx.Response(401, json=early), stream_of(b"a\n")) == ["a"]
        assert f"created={int(NOW) + 2}" in self.script.seen[1].headers["signature-input"]

    async def test_what_breaks_has_no_secret_in_it(self) -> None:
        for broken in (httpx.ReadError(f"lost {SECRET}"), httpx.RemoteProtocolError(f"cut {SECRET}")):
            body = Chunks(b"a\n", broken)
            with pytest.raises(TransportError) as caught:
                await self.lines(httpx.Response(200, stream=body))
            assert SECRET not in str(caught.value)
            assert body.closed

    async def test_silence_ends_it(self) -> None:
        with pytest.raises(TransportError, match=r"within 0\.01 s"):
            await self.lines(stream_of(b"a\n", asyncio.Event()), idle=0.01)

    async def test_lines_are_bounded(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("moorage.clients.http.MAX_LINE_BYTES", 4)
        assert await self.lines(stream_of(b"abcd\n")) == ["abcd"]
        with pytest.raises(InvalidAnswer, match="longer than 4 bytes"):
            await self.lines(stream_of(b"abcde", b"\n"))

    def test_dropping_the_synchronous_lines_closes_the_connection(self) -> None:
        body = Chunks(b"a\n", asyncio.Event())
        with Http(URL, SECRET, transport=Script([httpx.Response(200, stream=body)]), now=lambda: NOW) as http:
            lines = http.lines("/events")
            assert next(lines) == "a"
            lines.close()  # type: ignore[attr-defined]
        assert body.closed
