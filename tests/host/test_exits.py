"""A Worker's own tasks: `exit()` in one of them ends that task, and nothing else."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from moorage.wrangler_compat.host.exits import Contained
from moorage.wrangler_compat.host.host import Host
from moorage.wrangler_compat.host.loader import LoadError
from moorage.wrangler_compat.host.server import Serving
from moorage.wrangler_compat.host.settings import HostSettings
from moorage.wrangler_compat.workers.current import WorkerStopped

WRANGLER = """
name = "sample"
main = "entry.py"
compatibility_date = "2026-07-01"
compatibility_flags = ["python_workers"]
"""
ENTRY = """
import asyncio, sys
from workers import Response, WorkerEntrypoint

ended = asyncio.Event()
tasks = []

async def leave():
    try:
        await asyncio.sleep(0)
        sys.exit(7)
    finally:
        ended.set()

async def nested():
    await asyncio.gather(leave())

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        match request.url.rpartition("/")[2]:
            case "task":
                tasks.append(asyncio.create_task(leave()))
            case "nested":
                tasks.append(asyncio.create_task(nested(), name="of the Worker"))
            case "group":
                async with asyncio.TaskGroup() as group:
                    group.create_task(leave())
            case "awaited":
                await asyncio.create_task(leave())
            case "cancelled":
                task = asyncio.create_task(asyncio.sleep(9))
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
                return Response(str(task.cancelled()))
        return Response("hello")
"""


def lay(folder: Path, entry: str) -> Path:
    (folder / "wrangler.toml").write_text(WRANGLER)
    (folder / "entry.py").write_text(entry)
    return folder


@pytest.fixture
async def serving(tmp_path: Path) -> AsyncIterator[Serving]:
    settings = HostSettings(state=tmp_path / "state", port=0, access_log=False)
    made = Serving(Host([lay(tmp_path, ENTRY)], settings, environ={}))
    await made.start()
    yield made
    await made.stop()


async def get(serving: Serving, path: str) -> httpx.Response:
    async with httpx.AsyncClient(base_url=serving.url, timeout=20) as client:
        return await client.get(path)


@pytest.mark.parametrize("path", ["/task", "/nested"])
async def test_a_task_that_exits_ends_alone(serving: Serving, path: str) -> None:
    assert (await get(serving, path)).text == "hello"
    module: Any = serving.host.workers[0].module
    await asyncio.wait(module.tasks)
    assert module.ended.is_set()
    assert [type(task.exception()) for task in module.tasks] == [WorkerStopped]
    assert (await get(serving, "/")).text == "hello"


@pytest.mark.parametrize("path", ["/group", "/awaited"])
async def test_who_waits_for_it_gets_an_error(serving: Serving, path: str) -> None:
    assert (await get(serving, path)).status_code == 500
    assert (await get(serving, "/")).text == "hello"


async def test_cancelling_is_as_ever(serving: Serving) -> None:
    assert (await get(serving, "/cancelled")).text == "True"


async def test_the_loop_has_its_task_factory_back(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    host = Host([lay(tmp_path, ENTRY)], HostSettings(state=tmp_path / "state"), environ={})
    for _ in range(2):
        await host.start()
        assert loop.get_task_factory() is not before
        await host.reload()
        await host.close()
        assert loop.get_task_factory() is before


async def test_a_contained_coroutine_is_driven_as_it_is() -> None:
    async def work() -> str:
        try:
            await asyncio.sleep(9)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return "put away"
        return "slept"

    task = asyncio.ensure_future(Contained(work()))
    await asyncio.sleep(0)
    assert "work" in repr(task)
    task.cancel()
    assert await task == "put away"

    async def leaves_when_cancelled() -> None:
        try:
            await asyncio.sleep(9)
        except asyncio.CancelledError:
            sys.exit(3)

    task = asyncio.ensure_future(Contained(leaves_when_cancelled()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(WorkerStopped, match="SystemExit: 3"):
        await task


async def test_a_module_that_exits_while_it_is_imported_is_an_error_of_its_own(tmp_path: Path) -> None:
    host = Host([lay(tmp_path, "exit(5)\n")], HostSettings(state=tmp_path / "state"), environ={})
    with pytest.raises(LoadError, match=r"called exit\(\) while it was imported \(SystemExit: 5\)"):
        await host.start()
    await host.close()
