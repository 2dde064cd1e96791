"""The command line against a state plane in this process."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx
import pytest
from click.testing import CliRunner, Result

from moorage.clients import cli, connection
from moorage.clients.http import Http

from .http import PlaneTransport, Script
from .ledger_plane import LedgerPlane
from .plane import OPERATOR_SECRET, WEBHOOK_SECRET, Plane

ENVIRONMENT = {"MOORAGE_URL": "http://127.0.0.1:8787", "CLAWSWEEPER_WEBHOOK_SECRET": WEBHOOK_SECRET}

OPERATOR = {**ENVIRONMENT, "EXACT_REVIEW_OPERATOR_SECRET": OPERATOR_SECRET}
T = TypeVar("T")


class _Across(PlaneTransport):
    """Carries requests to the loop that the plane lives on."""

    def __init__(self, plane: Plane, host: Http) -> None:
        super().__init__(plane)
        self._host = host

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asked = super().handle_async_request(request)
        loop = self._host.loop._loop
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked, loop))


class Served:
    """A plane to which commands and synchronous clients talk."""

    def __init__(self, plane: Plane, host: Http) -> None:
        self.plane = plane
        self._host = host

    def client(self, **options: Any) -> Http:
        """A synchronous client of it."""
        options.setdefault("now", self.now)
        return Http(ENVIRONMENT["MOORAGE_URL"], WEBHOOK_SECRET, transport=_Across(self.plane, self._host), **options)

    def now(self) -> float:
        """The clients' clock: five seconds ahead of the plane's."""
        return self.plane.clock.now() / 1000 + 5

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine of the plane's, run on its loop."""
        return self._host.loop.run(work)

    def transport(self) -> httpx.AsyncBaseTransport:
        """A transport for one more client."""
        return _Across(self.plane, self._host)

    def run(self, *arguments: str, env: dict[str, str] | None = None) -> Result:
        """Runs a command and returns what it printed and its status."""
        return CliRunner().invoke(cli.main, list(arguments), env=ENVIRONMENT if env is None else env)


@contextmanager
def served_plane(monkeypatch: pytest.MonkeyPatch, plane: Plane | None = None) -> Iterator[Served]:
    """Starts a plane (`plane`, or a new one) on a loop of its own; every client that a command opens talks to it."""
    host = Http("http://127.0.0.1:1", "unused", transport=Script([]))
    plane = plane or LedgerPlane()
    host.loop.run(plane.__aenter__())
    served = Served(plane, host)
    real = connection.open_http

    def opened(url: str | None, signature_version: int = 2, **more: Any) -> Http:
        more.setdefault("now", served.now)
        return real(url, signature_version, transport=served.transport(), **more)

    monkeypatch.setattr(connection, "open_http", opened)
    try:
        yield served
    finally:
        host.loop.run(plane.__aexit__())
        host.close()
