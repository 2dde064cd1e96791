"""Python values that answer to JavaScript's spellings, and `to_js` (spec python-workers-api 1 and 6)."""

import datetime
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.runtime.web import (
    Response,
    js_string,
    to_platform,
)
from moorage.durable_objects.runtime.web.values import number_string, to_plain
from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.pyodide import ffi
from moorage.wrangler_compat.workers.pyodide.ffi import (
    JsProxy,
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
