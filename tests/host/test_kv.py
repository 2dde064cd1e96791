"""Key-value namespaces: types, expiration, metadata, pages, limits and texts."""

import asyncio
import datetime
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.durable_objects.runtime.testing import ManualClock, memory_runtime
from moorage.durable_objects.runtime.web import Blob, JsBytes, JsDict, ReadableStream
from moorage.wrangler_compat.host.kv import KvNamespace, KvStore, rules
from moorage.wrangler_compat.host.server import Serving
from moorage.wrangler_compat.host.values import Presentation
from moorage.wrangler_compat.workers.js.errors import JsException
from moorage.wrangler_compat.workers.rpc import _BindingWrapper, python_to_rpc
from tests.support.names import stable
from tests.support.workers_in_process import ask, host_of, lay

NOW = 1_700_000_000


class Space:
    """A namespace in memory with a clock set by hand."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW * 1000)
        self.runtime = memory_runtime(clock=self.clock)
        self.stub = self.runtime.namespace("~kv", KvStore).getByName("test")
        self.kv = KvNamespace(self.stub, self.clock.now, Presentation())

    def of(self, form: Presentation) -> KvNamespace:
        return KvNamespace(self.stub, self.clock.now, form)


@pytest.fixture
async def space() -> AsyncIterator[Space]:
    made = Space()
    await made.runtime.start()
    yield made
    await made.runtime.close()


async def test_every_type_of_a_value(space: Space) -> None:
    kv = space.kv
    await kv.put("k", '{"a": [1, {"b": null}]}')
    assert await kv.get("k") == '{"a": [1, {"b": null}]}'
    value = await kv.get("k", "json")
    assert value == {"a": [1, {"b": None}]}
    assert value.a[1].to_py() == {"b": None}
    assert await kv.get("k", {"type": "json"}) == await kv.get("k", type="json") == value
    assert await kv.get("k", type="text", cacheTtl=60) == '{"a": [1, {"b": null}]}'
    buffer = await kv.get("k", "arrayBuffer")
    assert isinstance(buffer, JsBytes)
    assert bytes(buffer).startswith(b'{"a"')
    stream = await kv.get("k", "stream")
    assert isinstance(stream, ReadableStream)
    assert (await stream.read_all()).endswith(b"}")


async def test_the_form_of_buffers_follows_the_compatibility_date(space: Space) -> None:
    await space.kv.put("k", b"\x00\xff")
    for date, flags, kind in (
        ("2026-07-01", (), memoryview),
        ("2025-01-01", (), JsBytes),
        ("2026-07-01", ("moorage_plain_values",), bytes),
    ):
        value = await space.of(Presentation.of(date, flags)).get("k", "arrayBuffer")
        assert type(value) is kind
        assert bytes(value) == b"\x00\xff"
    plain = await space.of(Presentation.of(None, ("moorage_plain_values",))).list()
    assert type(plain) is dict
    assert type(plain["keys"]) is list


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        ("", b""),
        ("é", "é".encode()),
        (b"bytes", b"bytes"),
        (bytearray(b"array"), b"array"),
        (memoryview(b"view"), b"view"),
        (JsBytes(b"js"), b"js"),
        (Blob(["blob"]), b"blob"),
        (ReadableStream([b"two ", b"chunks"]), b"two chunks"),
    ],
    ids=stable,
)
async def test_what_can_be_put(space: Space, value: Any, stored: bytes) -> None:
    await space.kv.put("k", value)
    assert bytes(await space.kv.get("k", "arrayBuffer")) == stored


@pytest.mark.parametrize("value", [1, 1.5, True, None, {"a": 1}, ["a"], object()], ids=stable)
async def test_what_cannot_be_put(space: Space, value: Any) -> None:
    with pytest.raises(TypeError, match="accepts only strings, ArrayBuffers, ArrayBufferViews, and ReadableStreams"):
        await space.kv.put("k", value)
    assert await space.kv.get("k") is None


async def test_missing_keys_and_overwriting(space: Space) -> None:
    kv = space.kv
    assert await kv.get("none") is None
    assert await kv.get("none", "json") is None
    assert (await kv.getWithMetadata("none")).to_py() == {"value": None, "metadata": None, "cacheStatus": None}
    await kv.delete("none")
    await kv.put("k", "long " * 500_000, metadata={"n": 1})
    await kv.put("k", "short")
    assert (await kv.getWithMetadata("k")).to_py() == {"value": "short", "metadata": None, "cacheStatus": None}
    await kv.delete("k")
    assert await kv.get("k") is None


async def test_many_keys(space: Space) -> None:
    kv = space.kv
    await kv.put("a", '{"v": 1}', metadata={"m": 1})
    await kv.put("b", '{"v": 2}')
    found = await kv.get(["a", "b", "c", "a"])
    assert isinstance(found, JsDict)
    assert found == {"a": '{"v": 1}', "b": '{"v": 2}', "c": None}
    assert (await kv.get(["a", "b"], "json"))["b"]["v"] == 2
    pairs = await kv.getWithMetadata(["a", "c"], type="json")
    assert pairs["a"]["value"] == {"v": 1}
    assert pairs["a"].metadata.m == 1
    assert pairs["c"] is None
    await kv.delete(["a", "b"])
    assert await kv.get(["a", "b"]) == {"a": None, "b": None}


async def test_expiration_is_by_the_clock_handed_in(space: Space) -> None:
    kv = space.kv
    await kv.put("ttl", "v", expirationTtl=60)
    await kv.put("at", "v", {"expiration": NOW + 120})
    await kv.put("both", "v", {"expiration": NOW + 1000}, expirationTtl=61)
    await kv.put("ever", "v")
    listed = {key.name: key.get("expiration") for key in (await kv.list())["keys"]}
    assert listed == {"at": NOW + 120, "both": NOW + 61, "ever": None, "ttl": NOW + 60}
    await space.clock.advance(59_999)
    assert await kv.get("ttl") == "v"
    await space.clock.advance(1)
    assert await kv.get("ttl") is None
    assert (await kv.getWithMetadata("ttl"))["value"] is None
    await space.clock.advance(60_000)
    assert [key["name"] for key in (await kv.list())["keys"]] == ["ever"]
    await kv.put("ttl", "again")
    await space.clock.advance(10**9)
    assert await kv.get("ttl") == "again"


async def test_pages(space: Space) -> None:
    kv = space.kv
    names = [f"p:{number:03d}" for number in range(7)] + ["q", "\U0001f600", "\uffff", "P"]
    for name in names:
        await kv.put(name, name, metadata={"n": name} if name == "q" else None)
    everything = [key["name"] for key in (await kv.list())["keys"]]
    assert everything == sorted(names, key=lambda name: name.encode()), "the order is that of UTF-8 bytes"
    seen, cursor = [], None
    while True:
        page = await kv.list(prefix="p:", limit=3, cursor=cursor)
        seen.append([key.name for key in page.keys])
        assert page.keys == page["keys"]
        assert set(page.keys()) == set(page) == set(dict(page)) >= {"keys", "list_complete"}
        if page.list_complete:
            assert "cursor" not in page
            break
        cursor = page.cursor
    assert seen == [["p:000", "p:001", "p:002"], ["p:003", "p:004", "p:005"], ["p:006"]]
    assert (await kv.list({"prefix": "q"})).to_py()["keys"] == [{"name": "q", "metadata": {"n": "q"}}]
    empty = await kv.list(prefix="nothing")
    assert empty["keys"] == []
    assert empty["list_complete"] is True
    assert (await kv.list(None))["list_complete"] is True


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda kv: kv.get(""), TypeError, "Key name cannot be empty."),
        (lambda kv: kv.get("."), TypeError, '"." is not allowed as a key name.'),
        (lambda kv: kv.put("..", "v"), TypeError, '".." is not allowed as a key name.'),
        (lambda kv: kv.get(5), TypeError, "a KV key must be a text, not int"),
        (
            lambda kv: kv.get("é" * 257),
            JsException,
            "KV GET failed: 414 UTF-8 encoded length of 514 exceeds key length limit of 512.",
        ),
        (lambda kv: kv.delete("x" * 513), JsException, "KV DELETE failed: 414 UTF-8"),
        (lambda kv: kv.get("k", "xml"), TypeError, "Unknown response type. Possible types are"),
        (lambda kv: kv.get("k", cacheTtl=5), JsException, "KV GET failed: 400 Invalid cache_ttl of 5."),
        (lambda kv: kv.get([]), JsException, "KV GET_BULK failed: 400 You must request a minimum of 1 key"),
        (lambda kv: kv.get(["k"] * 101), JsException, "You can request a maximum of 100 keys"),
        (lambda kv: kv.get(["k"], "stream"), JsException, '"stream" is not a valid type. Use "json" or "text"'),
        (
            lambda kv: kv.put("k", "v", expirationTtl=59),
            JsException,
            "KV PUT failed: 400 Invalid expiration_ttl of 59. Expiration TTL must be at least 60.",
        ),
        (lambda kv: kv.put("k", "v", expirationTtl=0), JsException, "Please specify integer greater than 0."),
        (lambda kv: kv.put("k", "v", expirationTtl="soon"), JsException, "Invalid expiration_ttl of soon."),
        (
            lambda kv: kv.put("k", "v", expiration=NOW + 59),
            JsException,
            "Expiration times must be at least 60 seconds in the future.",
        ),
        (
            lambda kv: kv.put("k", "v", metadata="x" * 1023),
            JsException,
            "KV PUT failed: 413 Metadata length of 1025 exceeds limit of 1024.",
        ),
        (lambda kv: kv.put("k", "v", metadata=b"x"), TypeError, "KV metadata must be what JSON can hold"),
        (lambda kv: kv.put("k", "v", 5), TypeError, "the options must be a dictionary, not int"),
        (lambda kv: kv.put("k", "v", ttl=5), TypeError, "unexpected option 'ttl'; known are expiration"),
        (lambda kv: kv.list(limit=0), JsException, "Invalid key_count_limit of 0."),
        (lambda kv: kv.list(limit=1001), JsException, "Please specify an integer less than 1000."),
        (lambda kv: kv.list(cursor="!!"), JsException, "KV LIST failed: 400 Invalid cursor"),
        (
            lambda kv: kv.put("k", b"x" * (25 * 1024 * 1024 + 1)),
            JsException,
            "KV PUT failed: 413 Value length of 26214401 exceeds limit of 26214400.",
        ),
    ],
)
async def test_limits_and_texts(space: Space, call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        await call(space.kv)
    assert text in str(caught.value)
    assert (await space.kv.list())["keys"] == [], "nothing was written"


async def test_the_largest_value(space: Space) -> None:
    value = bytes(range(256)) * 4096 * 25
    await space.kv.put("k", value)
    assert bytes(await space.kv.get("k", "arrayBuffer")) == value


async def test_a_stream_is_read_no_further_than_the_limit(space: Space) -> None:
    asked = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal asked
        while True:
            asked += 1
            yield bytes(1024 * 1024)

    with pytest.raises(JsException, match=r"KV PUT failed: 413 Value length of 26214401 exceeds limit of 26214400\."):
        await space.kv.put("k", endless())
    assert asked == 26


async def test_many_large_values(space: Space) -> None:
    for name in "abc":
        await space.kv.put(name, bytes(12 * 1024 * 1024))
    assert len((await space.kv.get(["a", "b"]))["b"]) == 12 * 1024 * 1024
    with pytest.raises(JsException, match="KV GET_BULK failed: 413 Total size of request exceeds the limit of 25MB"):
        await space.kv.get(["a", "b", "c"])


async def test_a_value_that_is_no_json(space: Space) -> None:
    await space.kv.put("k", "{")
    with pytest.raises(JsException, match="SyntaxError"):
        await space.kv.get("k", "json")


async def test_a_binding_is_no_container(space: Space) -> None:
    kv: Any = space.kv
    assert bool(kv) is True
    with pytest.raises(TypeError, match=r"KvNamespace.*has no len"):
        len(kv)
    with pytest.raises(TypeError, match=r"KvNamespace.*is not iterable"):
        list(kv)
    assert isinstance(kv, _BindingWrapper)
    assert python_to_rpc({"kv": kv})["kv"] is kv


@given(st.text(max_size=40))
def test_cursors_come_back(key: str) -> None:
    assert rules.decode_cursor(rules.encode_cursor(key)) == (key or None)


@given(st.text(max_size=60))
def test_a_cursor_is_a_key_or_refused(text: str) -> None:
    try:
        key = rules.decode_cursor(text)
    except JsException as error:
        refusal = error.message
    else:
        assert key is None or isinstance(key, str)
        return
    assert refusal.startswith("KV LIST failed: 400 Invalid cursor")


texts = st.text(st.sampled_from([*"ab", *map(chr, (0xD7FF, 0xE000, 0xFFFF, 0x10FFFF))]), max_size=4)


@given(texts, st.lists(texts, max_size=20))
def test_the_end_of_a_prefix(prefix: str, keys: list[str]) -> None:
    end = rules.after_prefix(prefix)
    inside = [key for key in keys if key >= prefix and (end is None or key < end)]
    assert inside == [key for key in keys if key.startswith(prefix)]


operations = st.lists(
    st.one_of(
        st.tuples(st.just("put"), texts.filter(bool), st.binary(max_size=5), st.none() | st.integers(60, 90)),
        st.tuples(st.just("delete"), texts.filter(bool)),
        st.tuples(st.just("wait"), st.integers(1, 40)),
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=40)
@given(operations, texts, st.integers(1, 4))
def test_a_namespace_is_a_dictionary_that_forgets(steps: list[Any], prefix: str, limit: int) -> None:
    async def play() -> None:
        space = Space()
        await space.runtime.start()
        model: dict[str, tuple[bytes, int | None]] = {}
        now = NOW
        for step in steps:
            if step[0] == "put":
                _, key, value, ttl = step
                await space.kv.put(key, value, expirationTtl=ttl)
                model[key] = (value, None if ttl is None else now + ttl)
            elif step[0] == "delete":
                await space.kv.delete(step[1])
                model.pop(step[1], None)
            else:
                now += step[1]
                await space.clock.advance(step[1] * 1000)
        left = {key: value for key, (value, end) in model.items() if end is None or end > now}
        for key in model:
            data = await space.kv.get(key, "arrayBuffer")
            assert (None if data is None else bytes(data)) == left.get(key)
        seen: list[str] = []
        cursor = None
        for _ in range(len(left) + 1):
            page = await space.kv.list(prefix=prefix, limit=limit, cursor=cursor)
            seen += [key["name"] for key in page["keys"]]
            cursor = page.get("cursor")
            if cursor is None:
                break
        assert seen == sorted((key for key in left if key.startswith(prefix)), key=lambda key: key.encode())
        await space.runtime.close()

    asyncio.run(play())


ENTRY = """
    from workers import DurableObject, Response, WorkerEntrypoint, env

    class Room(DurableObject):
        async def note(self, text):
            await self.ctx.storage.put("text", text)
            await self.env.KV.put("noted", text)
            return await env.KV.get("noted")

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            name = request.url.rpartition("/")[2]
            if name == "room":
                return Response(await self.env.ROOM.getByName("a").note("from an object"))
            if request.method == "PUT":
                await self.env.KV.put(name, request.body, {"metadata": {"by": "test"}})
                return Response("stored")
            found = await self.env.KV.getWithMetadata(name)
            return Response.json({"value": found.value, "by": found.metadata and found.metadata.by})
"""
WRANGLER = """
[[kv_namespaces]]
binding = "KV"
id = "one"
[[kv_namespaces]]
binding = "SAME"
id = "one"
[[kv_namespaces]]
binding = "OTHER"
[[durable_objects.bindings]]
name = "ROOM"
class_name = "Room"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Room"]
"""


async def test_over_a_real_server_and_a_restart(tmp_path: Path) -> None:
    lay(tmp_path / "w", ENTRY, WRANGLER)
    for turn in range(2):
        serving = Serving(host_of(tmp_path / "state", tmp_path / "w"))
        await serving.start()
        async with httpx.AsyncClient(base_url=serving.url) as client:
            if turn == 0:
                assert (await client.put("/k", content=b"body")).text == "stored"
                assert (await client.get("/room")).text == "from an object"
            assert (await client.get("/k")).json() == {"value": "body", "by": "test"}
            assert (await client.get("/noted")).json()["value"] == "from an object"
            assert (await client.get("/none")).json() == {"value": None, "by": None}
        env = serving.host.workers[0].env
        assert await env.SAME.get("k") == "body"
        assert await env.OTHER.get("k") is None
        await serving.stop()


async def test_what_an_object_wrote_before_is_durable_first(tmp_path: Path) -> None:
    """The put waits for the gate of the object that makes it, and fails with the object's own storage."""
    from moorage.durable_objects.runtime.testing import ControlledLog

    lay(tmp_path / "w", ENTRY, WRANGLER)
    host = host_of(tmp_path / "state", tmp_path / "w")
    await host.start()
    assert host.runtime is not None
    log = ControlledLog(host.runtime.log)
    try:
        room = host.workers[0].env.ROOM.getByName("a")
        await room.note("first")
        instance = next(iter(host.workers[0].own["Room"].live.values()))
        instance.database.log = log
        log.hold()
        asking = asyncio.ensure_future(ask(host, "/room"))
        done, _ = await asyncio.wait({asking}, timeout=0.1)
        assert not done
        assert await host.workers[0].env.KV.get("noted") == "first"
        log.release()
        assert await (await asking).text() == "from an object"
    finally:
        log.release()
        await host.close()


def test_times_are_whole_seconds() -> None:
    moment = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC).timestamp()
    assert rules.expiration_of({"expiration": moment + 0.5}, NOW) == int(moment)
