"""Runs a host on uvicorn: one process, our loop, our drain.

The drain's order: stop accepting, finish what is running, commit, sync and close every object, exit 0.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import uvicorn

from .admin import Admin
from .application import Application
from .host import Host
from .http1 import protocol
from .settings import HostSettings
from .ws1 import HalfClosingProtocol

_log = logging.getLogger("moorage.host")

BACKLOG = 4096


class _Server(uvicorn.Server):
    """uvicorn without its signal handling: the process's signals are ours."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _config(app: Any, settings: HostSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=protocol(settings.max_head, settings.head_seconds, settings.body_seconds),  # type: ignore[arg-type]
        loop="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        backlog=BACKLOG,
        server_header=False,
        ws=HalfClosingProtocol,
        ws_max_size=settings.socket_message,
        ws_ping_interval=settings.socket_ping_seconds or None,
        ws_ping_timeout=settings.socket_ping_seconds or None,
        ws_per_message_deflate=settings.socket_deflate,
        proxy_headers=False,
        timeout_graceful_shutdown=max(1, round(settings.drain_seconds)),
    )


def bind(host: str, port: int) -> socket.socket:
    """Returns a listening socket. Raises OSError that names the address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None
    made.setblocking(False)
    made.set_inheritable(False)
    return made


class Serving:
    """A host that is being served: start it, wait for it or stop it. For the commands and for tests.

    `url` and `admin_url` are known once `start()` returned.
    """

    def __init__(self, host: Host) -> None:
        self.host = host
        self.application = Application(host, own_lifespan=False)
        self.url = ""
        self.admin_url: str | None = None
        self._servers: list[_Server] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Binds the ports, loads the Workers, and serves. Raises OSError and what `Host.start` raises."""
        settings = self.host.settings
        listening = bind(settings.host, settings.port)
        admin = None
        try:
            if settings.admin_port >= 0:
                admin = bind(settings.admin_host, settings.admin_port)
            try:
                await self.host.start()
            except BaseException:
                await self.host.close()
                raise
        except BaseException:
            listening.close()
            if admin is not None:
                admin.close()
            raise
        self.url = _url(listening)
        await self._serve(self.application, listening)
        if admin is not None:
            self.admin_url = _url(admin)
            await self._serve(Admin(self.host), admin)

    async def attach(self) -> None:
        """Serves a host that was started already. Raises OSError."""
        settings = self.host.settings
        listening = bind(settings.host, settings.port)
        self.url = _url(listening)
        await self._serve(self.application, listening)

    async def _serve(self, app: Any, listening: socket.socket) -> None:
        server = _Server(_config(app, self.host.settings))
        task = asyncio.create_task(server.serve(sockets=[listening]))
        self._servers.append(server)
        self._tasks.append(task)
        while not server.started:
            if task.done():
                await task
            await asyncio.sleep(0.001)

    async def stop(self) -> None:
        """Drains and ends."""
        for server in self._servers:
            server.should_exit = True
        for task in self._tasks:
            await task
        await self.host.close()


def _url(listening: socket.socket) -> str:
    address, port = listening.getsockname()[:2]
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


async def serve_until_signalled(
    host: Host, *, ready: Callable[[Serving], None], beside: Callable[[Serving], Awaitable[None]] | None = None
) -> None:
    """Serves until SIGINT or SIGTERM, then drains. A second signal ends at once. `beside` runs meanwhile."""
    serving = Serving(host)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def signalled() -> None:
        if stop.is_set():
            sys.exit(1)
        stop.set()

    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, signalled)
    await serving.start()
    ready(serving)
    side = None if beside is None else asyncio.ensure_future(beside(serving))
    await stop.wait()
    _log.info("stopping: requests that are running are finished, objects are closed")
    if side is not None:
        side.cancel()
    await serving.stop()
    _log.info("stopped")


def run(main: Awaitable[None]) -> None:
    """Runs `main` on uvloop where it is installed, else on asyncio."""

    async def wrapped() -> None:
        await main

    try:
        import uvloop
    except ImportError:
        asyncio.run(wrapped())
    else:
        uvloop.run(wrapped())
