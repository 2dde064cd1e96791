"""The servers that are measured: Moorage as people run it, and the bare servers it is compared with."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx

from .load import SECRET

TICKS = os.sysconf("SC_CLK_TCK")

HELLO_WORKER = """
from workers import DurableObject, Response, WorkerEntrypoint

class Hello(DurableObject):
    async def hello(self):
        return "hello"

class Default(WorkerEntrypoint):
    async def fetch(self, request):
        if request.url.endswith("/object"):
            return Response(await self.env.HELLO.getByName("a").hello())
        return Response("hello")
"""
HELLO_WRANGLER = """
name = "hello"
main = "entry.py"
compatibility_date = "2026-07-01"
compatibility_flags = ["python_workers"]
[[durable_objects.bindings]]
name = "HELLO"
class_name = "Hello"
[[migrations]]
tag = "v1"
new_sqlite_classes = ["Hello"]
"""
# Answers what it was told to, read from a file; bare ASGI, or through Starlette's Request, routing and Response.
BASELINE = """
import os
from pathlib import Path
body = Path(os.environ["BENCH_BODY"]).read_bytes()
kind = os.environ["BENCH_KIND"]
if kind == "asgi":
    headers = [(b"content-type", b"text/plain"), (b"content-length", str(len(body)).encode())]
    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})
else:
    from starlette.applications import Starlette
    from starlette.responses import Response
    from starlette.routing import Route
    async def endpoint(request):
        await request.body()
        return Response(body, media_type="application/json")
    app = Starlette(routes=[Route("/{path:path}", endpoint, methods=["GET", "PUT", "POST"])])
"""


def free_port() -> int:
    """A port that was free a moment ago on loopback."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A server process; `cpu()` is its user and system time so far, in seconds."""

    def __init__(self, process: "subprocess.Popen[bytes]", url: str) -> None:
        self.process = process
        self.url = url

    def cpu(self) -> float:
        """User and system time of the process, all threads, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def memory(self) -> int:
        """Resident bytes."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) * 1024
        return 0


@contextlib.contextmanager
def running(command: Sequence[str], folder: Path, path: str, **environ: str) -> Iterator[Server]:
    """Starts a command with `--port N` behind it and waits until `path` answers."""
    port = free_port()
    with open(folder / "server.log", "ab") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)], cwd=folder, env={**os.environ, **environ}, stdout=log, stderr=log
        )
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + 30
        while True:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(url + path, timeout=5)
                break
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server did not start: {(folder / 'server.log').read_text()}")
            time.sleep(0.02)
        yield Server(process, url)
    finally:
        process.terminate()
        process.wait(30)


def moorage(*arguments: str) -> list[str]:
    """The command line, by this interpreter."""
    return [sys.executable, "-c", "from moorage.clients.cli import main; main()", *arguments]


@contextlib.contextmanager
def state_plane(folder: Path, *arguments: str) -> Iterator[Server]:
    """`moorage serve` of the state plane in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    secrets = {"CLAWSWEEPER_WEBHOOK_SECRET": SECRET, "EXACT_REVIEW_OPERATOR_SECRET": SECRET}
    command = moorage("serve", "--log-level", "error", *arguments)
    with running(command, folder, "/api/health", **secrets) as server:
        yield server


@contextlib.contextmanager
def hello(folder: Path) -> Iterator[Server]:
    """`moorage serve` of a Worker that says hello, itself or through an object."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "wrangler.toml").write_text(HELLO_WRANGLER)
    (folder / "entry.py").write_text(HELLO_WORKER)
    command = moorage("serve", str(folder), "--log-level", "error", "--no-access-log")
    with running(command, folder, "/") as server:
        yield server


@contextlib.contextmanager
def baseline(folder: Path, kind: str, body: bytes) -> Iterator[Server]:
    """A bare server on uvicorn that answers `body`; `kind` is `asgi` or `starlette`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "baseline.py").write_text(BASELINE)
    (folder / "body").write_bytes(body)
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "baseline:app",
        "--no-access-log",
        "--log-level",
        "error",
        "--lifespan",
        "off",
    ]
    with running(command, folder, "/", BENCH_BODY=str(folder / "body"), BENCH_KIND=kind) as server:
        yield server
