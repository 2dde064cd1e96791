"""Values across the boundary: every row of spec python-workers-api 4."""

import asyncio
import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.runtime.base import RpcTarget
from moorage.durable_objects.runtime.web import Blob, File, FormData, JsDict, Request, Response
from moorage.wrangler_compat.workers import js
from moorage.wrangler_compat.workers.js.errors import JsException
from moorage.wrangler_compat.workers.pyodide.ffi import to_js
from moorage.wrangler_compat.workers.rpc import RpcStub, python_from_rpc, python_to_rpc, received

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(plain)
def test_plain_values_come_back_equal_and_as_copies(value: Any) -> None:
    back = received(value)
    assert back == value
    if isinstance(value, dict | list) and value:
        assert back is not value
        assert isinstance(back, type(value))


def test_dictionaries_are_read_by_attribute() -> None:
    back = received({"a": {"b": [1, None]}, 5: "number"})
    assert isinstance(back, JsDict)
    assert back.a.b == [1, None]
    assert back["5"] == "number"
    assert back.a.b.length == 2


def test_sets() -> None:
    assert received({1, 2}) == {1, 2}
    assert received(frozenset({"a"})) == {"a"}
    assert received(js.Set.new([1, 2])) == {1, 2}


@pytest.mark.parametrize("value", [b"binary", memoryview(b"binary"), to_js(b"binary"), to_js(b"binary").buffer])
def test_bytes_come_back_as_memoryview(value: Any) -> None:
    back = received(value)
    assert isinstance(back, memoryview)
    assert back.tobytes() == b"binary"


def test_views_come_back_as_memoryview() -> None:
    for value in (js.ArrayBuffer.new(8), js.DataView.new(js.ArrayBuffer.new(16)), js.Int16Array.of("10", "24")):
        assert isinstance(received(value), memoryview)


def test_datetimes_lose_microseconds_and_zone() -> None:
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_901)
    assert received(moment) == moment.replace(microsecond=678_000)
    aware = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert received([aware]) == [aware.astimezone().replace(tzinfo=None)]
    assert isinstance(received(js.Date.new()), datetime.datetime)


def test_exceptions_come_back_as_text() -> None:
    back = received(ValueError("text"))
    assert type(back) is Exception
    assert str(back) == "Error: text"
    assert str(received(js.Error.new("message"))) == "Error: message"


async def test_functions_become_stubs() -> None:
    counted = 0

    def increment(amount: int = 1) -> int:
        nonlocal counted
        counted += amount
        return counted

    stub = received(increment)
    assert isinstance(stub, RpcStub)
    assert callable(stub)
    assert stub
    assert await stub(2) == 2
    assert await stub() == 3
    with pytest.raises(TypeError, match="has no len"):
        len(stub)
    with pytest.raises(TypeError, match="not iterable"):
        list(stub)
    assert received(stub) is stub

    async def waits(value: Any) -> Any:
        value["changed"] = True
        return value

    given_value = {"a": 1}
    assert await received(waits)(given_value) == {"a": 1, "changed": True}
    assert given_value == {"a": 1}


async def test_targets_become_stubs_of_their_methods() -> None:
    class Target(RpcTarget):
        def __init__(self) -> None:
            self.own = 1

        def double(self, number: int) -> int:
            return number * 2

        @property
        def size(self) -> int:
            return 7

    stub = received(Target())
    assert await stub.double(4) == 8
    assert stub.size == 7
    with pytest.raises(TypeError, match='does not implement the method "own"'):
        stub.own  # noqa: B018
    with pytest.raises(TypeError, match='does not implement the method "missing"'):
        stub.missing  # noqa: B018


async def test_web_values() -> None:
    response = received(Response("body", status=201))
    assert isinstance(response, Response)
    assert (response.status, await response.text()) == (201, "body")
    assert isinstance(received(js.Response.new("x")), Response)
    request = received(Request("http://a", method="POST"))
    assert isinstance(request, Request)
    assert request.method == "POST"
    for value in (Blob("x"), File("x", "n"), FormData({"a": "b"})):
        assert received(value) is value
    assert await received(Blob("test")).text() == "test"


def test_wrappers_and_maps() -> None:
    assert received(js.Number.new("1234")) == 1234
    assert type(received(js.Number.new("1234"))) is int
    back = received(js.Map.new([[1, "one"], [2, "two"]]))
    assert back == {"1": "one", "2": "two"}
    assert received(to_js({"foo": 42}, dict_converter=js.Object.fromEntries)).foo == 42
    assert received(js.undefined) is None


async def _coroutine() -> None:
    return None


@pytest.mark.parametrize("wrap", [lambda value: value, lambda value: [value], lambda value: {"test": value}])
@pytest.mark.parametrize(
    "make", [lambda: (1, 2), lambda: bytearray(b"x"), lambda: js.RegExp.new("ab+c", "i"), _coroutine]
)
def test_what_may_not_cross_is_a_type_error(make: Any, wrap: Any) -> None:
    with pytest.raises(TypeError, match="cannot be sent over RPC"):
        python_to_rpc(wrap(make()))


async def test_a_future_may_not_cross() -> None:
    with pytest.raises(TypeError, match="Awaitable"):
        python_to_rpc(asyncio.get_running_loop().create_future())


class Custom:
    def __init__(self) -> None:
        self.x = 42


@pytest.mark.parametrize(
    "value", [complex(1.23), range(0, 30, 5), Custom(), Custom, datetime.date(2026, 1, 1), object()]
)
def test_other_objects_are_a_data_clone_error(value: Any) -> None:
    with pytest.raises(JsException, match=r"^DataCloneError") as caught:
        python_to_rpc([value])
    assert caught.value.name == "DataCloneError"


def test_cycles_keep_their_shape() -> None:
    value: dict[str, Any] = {}
    value["self"] = value
    back = received(value)
    assert back["self"]["self"] is back["self"]


def test_subclasses_cross_as_their_base() -> None:
    class Text(str):
        __slots__ = ()

    assert type(received(Text("x"))) is str
    assert received(True) is True


def test_null_is_none() -> None:
    assert python_from_rpc(None) is None
    assert received({"a": 1, "b": None, "c": {"d": None}}) == {"a": 1, "b": None, "c": {"d": None}}
