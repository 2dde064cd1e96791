"""A Worker under other ASGI servers, through the exported application factory: started, stopped, started again."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.serving import free_port

WRANGLER = """
name = "counter"
main = "entry.py"
compatibility_date = "2026-07-01"
compatibility_flags = ["python_workers"]
[[durable_objects.bindings]]
name = "COUNTERS"
class_name = "Counter"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Counter"]
"""
ENTRY = """
from workers import DurableObject, Response, WorkerEntrypoint

class Counter(DurableObject):
    async def increment(self, by):
        count = (await self.ctx.storage.get("count") or 0) + by
        await self.ctx.storage.put("count", count)
        return count

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        if request.url.endswith("/raises"):
            raise ValueError("on purpose")
        by = len(await request.bytes())
        return Response(str(await self.env.COUNTERS.getByName("a").increment(by)))
"""
SERVED = """
from pathlib import Path
from moorage.wrangler_compat.host.application import create_app
from moorage.wrangler_compat.host.settings import HostSettings

app = create_app("worker", settings=HostSettings(state=Path("state")))
"""
COMMANDS = {
    "granian": ["granian", "--interface", "asgi", "--host", "127.0.0.1", "served:app"],
    "uvicorn": ["uvicorn", "--app-dir", ".", "served:app"],
}


@contextlib.contextmanager
def running(command: list[str], folder: Path) -> Iterator[httpx.Client]:
    port = free_port()
    with open(folder / "server.log", "a+", encoding="utf-8") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command, "--port", str(port)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            stdout=log,
            stderr=log,
        )
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=10) as client:
                _until_it_answers(client, process, folder)
                yield client
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)


def _until_it_answers(client: httpx.Client, process: "subprocess.Popen[bytes]", folder: Path) -> None:
    end = time.monotonic() + 30
    while time.monotonic() < end and process.poll() is None:
        try:
            client.get("/")
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError((folder / "server.log").read_text())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_worker_under_another_server(tmp_path: Path, name: str) -> None:
    (tmp_path / "worker").mkdir()
    (tmp_path / "worker" / "wrangler.toml").write_text(WRANGLER)
    (tmp_path / "worker" / "entry.py").write_text(ENTRY)
    (tmp_path / "served.py").write_text(SERVED)
    with running(COMMANDS[name], tmp_path) as client:
        assert [client.post("/", content=b"x").text for _ in range(3)] == ["1", "2", "3"]
        assert client.post("/", content=b"x" * 1_000_000).text == "1000003"
        failed = client.get("/raises")
        assert (failed.status_code, failed.json()) == (500, {"error": "internal_error"})
        assert client.head("/").status_code == 200
    with running(COMMANDS[name], tmp_path) as client:
        assert client.post("/", content=b"x").text == "1000004"
    assert not list((tmp_path / "state" / "do" / "counter-Counter").glob("*-wal")), "the objects were not closed"
