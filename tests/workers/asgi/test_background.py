"""Readers that go, and work that goes on behind the answer (spec python-workers-api 3)."""

import asyncio
import gc
from typing import Any

from moorage.wrangler_compat.workers import asgi
from moorage.wrangler_compat.workers.current import WorkerContext, running
from tests.workers.asgi.programs import (
    body,
    request,
    start,
    without_lifespan,
)


async def test_an_application_is_told_when_its_reader_goes() -> None:
    told: list[str] = []

    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        try:
            while True:
                await send(body(b"tick", more=True))
        except OSError:
            told.append((await receive())["type"])
            told.append((await receive())["type"])

    context = WorkerContext()
    with running(context):
        response = await asgi.fetch(app, request(), None)
        assert response.body is not None
        async for _ in response.body:
            break
        await context.background.drain()
        assert told[-1] == "http.disconnect"
        told.clear()
        response = await asgi.fetch(app, request(), None)
        del response
        gc.collect()
        await context.background.drain()
        assert told[-1] == "http.disconnect"


async def test_background_work_of_an_application_goes_on() -> None:
    release = asyncio.Event()
    done: list[bool] = []

    @without_lifespan
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send(start())
        await send(body(b"early"))
        await release.wait()
        done.append(True)

    context = WorkerContext()
    with running(context):
        response = await asgi.fetch(app, request(), None)
        assert await response.text() == "early"
        release.set()
        await context.background.drain()
    assert done == [True]
