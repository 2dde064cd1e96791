"""`js.caches`: what is kept, for how long, and what a request gets of it (RFC 9111; the platform's Cache API)."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.runtime.web import Headers, ReadableStream
from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.current import WorkerContext, running
from moorage.wrangler_compat.workers.js.caches import MAX_BYTES, Entry, Store, directives, lifetime
from moorage.wrangler_compat.workers.pyodide.ffi import JsException

URL = "http://example.com/a?b=1"


class Clock:
    milliseconds = 1_800_000_000_000

    def now(self) -> int:
        return self.milliseconds


@pytest.fixture
def clock() -> Iterator[Clock]:
    made = Clock()
    with running(WorkerContext(now=made.now)):
        yield made


def response(text: str = "body", **fields: str) -> Any:
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    return js.Response.new(text, headers=headers)


async def test_an_answer_is_kept_for_its_time(clock: Clock) -> None:
    cache = js.caches.default
    assert await cache.match(URL) is None
    await cache.put(js.Request.new(URL), response(cache_control="s-maxage=10", x_own="1"))
    for asked in (URL, URL + "#part", js.Request.new(URL)):
        found = await cache.match(asked)
        assert found is not None
        assert (await found.text(), found.headers.get("x-own"), found.headers.get("cf-cache-status")) == (
            "body",
            "1",
            "HIT",
        )
    assert await cache.match("http://example.com/a?b=2") is None
    assert await (await js.caches.open("other")).match(URL) is None
    clock.milliseconds += 9_999
    assert await cache.match(URL) is not None
    clock.milliseconds += 1
    assert await cache.match(URL) is None


async def test_each_worker_has_its_own(clock: Clock) -> None:
    await js.caches.default.put(URL, response(cache_control="max-age=10"))
    with running(WorkerContext(now=clock.now)):
        assert await js.caches.default.match(URL) is None
    assert await js.caches.default.match(URL) is not None


async def test_delete_and_methods(clock: Clock) -> None:
    cache = await js.caches.open("mine")
    await cache.put(URL, response(cache_control="max-age=10"))
    head = js.Request.new(URL, method="HEAD")
    assert await cache.match(head) is None
    assert await cache.match(head, {"ignoreMethod": True}) is not None
    assert await cache.delete(head) is False
    assert await cache.delete(URL) is True
    assert await cache.delete(URL) is False


async def test_what_cannot_be_put(clock: Clock) -> None:
    cache = js.caches.default
    with pytest.raises(JsException, match="non-GET"):
        await cache.put(js.Request.new(URL, method="POST"), response(cache_control="max-age=10"))
    with pytest.raises(JsException, match="206"):
        await cache.put(URL, js.Response.new("x", status=206))
    with pytest.raises(JsException, match="Vary"):
        await cache.put(URL, response(vary="accept, *"))
    read = response(cache_control="max-age=10")
    await read.text()
    with pytest.raises(JsException, match="already been used"):
        await cache.put(URL, read)


async def test_ranges_and_conditions(clock: Clock) -> None:
    cache = js.caches.default
    date = "Mon, 01 Jan 2024 00:00:00 GMT"
    kept = response("0123456789", cache_control="max-age=10", etag='"v1"', last_modified=date)
    await cache.put(URL, kept)

    async def ask(**fields: str) -> tuple[int, str, str | None]:
        headers = {name.replace("_", "-"): value for name, value in fields.items()}
        found = await cache.match(js.Request.new(URL, headers=headers))
        assert found is not None
        return found.status, await found.text(), found.headers.get("content-range")

    assert await ask(range="bytes=2-4") == (206, "234", "bytes 2-4/10")
    assert await ask(range="bytes=8-") == (206, "89", "bytes 8-9/10")
    assert await ask(range="bytes=-3") == (206, "789", "bytes 7-9/10")
    assert await ask(range="bytes=5-100") == (206, "56789", "bytes 5-9/10")
    assert await ask(range="bytes=10-") == (416, "", "bytes */10")
    for ignored in ("bytes=1-2,4-5", "bytes=4-2", "items=1-2", "bytes=-"):
        assert await ask(range=ignored) == (200, "0123456789", None)
    assert (await ask(if_none_match='"v0", W/"v1"'))[:2] == (304, "")
    assert (await ask(if_none_match="*"))[0] == 304
    assert (await ask(if_none_match='"v0"', if_modified_since=date))[0] == 200
    assert (await ask(if_modified_since=date))[0] == 304
    assert (await ask(if_modified_since="Sun, 31 Dec 2023 23:59:59 GMT"))[0] == 200


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"cache-control": "max-age=10"}, 10),
        ({"cache-control": 'public, Max-Age="10"'}, 10),
        ({"cache-control": "max-age=10, s-maxage=20"}, 20),
        ({"cache-control": "max-age=10", "age": "4"}, 6),
        ({"cache-control": "max-age=10", "age": "40"}, 0),
        ({"cache-control": "max-age=0"}, 0),
        ({"cache-control": "max-age=soon"}, 0),
        ({"cache-control": "no-store, max-age=10"}, 0),
        ({"cache-control": "no-cache, max-age=10"}, 0),
        ({"cache-control": "private, max-age=10"}, 0),
        ({"cache-control": "max-age=10", "set-cookie": "a=1"}, 0),
        ({"cache-control": "private=Set-Cookie, max-age=10", "set-cookie": "a=1"}, 10),
        ({"cache-control": 'private="x-a, set-cookie", max-age=10', "set-cookie": "a=1"}, 10),
        ({"expires": "Thu, 01 Jan 1970 00:01:00 GMT", "date": "Thu, 01 Jan 1970 00:00:10 GMT"}, 50),
        ({"expires": "Thu, 01 Jan 1970 00:01:00 GMT"}, 60),
        ({"expires": "0"}, 0),
        ({"cache-control": "max-age=10", "expires": "0"}, 10),
        ({}, 0),
    ],
)
def test_lifetimes(fields: dict[str, str], seconds: float) -> None:
    assert lifetime(200, Headers(fields), 0.0) == seconds


def test_a_lifetime_by_the_last_change() -> None:
    fields = Headers({"last-modified": "Thu, 01 Jan 1970 00:00:00 GMT"})
    assert lifetime(200, fields, 1000.0) == 100
    assert lifetime(302, fields, 1000.0) == 0


async def test_fields_that_are_private_are_not_kept(clock: Clock) -> None:
    await js.caches.default.put(URL, response(cache_control="private=Set-Cookie, max-age=9", set_cookie="a=1", x="y"))
    found = await js.caches.default.match(URL)
    assert found is not None
    assert (found.headers.get("set-cookie"), found.headers.get("x")) == (None, "y")


@given(st.text())
def test_any_field_can_be_read(text: str) -> None:
    assert all(name == name.lower() for name in directives(text))


def test_what_was_unused_for_longest_goes_first() -> None:
    store = Store(limit=4_000)
    for name in "abc":
        store.put(("c", name), Entry(200, (), b"x" * 900, ends=1))
    assert store.get(("c", "a"), 0) is not None
    store.put(("c", "d"), Entry(200, (), b"x" * 900, ends=1))
    assert [store.get(("c", name), 0) is not None for name in "abcd"] == [True, False, True, True]
    store.put(("c", "big"), Entry(200, (), b"x" * 1_001, ends=1))
    assert store.get(("c", "big"), 0) is None


@pytest.mark.parametrize("control", ["max-age=10", "no-store"])
async def test_a_body_that_is_not_kept_is_not_held_either(clock: Clock, control: str) -> None:
    made: list[int] = []
    ended: list[bool] = []

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                made.append(1)
                yield bytes(1_000_000)
        finally:
            ended.append(True)

    await js.caches.default.put(URL, js.Response.new(ReadableStream(endless()), headers={"cache-control": control}))
    assert ended == [True] * bool(made), "one that never began has nothing to end"
    assert len(made) <= MAX_BYTES // 4 // 1_000_000 + 2
    assert await js.caches.default.match(URL) is None
