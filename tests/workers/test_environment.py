"""`env`, `patch_env`, `wait_until`, and which Worker the running code belongs to."""

import asyncio
from typing import Any

import pytest

from moorage.wrangler_compat import workers
from moorage.wrangler_compat.workers import import_from_javascript, patch_env, wait_until
from moorage.wrangler_compat.workers.current import ExecutionContext, WorkerContext, current, in_worker, running
from moorage.wrangler_compat.workers.environment import Env


def test_bindings_by_name() -> None:
    env = Env({"NAME": "value", "DATA": {"a": 1}})
    assert env.NAME == env["NAME"] == "value"
    assert "NAME" in env
    assert getattr(env, "MISSING", None) is None
    assert sorted(env) == dir(env) == ["DATA", "NAME"]
    with pytest.raises(AttributeError, match=r"no binding 'MISSING'; it has DATA, NAME"):
        env.MISSING  # noqa: B018
    with pytest.raises(AttributeError, match="patch_env"):
        env.NAME = "other"
    assert "value" not in repr(env)


def test_the_module_s_env_is_the_running_worker_s() -> None:
    with pytest.raises(AttributeError, match="no Worker is running"):
        workers.env.NAME  # noqa: B018
    one, two = WorkerContext(Env({"NAME": 1})), WorkerContext(Env({"NAME": 2}))
    with running(one):
        assert workers.env.NAME == 1
        assert in_worker()
        with running(two):
            assert workers.env.NAME == workers.env["NAME"] == 2
        assert "NAME" in workers.env
        assert "OTHER" not in workers.env
        assert import_from_javascript("cloudflare:workers").env.NAME == 1
    assert not in_worker()


async def test_tasks_belong_to_the_worker_that_starts_them() -> None:
    async def name() -> Any:
        await asyncio.sleep(0)
        return workers.env.NAME

    async def start(number: int) -> Any:
        with running(WorkerContext(Env({"NAME": number}))):
            return asyncio.create_task(name())

    tasks = [await start(number) for number in range(3)]
    assert await asyncio.gather(*tasks) == [0, 1, 2]


async def test_patch_env_lays_bindings_on_top_for_a_while() -> None:
    with running(WorkerContext(Env({"NAME": "real"}))):
        with patch_env({"NAME": "patched"}, X=1):
            assert (workers.env.NAME, workers.env.X) == ("patched", 1)
            with patch_env([("X", 2)]):
                assert (workers.env.NAME, workers.env.X) == ("patched", 2)
            assert workers.env.X == 1
        assert workers.env.NAME == "real"
        assert not hasattr(workers.env, "X")


async def test_wait_until_keeps_work_going(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    async def work(number: int) -> None:
        await asyncio.sleep(0)
        done.append(number)

    async def fails() -> None:
        raise ZeroDivisionError("lost work")

    context = WorkerContext()
    with running(context):
        wait_until(work(1))
        workers.waitUntil(work(2))
        ExecutionContext(context).waitUntil(asyncio.ensure_future(work(3)))
        wait_until(fails())
        with pytest.raises(TypeError, match="awaitable, not int"):
            wait_until(5)  # type: ignore[arg-type]
    assert len(context.background) == 4
    await context.background.drain()
    assert sorted(done) == [1, 2, 3]
    assert "lost work" in caplog.text
    assert current() is not context


def test_javascript_modules() -> None:
    assert import_from_javascript("cloudflare:workers").DurableObject is workers.DurableObject
    with pytest.raises(NotImplementedError, match="raw sockets"):
        import_from_javascript("cloudflare:sockets").connect("host")
    with pytest.raises(ImportError, match=r"Failed to import './other\.js'"):
        import_from_javascript("./other.js")
