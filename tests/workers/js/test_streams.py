"""`js.ReadableStream`, `WritableStream`, `TransformStream`, `FixedLengthStream` (spec python-workers-api 1 and 6)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from moorage.durable_objects.runtime.web import (
    Response,
)
from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.pyodide.ffi import (
    JsException,
)


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
