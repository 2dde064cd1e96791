"""Streams that leave an object: behind both gates, held in memory while they are read, closed when nobody reads."""

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from moorage.durable_objects.runtime import DurableObject, DurableObjectError
from moorage.durable_objects.runtime.testing import ControlledLog, ManualClock, settle
from moorage.durable_objects.runtime.web import ReadableStream, Response

from .conftest import Make


class Streamer(DurableObject):
    """Writes before every chunk."""

    closed: list[str] = []

    async def _chunks(self, count: int, fails: bool = False) -> AsyncIterator[bytes]:
        try:
            for number in range(count):
                await self.ctx.storage.put("n", number)
                yield b"%d" % number
            if fails:
                raise ValueError("in the middle")
        finally:
            self.closed.append("closed")

    async def fetch(self, request: Any) -> Response:
        return Response(self._chunks(3, request.url.endswith("/fails")))

    async def stream(self) -> ReadableStream:
        return ReadableStream(self._chunks(3))

    async def stuck(self) -> ReadableStream:
        async def chunks() -> AsyncIterator[bytes]:
            try:
                yield b"first"
                await asyncio.sleep(1000)
                yield b"second"
            finally:
                self.closed.append("closed")

        return ReadableStream(chunks())

    async def block(self) -> None:
        async def section() -> None:
            await self.ctx.clock.sleep(10)

        self.ctx.blockConcurrencyWhile(section)

    async def reset(self) -> None:
        self.ctx.abort("on purpose")

    async def give_callback(self, other: Any) -> None:
        async def callback() -> int:
            return 1

        await other.keep(callback)

    async def keep(self, callback: Any) -> None:
        self.callback = callback

    async def call(self) -> int:
        answer: int = await self.callback()
        return answer


@pytest.fixture(autouse=True)
def nothing_closed() -> None:
    Streamer.closed.clear()


def stub_of(runtime: Any, name: str = "a") -> Any:
    return runtime.namespaces["w-Streamer"].getByName(name)


async def soon(awaitable: Any) -> Any:
    async with asyncio.timeout(5):
        return await awaitable


@pytest.mark.parametrize("way", ["fetch", "call"])
async def test_a_chunk_waits_for_the_sync_of_what_was_written_before_it(on_disk: Make, way: str) -> None:
    log = ControlledLog()
    runtime = await on_disk({"Streamer": Streamer}, log=log)
    stub = stub_of(runtime)
    stream = (await stub.fetch("http://x/")).body if way == "fetch" else await stub.stream()
    log.hold()
    first = asyncio.ensure_future(stream.next_chunk())
    await settle()
    assert not first.done(), "a chunk left before what was written before it was durable"
    log.release()
    assert await soon(first) == b"0"
    assert await soon(stream.read_all()) == b"12"
    assert Streamer.closed == ["closed"]


async def test_a_stream_keeps_its_object_and_obeys_its_sections(in_memory: Make) -> None:
    clock = ManualClock()
    runtime = await in_memory({"Streamer": Streamer}, clock=clock)
    stream = await stub_of(runtime).stream()
    assert await stream.next_chunk() == b"0"
    await clock.advance(60_000)
    assert runtime.namespaces["w-Streamer"].live, "evicted while its answer is being read"
    await stub_of(runtime).block()
    second = asyncio.ensure_future(stream.next_chunk())
    await clock.advance(9_000)
    assert not second.done(), "a stream went on during a critical section"
    await clock.advance(1_000)
    assert await second == b"1"
    assert await stream.read_all() == b"2"
    await clock.advance(11_000)
    assert not runtime.namespaces["w-Streamer"].live


async def test_an_error_of_the_stream_reaches_the_reader(in_memory: Make) -> None:
    runtime = await in_memory({"Streamer": Streamer})
    response = await stub_of(runtime).fetch("http://x/fails")
    with pytest.raises(ValueError, match="in the middle"):
        await soon(response.bytes())
    assert Streamer.closed == ["closed"]


async def test_a_reset_ends_the_stream(in_memory: Make) -> None:
    runtime = await in_memory({"Streamer": Streamer})
    stream = await stub_of(runtime).stream()
    assert await stream.next_chunk() == b"0"
    with pytest.raises(DurableObjectError, match="on purpose"):
        await soon(stub_of(runtime).reset())
    with pytest.raises(DurableObjectError, match="on purpose"):
        await soon(stream.next_chunk())


@pytest.mark.parametrize("way", ["cancelled", "abandoned", "reader cancelled"])
async def test_a_reader_that_goes_away_closes_the_stream(in_memory: Make, way: str) -> None:
    clock = ManualClock()
    runtime = await in_memory({"Streamer": Streamer}, clock=clock)
    stream = await stub_of(runtime).stuck()
    assert await stream.next_chunk() == b"first"
    if way == "cancelled":
        await soon(stream.cancel())
    elif way == "reader cancelled":
        reading = asyncio.ensure_future(stream.next_chunk())
        await settle()
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
    del stream
    gc.collect()
    await settle()
    if way != "abandoned":
        assert Streamer.closed == ["closed"]
    await clock.advance(11_000)
    assert not runtime.namespaces["w-Streamer"].live, "the object is kept for a stream that nobody reads"


async def test_a_function_of_an_object_that_is_gone_is_an_error(in_memory: Make) -> None:
    runtime = await in_memory({"Streamer": Streamer})

    giver, keeper = stub_of(runtime, "giver"), stub_of(runtime, "keeper")
    await soon(giver.give_callback(keeper))
    assert await soon(keeper.call()) == 1
    with pytest.raises(DurableObjectError):
        await soon(giver.reset())
    with pytest.raises(DurableObjectError, match="on purpose"):
        await soon(keeper.call())
