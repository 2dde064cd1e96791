"""Keys and ranges of the key-value table: what JavaScript's conversions make of odd ones."""

import math
import re
from typing import Any

import pytest

from moorage.durable_objects.runtime import undefined
from moorage.durable_objects.runtime.kv import key_text, list_range


class Plain:
    """Without a text of its own."""


class Named(Plain):
    def __str__(self) -> str:
        return "named"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (None, "null"),
        (undefined, "undefined"),
        (True, "true"),
        (5, "5"),
        (5.0, "5"),
        (-0.0, "0"),
        (1e-7, "1e-7"),
        (0.000001, "0.000001"),
        (1e21, "1e+21"),
        (123456789012345680000.0, "123456789012345680000"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        ([1, [None, "a"]], "1,,a"),
        ({"a": 1}, "[object Object]"),
        ({1}, "[object Set]"),
        (Plain(), "[object Object]"),
        (Named(), "named"),
        (re.compile("a+"), "/a+/"),
        (TypeError("no"), "TypeError: no"),
        (Exception("no"), "Error: no"),
        (key_text, "function key_text() { [native code] }"),
        ("\ud800", "\ufffd" * 3),
        ("a\udfff\ud800b", f"a{chr(0xFFFD) * 6}b"),
        ("\ud83d\ude00", "😀"),
    ],
)
def test_key(key: Any, text: str) -> None:
    assert key_text(key) == text


@pytest.mark.parametrize(
    ("limit", "count"),
    [(1, 1), (1.9, 1), ("2", 2), (" 2 ", 2), ("0x2", 2), (True, 1), ([2], 2), (2**31 - 1, 2**31 - 1), (None, None)],
)
def test_limit(limit: Any, count: int | None) -> None:
    assert list_range({"limit": limit}).limit == count


@pytest.mark.parametrize("limit", [0, -1, 0.5, -0.5, False, "", "x", [], {}, math.nan, math.inf, -math.inf])
def test_a_limit_below_one(limit: Any) -> None:
    with pytest.raises(TypeError, match="must be positive"):
        list_range({"limit": limit})


@pytest.mark.parametrize("limit", [2**31, 1e10, -1e10, "2147483648"])
def test_a_limit_beyond_32_bits(limit: Any) -> None:
    with pytest.raises(TypeError, match="between -2147483648 and 2147483647"):
        list_range({"limit": limit})
