"""`js.Request` and `js.Response`: init objects, errors, bodies (spec python-workers-api 5 and 6)."""

import math
from typing import Any

import pytest

from moorage.wrangler_compat.workers import Request, js
from moorage.wrangler_compat.workers.pyodide.ffi import JsException


async def test_a_request_is_an_init_object_of_another() -> None:
    source = js.Request.new(
        "http://a/", {"method": "POST", "body": "text", "headers": {"X-A": "1"}, "redirect": "manual", "cf": {"k": 1}}
    )
    copy = js.Request.new("http://b/x", source)
    assert (copy.method, copy.url, copy.headers.get("x-a"), copy.redirect) == ("POST", "http://b/x", "1", "manual")
    assert copy.cf.k == 1
    assert await copy.text() == "text"
    assert source.bodyUsed
    changed = js.Request.new("http://b/", js.Request.new("http://a/", method="PUT", body="1"), method="PATCH")
    assert (changed.method, await changed.text()) == ("PATCH", "1")
    copy.headers.set("x-a", "2")
    assert source.headers.get("x-a") == "1"


def test_the_python_request_is_an_init_object_too() -> None:
    copy = js.Request.new("http://b/", Request("http://a/", headers={"x": "y"}))
    assert (copy.method, copy.headers.get("x"), copy.body) == ("GET", "y", None)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: js.URL.new("nothing"), "TypeError"),
        (lambda: js.Request.new("relative"), "TypeError"),
        (lambda: js.Request.new("http://a/", method="GET", body="x"), "TypeError"),
        (lambda: js.Headers.new({"a name": "x"}), "TypeError"),
        (lambda: js.URLSearchParams.new([["a"]]), "TypeError"),
        (lambda: js.Response.new("x", status=42), "RangeError"),
        (lambda: js.Response.new("x", status=204), "TypeError"),
        (lambda: js.Response.redirect("https://a/", 200), "RangeError"),
        (lambda: js.Response.json(lambda: 1), "TypeError"),
    ],
)
def test_what_javascript_refuses_is_a_javascript_error(make: Any, name: str) -> None:
    with pytest.raises(JsException) as caught:
        make()
    assert caught.value.name == name
    assert str(caught.value).startswith(f"{name}: ")
    assert isinstance(caught.value, TypeError if name == "TypeError" else ValueError)


async def test_a_body_is_read_once() -> None:
    response = js.Response.new("{")
    with pytest.raises(JsException, match="SyntaxError"):
        await response.json()
    for read in (
        response.text,
        response.json,
        response.arrayBuffer,
        response.bytes,
        response.blob,
        response.formData,
    ):
        with pytest.raises(JsException, match="Body has already been used"):
            await read()


async def test_json_responses_are_written_as_javascript_writes_them() -> None:
    value = {"d": js.Date.new(0), "n": math.nan, "m": js.Map.new({"a": 1}), "f": lambda: 1, "x": 1.0}
    assert await js.Response.json(value).text() == '{"d":"1970-01-01T00:00:00.000Z","n":null,"m":{},"x":1}'


async def test_parsed_bodies_answer_both_spellings() -> None:
    parsed = await Request("http://a/", method="POST", body='{"name": "x", "list": [{"k": 1}]}').json()
    assert (parsed["name"], parsed.name, parsed.list[0].k, parsed.list.length) == ("x", "x", 1, 1)
    assert type(parsed.to_py()) is dict
