"""The rules of one socket, without an object: pairs, listeners, closing, attachments, the pipe between two ends."""

import asyncio
import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.runtime import (
    DurableObjectError,
    WebSocket,
    WebSocketPair,
)
from moorage.durable_objects.runtime.clone import DataCloneError
from moorage.durable_objects.runtime.testing import settle
from moorage.durable_objects.runtime.web import Blob
from moorage.durable_objects.runtime.websockets import (
    Close,
    InvalidAccessError,
    WebSocketSyntaxError,
)
from moorage.durable_objects.runtime.websockets.attachment import serialized_size
from moorage.durable_objects.runtime.websockets.end import HIGH_WATER, make_pipe

SHARED = [1]


async def test_pairs() -> None:
    pair = WebSocketPair.new()
    first, second = pair
    assert pair.object_values() == [first, second] == [pair[0], pair["1"]]
    assert (getattr(pair, "0"), pair.object_keys(), len(pair)) == (first, ["0", "1"], 2)
    assert pair.object_entries()[1] == ["1", second]
    with pytest.raises(IndexError):
        pair[2]
    with pytest.raises(AttributeError):
        _ = pair.third


def listen(socket: WebSocket) -> list[Any]:
    heard: list[Any] = []
    for kind in ("message", "close", "error"):
        socket.addEventListener(kind, heard.append)
    socket.accept()
    return heard


async def test_listeners(caplog: pytest.LogCaptureFixture) -> None:
    first, second = WebSocketPair.new()
    order: list[str] = []

    async def later(event: Any) -> None:
        await asyncio.sleep(0)
        order.append(f"async {event.data}")

    def broken(event: Any) -> None:
        raise RuntimeError("in a listener")

    async def broken_later(event: Any) -> None:
        raise RuntimeError("in an asynchronous listener")

    second.addEventListener("message", later)
    second.addEventListener("message", broken)
    second.addEventListener("message", broken_later)
    second.addEventListener("message", lambda event: order.append(f"once {event.data}"), {"once": True})
    removed = order.append
    second.addEventListener("message", removed)
    second.removeEventListener("message", removed)
    second.onmessage = lambda event: order.append(f"on {event.type} {event.target is second}")
    first.accept()
    second.accept()
    first.send("x")
    await settle()
    assert order == ["on message True", "once x", "async x"]
    assert caplog.text.count("a listener of 'message' failed") == 1
    assert caplog.text.count("an asynchronous listener failed") == 1
    first.send("y")
    await settle()
    assert order[3:] == ["on message True", "async y"]


async def test_frames_that_come_before_accept_are_kept() -> None:
    first, second = WebSocketPair.new()
    first.accept()
    first.send("early")
    assert first.bufferedAmount > 0
    first.close(1000, "gone")
    heard = listen(second)
    await settle()
    assert [event.type for event in heard] == ["message", "close"]
    assert first.bufferedAmount == 0
    assert (first.readyState, second.readyState) == (3, 3)


async def test_kinds_of_data() -> None:
    first, second = WebSocketPair.new()
    first.accept()
    heard = listen(second)
    for data in ("text", b"bytes", bytearray(b"array"), memoryview(b"view"), 5, 1.5, True, None):
        first.send(data)
    second.binaryType = "arraybuffer"
    await settle()
    assert [event.data for event in heard] == [
        "text", b"bytes", b"array", b"view", "5", "1.5", "true", "null",
    ]  # fmt: skip
    assert heard[1].data.to_py() == memoryview(b"bytes")
    second.binaryType = "blob"
    first.send(b"as a blob")
    await settle()
    assert isinstance(heard[-1].data, Blob)
    with pytest.raises(TypeError, match="not dict"):
        first.send({"json": 1})


async def test_what_an_end_may_be_used_for() -> None:
    first, second = WebSocketPair.new()
    with pytest.raises(TypeError, match="You must call one of accept"):
        first.send("x")
    with pytest.raises(TypeError, match="You must call one of accept"):
        first.close()
    first.accept()
    first.accept()  # a second time does nothing
    with pytest.raises(TypeError, match=r"after calling accept\(\)"):
        first._release()
    second._release()
    with pytest.raises(TypeError, match="already used in a response"):
        second._release()
    with pytest.raises(TypeError, match="already used in a response"):
        second.accept()
    second.send("silently ignored")
    second.close()
    first.close(1000)
    first.close(1000)  # a second time does nothing
    with pytest.raises(TypeError, match=r"after close\(\)"):
        first.send("x")


@pytest.mark.parametrize("code", [999, 1004, 1005, 1006, 1015, 5000, 0, -1, 70000])
async def test_codes_that_may_not_be_sent(code: int) -> None:
    first, _second = WebSocketPair.new()
    first.accept()
    with pytest.raises(InvalidAccessError, match=f"Invalid WebSocket close code: {code}") as caught:
        first.close(code)
    assert caught.value.name == "InvalidAccessError"
    assert first.readyState == 1


async def test_reasons_that_may_not_be_sent() -> None:
    first, second = WebSocketPair.new()
    first.accept()
    heard = listen(second)
    with pytest.raises(TypeError, match="you must also specify a code"):
        first.close(None, "why")
    with pytest.raises(WebSocketSyntaxError, match="not be longer than 123 bytes when UTF-8 encoded"):
        first.close(1000, "ü" * 62)
    first.close(1000, "ü" * 61)
    await settle()
    assert heard[0].reason == "ü" * 61


# Attachments. The sizes are those of `v8.serialize(value).length` in Node 20, apart from bytes and large integers.


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (None, 3),
        (True, 3),
        (7, 4),
        (-65, 5),
        (2**30, 11),
        (1.5, 11),
        (3.0, 4),
        ("", 4),
        ("x" * 127, 131),
        ("x" * 16377, 16382),
        ("é", 5),
        ("€", 6),
        ({"user": 7}, 13),
        ([], 7),
        ([1, 2], 11),
        ({"k": [1]}, 15),
        (b"\x00\x01", 11),
        (datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), 11),
        ({1}, 7),
        ({"a": {"b": "€"}, "c": "€€"}, 28),
        ({"0": 1, "b": 2}, 14),
        ([SHARED, SHARED], 16),
    ],
)
def test_sizes_of_attachments(value: Any, size: int) -> None:
    assert serialized_size(value) == size


async def test_attachments_are_copies() -> None:
    first, _second = WebSocketPair.new()
    value: dict[str, Any] = {"list": [1, 2], "bytes": b"x"}
    value["self"] = value
    first.serializeAttachment(value)
    value["list"] = "changed later"
    kept = first.deserializeAttachment()
    assert (kept.list, kept["bytes"], kept["self"] is kept) == ([1, 2], b"x", True)
    assert first.deserializeAttachment() is not kept
    with pytest.raises(DataCloneError):
        first.serializeAttachment(lambda: None)
    with pytest.raises(DurableObjectError, match="'attachment' was 20006 bytes"):
        first.serializeAttachment("x" * 20_000)
    assert first.deserializeAttachment().list == [1, 2]


# The pipe.


async def test_a_feeder_waits_for_room() -> None:
    first, second = make_pipe()
    chunk = b"x" * 65536
    while not first.full:
        first.push(chunk)
    assert HIGH_WATER < second.buffered < HIGH_WATER + 70_000
    room = asyncio.ensure_future(first.room())
    second.take()
    await settle(3)
    assert not room.done()
    while second.take() is not None:
        pass
    await room
    first.push(chunk)
    while not first.full:
        first.push(chunk)
    room = asyncio.ensure_future(first.room())
    await settle(3)
    second.abandon()
    await room


frames = st.lists(
    st.one_of(st.text(max_size=5), st.binary(max_size=5), st.just(Close(1000)), st.just("<abandon>")), max_size=12
)


@given(frames, st.integers(0, 12))
def test_frames_arrive_in_order_and_nothing_follows_an_ending(sent: list[Any], listens_after: int) -> None:
    first, second = make_pipe()
    got: list[Any] = []

    class Taker:
        loop: Any = None

        def ready(self, end: Any) -> None:
            got.append(end.take())

        def settled(self, end: Any) -> None:
            raise AssertionError("nobody settles this pipe")

    expected: list[Any] = []
    for number, frame in enumerate(sent):
        if number == listens_after:
            got.extend(iter(second.take, None))
            second.listen(Taker())
        if frame == "<abandon>":
            first.abandon()
        else:
            first.push(frame)
        if not any(isinstance(item, Close) for item in expected):
            expected.append(Close(1006, "", clean=False) if frame == "<abandon>" else frame)
    got.extend(iter(second.take, None))
    shown = [Close(1006, "", clean=False) if isinstance(item, Close) and not item.clean else item for item in got]
    assert shown == expected
    assert second.buffered == 0
