"""Queues of served Workers: consumers in the same and in other Workers, restarts, kills."""

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from moorage.wrangler_compat.host.values import BindingError
from tests.support.serving import ServedProcess
from tests.support.workers_in_process import ask, host_of, lay

PRODUCER = """
    from workers import DurableObject, Response, WorkerEntrypoint

    class Sender(DurableObject):
        async def send(self, body):
            await self.ctx.storage.put("sent", body)
            await self.env.Q.send(body)

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            if request.method == "POST":
                await self.env.Q.send(await request.json())
                return Response("sent")
            await self.env.SENDER.getByName("a").send("of an object")
            return Response("sent")
"""
SENDS = """
[[queues.producers]]
binding = "Q"
queue = "work"
[[durable_objects.bindings]]
name = "SENDER"
class_name = "Sender"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Sender"]
"""
CONSUMER = """
    import asyncio
    from workers import WorkerEntrypoint, env

    got = asyncio.Queue()

    class Default(WorkerEntrypoint):
        async def queue(self, batch, env_, ctx):
            assert env_ is None and self.env.NAME == env.NAME == "consumer"
            for message in batch.messages:
                got.put_nowait((batch.queue, message.body))
"""
CONSUMES = """
[vars]
NAME = "consumer"
[[queues.consumers]]
queue = "work"
max_batch_timeout = 0
"""


async def test_another_worker_of_the_process_consumes(tmp_path: Path) -> None:
    from moorage.wrangler_compat.host.server import Serving

    lay(tmp_path / "producer", PRODUCER, SENDS)
    lay(tmp_path / "consumer", CONSUMER, CONSUMES)
    serving = Serving(host_of(tmp_path / "state", tmp_path / "producer", tmp_path / "consumer"))
    await serving.start()
    got = serving.host.workers[1].module.got
    async with httpx.AsyncClient(base_url=serving.url) as client:
        assert (await client.post("/", json={"n": 1})).text == "sent"
        assert await asyncio.wait_for(got.get(), 10) == ("work", {"n": 1})
        assert (await client.get("/")).text == "sent"
        assert await asyncio.wait_for(got.get(), 10) == ("work", "of an object")
    await serving.stop()


async def test_a_message_waits_for_the_next_process(tmp_path: Path) -> None:
    lay(tmp_path / "producer", PRODUCER, SENDS)
    lay(tmp_path / "consumer", CONSUMER, CONSUMES)
    alone = host_of(tmp_path / "state", tmp_path / "producer")
    await alone.start()
    await alone.workers[0].env.Q.send("kept")
    await alone.close()
    both = host_of(tmp_path / "state", tmp_path / "producer", tmp_path / "consumer")
    await both.start()
    assert await asyncio.wait_for(both.workers[1].module.got.get(), 10) == ("work", "kept")
    await both.reload()
    await both.workers[0].env.Q.send("after a reload")
    assert await asyncio.wait_for(both.workers[1].module.got.get(), 10) == ("work", "after a reload")
    await both.close()


async def test_faults_of_the_configuration_are_named_at_the_start(tmp_path: Path) -> None:
    lay(tmp_path / "producer", PRODUCER, SENDS + CONSUMES)
    lay(tmp_path / "one", CONSUMER, CONSUMES)
    lay(tmp_path / "two", CONSUMER, CONSUMES)
    for folders, text in (
        (("producer",), "consumes the queue work, but has no queue handler"),
        (("one", "two"), "the queue work has two consumers; it can have one"),
    ):
        host = host_of(tmp_path / "state", *(tmp_path / folder for folder in folders))
        with pytest.raises(BindingError, match=text):
            await host.start()
        await host.close()


KILLED = """
    import os
    from workers import Response, WorkerEntrypoint

    LOG = os.environ["QUEUE_LOG"]

    class Default(WorkerEntrypoint):
        async def fetch(self, request):
            if request.method == "POST":
                await self.env.Q.send(await request.text())
            return Response("sent")

        async def queue(self, batch, env, ctx):
            for message in batch.messages:
                with open(LOG, "a") as log:
                    log.write(f"{message.body} {message.attempts}\\n")
                if message.body == "deadly" and message.attempts == 1:
                    os.kill(os.getpid(), 9)
"""


def test_a_sent_message_survives_sigkill(tmp_path: Path) -> None:
    wrangler = """
[[queues.producers]]
binding = "Q"
queue = "work"
[[queues.consumers]]
queue = "work"
max_batch_timeout = 1
max_batch_size = 100
"""
    folder = lay(tmp_path / "w", KILLED, wrangler)
    log = tmp_path / "log"
    environ = {"QUEUE_LOG": str(log)}
    first = ServedProcess(folder, environ=environ, ready="/").wait()
    for body in ("before", "deadly", "after"):
        assert httpx.post(first.url, content=body).text == "sent"
    # The handler kills its own process in the middle of the batch.
    first.process.wait(20)
    first.log.close()
    assert log.read_text().splitlines() == ["before 1", "deadly 1"]
    second = ServedProcess(folder, environ=environ, ready="/").wait()
    try:
        end = time.monotonic() + 20
        while "after" not in log.read_text() and time.monotonic() < end:
            time.sleep(0.02)
    finally:
        second.stop()
    assert log.read_text().splitlines()[2:] == ["before 2", "deadly 2", "after 2"]


async def test_a_handler_that_exits_ends_its_batch_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    entry = """
        import asyncio, sys
        from workers import WorkerEntrypoint
        got = asyncio.Queue()

        class Default(WorkerEntrypoint):
            async def queue(self, batch, env, ctx):
                got.put_nowait(batch.messages[0].attempts)
                if batch.messages[0].attempts == 1:
                    sys.exit(3)
    """
    queues = CONSUMES.replace("[vars]", '[[queues.producers]]\nbinding = "Q"\nqueue = "work"\n[vars]')
    host = host_of(tmp_path / "state", lay(tmp_path / "w", entry, queues))
    await host.start()
    got = host.workers[0].module.got
    await host.workers[0].env.Q.send("x")
    assert [await asyncio.wait_for(got.get(), 10) for _ in range(2)] == [1, 2]
    await host.close()
    assert "SystemExit: 3" in caplog.text


async def test_a_program_of_2024(tmp_path: Path) -> None:
    """Module-level handlers, and bodies that are clones and not JSON."""
    entry = """
        import asyncio
        from js import Response
        got = asyncio.Queue()

        async def on_fetch(request, env):
            await env.Q.send({"set": {1, 2}})
            return Response.new("sent")

        async def on_queue(batch, env, ctx):
            got.put_nowait((env.NAME, batch.messages[0].body["set"]))
    """
    queues = CONSUMES.replace("[vars]", '[[queues.producers]]\nbinding = "Q"\nqueue = "work"\n[vars]')
    folder = lay(tmp_path / "w", entry, queues)
    config = folder / "wrangler.toml"
    config.write_text(config.read_text().replace("2026-07-01", "2024-03-01"))
    host = host_of(tmp_path / "state", folder)
    await host.start()
    assert await (await ask(host, "/")).text() == "sent"
    assert await asyncio.wait_for(host.workers[0].module.got.get(), 10) == ("consumer", {1, 2})
    await host.close()
