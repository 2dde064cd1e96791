"""Applications that fail, stop midway, or send what they may not (spec python-workers-api 3)."""

import asyncio
from typing import Any

import pytest

from moorage.wrangler_compat.workers import asgi
from tests.workers.asgi.programs import (
    Sent,
    Server,
    body,
    keeps_it,
    request,
    returned,
    returns_at_once,
    returns_in_a_try,
    start,
    without_lifespan,
)


@pytest.mark.parametrize("handler", [returns_at_once, keeps_it])
async def test_an_error_before_the_answer_is_raised(handler: Any, caplog: pytest.LogCaptureFixture) -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError("app crash")

    with pytest.raises(ZeroDivisionError, match="app crash"):
        await returned(app, handler)
    assert "ASGI request failed" in caplog.text


async def test_an_error_before_the_answer_can_be_caught_and_answered() -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError

    server, response = await returned(app, returns_in_a_try)
    assert response.status == 500
    assert server.sent[1]["body"] == b"caught"


@without_lifespan
async def fails_midway(scope: Any, receive: Any, send: Any) -> None:
    await send(start())
    await send(body(b"chunk-1", more=True))
    raise RuntimeError("app failed mid-stream")


@pytest.mark.parametrize("handler", [returns_at_once, keeps_it])
async def test_an_error_in_the_middle_cuts_the_answer(handler: Any, caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    with pytest.raises(RuntimeError, match="mid-stream"):
        await server.answer(handler(fails_midway))
    assert server.sent == [start(), body(b"chunk-1", more=True)]
    assert "after response started" in caplog.text


async def test_an_error_behind_a_complete_answer_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        await send(body(b"ok"))
        raise RuntimeError("post-response error")

    for handler in (returns_at_once, keeps_it):
        caplog.clear()
        server, _ = await returned(app, handler)
        await asyncio.sleep(0)
        assert server.sent == [start(200, *server.sent[0]["headers"]), body(b"ok")]
        assert "post-response error" in caplog.text


async def test_an_application_that_never_answers() -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        return

    for handler in (returns_at_once, keeps_it):
        with pytest.raises(RuntimeError, match="did not generate a response"):
            await returned(app, handler)


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_fault_of_the_application() -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    server = Server("POST", content=b"abc")
    server.messages[0]["more_body"] = True
    with pytest.raises(ConnectionResetError, match="the client went away"):
        await server.answer(keeps_it(app))
    assert server.sent == []


async def test_an_application_that_stops_midway_without_an_error() -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        await send(body(b"half", more=True))

    response = await asgi.fetch(app, request(), None)
    with pytest.raises(RuntimeError, match="before its response was complete"):
        await response.text()


@pytest.mark.parametrize("status", [204, 205, 304])
async def test_statuses_without_a_body(status: int) -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start(status, (b"x-null-body", b"1")))
        await send(body(b"dropped"))

    response = await asgi.fetch(app, request(), None)
    assert (response.status, response.headers["x-null-body"], await response.text()) == (status, "1", "")


async def test_messages_with_keys_left_out() -> None:
    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body"})

    response = await asgi.fetch(app, request(), None)
    assert (response.status, await response.text()) == (200, "")


@pytest.mark.parametrize(
    "messages",
    [[body(b"x")], [start(), start()], [start(), body(b""), body(b"")], [{"type": "http.response.trailers"}]],
)
async def test_messages_out_of_order(messages: Sent) -> None:
    errors: list[str] = []

    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        for message in messages[:-1]:
            await send(message)
        try:
            await send(messages[-1])
        except RuntimeError as error:
            errors.append(str(error))
            raise

    try:
        await asgi.fetch(app, request(), None)
    except RuntimeError:
        pass
    await asyncio.sleep(0)
    assert len(errors) == 1
    assert errors[0].startswith("Unexpected ASGI message")
