"""Header fields: joining, order, refusals (Fetch standard 2.2.2; spec python-workers-api 3)."""

import http.client
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.runtime.web import Headers, Request, Response

names = st.text("abcdefghijklmnopqrstuvwxyzABCDEF-!#$0123456789", min_size=1, max_size=12)
values = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00\r\n"), max_size=20).map(
    lambda text: text.strip(" \t")
)


def test_request_headers_are_an_http_message() -> None:
    headers = Request("http://example.com", headers={"X-One": "1"}).headers
    assert isinstance(headers, http.client.HTTPMessage)
    assert headers["x-one"] == headers["X-ONE"] == headers.get("X-One") == "1"
    assert headers.get("missing") is None
    assert list(headers.items()) == [("x-one", "1")]


def test_repeats_are_joined_and_cookies_are_not() -> None:
    pairs = [
        ("Accept-Encoding", "deflate"),
        ("Accept-Encoding", "gzip"),
        ("Set-Cookie", "a=b, c=d"),
        ("Set-Cookie", "e=f"),
    ]
    headers = Request("http://example.com", headers=pairs).headers
    assert headers.get_all("Accept-encoding") == ["deflate, gzip"]
    assert headers.get_all("set-cookie") == ["a=b, c=d", "e=f"]


def test_commas_in_a_value_stay() -> None:
    headers = Response("x", headers={"User-Agent": "Example, Agent/1.0"}).headers
    assert headers.get_all("User-Agent") == ["Example, Agent/1.0"]


def test_values_are_spelled_as_javascript_spells_them() -> None:
    headers = Headers({"number": 123, "whole": 1.0, "truth": True, "list": ["a", "b"]})
    assert dict(headers) == {"number": "123", "whole": "1", "truth": "true", "list": "a,b"}


@pytest.mark.parametrize("name", ["", "a b", "a:b", "ä", "a\n", "a\x00"])
def test_a_name_must_be_a_token(name: str) -> None:
    with pytest.raises(TypeError, match="Invalid header name"):
        Headers({name: "x"})


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\x00b"])
def test_a_value_may_not_smuggle_lines(value: str) -> None:
    with pytest.raises(TypeError, match="Invalid header value"):
        Headers().append("x", value)


@pytest.mark.parametrize("argument", ["a: b", 7, object()])
def test_another_argument_is_refused(argument: Any) -> None:
    with pytest.raises(TypeError, match="Received unexpected type for headers argument"):
        Response("x", headers=argument)


def test_the_platform_class() -> None:
    headers = Headers.new([("b", "1"), ("a", "2")])
    headers.append("b", "3")
    headers.set("C", "x")
    assert list(headers) == [("a", "2"), ("b", "1, 3"), ("c", "x")]
    assert headers.get("B") == "1, 3"
    assert headers.get("nothing") is None
    assert headers.has("c")
    assert "C" in headers
    headers.delete("c")
    assert not headers.has("c")
    assert list(headers.keys()) == ["a", "b"]
    assert list(headers.values()) == ["2", "1, 3"]


def test_set_keeps_the_place_and_drops_the_rest() -> None:
    headers = Headers([("a", "1"), ("b", "2"), ("a", "3")])
    headers.set("a", "4")
    assert headers.raw() == [(b"a", b"4"), (b"b", b"2")]


def test_cookies_by_the_platform_spelling() -> None:
    headers = Headers([("set-cookie", "a=1"), ("Set-Cookie", "b=2")])
    assert headers.getSetCookie() == ["a=1", "b=2"]
    assert headers.getAll("Set-Cookie") == ["a=1", "b=2"]
    with pytest.raises(TypeError, match="only be used with the header name"):
        headers.getAll("accept")


def test_changing_the_python_view_changes_nothing_that_is_sent() -> None:
    response = Response("x")
    response.headers["x-late"] = "1"
    assert "x-late" not in response.headers


def test_changing_the_platform_view_does() -> None:
    response = Response("x")
    response.js_object.headers.set("x-late", "1")
    assert response.headers["x-late"] == "1"


def test_bytes_that_are_not_utf8_are_latin1() -> None:
    assert Headers.from_raw([(b"X", b"\xe4"), (b"y", "ä".encode())])["x"] == "ä"
    assert Headers.from_raw([(b"y", "ä".encode())])["y"] == "ä"


@given(st.lists(st.tuples(names, values)))
def test_raw_fields_survive_the_way_out_and_in(pairs: list[tuple[str, str]]) -> None:
    headers = Headers(pairs)
    again = Headers.from_raw(headers.raw())
    assert again == headers
    assert again.raw() == headers.raw()


@given(st.lists(st.tuples(names, values)), names)
def test_get_is_what_iteration_shows(pairs: list[tuple[str, str]], name: str) -> None:
    headers = Headers(pairs)
    shown = dict(headers) if name.lower() != "set-cookie" else {name.lower(): ", ".join(headers.getSetCookie())}
    assert headers.get(name) == (shown.get(name.lower()) if headers.has(name) else None)
    assert [key for key, _ in headers] == sorted(key for key, _ in headers)
