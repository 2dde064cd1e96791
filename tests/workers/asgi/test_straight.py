"""Whether an application's answer goes straight to the server (spec python-workers-api 3)."""

import asyncio
import gc
from typing import Any

import pytest

from moorage.durable_objects.runtime.web import Response
from moorage.wrangler_compat.workers import WorkerEntrypoint, asgi, patch_env
from moorage.wrangler_compat.workers.current import ExecutionContext, WorkerContext
from tests.workers.asgi.programs import (
    App,
    Server,
    body,
    hello,
    keeps_it,
    returned,
    returns_at_once,
    returns_in_a_try,
    returns_the_coroutine,
    returns_through_another,
    start,
)


@pytest.mark.parametrize(
    "handler", [returns_at_once, returns_through_another, returns_the_coroutine, returns_in_a_try]
)
async def test_a_response_that_is_returned_goes_straight_to_the_server(handler: Any) -> None:
    server, response = await returned(hello, handler)
    assert response.passthrough
    assert server.sent == [start(200, (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")), body(b"hello")]


def changes_it(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        response = (await asgi.fetch(app, request, {"NAME": "x"})).js_object
        response.headers.set("x-added", "1")
        return response

    return fetch


def answers_with_another(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        inner = await asgi.fetch(app, request, {"NAME": "x"})
        return Response(await inner.text(), status=201)

    return fetch


def inside_a_with(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        with patch_env(A=1):
            return await asgi.fetch(app, request, {"NAME": "x"})

    return fetch


def inside_a_finally(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        try:
            return await asgi.fetch(app, request, {"NAME": "x"})
        finally:
            gc.isenabled()

    return fetch


def in_a_task(app: App) -> Any:
    async def fetch(request: Any) -> Any:
        return await asyncio.wait_for(asgi.fetch(app, request, {"NAME": "x"}), 5)

    return fetch


def through_one_that_looks(app: App) -> Any:
    async def route(request: Any) -> Any:
        return await asgi.fetch(app, request, {"NAME": "x"})

    async def fetch(request: Any) -> Any:
        response = await route(request)
        assert response.status == 200
        return response

    return fetch


@pytest.mark.parametrize(
    ("handler", "status", "added"),
    [
        (keeps_it, 200, False),
        (changes_it, 200, True),
        (answers_with_another, 201, False),
        (inside_a_with, 200, False),
        (inside_a_finally, 200, False),
        (in_a_task, 200, False),
        (through_one_that_looks, 200, False),
    ],
)
async def test_a_response_that_the_program_may_look_at_is_not_sent_before(
    handler: Any, status: int, added: bool
) -> None:
    server, response = await returned(hello, handler)
    assert not response.passthrough
    assert response.status == status
    assert [message["type"] for message in server.sent] == ["http.response.start", "http.response.body"]
    assert server.sent[0]["status"] == status
    assert server.sent[1]["body"] == b"hello"
    assert ((b"x-added", b"1") in server.sent[0]["headers"]) == added
    if status == 200:
        cookies = [value for name, value in server.sent[0]["headers"] if name == b"set-cookie"]
        assert cookies == [b"a=1", b"b=2"]


async def test_a_method_of_a_class_goes_straight_too() -> None:
    class Default(WorkerEntrypoint):
        async def fetch(self, request: Any) -> Any:
            return await asgi.fetch(hello, request, self.env, self.ctx)

    context = WorkerContext()
    server = Server()
    assert (await server.answer(Default(ExecutionContext(context), {}).fetch)).passthrough
