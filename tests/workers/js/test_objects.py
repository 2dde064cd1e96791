"""`js.Object`, `Map`, `Set`, `Number`, `RegExp`, `structuredClone` (spec python-workers-api 1 and 6)."""

import math
from typing import Any

import pytest

from moorage.durable_objects.runtime.web import JsDict
from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.pyodide.ffi import JsException


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


def test_maps_and_sets() -> None:
    mapping = js.Map.new([[1, "one"], ["k", "v"]])
    mapping.set("x", 1).delete(1)
    assert (mapping.size, mapping.has("x"), mapping.get("k"), mapping.get("none")) == (2, True, "v", None)
    assert list(mapping.entries()) == [("k", "v"), ("x", 1)]
    values = js.Set.new([1, 2, 2])
    assert (values.size, values.has(2), values.delete(2), values.delete(2)) == (2, True, True, False)


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
    found = pattern.exec("xaab ab")
    assert found is not None
    assert (found.index, found.input, found.groups) == (1, "xaab ab", {"word": "aa"})
    pattern.lastIndex = 0
    assert pattern.exec("aab ab") == ["aab", "aa"]
    assert pattern.exec("aab ab") == ["ab", "a"]
    assert pattern.exec("aab ab") is None
    assert str(pattern) == "/(?<word>a+)b/gi"


def test_structured_clone() -> None:
    value = {"a": [1]}
    copy = js.structuredClone(value)
    assert copy == value
    assert copy["a"] is not value["a"]
    assert copy.a.length == 1
    cycle: dict[str, Any] = {"map": js.Map.new([["k", js.Set.new([1])]]), "date": js.Date.new(5), "bytes": b"x"}
    cycle["self"] = [cycle]
    copied = js.structuredClone(cycle)
    assert copied.self[0] is copied
    assert copied.map.get("k").has(1)
    assert copied.map is not cycle["map"]
    assert (copied.date.getTime(), copied.bytes.length) == (5, 1)
    for array in (js.Uint8Array.new([1, 2]), js.Int16Array.new([1, -2]), js.ArrayBuffer.new(2)):
        made = js.structuredClone(array)
        assert (type(made), made.to_bytes()) == (type(array), array.to_bytes())
        assert made is not array
    for refused in (print, js.URL.new("http://a/"), {"deep": [lambda: 1]}):
        with pytest.raises(JsException, match="DataCloneError"):
            js.structuredClone(refused)


def test_math() -> None:
    assert [js.Math.round(number) for number in (1.5, -1.5, 0.49)] == [2, -1, 0]
    assert [js.Math.sign(number) for number in (-3, 0, 2.5)] == [-1, 0, 1]
    assert (js.Math.max(), js.Math.min(), js.Math.max(1, 3, 2)) == (-math.inf, math.inf, 3)
    assert js.Math.log(0) == -math.inf
    assert math.isnan(js.Math.log(-1))
    assert (js.Math.abs(-2), js.Math.hypot(3, 4)) == (2, 5)
    assert js.Math.cbrt(27) == pytest.approx(3)


@pytest.mark.parametrize(
    ("text", "radix", "number"),
    [("12px", 10, 12), (" -7", 10, -7), ("0xff", 10, 255), ("-0x10", 16, -16), ("z", 36, 35)],
)
def test_numbers_at_the_start_of_a_text(text: str, radix: int, number: int) -> None:
    assert js.parseInt(text, radix) == number


def test_texts_that_are_no_numbers() -> None:
    assert js.isNaN(js.parseInt("px"))
    assert js.isNaN("px")
    assert js.isFinite("1")
    assert not js.isFinite(js.Infinity)
