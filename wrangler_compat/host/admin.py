"""The operator's side, on a port of its own: `/metrics`, `/ready`, `/live`, and `/objects` to look into storage."""

import asyncio
import json
import os
import sqlite3
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from moorage.durable_objects.runtime.reading import snapshot

from . import inspection, metrics, triggers
from .host import Host, Receive, Scope, Send


class Admin:
    """An ASGI application. `/ready` answers 200 only after it wrote to the state folder and synced it."""

    def __init__(self, host: Host) -> None:
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        match (scope["method"], scope["path"]):
            case ("GET" | "HEAD", "/metrics"):
                body = metrics.render(self._host.runtime)
                await _send(send, 200, body, b"text/plain; version=0.0.4; charset=utf-8")
            case ("GET" | "HEAD", "/live"):
                await _send(send, 200, b"live\n")
            case ("GET" | "HEAD", "/ready"):
                problem = await self.problem()
                await _send(send, 200 if problem is None else 503, f"{problem or 'ready'}\n".encode())
            case ("GET", path) if path == "/objects" or path.startswith("/objects/"):
                # a slash at the end may belong to an object's name
                await self._objects(path.removeprefix("/objects").removeprefix("/"), send)
            case ("POST", triggers.ADMIN):
                await triggers.answer(self._host, scope, send)
            case _:
                await _send(send, 404, b"there are /metrics, /ready, /live, /objects and POST /trigger/scheduled\n")

    async def _objects(self, path: str, send: Send) -> None:
        """`/objects`, `/objects/<namespace>`, `/objects/<namespace>/<id>`, and `….sqlite` for a consistent copy."""
        state = self._host.settings.state
        namespace, _, which = path.partition("/")
        try:
            if not which:
                found = await asyncio.to_thread(lambda: list(inspection.listed(state, namespace or None)))
                await _send_json(send, [asdict(item) for item in found])
            elif which.endswith(".sqlite"):
                file = inspection.locate(state, namespace, which.removesuffix(".sqlite"))
                await self._copy(file, send)
            else:
                file = inspection.locate(state, namespace, which)
                await _send_json(send, asdict(await asyncio.to_thread(inspection.contents, file)))
        except inspection.InspectionError as error:
            await _send(send, 404, f"{error}\n".encode())

    async def _copy(self, file: Path, send: Send) -> None:
        with tempfile.TemporaryDirectory(dir=self._host.settings.state) as folder:
            target = Path(folder) / "copy.sqlite"
            async with snapshot(file) as reader:
                copy = await asyncio.to_thread(sqlite3.connect, target, check_same_thread=False)
                try:
                    await reader.backup(copy)
                finally:
                    await asyncio.to_thread(copy.close)
            size = target.stat().st_size
            headers = [(b"content-type", b"application/vnd.sqlite3"), (b"content-length", str(size).encode())]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            with target.open("rb") as source:
                while block := await asyncio.to_thread(source.read, 1024 * 1024):
                    await send({"type": "http.response.body", "body": block, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

    async def problem(self) -> str | None:
        """Returns why requests cannot be served, or None."""
        if not self._host.workers or self._host.runtime is None:
            return "the Worker is not loaded"
        try:
            await asyncio.to_thread(_touch, self._host.settings.state)
        except OSError as error:
            return f"the state folder cannot be written: {error.strerror}"
        return None


def _touch(folder: Path) -> None:
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"ready")
        file.flush()
        os.fsync(file.fileno())


async def _send_json(send: Any, value: Any) -> None:
    body = json.dumps(value, indent=2, ensure_ascii=False, default=repr).encode()
    await _send(send, 200, body, b"application/json; charset=utf-8")


async def _send(send: Any, status: int, body: bytes, kind: bytes = b"text/plain; charset=utf-8") -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
