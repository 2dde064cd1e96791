"""Requests over an ASGI scope, responses to an ASGI server, and streams between them."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.runtime.web import ReadableStream, Request, Response

Sent = list[dict[str, Any]]


def scope(method: str = "POST", headers: Iterable[tuple[bytes, bytes]] = ()) -> dict[str, Any]:
    return {
        "type": "http", "method": method, "path": "/x", "raw_path": b"/x", "query_string": b"", "scheme": "http",
        "headers": [(b"host", b"example.com"), *headers],
    }  # fmt: skip


def channel(*messages: dict[str, Any]) -> Any:
    waiting = list(messages)

    async def receive() -> dict[str, Any]:
        return waiting.pop(0)

    return receive


def part(body: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


async def sent_by(response: Response, **options: Any) -> Sent:
    out: Sent = []

    async def send(message: Any) -> None:
        out.append(dict(message))

    await response.send(send, **options)
    return out


async def test_a_request_over_a_scope() -> None:
    request = Request.from_asgi(
        scope(headers=[(b"X-A", b"1"), (b"x-a", b"2")]), channel(part(b"ab"), part(b"c", False))
    )
    assert (request.method, request.url, request.headers["x-a"]) == ("POST", "http://example.com/x", "1, 2")
    assert await request.text() == "abc"
    with pytest.raises(OSError, match="Body already used"):
        await request.bytes()


async def test_a_body_is_streamed_as_it_arrives() -> None:
    request = Request.from_asgi(scope(), channel(part(b"ab"), part(b""), part(b"c", False)))
    assert request.body is not None
    assert [chunk async for chunk in request.body] == [b"ab", b"c"]
    assert request.body_used


async def test_a_client_that_goes_away_is_an_os_error() -> None:
    request = Request.from_asgi(scope(), channel(part(b"ab"), {"type": "http.disconnect"}))
    with pytest.raises(OSError, match="disconnected"):
        await request.bytes()


@pytest.mark.parametrize(
    ("method", "headers", "has_body"),
    [
        ("GET", [], False),
        ("HEAD", [(b"content-length", b"0")], False),
        ("GET", [(b"content-length", b"2")], True),
        ("GET", [(b"transfer-encoding", b"chunked")], True),
        ("DELETE", [], True),
    ],
)
async def test_which_requests_have_a_body(method: str, headers: list[tuple[bytes, bytes]], has_body: bool) -> None:
    request = Request.from_asgi(scope(method, headers), channel(part(b"", False)))
    assert (request.body is not None) == has_body


async def test_a_clone_of_a_streamed_body() -> None:
    request = Request.from_asgi(scope(), channel(part(b"ab"), part(b"c", False)))
    copy = request.clone()
    assert await request.text() == "abc"
    assert await copy.text() == "abc"


async def test_a_complete_response_is_two_messages() -> None:
    assert await sent_by(Response("hi", headers=[("set-cookie", "a=1"), ("set-cookie", "b=2")])) == [
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [
                (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2"),
                (b"content-type", b"text/plain;charset=UTF-8"), (b"content-length", b"2"),
            ],
        },
        {"type": "http.response.body", "body": b"hi", "more_body": False},
    ]  # fmt: skip


async def test_no_body_and_head() -> None:
    start, body = await sent_by(Response(None, status=204))
    assert start["headers"] == []
    assert body["body"] == b""
    start, body = await sent_by(Response("hello"), head=True)
    assert (b"content-length", b"5") in start["headers"]
    assert body["body"] == b""


async def test_a_stream_is_sent_chunk_by_chunk_and_only_when_asked() -> None:
    events: list[str] = []

    async def chunks() -> AsyncIterator[bytes]:
        for name in ("a", "b"):
            events.append(f"make {name}")
            yield name.encode()

    async def send(message: Any) -> None:
        events.append(f"send {message.get('body', b'start').decode()}")

    await Response(chunks()).send(send)
    assert events == ["send start", "make a", "send a", "make b", "send b", "send "]


async def test_a_stream_that_fails_is_not_ended() -> None:
    closed: list[str] = []

    async def chunks() -> AsyncIterator[bytes]:
        try:
            yield b"a"
            raise ZeroDivisionError
        finally:
            closed.append("yes")

    out: Sent = []

    async def send(message: Any) -> None:
        out.append(dict(message))

    with pytest.raises(ZeroDivisionError):
        await Response(chunks()).send(send)
    assert [message.get("more_body") for message in out] == [None, True]
    assert closed == ["yes"]


async def test_a_stream_ends_when_the_client_has_gone() -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"tick"
                await asyncio.sleep(0)
        finally:
            closed.set()

    gone = asyncio.Event()
    count = 0

    async def send(message: Any) -> None:
        nonlocal count
        count += 1
        if count == 5:
            gone.set()

    async def wait() -> None:
        await gone.wait()

    await Response(endless()).send(send, gone=wait)
    assert closed.is_set()


async def test_disconnected_waits_for_the_channel() -> None:
    request = Request.from_asgi(scope(), channel(part(b"ab"), part(b"c", False), {"type": "http.disconnect"}))
    await request.disconnected()
    request = Request.from_asgi(scope(), channel(part(b"ab", False), {"type": "http.disconnect"}))
    assert await request.text() == "ab"
    await request.disconnected()


async def test_a_used_body_is_not_sent() -> None:
    response = Response("x")
    await response.text()
    with pytest.raises(OSError, match="Body already used"):
        await sent_by(response)
    assert await sent_by(Response.sent()) == []


async def test_readers() -> None:
    stream = ReadableStream([b"a", b"b"])
    reader = stream.getReader()
    assert stream.locked
    with pytest.raises(TypeError, match="locked"):
        stream.getReader()
    first = await reader.read()
    assert (first.done, first.value.to_py().tobytes(), first.value.byteLength) == (False, b"a", 1)
    reader.releaseLock()
    with pytest.raises(TypeError, match="released"):
        await reader.read()
    assert await stream.read_all() == b"b"
    assert (await ReadableStream().getReader().read()).done


async def test_a_stream_gives_only_bytes() -> None:
    with pytest.raises(TypeError, match="bytes or text, not int"):
        await ReadableStream([1]).read_all()


@given(st.lists(st.binary(min_size=1, max_size=5)), st.lists(st.integers(0, 1), max_size=20))
async def test_both_branches_of_a_tee_give_everything(chunks: list[bytes], order: list[int]) -> None:
    branches = ReadableStream(chunks).tee()
    read: list[list[bytes]] = [[], []]
    for side in order:
        chunk = await branches[side].next_chunk()
        if chunk is not None:
            read[side].append(chunk)
    for side in (0, 1):
        while (chunk := await branches[side].next_chunk()) is not None:
            read[side].append(chunk)
    assert read == [chunks, chunks]


async def test_an_error_reaches_both_branches() -> None:
    async def source() -> AsyncIterator[bytes]:
        yield b"a"
        raise ZeroDivisionError

    one, two = ReadableStream(source()).tee()
    for branch in (one, two):
        assert await branch.next_chunk() == b"a"
        with pytest.raises(ZeroDivisionError):
            await branch.next_chunk()
