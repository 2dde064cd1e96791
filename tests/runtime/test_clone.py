"""Copies of values: what survives, what becomes plain, what is refused; in memory and as stored."""

import collections
import dataclasses
import datetime
import enum
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.runtime import DataCloneError, RpcTarget, undefined
from moorage.durable_objects.runtime.clone import copy_value, dumps, loads
from moorage.durable_objects.runtime.web import Blob, Headers, Request

UTC = datetime.UTC


def stored(value: Any) -> Any:
    return loads(dumps(value))


WAYS = pytest.mark.parametrize("copied", [stored, copy_value], ids=["stored", "in memory"])
Copy = Callable[[Any], Any]

moments = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1), timezones=st.just(UTC)).map(
    lambda moment: moment.replace(microsecond=moment.microsecond // 1000 * 1000)
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | moments
    | st.just(undefined)
)
keys = st.text() | st.integers() | st.binary() | st.none()
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(keys, inner)
        | st.sets(st.integers() | st.text())
        | st.frozensets(st.binary())
    ),
    max_leaves=30,
)


@given(value=values)
def test_plain_values_come_back_equal(value: Any) -> None:
    assert stored(value) == value
    assert copy_value(value) == value


@given(data=st.binary(max_size=40))
def test_what_was_never_stored_is_a_value_error_or_a_value(data: bytes) -> None:
    for marker in (b"\x00", b"\x02", b""):
        try:
            loads(marker + data)
        except ValueError:
            continue


@WAYS
def test_nothing_is_shared(copied: Copy) -> None:
    inner: list[Any] = [1]
    value: dict[Any, Any] = {"a": inner, "b": inner, 5: {"s": {1}}}
    copy = copied(value)
    assert copy == value
    assert copy["a"] is copy["b"] or copied is stored
    inner.append(2)
    value[5]["s"].add(2)
    assert copy == {"a": [1], "b": [1], 5: {"s": {1}}}


@WAYS
def test_a_cycle_comes_back_as_one(copied: Copy) -> None:
    value: dict[str, Any] = {"list": []}
    value["self"] = value
    value["list"].append(value)
    copy = copied(value)
    assert copy is not value
    assert copy["self"] is copy
    assert copy["list"][0] is copy


@WAYS
def test_numbers_that_look_alike_stay_apart(copied: Copy) -> None:
    copy = copied([1, 1.0, True, -0.0, math.nan, math.inf, 2**70, -(2**63)])
    assert [type(item) for item in copy] == [int, float, bool, float, float, float, int, int]
    assert math.copysign(1, copy[3]) == -1
    assert math.isnan(copy[4])
    assert copy[5:] == [math.inf, 2**70, -(2**63)]


@WAYS
def test_a_lone_surrogate_and_a_pattern(copied: Copy) -> None:
    assert copied("a\ud800") == "a\ud800"
    assert copied({"\udfff": 1}) == {"\udfff": 1}
    assert copied(re.compile("a+", re.IGNORECASE)) == re.compile("a+", re.IGNORECASE)


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    YES = "yes"


class Bytes(bytes):
    """A kind of bytes."""


@WAYS
@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, (2,)), [1, [2]]),
        (frozenset({1}), {1}),
        (bytearray(b"x"), b"x"),
        (memoryview(b"x"), b"x"),
        (Bytes(b"x"), b"x"),
        (collections.OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (collections.Counter("aab"), {"a": 2, "b": 1}),
        (Level.LOW, 1),
        (Word.YES, "yes"),
        (datetime.datetime(2020, 1, 1, 0, 0, 0, 1999, tzinfo=UTC), datetime.datetime(2020, 1, 1, 0, 0, 0, 1000, UTC)),
        (datetime.datetime(2020, 1, 1, 12), datetime.datetime(2020, 1, 1, 12)),
    ],
)
def test_kinds_of_plain_values_become_plain(copied: Copy, value: Any, plain: Any) -> None:
    copy = copied(value)
    assert copy == plain
    assert type(copy) is type(plain)


class Custom(Exception):
    """An error of user code."""


@WAYS
@pytest.mark.parametrize(
    ("error", "kind", "name", "text"),
    [
        (ValueError("no"), ValueError, None, "no"),
        (AttributeError("no", name="member"), AttributeError, None, "no"),
        (ModuleNotFoundError("no", name="module"), ModuleNotFoundError, None, "no"),
        (Custom("no"), Exception, "Custom", "no"),
        (UnicodeDecodeError("utf-8", b"x", 0, 1, "no"), Exception, "UnicodeDecodeError", None),
    ],
)
def test_errors(copied: Copy, error: Exception, kind: type[Exception], name: str | None, text: str | None) -> None:
    copy = copied(error)
    assert isinstance(copy, kind)
    assert name is None or getattr(copy, "name", None) == name
    assert text is None or str(copy) == text


def test_attributes_of_an_error_are_kept() -> None:
    error = Custom("no")
    error.code, error._secret = "E_X", 1  # type: ignore[attr-defined]
    copy = stored(error)
    assert copy.code == "E_X"
    assert not hasattr(copy, "_secret")


@dataclasses.dataclass
class Point:
    x: int = 1
    _cache: int = 2


def test_an_instance_is_stored_as_its_public_attributes_and_not_copied_elsewhere() -> None:
    assert stored(Point()) == {"x": 1}
    with pytest.raises(DataCloneError, match="Point"):
        copy_value(Point())


class Colour(enum.Enum):
    RED = 1


def nested(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth):
        made = [made]
    return made


@WAYS
@pytest.mark.parametrize(
    "value",
    [
        len,
        Point,
        re,
        iter([]),
        range(3),
        object(),
        Colour.RED,
        RpcTarget(),
        Request("https://test/"),
        datetime.date(2020, 1, 1),
        datetime.datetime.max.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-5))),
        {(1, 2): 3},
        {(1, 2)},
        nested(5000),
        1j,
    ],
    ids=lambda value: type(value).__name__,
)
def test_refused(copied: Copy, value: Any) -> None:
    with pytest.raises(DataCloneError):
        copied(value)
    with pytest.raises(DataCloneError):
        copied({"inside": [value]})


def test_headers_and_blobs_are_stored() -> None:
    assert list(stored(Headers({"a": "b"}))) == [("a", "b")]
    blob = stored([Blob(["x", b"y"], content_type="text/plain")])[0]
    assert (blob.type, blob.size) == ("text/plain", 2)
    assert bytes(Blob([blob])._data) == b"xy"


def test_dates_and_typed_arrays_of_the_platform() -> None:
    from moorage.wrangler_compat.workers import js

    kept = loads(dumps({"date": js.Date.new(5), "numbers": js.Int16Array.of(1, 2)}))
    assert kept == {"date": datetime.datetime.fromtimestamp(0.005), "numbers": b"\x01\x00\x02\x00"}
