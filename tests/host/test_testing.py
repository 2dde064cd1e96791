"""`WorkerRuntime` used directly: every binding goes by the hand-set clock, and nothing is left behind."""

import asyncio
import datetime
import sys
from pathlib import Path

import pytest

from moorage.wrangler_compat.host.testing import WorkerOptions, WorkerRuntime

WRANGLER = """
name = "clocked"
main = "src/clocked_entry.py"
compatibility_date = "2026-07-01"
compatibility_flags = ["python_workers"]
[[kv_namespaces]]
binding = "KV"
id = "kv"
[[d1_databases]]
binding = "DB"
database_id = "db"
database_name = "db"
[[queues.producers]]
binding = "QUEUE"
queue = "queue"
[[queues.consumers]]
queue = "queue"
max_batch_size = 10
max_batch_timeout = 5
"""
ENTRY = """
import asyncio
from workers import Response, WorkerEntrypoint, wait_until

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        if request.url.endswith("/forever"):
            wait_until(asyncio.sleep(3600))
            return Response("begun")
        await self.env.QUEUE.send({"a": 1})
        return Response("sent")

    async def queue(self, batch, env, ctx):
        for message in batch.messages:
            await self.env.KV.put("got", str(message.body["a"]))
            message.ack()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "wrangler.toml").write_text(WRANGLER)
    (tmp_path / "src" / "clocked_entry.py").write_text(ENTRY)
    return tmp_path


async def test_queues_and_expiry_go_by_the_clock(folder: Path) -> None:
    async with WorkerRuntime(WorkerOptions(folder)) as runtime:
        await runtime.fetch("/")
        assert await runtime.env.KV.get("got") is None
        await runtime.advance(datetime.timedelta(seconds=5))
        assert await runtime.env.KV.get("got") == "1"
        await runtime.evict_all()
        assert await runtime.env.KV.get("got") == "1"
        await runtime.env.KV.put("soon", "x", expirationTtl=60)
        await runtime.advance(61_000)
        assert await runtime.env.KV.get("soon") is None
        with pytest.raises(ValueError, match="0 milliseconds or more"):
            await runtime.advance(-1)


async def test_storage_modules_and_tasks_are_gone_afterwards(folder: Path) -> None:
    before = (set(sys.modules), list(sys.path), asyncio.all_tasks())
    async with WorkerRuntime(WorkerOptions(folder)) as runtime:
        await runtime.env.KV.put("kept", "no")
        assert await (await runtime.fetch("/forever")).text() == "begun"
        await runtime.background()  # what is stuck is cancelled
    async with WorkerRuntime(WorkerOptions(folder)) as runtime:
        assert await runtime.env.KV.get("kept") is None
    assert "clocked_entry" not in sys.modules
    assert not [name for name in set(sys.modules) - before[0] if "clocked" in name]
    assert sys.path == before[1]
    assert asyncio.all_tasks() == before[2]


async def test_another_loop_is_named(folder: Path) -> None:
    async with WorkerRuntime(WorkerOptions(folder)) as runtime:

        async def elsewhere() -> None:
            with pytest.raises(RuntimeError, match="another event loop"):
                _ = runtime.env

        await asyncio.to_thread(lambda: asyncio.run(elsewhere()))
