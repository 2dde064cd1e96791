"""Requests and responses: the rows of spec python-workers-api 3."""

import inspect
from collections.abc import AsyncIterator
from http import HTTPMethod, HTTPStatus
from typing import Any

import pytest

from moorage.durable_objects.runtime.web import (
    URL,
    Blob,
    PlatformRequest,
    PlatformResponse,
    ReadableStream,
    Request,
    Response,
    URLSearchParams,
    as_request,
    as_response,
)


def test_a_request() -> None:
    request = Request("https://test.com", method=HTTPMethod.POST)
    assert request.method is HTTPMethod.POST
    assert request.method == "POST"
    assert request.url == "https://test.com/"
    assert repr(request) == "Request(method='POST', url='https://test.com/')"
    assert request.cf is None
    assert request.body is None
    assert not request.body_used
    assert (request.redirect, request.mode, request.referrer_policy) == ("follow", "same-origin", "")
    assert request.is_history_navigation is False


@pytest.mark.parametrize(
    ("method", "shown"), [("post", "POST"), ("patch", "patch"), ("PATCH", "PATCH"), ("PURGE", "PURGE")]
)
def test_methods(method: str, shown: str) -> None:
    assert Request("http://a", method=method).method == shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "A B"}, "Invalid HTTP method"),
        ({"body": "x"}, "GET or HEAD"),
        ({"method": "HEAD", "body": "x"}, "GET or HEAD"),
        ({"redirect": "sometimes"}, "redirect"),
        ({"method": "POST", "body": 5}, "Unsupported type in Request: int"),
        ({"headers": "x"}, "headers argument"),
    ],
)
def test_wrong_options_are_type_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Request("http://a", **options)


def test_options_are_keywords() -> None:
    with pytest.raises(TypeError, match="positional"):
        Request("http://a", {"method": "POST"})  # type: ignore[call-arg]


def test_no_url_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="Invalid URL"):
        Request("/relative")


def test_cf_is_read_by_attribute() -> None:
    cf = Request("http://a", cf={"colo": "DFW", "nested": {"a": 1}}).cf
    assert (cf.colo, cf["colo"], cf.nested.a) == ("DFW", "DFW", 1)


async def test_the_ways_to_read_a_body() -> None:
    def request() -> Request:
        return Request("http://a", method="POST", body='{"a": 1.5}', headers={"content-type": "application/json"})

    assert await request().text() == '{"a": 1.5}'
    assert await request().json() == {"a": 1.5}
    assert await request().json(parse_float=str) == {"a": "1.5"}
    assert await request().bytes() == b'{"a": 1.5}'
    assert (await request().buffer()).to_bytes() == b'{"a": 1.5}'
    blob = await request().blob()
    assert isinstance(blob, Blob)
    assert blob.content_type == "application/json"


async def test_bytes_are_not_decoded() -> None:
    body = bytes(range(256))
    assert await Request("http://a", method="POST", body=body).bytes() == body


async def test_a_byte_order_mark_is_dropped_from_text() -> None:
    assert await Response(b"\xef\xbb\xbfa\xff").text() == "a\ufffd"


@pytest.mark.parametrize("make", [lambda: Request("http://a", method="POST", body="x"), lambda: Response("x")])
@pytest.mark.parametrize("read", ["text", "bytes", "buffer", "blob", "form_data", "json", "clone"])
async def test_a_body_is_read_once(make: Any, read: str) -> None:
    message = make()
    await message.text()
    assert message.body_used

    async def again() -> None:
        result = getattr(message, read)()
        if inspect.isawaitable(result):
            await result

    with pytest.raises(OSError, match="Body already used"):
        await again()


async def test_a_clone_has_a_body_of_its_own() -> None:
    request = Request("http://a", method="POST", body="x")
    copy = request.clone()
    assert (await request.text(), await copy.text()) == ("x", "x")


async def test_a_request_made_of_another_takes_its_body() -> None:
    first = Request("http://a", method="PUT", body="x", headers={"a": "1"})
    second = Request(first, headers={"b": "2"})
    assert (second.method, dict(second.headers)) == ("PUT", {"b": "2"})
    assert await second.text() == "x"
    assert first.body_used


def test_a_response() -> None:
    response = Response("hi")
    assert (response.status, response.status_text, response.ok) == (200, "OK", True)
    assert response.headers["content-type"] == "text/plain;charset=UTF-8"
    assert (response.url, response.redirected, response.type) == ("", False, "default")
    assert Response(None, status=HTTPStatus.NO_CONTENT).body is None
    assert Response("x", status=404).ok is False
    assert Response("x", status=201, status_text="Made").status_text == "Made"


def test_repr_of_a_response() -> None:
    assert repr(Response.json([1])) == "Response(status=200, status_text='OK', content_type='application/json')"
    assert repr(Response(None, status=204)) == "Response(status=204, status_text='No Content')"


@pytest.mark.parametrize(
    ("body", "content_type", "data"),
    [
        ("ä", "text/plain;charset=UTF-8", "ä".encode()),
        (b"x", None, b"x"),
        (bytearray(b"x"), None, b"x"),
        (memoryview(b"x"), None, b"x"),
        (None, None, b""),
        (URLSearchParams({"a": "b c"}), "application/x-www-form-urlencoded;charset=UTF-8", b"a=b+c"),
        (Blob("x", content_type="a/b"), "a/b", b"x"),
        (Blob("x"), None, b"x"),
        (ReadableStream([b"a", b"b"]), None, b"ab"),
    ],
)
async def test_bodies(body: Any, content_type: str | None, data: bytes) -> None:
    response = Response(body)
    assert response.headers.get("content-type") == content_type
    assert await response.bytes() == data


async def test_an_asynchronous_iterator_is_a_stream() -> None:
    async def chunks() -> AsyncIterator[Any]:
        yield b"a"
        yield "b"

    assert await Response(chunks()).text() == "ab"


def test_a_given_content_type_wins() -> None:
    assert Response("x", headers={"Content-Type": "a/b"}).headers.get_all("content-type") == ["a/b"]


@pytest.mark.parametrize("body", [{"a": 1}, [1], 7, 1.5, True, object, iter(["x"])])
def test_other_bodies_are_refused_by_name(body: Any) -> None:
    with pytest.raises(TypeError, match=f"Unsupported type in Response: {type(body).__name__}"):
        Response(body)


@pytest.mark.parametrize("status", [0, 100, 199, 600, 1000, -1])
def test_a_status_outside_the_range(status: int) -> None:
    with pytest.raises(ValueError, match="200 to 599"):
        Response("x", status=status)


@pytest.mark.parametrize("status", [204, 205, 304])
def test_some_statuses_have_no_body(status: int) -> None:
    assert Response(None, status=status).status == status
    with pytest.raises(TypeError, match="cannot have a body"):
        Response("x", status=status)


def test_a_web_socket_needs_101_and_the_other_way_round() -> None:
    assert Response(None, status=101, web_socket=object()).status == 101
    with pytest.raises(ValueError, match="101"):
        Response(None, status=101)
    with pytest.raises(ValueError, match="101"):
        Response(None, web_socket=object())


async def test_json_responses() -> None:
    response = Response.json({"obj": {"field": 123}}, status=HTTPStatus.NOT_FOUND, headers={"x-other": "42"})
    assert (response.status, response.headers["content-type"]) == (404, "application/json")
    assert response.headers["x-other"] == "42"
    assert await response.text() == '{"obj": {"field": 123}}'
    assert await Response.from_json([1, 2, 3]).text() == "[1, 2, 3]"
    assert await Response.json("test").text() == '"test"'
    assert Response.json("test", headers={"Content-Type": "42"}).headers.get_all("content-type") == ["42"]
    assert await Response("[1]").json() == [1]
    with pytest.raises(TypeError, match="Object of type set is not JSON serializable"):
        Response.json({1})


def test_redirects() -> None:
    response = as_response(Response.redirect("https://example.com", 301))
    assert (response.status, response.headers["location"]) == (301, "https://example.com/")
    assert as_response(Response.redirect("https://example.com/x")).status == 302
    with pytest.raises(ValueError, match="502"):
        Response.redirect("", HTTPStatus.BAD_GATEWAY)
    with pytest.raises(TypeError, match="Invalid URL"):
        Response.redirect("/relative")


async def test_replace_body() -> None:
    response = Response("test", status=201, status_text="Created!", headers={"a": "1"}).replace_body("other")
    assert (response.status, response.status_text, response.headers["a"]) == (201, "Created!", "1")
    assert await response.text() == "other"


async def test_old_names() -> None:
    assert await Response("x").string() == "x"
    form = await Response(URLSearchParams("a=1")).formData()
    assert form["a"] == "1"
    with pytest.raises(OSError, match="404"):
        Response("x", status=404).raise_for_status()
    Response("x").raise_for_status()


async def test_the_body_of_one_response_can_be_given_to_another() -> None:
    first = Response("x")
    second = Response(first.body, status=201)
    assert await second.text() == "x"
    assert first.body_used
    with pytest.raises(TypeError, match="disturbed"):
        Response(first.body)


async def test_the_platform_request() -> None:
    request = PlatformRequest.new("http://a/x", {"method": "POST", "body": '{"a": [1]}'}, headers={"k": "v"})
    assert (request.url, request.method, request.redirect) == ("http://a/x", "POST", "follow")
    assert (
        list(request.headers) == [("content-type", "text/plain;charset=UTF-8"), ("k", "v")]
        or request.headers.get("k") == "v"
    )
    data = await request.json()
    assert data.to_py() == {"a": [1]}
    assert data.a.length == 1
    assert request.bodyUsed
    assert as_request(request) is request.message
    assert as_request(URL("http://b")).url == "http://b/"


async def test_both_spellings_share_one_body() -> None:
    request = Request("http://a", method="POST", body="abc")
    assert (await request.js_object.arrayBuffer()).byteLength == 3
    assert request.body_used
    with pytest.raises(OSError, match="Body already used"):
        await request.text()


async def test_the_platform_response() -> None:
    response = PlatformResponse.new("hi", {"status": 201, "statusText": "Made", "headers": {"a": "1"}})
    assert (response.status, response.statusText, response.ok, response.headers.get("a")) == (201, "Made", True, "1")
    assert await response.text() == "hi"
    assert await PlatformResponse.json({"a": 1}).text() == '{"a":1}'
    assert await PlatformResponse.json({"a": 1}).json() == {"a": 1}
    assert PlatformResponse.new("x", status=404).status == 404
    copied = PlatformResponse.new("other", response)
    assert (copied.status, copied.headers.get("a")) == (201, "1")
    assert PlatformResponse.error().status == 0


async def test_a_response_of_a_platform_response_is_the_same_message() -> None:
    inner = PlatformResponse.new("hi", status=202)
    response = Response(inner)
    assert response.status == 202
    assert await response.text() == "hi"
    assert inner.bodyUsed
    with pytest.raises(ValueError, match="Expected no options"):
        Response(inner, status=200)


def test_what_a_handler_may_return() -> None:
    response = Response("x")

    class Wrapper:
        js_response = response.js_object

    assert as_response(response) is response
    assert as_response(response.js_object) is response
    assert as_response(Wrapper()) is response
    with pytest.raises(TypeError, match="not str"):
        as_response("x")


@pytest.mark.parametrize("status", [204, 205, 304])
@pytest.mark.parametrize("empty", ["", b""])
async def test_an_empty_body_passes_where_there_is_none(status: int, empty: Any) -> None:
    response = Response(empty, status)
    assert (response.body, response.headers.get("content-type")) == (None, None)
    with pytest.raises(TypeError, match="cannot have a body"):
        Response("x", status)
