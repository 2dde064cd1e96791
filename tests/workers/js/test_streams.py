"""`js.ReadableStream`, `WritableStream`, `TransformStream`, `FixedLengthStream` (spec python-workers-api 1 and 6)."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest

from moorage.durable_objects.runtime.web import ReadableStream, Response
from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.pyodide.ffi import JsException


async def test_streams_made_of_functions() -> None:
    events: list[str] = []

    def pull(controller: Any) -> None:
        events.append("pull")
        if len(events) == 3:
            controller.close()
        else:
            controller.enqueue(b"%d" % len(events))

    stream = js.ReadableStream.new(start=lambda controller: controller.enqueue("first "), pull=pull)
    assert await Response(stream).text() == "first 12"

    async def fails(controller: Any) -> None:
        controller.error(ValueError("broken"))

    with pytest.raises(ValueError, match="broken"):
        await Response(js.ReadableStream.new({"pull": fails})).text()

    cancelled: list[Any] = []
    endless = js.ReadableStream.new(pull=lambda controller: controller.enqueue(b"x"), cancel=cancelled.append)
    reader = endless.getReader()
    await reader.read()
    await reader.cancel()
    assert cancelled == [None]


async def test_transform_streams() -> None:
    stream = js.TransformStream.new()
    writer = stream.writable.getWriter()

    async def write() -> None:
        await writer.write(b"a")
        await writer.write(b"b")
        await writer.close()

    task = asyncio.create_task(write())
    assert await Response(stream.readable).text() == "ab"
    await task

    upper = js.TransformStream.new(
        transform=lambda chunk, controller: controller.enqueue(bytes(chunk).upper()),
        flush=lambda controller: controller.enqueue(b"!"),
    )

    async def chunks() -> AsyncIterator[bytes]:
        yield b"ab"
        yield b"c"

    body = Response(chunks()).body
    assert body is not None
    assert await Response(body.pipeThrough(upper)).text() == "ABC!"


async def test_a_writer_waits_for_its_reader_and_hears_that_it_went() -> None:
    stream = js.TransformStream.new()
    writer = stream.writable.getWriter()
    first = asyncio.create_task(writer.write(b"a"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not first.done()
    reader = stream.readable.getReader()
    assert (await reader.read()).value == b"a"
    await first
    await reader.cancel()
    with pytest.raises(JsException, match="cancelled"):
        await writer.write(b"b")
    with pytest.raises(JsException, match="locked"):
        stream.writable.getWriter()


async def test_fixed_length() -> None:
    stream = js.FixedLengthStream.new(3)
    writer = stream.writable.getWriter()
    task = asyncio.create_task(writer.write(b"abc"))
    reader = stream.readable.getReader()
    assert (await reader.read()).value == b"abc"
    await task
    with pytest.raises(JsException, match="too many bytes"):
        await writer.write(b"d")
    with pytest.raises(JsException, match="all expected bytes"):
        await js.FixedLengthStream.new(1).writable.getWriter().close()


async def test_start_runs_at_once_and_keeps_the_controller() -> None:
    held: list[Any] = []
    stream = js.ReadableStream.new(start=held.append)
    held[0].enqueue("a")
    held[0].close()
    assert await Response(stream).text() == "a"
    transform = js.TransformStream.new({"start": lambda controller: controller.enqueue(b"first ")})
    assert await Response(ReadableStream([b"a", b"b"]).pipeThrough(transform)).text() == "first ab"


async def broken() -> AsyncIterator[bytes]:
    yield b"a"
    raise ValueError("of the source")


def refuse(*_args: Any) -> None:
    raise ValueError("of the function")


@pytest.mark.parametrize(
    ("functions", "text"),
    [
        ({}, "of the source"),
        ({"transform": refuse}, "of the function"),
        ({"start": refuse}, "of the function"),
        ({"transform": lambda chunk, controller: controller.error(ValueError("told"))}, "told"),
    ],
)
async def test_an_error_reaches_the_reader(functions: dict[str, Any], text: str) -> None:
    readable = ReadableStream(broken()).pipeThrough(js.TransformStream.new(functions))
    with pytest.raises(ValueError, match=text):
        await Response(readable).text()


async def test_an_error_at_the_end_reaches_the_reader() -> None:
    readable = ReadableStream([b"a"]).pipeThrough(js.TransformStream.new(flush=refuse))
    with pytest.raises(ValueError, match="of the function"):
        await Response(readable).text()


async def test_a_reader_that_goes_ends_the_source() -> None:
    made: list[int] = []
    ended = asyncio.Event()

    async def source() -> AsyncIterator[bytes]:
        try:
            while True:
                made.append(1)
                yield b"x"
        finally:
            ended.set()

    reader = ReadableStream(source()).pipeThrough(js.TransformStream.new()).getReader()
    await reader.read()
    await reader.cancel()
    await ended.wait()
    assert len(made) <= 3


async def test_writable_streams() -> None:
    written: list[Any] = []
    release = asyncio.Event()

    async def write(chunk: Any, controller: Any) -> None:
        written.append(bytes(chunk))
        await release.wait()

    functions = {"start": lambda: written.append("start"), "write": write, "close": lambda: written.append("close")}
    stream = js.WritableStream.new(functions)
    writer = stream.getWriter()
    tasks = [asyncio.create_task(writer.write(chunk)) for chunk in (b"a", b"b")]
    for _ in range(5):
        await asyncio.sleep(0)
    assert (written, writer.desiredSize) == (["start", b"a"], 0), "one after the other"
    release.set()
    await asyncio.gather(*tasks)
    await writer.ready
    await writer.close()
    await writer.closed
    assert written == ["start", b"a", b"b", "close"]
    with pytest.raises(JsException, match="has been closed"):
        await writer.write(b"c")
    with pytest.raises(JsException, match="has been closed"):
        await writer.close()
    writer.releaseLock()
    assert not stream.locked
    with pytest.raises(JsException, match="released"):
        await writer.write(b"d")


async def test_a_sink_that_failed_takes_no_more() -> None:
    aborted: list[Any] = []
    stream = js.WritableStream.new({"write": refuse, "abort": aborted.append})
    source = ReadableStream([b"a", b"b"])
    with pytest.raises(ValueError, match="of the function"):
        await source.pipeTo(stream)
    assert source.disturbed
    writer = stream.getWriter()
    for use in (writer.write(b"x"), writer.close(), writer.closed, writer.ready):
        with pytest.raises(ValueError, match="of the function"):
            await use
    await writer.abort("late")
    assert aborted == []
    told = js.WritableStream.new(write=lambda chunk, controller: controller.error("full"))
    await told.write(b"x")
    with pytest.raises(JsException, match="full"):
        await told.write(b"y")


async def test_options_of_pipes() -> None:
    events: list[Any] = []

    def sink() -> Any:
        return js.WritableStream.new(
            write=lambda chunk: events.append(bytes(chunk)), close=lambda: events.append("close"), abort=events.append
        )

    await ReadableStream([b"a"]).pipeTo(sink())
    await ReadableStream([b"b"]).pipeTo(sink(), preventClose=True)
    assert events == [b"a", "close", b"b"]
    with pytest.raises(ValueError, match="of the source"):
        await ReadableStream(broken()).pipeTo(sink())
    assert isinstance(events.pop(), ValueError)
    with pytest.raises(ValueError, match="of the source"):
        await ReadableStream(broken()).pipeTo(sink(), {"preventAbort": True})
    assert events[3:] == [b"a", b"a"]
    stream = ReadableStream([b"a"])
    with pytest.raises(JsException, match="AbortError"):
        await stream.pipeTo(sink(), signal=js.AbortSignal.abort())
    assert stream.disturbed


@pytest.mark.parametrize("form", ["gzip", "deflate", "deflate-raw"])
async def test_compression(form: str) -> None:
    data = b"text " * 100_000
    packed = ReadableStream([data[:1000], data[1000:]]).pipeThrough(js.CompressionStream.new(form))
    content = await Response(packed).bytes()
    assert len(content) < 5_000
    if form == "gzip":
        assert gzip.decompress(content) == data
    unpacked = ReadableStream([content[:100], content[100:]]).pipeThrough(js.DecompressionStream.new(form))
    assert await Response(unpacked).bytes() == data
    for wrong, text in (
        (b"\xff\xffno such data", "failed"),
        (content[:-1], "incomplete"),
        (content + b"x", "Trailing"),
    ):
        with pytest.raises(JsException, match=text):
            await Response(ReadableStream([wrong]).pipeThrough(js.DecompressionStream.new(form))).bytes()
    with pytest.raises(JsException, match="format"):
        js.CompressionStream.new("zip")


def test_a_listener_of_a_signal_that_fails_keeps_nobody_from_hearing(caplog: pytest.LogCaptureFixture) -> None:
    controller = js.AbortController.new()
    heard: list[str] = []
    controller.signal.addEventListener("abort", refuse)
    controller.signal.addEventListener("abort", lambda event: heard.append(event.type))
    controller.abort()
    assert heard == ["abort"]
    assert "of the function" in caplog.text
