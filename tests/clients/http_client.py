"""The signed client over a scripted transport, with the clock and the waits in the test's hands."""

from typing import Any

import httpx

from moorage.clients.http import AsyncHttp
from tests.support.plane import START_MS

SECRET = "very/secret value+1"
URL = "http://127.0.0.1:8787"
NOW = START_MS / 1000


class Sleeps(list[float]):
    """Notes how long the client would have waited."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def client(transport: httpx.AsyncBaseTransport, **more: Any) -> AsyncHttp:
    options: dict[str, Any] = {"transport": transport, "now": lambda: NOW, "sleep": Sleeps(), "chance": lambda: 1.0}
    return AsyncHttp(URL, SECRET, **{**options, **more})


def ok(**members: Any) -> httpx.Response:
    return httpx.Response(200, json={"ok": True, **members})
