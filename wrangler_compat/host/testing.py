"""Workers under test: a real server in a thread, or everything in the test's own loop under a clock set by hand.

The pytest plugin's fixtures are made of these two; other test runners may use them directly:

async with WorkerRuntime(WorkerOptions(Path("my-worker"))) as runtime:
    answer = await runtime.fetch("/")
"""

import asyncio
import importlib
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeVar
from urllib.parse import urljoin

import httpx

from moorage.durable_objects.runtime.web import Request, Response

from ..workers import finder
from .host import Host, Worker
from .s3_endpoint import S3Endpoint, s3_endpoint
from .server import Serving
from .settings import HostSettings
from .testruntime import ObjectsUnderTest

T = TypeVar("T")

START_SECONDS: Final = 30.0
DRAIN_SECONDS: Final = 2.0
ORIGIN: Final = "http://worker.test/"
"""What a path is completed with where no server gives it a host."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Which Worker a test runs, and how.

    `dir` is the folder of its configuration, or several: the first answers, the others are reached by bindings.
    `env` names an environment of the configuration, `vars` are variables that win over the configured ones, `config`
    is another configuration file. `r2` says where buckets are kept: `memory`, `file` or `moto` (with an S3 endpoint).
    `settings` are further host settings by name.
    """

    dir: Path | tuple[Path, ...]
    env: str | None = None
    vars: Mapping[str, str] = field(default_factory=dict)
    config: Path | None = None
    r2: str = "memory"
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folders(self) -> list[Path]:
        """The folders, absolute."""
        given = self.dir if isinstance(self.dir, tuple) else (self.dir,)
        return [Path(folder).resolve() for folder in given]

    def host_settings(self, state: Path, **more: Any) -> HostSettings:
        """The settings of the host. Raises TypeError for a setting that does not exist."""
        base: dict[str, Any] = {
            "state": state,
            "port": 0,
            "r2": self.r2,
            "access_log": False,
            "drain_seconds": DRAIN_SECONDS,
        }
        return HostSettings(**{**base, **more, **self.settings})

    def host_options(self) -> dict[str, Any]:
        """The other arguments of a host. The process's environment is not looked at: a test must not depend on it."""
        return {
            "mode": "dev",
            "environment": self.env,
            "config_file": self.config,
            "variables": self.vars,
            "environ": {},
        }


@contextmanager
def _undisturbed_modules(folders: list[Path]) -> Iterator[None]:
    """Modules that the test run had loaded are the same ones afterwards, and the Worker's own are gone."""
    before: dict[str, ModuleType] = dict(sys.modules)
    paths = list(sys.path)
    try:
        yield
    finally:
        sys.path[:] = paths
        for name, module in before.items():
            if sys.modules.get(name) is not module:
                sys.modules[name] = module
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if name not in before and file and any(Path(file).is_relative_to(folder) for folder in folders):
                del sys.modules[name]  # vendored packages, which a reload keeps
        for root in list(finder.install().roots):
            if any(root.is_relative_to(folder) for folder in folders):
                finder.uninstall(root)
        importlib.invalidate_caches()


class WorkerServer:
    """A Worker served for real on a free port of loopback, by a thread of its own; storage begins empty.

    Use it as a context manager. `url` has no slash at its end.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self.options = options
        self.url = ""
        self._folder = Path(tempfile.mkdtemp(prefix="moorage-test-"))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._serving: Serving | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="moorage-test-server", daemon=True)
        self._modules = _undisturbed_modules(options.folders)

    def __enter__(self) -> "WorkerServer":
        """Starts. Raises what `Host.start` raises; the Worker's own frames are in the traceback."""
        self._modules.__enter__()
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise TimeoutError(f"the Worker did not start in {START_SECONDS:.0f} s")
        if self._failure is not None:
            self._thread.join()
            self._cleared()
            raise self._failure
        return self

    def __exit__(self, *_: object) -> None:
        """Drains and stops; raises what the end of the server raised."""
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._cleared()
        if self._failure is not None:
            raise self._failure

    def _cleared(self) -> None:
        self._modules.__exit__(None, None, None)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        settings = self.options.host_settings(self._folder / "state")
        serving = Serving(Host(self.options.folders, settings, **self.options.host_options()))
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await serving.start()
        self._serving, self.url = serving, serving.url
        self._ready.set()
        await self._stop.wait()
        await serving.stop()

    @property
    def websocket_url(self) -> str:
        """`url` for WebSocket clients."""
        return self.url.replace("http", "ws", 1)

    def client(self, **options: Any) -> httpx.Client:
        """Returns a client whose base is the server; close it."""
        return httpx.Client(**{"base_url": self.url, "timeout": 30, "trust_env": False, **options})

    def async_client(self, **options: Any) -> httpx.AsyncClient:
        """Returns an asynchronous client whose base is the server; close it."""
        return httpx.AsyncClient(**{"base_url": self.url, "timeout": 30, "trust_env": False, **options})

    def fetch(self, path: str = "/", method: str = "GET", **options: Any) -> Any:
        """Sends a request; options are those of httpx (`headers=`, `content=`, `json=` …); `body=` is `content=`.

        Returns an `httpx.Response`; in an async test an awaitable of it, so that the test's own loop goes on.
        Redirects are not followed.
        """
        if "body" in options:
            options["content"] = options.pop("body")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            with self.client() as client:
                return client.request(method, path, **options)
        return self._fetch(path, method, options)

    async def _fetch(self, path: str, method: str, options: dict[str, Any]) -> httpx.Response:
        async with self.async_client() as client:
            return await client.request(method, path, **options)

    def run(self, work: Callable[[Host], Coroutine[Any, Any, T]]) -> T:
        """Runs `work(host)` on the server's loop and returns its result. Blocks."""
        if self._loop is None or self._serving is None:
            raise RuntimeError("the server does not run")
        return asyncio.run_coroutine_threadsafe(work(self._serving.host), self._loop).result()

    def scheduled(self, cron: str, time: int | None = None) -> None:
        """Delivers a cron event now and waits for its end. `time` is in milliseconds; without one, now. Blocks."""

        async def deliver(host: Host) -> None:
            await host.scheduled(host.workers[0], cron, host.clock.now() if time is None else time)

        self.run(deliver)

    def reload(self) -> None:
        """Loads the Worker's files again; storage and alarms are kept. Blocks. Raises what the new code raises."""

        async def reload(host: Host) -> None:
            await host.reload()

        self.run(reload)

    def s3(self, binding: str) -> S3Endpoint:
        """The S3 endpoint of a bucket, with `r2="moto"`. Raises LookupError or RuntimeError."""
        if self._serving is None:
            raise RuntimeError("the server does not run")
        return s3_endpoint(self._serving.host, binding)


class _RuntimeHost(Host):
    """A host whose runtime is one of `ObjectsUnderTest`."""

    objects: ObjectsUnderTest

    def new_runtime(self) -> Any:
        return self.objects.new_runtime(self.settings.state, self.settings.max_objects, self.settings.idle_seconds)


class WorkerRuntime(ObjectsUnderTest):
    """A Worker in the test's own event loop: objects in files, a clock that stands still, faults at will.

    Use it as an asynchronous context manager, on the loop that the test runs on.
    """

    def __init__(self, options: WorkerOptions) -> None:
        super().__init__()
        self.options = options
        self._folder = Path(tempfile.mkdtemp(prefix="moorage-test-"))
        settings = options.host_settings(self._folder / "state", durable=False)
        self._modules = _undisturbed_modules(options.folders)
        self.host = _RuntimeHost(options.folders, settings, clock=self.clock, **options.host_options())
        self.host.objects = self
        self._serving: Serving | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> "WorkerRuntime":
        """Starts. Raises what `Host.start` raises."""
        self._loop = asyncio.get_running_loop()
        self._modules.__enter__()
        try:
            await self.host.start()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Lets held syncs through and ends everything: instances, tasks, sockets, files."""
        await self._end()

    async def _end(self) -> None:
        self.release_syncs()
        try:
            if self._serving is not None:
                await self._serving.stop()
            else:
                await self.host.close()
        finally:
            self._modules.__exit__(None, None, None)
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(
                "the test runs on another event loop than its WorkerRuntime: give the test no loop_scope of its own, "
                "or set asyncio_default_test_loop_scope for all"
            )

    def worker(self, name: str | None = None) -> Worker:
        """The Worker of that name, or the one that answers. Raises LookupError."""
        self._check_loop()
        for worker in self.host.workers:
            if name in (None, worker.config.name):
                return worker
        known = ", ".join(worker.config.name for worker in self.host.workers) or "none"
        raise LookupError(f"no Worker {name!r} runs; there are {known}")

    @property
    def env(self) -> Any:
        """The bindings of the Worker that answers: `runtime.env.COUNTERS.getByName("a")` is a stub."""
        return self.worker().env

    async def fetch(self, request: Any = "/", **options: Any) -> Response:
        """Sends a request to the Worker: a path, a URL or a `Request`, and `method=`, `headers=`, `body=`.

        Returns its Response. Whatever the handler raises leaves, with the Worker's own lines in the traceback.
        """
        if isinstance(request, str):
            request = Request(urljoin(ORIGIN, request), **options)
        elif options:
            request = Request(request, **options)
        worker = self.worker()
        return await self.host.fetch(worker, request)

    async def scheduled(self, cron: str = "* * * * *", time: int | None = None) -> None:
        """Delivers a cron event now and waits for its end; `time` is in milliseconds. The handler's error leaves."""
        await self.host.scheduled(self.worker(), cron, self.clock.now() if time is None else time)

    async def background(self) -> None:
        """Waits for the work that the Worker gave to `waitUntil`; what is stuck is cancelled."""
        await self.worker().context.background.drain(DRAIN_SECONDS)

    async def serve(self) -> str:
        """Serves the same Worker on a free port of loopback as well, and returns the URL."""
        self._check_loop()
        if self._serving is None:
            self._serving = serving = Serving(self.host)
            await serving.attach()
        return self._serving.url

    async def reload(self) -> None:
        """Loads the Worker's files again; storage and alarms are kept. Raises what the new code raises."""
        self._check_loop()
        await self.host.reload()

    def s3(self, binding: str) -> S3Endpoint:
        """The S3 endpoint of a bucket, with `r2="moto"`. Raises LookupError or RuntimeError."""
        self._check_loop()
        return s3_endpoint(self.host, binding)

    def namespaces(self) -> Any:
        return [] if self.host.runtime is None else list(self.host.runtime.namespaces.values())


__all__ = ["S3Endpoint", "WorkerOptions", "WorkerRuntime", "WorkerServer"]
