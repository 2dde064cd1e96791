"""`js.JSON` (spec python-workers-api 1 and 6)."""

import datetime
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.pyodide.ffi import (
    JsException,
    to_js,
)

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(-(2**53), 2**53)  # whole numbers beyond are read exactly here, as doubles there
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


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


def test_replacers_and_revivers() -> None:
    seen: list[str] = []

    def replace(key: str, value: Any) -> Any:
        seen.append(key)
        return value + 1 if isinstance(value, int) else value

    assert js.JSON.stringify({"a": [1], "b": "x"}, replace) == '{"a":[2],"b":"x"}'
    assert seen == ["", "a", "0", "b"]
    assert js.JSON.stringify({"a": 1, "b": 2}, ["b"]) == '{"b":2}'
    revived = js.JSON.parse('{"a": [1, 2]}', lambda key, value: value * 10 if isinstance(value, int) else value)
    assert revived == {"a": [10, 20]}


def test_what_maps_and_sets_hold_is_no_property() -> None:
    assert js.JSON.stringify([js.Map.new({"a": 1}), js.Set.new([1])]) == "[{},{}]"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            [1e-7, 1e21, 0.000001, -0.0, 123456789012345680000.0, 1.5e300],
            "[1e-7,1e+21,0.000001,0,123456789012345680000,1.5e+300]",
        ),
        ({"a": [], "b": {}}, '{"a":[],"b":{}}'),
        ('"\\\n\u2028\u00e9\x7f\x01', '"\\"\\\\\\n\u2028\u00e9\x7f\\u0001"'),
        ("\ud800x", '"\\ud800x"'),
    ],
)
def test_texts_and_numbers_as_javascript_writes_them(value: Any, text: str) -> None:
    assert js.JSON.stringify(value) == text


def test_indentation() -> None:
    value = {"a": [1, {"b": []}], "c": {}}
    assert js.JSON.stringify(value, None, 1) == '{\n "a": [\n  1,\n  {\n   "b": []\n  }\n ],\n "c": {}\n}'
    assert js.JSON.stringify([1], None, "--") == "[\n--1\n]"
    assert js.JSON.stringify([1], None, 0) == js.JSON.stringify([1], None, "") == "[1]"
    assert js.JSON.stringify([1], None, 99) == "[\n" + " " * 10 + "1\n]"
