"""Lenient numbers, trimming and times, as the reference's language has them."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.javascript import (
    ABSENT,
    MAX_SAFE_INTEGER,
    iso_time,
    to_number,
    to_safe_integer,
    to_text,
    trim,
    utf16_length,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (None, 0),
        (True, 1),
        (False, 0),
        (7, 7),
        (7.0, 7),
        (-0.0, 0),
        (1.5, 1.5),
        ("7", 7),
        (" 7\n", 7),
        ("\ufeff7", 7),
        ("", 0),
        ("  ", 0),
        ("1e3", 1000),
        (".5", 0.5),
        ("5.", 5),
        ("+3", 3),
        ("-3", -3),
        ("0x1F", 31),
        ("0b11", 3),
        ("0O17", 15),
        ("007", 7),
        ("Infinity", math.inf),
        ("-Infinity", -math.inf),
        ([], 0),
        ([5], 5),
        (["6"], 6),
        ([None], 0),
        ([[["8"]]], 8),
        ("9007199254740993", 9007199254740992),
    ],
)
def test_numbers(value: Any, number: float) -> None:
    assert to_number(value) == number


@pytest.mark.parametrize(
    "value",
    [
        ABSENT,
        {},
        {"a": 1},
        [1, 2],
        [[1, 2]],
        "abc",
        "1_0",
        "0x",
        "0xg",
        "-0x1",
        "1e",
        "1 2",
        "\x1c7",
        "\x857",
        "inf",
        "nan",
        "٣",
        [True],
    ],
)
def test_what_is_no_number(value: Any) -> None:
    assert math.isnan(to_number(value))
    assert to_safe_integer(value) is None


@pytest.mark.parametrize(
    ("value", "result"),
    [
        (MAX_SAFE_INTEGER, MAX_SAFE_INTEGER),
        (MAX_SAFE_INTEGER + 1, None),
        (1e21, None),
        (math.inf, None),
        (-1, None),
        (1.5, None),
        ("12", 12),
        (None, 0),
        ("9007199254740993", None),
        ("9" * 500, None),
        ("0x" + "f" * 500, None),
    ],
)
def test_safe_integers(value: Any, result: int | None) -> None:
    assert to_safe_integer(value) == result


def test_bounds() -> None:
    assert [to_safe_integer(value, 1, 3) for value in (0, 1, 3, 4)] == [None, 1, 3, None]


@given(json_values)
def test_any_value_is_a_number_or_none(value: Any) -> None:
    number = to_number(value)
    assert isinstance(number, int | float)
    found = to_safe_integer(value)
    assert found is None or (found == number and 0 <= found <= MAX_SAFE_INTEGER)


@given(st.integers(0, MAX_SAFE_INTEGER))
def test_text_of_an_integer_is_that_integer(number: int) -> None:
    assert to_safe_integer(str(number)) == number == to_safe_integer(number)


def test_deep_arrays_are_no_recursion_error() -> None:
    value: Any = 1
    for _ in range(100_000):
        value = [value]
    assert to_number(value) == 1
    assert to_text([value, [], [value, None]]) == "1,,1,"


def test_trim() -> None:
    assert trim("\ufeff\u2028 a\u00a0b \u3000\n") == "a\u00a0b"
    assert trim("\x1fa\x85") == "\x1fa\x85"


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1796048331347, "2026-11-30T14:18:51.347Z"),
        (-62135596800000, "0001-01-01T00:00:00.000Z"),
    ],
)
def test_times(milliseconds: int, text: str) -> None:
    assert iso_time(milliseconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ABSENT, ""),
        (None, ""),
        (False, ""),
        (0, ""),
        (-0.0, ""),
        (math.nan, ""),
        (True, "true"),
        (15, "15"),
        (15.0, "15"),
        (1.5, "1.5"),
        (1e-7, "1e-7"),
        (1e21, "1e+21"),
        (math.inf, "Infinity"),
        (-math.inf, "-Infinity"),
        ([1, [None, "a"], False], "1,,a,false"),
        ([], ""),
        ({}, "[object Object]"),
    ],
)
def test_texts(value: Any, text: str) -> None:
    assert to_text(value) == text


@given(json_values)
def test_an_array_of_one_is_its_member_in_text_and_number(value: Any) -> None:
    if value is not None and not isinstance(value, bool) and value == value:
        assert to_text([value]) == (to_text(value) or ("" if value == "" or isinstance(value, list) else "0"))
    if isinstance(value, int | float) and not isinstance(value, bool):
        same, alone = to_number([value]), to_number(value)
        assert same == alone or (math.isnan(same) and math.isnan(alone))


@pytest.mark.parametrize(("text", "length"), [("", 0), ("é", 1), ("\U0001f600", 2), ("a\uffff", 2)])
def test_lengths_are_in_utf_16_units(text: str, length: int) -> None:
    assert utf16_length(text) == length
