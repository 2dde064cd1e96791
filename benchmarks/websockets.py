"""WebSockets: echo at 1,000 sockets beside a bare ASGI echo; what 10,000 idle sockets of sleeping objects cost."""

import asyncio
import contextlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import servers

ROOMS = 100
BATCH = 250
WORKER = """
from js import WebSocketPair
from workers import DurableObject, Response, WorkerEntrypoint

class Room(DurableObject):
    async def fetch(self, request):
        client, server = WebSocketPair.new().object_values()
        self.ctx.acceptWebSocket(server)
        return Response(None, status=101, web_socket=client)

    async def webSocketMessage(self, ws, message):
        ws.send(message)

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        path = request.url.split("/", 3)[3]
        if not path:
            return Response("ready")
        if path == "plain":
            client, server = WebSocketPair.new().object_values()
            server.accept()
            server.addEventListener("message", lambda event: server.send(event.data))
            return Response(None, status=101, web_socket=client)
        return await self.env.ROOMS.getByName(path).fetch(request)
"""
WRANGLER = """
name = "echo"
main = "entry.py"
compatibility_date = "2026-07-01"
compatibility_flags = ["python_workers"]
[[durable_objects.bindings]]
name = "ROOMS"
class_name = "Room"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Room"]
"""
BARE = """
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})
"""
_KEY = "bW9vcmFnZS1tZWFzdXJlcw=="


class Client(asyncio.Protocol):
    """The least of a client: one handshake, then one masked text at a time, sent again when its echo is there."""

    def __init__(self, request: bytes, load: "Load") -> None:
        self.request = request
        self.load = load
        self.open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: Any = None
        self.data = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        self.data += data
        if self.open.done():
            self._frames()
        else:
            head, found, rest = self.data.partition(b"\r\n\r\n")
            if found:
                self.data = rest
                if head.startswith(b"HTTP/1.1 101"):
                    self.open.set_result(None)
                else:
                    self.open.set_exception(RuntimeError(head.decode()))

    def _frames(self) -> None:
        while len(self.data) >= 2 and len(self.data) >= 2 + self.data[1]:
            kind, length = self.data[0] & 15, self.data[1]
            payload, self.data = self.data[2 : 2 + length], self.data[2 + length :]
            if kind == 9:  # a ping: answer it, masked with zeros
                self.transport.write(bytes((0x8A, 0x80 | length)) + bytes(4) + payload)
            elif kind == 8:
                self.load.lost += 1
            else:
                self.load.echoed(self)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.open.done():
            self.open.set_exception(error or ConnectionError("closed in the handshake"))


def _same(client: Client) -> Client:
    return client


class Load:
    """Many sockets that echo until the time is over."""

    def __init__(self, url: str, paths: list[str]) -> None:
        self.url = urlsplit(url)
        self.address = (self.url.hostname or "127.0.0.1", self.url.port or 80)
        self.paths = paths
        self.clients: list[Client] = []
        self.frame = b"\x81\xa0\x00\x00\x00\x00" + b"x" * 32  # masked with zeros
        self.count = self.lost = 0
        self.running = False
        self.idle = 0

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        for start in range(0, len(self.paths), BATCH):
            batch = []
            for path in self.paths[start : start + BATCH]:
                request = (
                    f"GET /{path} HTTP/1.1\r\nHost: {self.url.netloc}\r\n"
                    "Upgrade: websocket\r\nConnection: Upgrade\r\n"
                    f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {_KEY}\r\n\r\n"
                )
                made = Client(request.encode(), self)
                batch.append(made)
                await loop.create_connection(partial(_same, made), self.address[0], self.address[1])
            await asyncio.gather(*(client.open for client in batch))
            self.clients += batch

    def echoed(self, client: Client) -> None:
        if self.running:
            self.count += 1
            client.transport.write(self.frame)
        else:
            self.idle += 1

    async def run(self, seconds: float) -> float:
        """Echoes a second."""
        self.count, self.idle, self.running = 0, 0, True
        began = time.perf_counter()
        for client in self.clients:
            client.transport.write(self.frame)
        await asyncio.sleep(seconds)
        self.running = False
        rate = self.count / (time.perf_counter() - began)
        end = time.perf_counter() + 60
        while self.idle < len(self.clients):
            if self.lost or time.perf_counter() > end:
                raise RuntimeError(f"{self.lost} sockets were closed, {self.idle} of {len(self.clients)} answered")
            await asyncio.sleep(0.01)
        return rate

    def close(self) -> None:
        for client in self.clients:
            client.transport.abort()


@contextlib.contextmanager
def worker(folder: Path) -> Iterator[servers.Server]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "wrangler.toml").write_text(WRANGLER)
    (folder / "entry.py").write_text(WORKER)
    command = servers.moorage("serve", str(folder), "--log-level", "error", "--no-access-log", "--idle-seconds", "1")
    with servers.running(command, folder, "/") as server:
        yield server


@contextlib.contextmanager
def bare(folder: Path) -> Iterator[servers.Server]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bare.py").write_text(BARE)
    command = [sys.executable, "-m", "uvicorn", "bare:app", "--lifespan", "off", "--log-level", "error"]
    with servers.running([*command, "--ws-per-message-deflate", "false"], folder, "/") as server:
        yield server


async def echo(server: servers.Server, paths: list[str], seconds: float) -> dict[str, float]:
    """Echoes a second and the server's CPU for one."""
    load = Load(server.url, paths)
    await load.open()
    await load.run(min(seconds, 0.5))
    before = server.cpu()
    rate = await load.run(seconds)
    used = server.cpu() - before
    load.close()
    return {"echoes_per_second": rate, "cpu_us": used / max(1, load.count) * 1e6}


async def idle(server: servers.Server, paths: list[str], wait: float = 3.0) -> dict[str, float]:
    """What so many idle sockets add to the server's memory, in bytes a socket, and whether one still answers."""
    before = server.memory()
    load = Load(server.url, paths)
    began = time.perf_counter()
    await load.open()
    opened = time.perf_counter() - began
    await asyncio.sleep(wait)  # the objects fall asleep meanwhile
    after, cpu = server.memory(), server.cpu()
    await asyncio.sleep(wait)
    cpu = server.cpu() - cpu
    began = time.perf_counter()
    await load.run(0.0)
    woken = time.perf_counter() - began
    load.close()
    return {
        "sockets": len(paths),
        "bytes_a_socket": (after - before) / len(paths),
        "mib": (after - before) / 2**20,
        "open_per_second": len(paths) / opened,
        "cpu_percent_while_idle": cpu / wait * 100,
        "seconds_to_wake_and_answer_all": woken,
    }


def run(seconds: float = 3.0, sockets: int = 1_000, sleeping: int = 10_000) -> dict[str, Any]:
    """Measures both, prints each beside its baseline, and returns the figures."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = 65_536 if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    sleeping = min(sleeping, limit - 1_000)
    rooms = [f"room-{number % ROOMS}" for number in range(max(sockets, sleeping))]
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="moorage-bench-") as name:
        folder = Path(name)
        with bare(folder / "bare") as server:
            base = asyncio.run(echo(server, ["x"] * sockets, seconds))
            idle_base = asyncio.run(idle(server, ["x"] * sleeping))
        with worker(folder / "worker") as server:
            figures["echo, object that may sleep"] = asyncio.run(echo(server, rooms[:sockets], seconds))
            figures["echo, Worker"] = asyncio.run(echo(server, ["plain"] * sockets, seconds))
        with worker(folder / "sleeping") as server:
            figures["idle"] = asyncio.run(idle(server, rooms[:sleeping]))
    figures["echo, bare ASGI"], figures["idle, bare ASGI"] = base, idle_base
    for label, row in figures.items():
        if "echoes_per_second" in row:
            print(
                f"{label} ({sockets} sockets)".ljust(44) + f"{row['echoes_per_second']:>9,.0f} echoes/s"
                f"{row['cpu_us']:>8,.0f} CPU µs   baseline {base['echoes_per_second']:,.0f}, {base['cpu_us']:,.0f} µs"
            )
        else:
            print(
                f"{label} ({row['sockets']} sockets, {ROOMS} objects)".ljust(44) + f"{row['mib']:>9,.0f} MiB"
                f"{row['bytes_a_socket'] / 1024:>7.1f} KiB each, {row['cpu_percent_while_idle']:.1f} % CPU, all "
                f"answer after {row['seconds_to_wake_and_answer_all']:.2f} s   baseline {idle_base['mib']:,.0f} MiB"
            )
    return figures


if __name__ == "__main__":
    run(float(os.environ.get("SECONDS", "3")))
