"""The operator's side, on a port of its own: `/metrics`, `/ready` and `/live`."""

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

from . import metrics
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
            case _:
                await _send(send, 404, b"there are /metrics, /ready and /live\n")

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


async def _send(send: Any, status: int, body: bytes, kind: bytes = b"text/plain; charset=utf-8") -> None:
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
