"""What an application gets: its scope and the request's body (spec python-workers-api 3)."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from moorage.durable_objects.runtime.web import Request
from moorage.wrangler_compat.workers import asgi
from tests.workers.asgi.programs import (
    Server,
    body,
    keeps_it,
    request,
    returned,
    returns_at_once,
    start,
    without_lifespan,
)


@pytest.mark.parametrize("handler", [returns_at_once, keeps_it])
async def test_the_scope(handler: Any) -> None:
    scopes: list[Any] = []

    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)
        await send(start())
        await send(body(b""))

    server, _ = await returned(app, handler)
    (scope,) = scopes
    assert (scope["path"], scope["raw_path"], scope["query_string"]) == ("/a b", b"/a%20b", b"x=1")
    assert scope["env"] == {"NAME": "x"}
    assert scope["state"] == {}
    assert (b"host", b"example.com") in scope["headers"]
    if handler is returns_at_once:
        assert scope["extensions"] == {"own": {}}
        assert scope is not server.scope


async def test_a_request_that_was_read_is_not_handed_over() -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        data = (await receive())["body"]
        await send(start())
        await send(body(data))

    async def fetch(request: Any) -> Any:
        text = await request.clone().text()
        assert text == "abc"
        return await asgi.fetch(app, request, None)

    server = Server("POST", content=b"abc")
    response = await server.answer(fetch)
    assert not response.passthrough
    assert server.sent[1]["body"] == b"abc"


async def test_a_request_of_the_program_s_own() -> None:
    @without_lifespan
    async def echo(scope: Any, receive: Any, send: Any) -> None:
        messages = []
        while True:
            message = await receive()
            messages.append(message["body"])
            if not message["more_body"]:
                break
        await send(start(200, (b"x-path", scope["raw_path"])))
        await send(body(b"|".join(messages)))

    async def chunks() -> AsyncIterator[bytes]:
        yield b"a"
        yield b"b"

    response = await asgi.fetch(echo, request(chunks()), None)
    assert response.headers["x-path"] == "/x"
    assert await response.text() == "a|b|"


async def test_chunks_are_made_as_they_are_asked_for() -> None:
    made: list[int] = []

    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        for number in range(3):
            made.append(number)
            await send(body(b"%d" % number, more=True))
        await send(body(b""))

    response = await asgi.fetch(app, request(), None)
    for _ in range(10):
        await asyncio.sleep(0)
    assert made == [0]
    assert response.body is not None
    assert [chunk async for chunk in response.body] == [b"0", b"1", b"2"]
    assert made == [0, 1, 2]


async def test_the_scope_of_both_spellings() -> None:
    made = Request("http://example.com/", headers={"Header1": "Value1"})
    expected = [(b"header1", b"Value1")]
    assert asgi.request_to_scope(made, {})["headers"] == expected
    assert asgi.request_to_scope(made.js_object, {})["headers"] == expected
