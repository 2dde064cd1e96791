"""`js.Object`, `Map`, `Set`, `Number`, `RegExp`, `structuredClone` (spec python-workers-api 1 and 6)."""

import math
from typing import Any

from moorage.durable_objects.runtime.web import (
    JsDict,
)
from moorage.wrangler_compat.workers import js


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
    assert pattern.exec("aab ab") == ["aab", "aa"]
    assert pattern.exec("aab ab") == ["ab", "a"]
    assert pattern.exec("aab ab") is None
    assert str(pattern) == "/(?<word>a+)b/gi"


def test_structured_clone() -> None:
    value = {"a": [1]}
    copy = js.structuredClone(value)
    assert copy == value
    assert copy["a"] is not value["a"]
