"""`js` and `pyodide` as far as public programs use them (spec python-workers-api 1 and 6)."""

import asyncio
import datetime
import math
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.runtime.web import (
    Blob,
    File,
    FormData,
    JsBytes,
    JsDict,
    JsList,
    Response,
    js_string,
    to_platform,
)
from moorage.durable_objects.runtime.web.values import number_string, to_plain
from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.pyodide import code, ffi
from moorage.wrangler_compat.workers.pyodide.ffi import (
    JsException,
    JsProxy,
    create_once_callable,
    create_proxy,
    to_js,
)

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_values_answer_both_spellings() -> None:
    value = to_platform({"a": [1, {"b": b"x"}], "length": 5})
    assert value == {"a": [1, {"b": b"x"}], "length": 5}
    assert value.a[1].b.to_py().tobytes() == b"x"
    assert (value.a.length, value.length) == (2, 5)
    assert value.object_keys() == ["a", "length"]
    assert value.object_values()[1] == 5
    assert value.object_entries()[1] == ["length", 5]
    assert type(value.to_py()) is dict
    assert type(value.to_py()["a"]) is list
    assert type(value.to_py()["a"][1]["b"]) is bytes
    with pytest.raises(AttributeError):
        value.missing  # noqa: B018
    value.new = 1
    assert value["new"] == 1
    assert value.a.join("-") == "1-[object Object]"


@given(plain)
def test_platform_values_are_equal_to_the_plain_ones(value: Any) -> None:
    assert to_platform(value) == value
    assert to_plain(to_platform(value)) == value


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"), (-0.0, "0"), (1.0, "1"), (1.5, "1.5"), (-2.25, "-2.25"), (1e21, "1e+21"), (1e20, "1" + "0" * 20),
        (1.5e300, "1.5e+300"), (1e-6, "0.000001"), (1e-7, "1e-7"), (1.25e-9, "1.25e-9"), (math.inf, "Infinity"),
        (-math.inf, "-Infinity"), (math.nan, "NaN"), (123456.789, "123456.789"), (5e-324, "5e-324"),
    ],
)  # fmt: skip
def test_numbers_as_javascript_writes_them(number: float, text: str) -> None:
    assert number_string(number) == js_string(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_written_number_reads_as_itself(number: float) -> None:
    assert float(number_string(number)) == number


def test_objects() -> None:
    made = js.Object.fromEntries([["a", 1], ("b", 2)])
    assert isinstance(made, JsDict)
    assert made == {"a": 1, "b": 2}
    assert js.Object.keys(made) == ["a", "b"]
    assert js.Object.values([5, 6]) == [5, 6]
    assert js.Object.entries({"x": 1}) == [["x", 1]]
    assert js.Object.assign(js.Object.new(), made, None, {"b": 3}) == {"a": 1, "b": 3}
    assert js.Object.fromEntries({"a": 1}) == {"a": 1}

    class Pair:
        def object_entries(self) -> Any:
            return [("0", "client"), ("1", "server")]

    assert js.Object.values(Pair()) == ["client", "server"]


def test_to_js() -> None:
    options = to_js({"status": 404, "headers": {"a": "1"}}, dict_converter=js.Object.fromEntries)
    assert options.headers.a == "1"
    mapped = to_js({"a": [1, (2, 3)]})
    assert isinstance(mapped, js.Map)
    assert mapped.get("a") == [1, [2, 3]]
    assert mapped.to_py() == {"a": [1, [2, 3]]}
    data = to_js(b"abc")
    assert (data.byteLength, data.length, data.to_py().tobytes(), bytes(data.slice(1))) == (3, 3, b"abc", b"bc")
    assert bytes(data.buffer) == b"abc"
    assert isinstance(to_js({1, 2}), js.Set)
    for scalar in ("x", 1, 1.5, True, None):
        assert to_js(scalar) is scalar
    cycle: list[Any] = []
    cycle.append(cycle)
    converted = to_js(cycle)
    assert converted[0] is converted
    assert to_js([{"a": 1}], depth=1) == [{"a": 1}]


def test_default_converter() -> None:
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def converter(value: Any, convert: Any, cache: Any) -> Any:
        return js.Date.new(value)

    assert to_js([moment], default_converter=converter)[0].toISOString() == "2026-01-01T00:00:00.000Z"
    assert to_js([moment]) == [moment]


async def test_what_to_js_returned_is_accepted() -> None:
    response = js.Response.new("x", to_js({"status": 404, "headers": {"a": "b"}}))
    assert (response.status, response.headers.get("a")) == (404, "b")
    assert await Response(to_js(b"bytes").buffer).bytes() == b"bytes"
    assert await Response(to_js(b"bytes")).bytes() == b"bytes"
    headers = js.Headers.new(to_js({"X": "1"}))
    assert list(headers) == [("x", "1")]
    headers = js.Headers.new({"X": "1"}.items())
    assert headers.get("x") == "1"


@pytest.mark.parametrize(
    "view",
    [
        js.ArrayBuffer.new(8),
        js.DataView.new(js.ArrayBuffer.new(8)),
        js.Uint8Array.new(to_js([1, 2])),
        js.Uint8ClampedArray.new(to_js([1, 300])),
        js.Int8Array.new(to_js([1, -1])),
        js.Int16Array.new(to_js([1, -2])),
        js.Uint32Array.new([1, 2]),
        js.Float32Array.new([1.5]),
        js.Float64Array.new([1.5]),
        js.BigInt64Array.new([2**53 + 1]),
        js.Uint8Array.new(to_js([0, 1, 2])).subarray(1),
        js.Int16Array.new([0, 1, 2]).subarray(1),
    ],
)
async def test_views_are_bodies(view: Any) -> None:
    assert (await Response(view).buffer()).byteLength == view.byteLength
    assert isinstance(view, ffi.JsBuffer)
    assert isinstance(view, JsProxy)


def test_arrays_share_their_buffer() -> None:
    buffer = js.ArrayBuffer.new(8)
    words = js.Int16Array.new(buffer, 2, 2)
    words[0] = -2
    words[1] = 70_000
    assert list(words) == [-2, 70_000 - 65_536]
    assert len(words) == words.length == 2
    view = js.DataView.new(buffer)
    assert view.getInt16(2, True) == -2
    view.setUint32(4, 2**32 + 5)
    assert view.getUint32(4) == 5
    assert list(words.slice(1)) != [-2]
    assert js.ArrayBuffer.isView(words)
    assert not js.ArrayBuffer.isView(buffer)
    with pytest.raises(ValueError, match="does not fit"):
        js.Int16Array.new(buffer, 1)
    with pytest.raises(AttributeError):
        view.getWord(0)


def test_uint8_arrays() -> None:
    array = js.Uint8Array.new(4)
    array.set([1, 258], 1)
    assert list(array) == [0, 1, 2, 0]
    array.fill(9, 3)
    assert bytes(array) == b"\0\1\2\x09"
    assert js.Uint8Array.new(js.ArrayBuffer(b"abcd"), 1, 2) == b"bc"
    array.assign(b"wxyz")
    assert array.to_string() == "wxyz"
    with pytest.raises(ValueError, match="cannot assign 2 bytes"):
        array.assign(b"no")
    assert JsBytes(b"abc").subarray(1).to_bytes() == b"bc"


def test_maps_and_sets() -> None:
    mapping = js.Map.new([[1, "one"], ["k", "v"]])
    mapping.set("x", 1).delete(1)
    assert (mapping.size, mapping.has("x"), mapping.get("k"), mapping.get("none")) == (2, True, "v", None)
    assert list(mapping.entries()) == [("k", "v"), ("x", 1)]
    values = js.Set.new([1, 2, 2])
    assert (values.size, values.has(2), values.delete(2), values.delete(2)) == (2, True, True, False)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1, "b": [1.0, 1.5, None]}, '{"a":1,"b":[1,1.5,null]}'),
        ('ä"', '"ä\\""'),
        (to_js({"a": 1}, dict_converter=js.Object.fromEntries), '{"a":1}'),
        (js.Date.new(0), '"1970-01-01T00:00:00.000Z"'),
        (datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), '"1970-01-01T00:00:00.000Z"'),
        (math.nan, "null"),
        ({"f": print, "x": 1}, '{"x":1}'),
        ([print], "[null]"),
        (print, None),
        (True, "true"),
        (js.URL.new("http://a"), '"http://a/"'),
    ],
)
def test_json_text(value: Any, text: str | None) -> None:
    assert js.JSON.stringify(value) == text


def test_json() -> None:
    assert js.JSON.stringify({"a": [1]}, None, 2) == '{\n  "a": [\n    1\n  ]\n}'
    assert js.JSON.stringify({"a": 1, "b": 2}, ["b"]) == '{"b":2}'
    assert js.JSON.parse('{"a": {"b": [1]}}').a.b.length == 1
    with pytest.raises(JsException) as caught:
        js.JSON.parse("{")
    assert caught.value.name == "SyntaxError"
    with pytest.raises(JsException, match="SyntaxError"):
        js.JSON.parse("NaN")
    cycle: dict[str, Any] = {}
    cycle["self"] = cycle
    with pytest.raises(JsException, match="circular"):
        js.JSON.stringify(cycle)


@given(plain)
def test_json_survives(value: Any) -> None:
    text = js.JSON.stringify(value)
    assert text is not None
    assert js.JSON.parse(text) == value


def test_dates() -> None:
    date = js.Date.new("2026-01-02T03:04:05.678Z")
    assert (date.getTime(), date.valueOf()) == (1_767_323_045_678, 1_767_323_045_678)
    assert date.toISOString() == date.toJSON() == "2026-01-02T03:04:05.678Z"
    assert (date.getFullYear(), date.getUTCMonth(), date.getDate(), date.getDay()) == (2026, 0, 2, 5)
    assert (date.getHours(), date.getMinutes(), date.getUTCSeconds(), date.getMilliseconds()) == (3, 4, 5, 678)
    assert date.toUTCString() == "Fri, 02 Jan 2026 03:04:05 GMT"
    assert js.Date.new(2026, 12, 1).toISOString() == "2027-01-01T00:00:00.000Z"
    assert js.Date.new(5) == js.Date.new(js.Date.new(5))
    assert js.Date.parse("Fri, 02 Jan 2026 03:04:05 GMT") == 1_767_323_045_000
    assert js.Date.new(-1).toISOString() == "1969-12-31T23:59:59.999Z"
    assert js.Date.now() > 1_700_000_000_000
    with pytest.raises(ValueError, match="Invalid Date"):
        js.Date.new("nonsense")
    with pytest.raises(AttributeError):
        date.getCentury()


def test_numbers_and_patterns() -> None:
    assert js.Number.new("1234").valueOf() == 1234
    assert js.Number.isInteger(1.0)
    assert not js.Number.isInteger(True)
    assert math.isnan(js.Number("1_0"))
    assert js.Number("0x1f").valueOf() == 31
    assert js.Number("").valueOf() == 0
    assert js.parseInt("42px") == 42
    assert js.parseFloat("1.5e2x") == 150
    assert js.isNaN("x")
    pattern = js.RegExp.new(r"(?<word>a+)b", "gi")
    assert pattern.test("xAAb")
    assert pattern.exec("aab ab") == ["aab", "aa"]
    assert pattern.exec("aab ab") == ["ab", "a"]
    assert pattern.exec("aab ab") is None
    assert str(pattern) == "/(?<word>a+)b/gi"


def test_text_and_base64() -> None:
    assert bytes(js.TextEncoder.new().encode("ä")) == "ä".encode()
    decoder = js.TextDecoder.new()
    halves = "ä".encode()
    assert decoder.decode(halves[:1], {"stream": True}) + decoder.decode(halves[1:]) == "ä"
    assert decoder.decode(b"\xef\xbb\xbfa\xff") == "a\ufffd"
    with pytest.raises(JsException, match="TypeError"):
        js.TextDecoder.new("utf-8", fatal=True).decode(b"\xff")
    with pytest.raises(JsException, match="RangeError"):
        js.TextDecoder.new("nonsense")
    assert js.atob(js.btoa("\xff\0a")) == "\xff\0a"
    assert js.atob(" YQ ") == "a"
    for wrong in ("a", "a=b", "ä"):
        with pytest.raises(JsException, match="InvalidCharacterError"):
            js.atob(wrong)
    with pytest.raises(JsException, match="Latin1"):
        js.btoa("€")
    assert js.encodeURIComponent("a b/ü") == "a%20b%2F%C3%BC"
    assert js.decodeURIComponent("%C3%BC") == "ü"


async def test_crypto() -> None:
    array = js.crypto.getRandomValues(js.Uint8Array.new(32))
    assert len(array) == 32
    assert any(array)
    assert len(js.crypto.randomUUID()) == 36
    digest = await js.crypto.subtle.digest("SHA-256", js.TextEncoder.new().encode("abc"))
    assert bytes(digest).hex().startswith("ba7816bf")
    with pytest.raises(JsException, match="NotSupportedError"):
        await js.crypto.subtle.digest("SHA-9", b"")


def test_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    js.console.log("a", 1, {"b": 1.0}, None, True)
    js.console.error(js.Error.new("bad"))
    assert capsys.readouterr() == ('a 1 {"b":1} undefined true\n', "Error: bad\n")


def test_errors() -> None:
    error = js.Error.new("message")
    assert (error.name, error.message, str(error)) == ("Error", "message", "Error: message")
    assert isinstance(js.TypeError.new("x"), JsException)
    assert js.RangeError.new("x").name == "RangeError"
    with pytest.raises(JsException):
        raise js.Error.new("raised")


async def test_timers() -> None:
    events: list[Any] = []
    finished = asyncio.Event()

    async def last(value: Any) -> None:
        events.append(value)
        finished.set()

    js.clearTimeout(js.setTimeout(events.append, 0, "cancelled"))
    js.queueMicrotask(lambda: events.append("micro"))
    ticks: list[int] = []
    number = 0

    def tick() -> None:
        ticks.append(1)
        if len(ticks) == 3:
            js.clearInterval(number)
            js.setTimeout(last, 0, "last")

    number = js.setInterval(tick, 0)
    await finished.wait()
    assert events == ["micro", "last"]


async def test_promises() -> None:
    async def value(number: int) -> int:
        return number

    assert await js.Promise.all([value(1), 2]) == [1, 2]
    assert await js.Promise.resolve(5) == 5
    settled = await js.Promise.allSettled([value(1), js.Promise.reject(ValueError("x"))])
    assert [entry.status for entry in settled] == ["fulfilled", "rejected"]
    assert await js.Promise.new(lambda resolve, reject: resolve("made")) == "made"
    assert await js.Promise.race([value(1), asyncio.sleep(10)]) == 1


async def test_abort() -> None:
    controller = js.AbortController.new()
    seen: list[Any] = []
    controller.signal.addEventListener("abort", create_proxy(lambda event: seen.append(event.type)))
    both = js.AbortSignal.any([controller.signal])
    controller.abort("why")
    controller.abort("again")
    assert (seen, controller.signal.reason, both.aborted) == (["abort"], "why", True)
    with pytest.raises(JsException, match="AbortError: why"):
        both.throwIfAborted()
    timeout = js.AbortSignal.timeout(0)
    await timeout.wait()
    with pytest.raises(JsException, match="TimeoutError"):
        timeout.throwIfAborted()


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


async def test_forms_and_blobs() -> None:
    form = js.FormData.new()
    form.append("foobar", 123)
    form.append("blob", js.Blob.new(to_js(["another ", b"string"]), {"type": "a/b"}))
    data = FormData(form)
    assert data["foobar"] == "123"
    assert isinstance(data["blob"], Blob)
    assert await data["blob"].text() == "another string"
    file = js.File.new(["x"], "name.txt", type="a/b", lastModified=5)
    assert isinstance(file, File)
    assert (file.name, file.type, file.lastModified) == ("name.txt", "a/b", 5)


def test_proxies() -> None:
    def function(number: int) -> int:
        """Doubles."""
        return number * 2

    proxy = create_proxy(function)
    assert (proxy(2), proxy.__name__, proxy.to_py()) == (4, "function", function)
    proxy.destroy()
    once = create_once_callable(function)
    assert once(3) == 6
    with pytest.raises(RuntimeError, match="once"):
        once(3)
    assert not isinstance({}, JsProxy)
    assert not isinstance(JsList(), JsProxy)
    assert isinstance(js.Map.new(), JsProxy)
    assert ffi.jsnull is None
    assert js.undefined is None


def test_what_is_not_offered_says_so() -> None:
    for name in ("HTMLRewriter", "caches", "eval"):
        stand_in = getattr(js, name)
        with pytest.raises(NotImplementedError, match=f"js.{name}"):
            stand_in()
        with pytest.raises(NotImplementedError, match=f"js.{name}"):
            stand_in.new()
    with pytest.raises(AttributeError, match="no attribute 'Nonsense'"):
        js.Nonsense  # noqa: B018
    with pytest.raises(NotImplementedError, match="JavaScript"):
        code.run_js("1")
    assert js.globalThis is js


def test_running_python_text() -> None:
    assert code.eval_code("x = 2\nx * 3") == 6
    assert code.eval_code("x = 2") is None
    assert code.find_imports("import a.b, c\nfrom d.e import f\nfrom . import g") == ["a", "c", "d"]


def test_structured_clone() -> None:
    value = {"a": [1]}
    copy = js.structuredClone(value)
    assert copy == value
    assert copy["a"] is not value["a"]
