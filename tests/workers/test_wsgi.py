"""WSGI applications (PEP 3333; spec python-workers-api 3)."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any
from wsgiref.validate import validator

import pytest

from moorage.durable_objects.runtime.web import Request, Response
from moorage.wrangler_compat.workers import wsgi
from moorage.wrangler_compat.workers.switching import run_sync


async def later(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


async def test_a_plain_application() -> None:
    def app(environ: Any, start_response: Any) -> Any:
        start_response("201 Made", [("Content-Type", "text/plain"), ("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")])
        return [b"hello"]

    response = await wsgi.fetch(app, Request("http://example.com/"), {})
    assert (response.status, response.status_text) == (201, "Made")
    assert response.headers.get_all("set-cookie") == ["a=1", "b=2"]
    assert response.raw_headers()[-1] == (b"content-length", b"5")
    assert await response.text() == "hello"


async def test_the_environment() -> None:
    seen: dict[str, Any] = {}

    def app(environ: Any, start_response: Any) -> Any:
        seen.update(environ)
        start_response("204 No Content", [])
        return []

    request = Request(
        "https://example.com:8443/caf%C3%A9/a%2Fb?q=%20x",
        method="POST",
        body=b"abc",
        headers=[("Content-Type", "a/b"), ("Content-Length", "3"), ("X-Two", "1"), ("X-Two", "2")],
    )
    response = await wsgi.fetch(app, request, {"NAME": "x"}, None)
    assert response.status == 204
    assert seen["PATH_INFO"].encode("latin-1").decode() == "/café/a/b"
    assert (seen["QUERY_STRING"], seen["SCRIPT_NAME"]) == ("q=%20x", "")
    assert (seen["SERVER_NAME"], seen["SERVER_PORT"], seen["wsgi.url_scheme"]) == ("example.com", "8443", "https")
    assert (seen["CONTENT_TYPE"], seen["CONTENT_LENGTH"], seen["HTTP_X_TWO"]) == ("a/b", "3", "1,2")
    assert type(seen["REQUEST_METHOD"]) is str
    assert seen["workers.env"] == {"NAME": "x"}


async def test_the_body_is_read_as_it_arrives() -> None:
    events: list[str] = []

    async def chunks() -> AsyncIterator[bytes]:
        for name in ("one\n", "two\n", "three"):
            events.append(f"arrives {name.strip()}")
            yield name.encode()

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        events.append("reads")
        first = environ["wsgi.input"].read1(2)
        events.append(f"has {first.decode()}")
        return [first + environ["wsgi.input"].read()]

    response = await wsgi.fetch(app, Request("http://a", method="POST", body=chunks()), {})
    assert await response.text() == "one\ntwo\nthree"
    assert events == ["reads", "arrives one", "has on", "arrives two", "arrives three"]


async def test_synchronous_code_may_wait_for_bindings() -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        name = run_sync(later("name"))
        start_response("200 OK", [])
        yield name.encode()
        yield run_sync(later(b" more"))

    response = await wsgi.fetch(app, Request("http://a"), {})
    assert await response.text() == "name more"


async def test_the_answer_is_streamed_and_closed() -> None:
    made: list[int] = []

    class Answer:
        closed = 0

        def __iter__(self) -> Iterator[bytes]:
            for number in range(3):
                made.append(number)
                yield b"%d" % number

        def close(self) -> None:
            self.closed += 1

    answer = Answer()

    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        return answer

    response = await wsgi.fetch(app, Request("http://a"), {})
    assert made == [0]
    assert response.body is not None
    async for chunk in response.body:
        assert chunk == b"0"
        break
    else:
        raise AssertionError
    while not answer.closed:
        await asyncio.sleep(0)
    assert made == [0]
    assert await (await wsgi.fetch(app, Request("http://a"), {})).text() == "012"
    assert answer.closed == 2
    head = await wsgi.fetch(app, Request("http://a", method="HEAD"), {})
    assert head.body is None
    assert answer.closed == 3


async def test_write_and_exc_info() -> None:
    def app(environ: Any, start_response: Any) -> Any:
        start_response("200 OK", [])
        try:
            raise ZeroDivisionError
        except ZeroDivisionError:
            import sys

            write = start_response("500 Oops", [], sys.exc_info())
        write(b"written ")
        return [b"returned"]

    response = await wsgi.fetch(app, Request("http://a"), {})
    assert (response.status, await response.text()) == (500, "written returned")


def _silent(environ: Any, start_response: Any) -> Any:
    return [b"x"]


def _twice(environ: Any, start_response: Any) -> Any:
    start_response("200 OK", [])
    start_response("200 OK", [])
    return []


def _raises(environ: Any, start_response: Any) -> Any:
    raise ZeroDivisionError("app")


@pytest.mark.parametrize(
    ("app", "error", "text"),
    [
        (_silent, RuntimeError, "did not call start_response"),
        (_twice, AssertionError, "more than once"),
        (_raises, ZeroDivisionError, "app"),
    ],
)
async def test_applications_that_break_the_rules(app: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        await wsgi.fetch(app, Request("http://a"), {})


async def test_an_error_in_the_middle_is_raised_to_the_reader() -> None:
    def app(environ: Any, start_response: Any) -> Iterator[bytes]:
        start_response("200 OK", [])
        yield b"half"
        raise ZeroDivisionError

    response = await wsgi.fetch(app, Request("http://a"), {})
    with pytest.raises(ZeroDivisionError):
        await response.text()


async def test_the_standard_validator_is_content() -> None:
    def app(environ: Any, start_response: Any) -> Any:
        environ["wsgi.input"].read(10)
        start_response("200 OK", [("Content-Type", "text/plain")])
        return [b"valid"]

    response = await wsgi.fetch(validator(app), Request("http://a/x", method="POST", body=b"body"), {})
    assert isinstance(response, Response)
    assert await response.text() == "valid"


async def test_flask_if_it_is_there() -> None:
    flask = pytest.importorskip("flask")
    app = flask.Flask("app")

    def hello(name: str) -> Any:
        run_sync(later(None))
        return {"name": name, "form": flask.request.form["a"], "env": flask.request.environ["workers.env"]["X"]}

    app.add_url_rule("/hello/<name>", view_func=hello, methods=["POST"])
    request = Request(
        "http://example.com/hello/w%C3%B6rld",
        method="POST",
        body="a=b+c",
        headers={"content-type": "application/x-www-form-urlencoded", "content-length": "5"},
    )
    response = await wsgi.fetch(app, request, {"X": 1})
    assert await response.json() == {"name": "wörld", "form": "b c", "env": 1}
