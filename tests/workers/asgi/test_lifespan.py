"""Startup, shutdown and their state, once an application (spec python-workers-api 3)."""

import asyncio
import logging
from typing import Any

import pytest

from moorage.wrangler_compat.workers import asgi, lifespan
from moorage.wrangler_compat.workers.current import WorkerContext, running
from tests.workers.asgi.programs import (
    body,
    hello,
    request,
    start,
)


class LifespanApp:
    def __init__(self, **behaviour: Any) -> None:
        self.events: list[str] = []
        self.behaviour = behaviour

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            assert (await receive())["type"] == "lifespan.startup"
            self.events.append("startup")
            if "fail" in self.behaviour:
                try:
                    raise ValueError("real startup error")
                except ValueError:
                    await send({"type": "lifespan.startup.failed", "message": self.behaviour["fail"]})
                    raise
            scope["state"]["made"] = [1]
            await send({"type": "lifespan.startup.complete"})
            assert (await receive())["type"] == "lifespan.shutdown"
            self.events.append("shutdown")
            kind = "failed" if "fail_shutdown" in self.behaviour else "complete"
            await send({"type": f"lifespan.shutdown.{kind}", "message": "boom"})
            return
        scope["state"]["own"] = True
        self.events.append(f"request {sorted(scope['state'])}")
        await send(start())
        await send(body(b"ok"))


async def test_lifespan_runs_once_and_its_state_is_copied() -> None:
    app = LifespanApp()
    for _ in range(2):
        await asgi.fetch(app, request(), None)
    seen = "request ['made', 'own']"
    assert app.events == ["startup", seen, seen]
    await lifespan.shutdown_all()
    assert app.events == ["startup", seen, seen, "shutdown"]
    await asgi.fetch(app, request(), None)
    assert app.events[4:] == ["startup", seen]
    await lifespan.shutdown_all()


async def test_requests_that_come_together_start_it_once() -> None:
    app = LifespanApp()
    await asyncio.gather(*(asgi.fetch(app, request(), None) for _ in range(5)))
    assert app.events.count("startup") == 1
    await lifespan.shutdown_all()


@pytest.mark.parametrize(
    ("message", "text"), [("boom-startup", "boom-startup"), ("", "ASGI lifespan startup failed")]
)
async def test_a_failed_startup(message: str, text: str) -> None:
    app = LifespanApp(fail=message)
    for _ in range(2):
        with pytest.raises(RuntimeError, match=text) as caught:
            await asgi.fetch(app, request(), None)
        assert "real startup error" in str(caught.value.__cause__)
    assert app.events == ["startup", "startup"]


async def test_a_failed_shutdown_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    app = LifespanApp(fail_shutdown=True)
    await asgi.fetch(app, request(), None)
    await lifespan.shutdown_all()
    assert "shutdown failed: boom" in caplog.text


async def test_applications_made_for_each_request_do_not_pile_up() -> None:
    context = WorkerContext()
    apps = [LifespanApp() for _ in range(lifespan.MOST + 3)]
    with running(context):
        for app in apps:
            await asgi.fetch(app, request(), None)
        await context.background.drain()
        assert [app.events[-1] for app in apps[:3]] == ["shutdown"] * 3
        assert apps[3].events[-1] != "shutdown"
        await lifespan.shutdown_all()
    assert all(app.events[-1] == "shutdown" for app in apps)


async def test_an_application_without_lifespan(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    assert await (await asgi.fetch(hello, request(), None)).text() == "hello"
    assert caplog.text == ""
