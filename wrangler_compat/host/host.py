"""One process's Workers: loads them, builds their `env`, and delivers events to them."""

import inspect
import logging
import os
import sys
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from contextvars import Context, copy_context
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from moorage.durable_objects.runtime import Clock, DurableObjectNamespace, Runtime, RuntimeSettings, SystemClock
from moorage.durable_objects.runtime.outgoing import gate_open
from moorage.durable_objects.runtime.web import JsList, Request, Response, to_platform

from ..config import Variables, WorkerConfig, load, resolve_variables
from ..workers import lifespan, sockets, switching
from ..workers import outgoing as outgoing_http
from ..workers.calling import call, call_fetch
from ..workers.current import ExecutionContext, WorkerContext, contain, contained, running
from ..workers.discovery import Compatibility, Entrypoints, discover
from . import loader, venvs
from .assets import StaticAssets
from .bindings import BindingError, Buckets, build_env, namespaces
from .crons import Crons, ScheduledController
from .descriptors import raise_limit
from .migrate import apply
from .queues.batch import MessageBatch
from .settings import HostSettings
from .sockets import Couplings
from .statelock import StateLock
from .values import PLAIN_VALUES
from .wiring import Wiring, assets_of

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

# A function of ours in a Worker's main module: called once with `env`, before the first request.
STARTED: Final = "moorage_started"
# From this compatibility date on `deleteAll()` deletes the alarm too (semantics 8.9).
DELETE_ALL_DATE: Final = "2026-02-24"

_log = logging.getLogger("moorage.host")


@dataclass
class Worker:
    """One loaded Worker."""

    config: WorkerConfig
    variables: Variables
    module: ModuleType
    found: Entrypoints
    context: WorkerContext
    own: Mapping[str, DurableObjectNamespace]
    base_context: Context
    crons: Crons | None = None
    assets: StaticAssets | None = None

    @property
    def env(self) -> Any:
        """The bindings."""
        return self.context.env


class Host:
    """The Workers of the folders given; the first one answers the port.

    `mode` is `dev` or `serve`: it decides where variables come from. `start()` loads everything, `reload()` loads the
    code again and keeps storage, `close()` ends. All three are called on the loop that serves.
    """

    def __init__(
        self,
        folders: list[Path],
        settings: HostSettings,
        *,
        mode: str = "serve",
        environment: str | None = None,
        config_file: Path | None = None,
        variables: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        env_files: list[Path] | None = None,
        require_secrets: bool = False,
        clock: Clock | None = None,
    ) -> None:
        self.folders = folders
        self.settings = settings
        self.mode = mode
        self.environment = environment
        self.config_file = config_file
        self.overrides = dict(variables or {})
        self.env_files = env_files
        self.require_secrets = require_secrets
        self.environ: Mapping[str, str] = os.environ if environ is None else environ
        self.clock: Clock = clock or SystemClock()
        self.runtime: Runtime | None = None
        self.wiring: Wiring | None = None
        self.workers: list[Worker] = []
        self.failure: BaseException | None = None
        state = settings.state
        self.buckets = Buckets(settings.r2, state, self.environ, now=self.clock.now)
        self.couplings = Couplings(settings.socket_buffer)
        self._paths = list(sys.path)
        self._lock = StateLock(settings.state)
        self._locked = False

    # Life.

    def configurations(self) -> list[WorkerConfig]:
        """Reads every configuration. Raises ConfigError with all errors of the first broken one; logs warnings."""
        found = []
        for folder in self.folders:
            loaded = load(
                folder,
                config=self.config_file,
                environment=self.environment,
                environ=self.environ,
                follow_redirect=self.mode == "dev",  # what a build tool has made of it (wrangler-config 1)
            )
            config = loaded.require()
            for warning in loaded.report.all_warnings:
                _log.warning("%s: %s", config.path or config.folder, warning.message)
            found.append(config)
        return found

    async def start(self) -> None:
        """Loads and starts every Worker.

        Raises ConfigError, LoadError, BindingError, MigrationError, StateInUse, or what a Worker's module raises when
        it is imported.
        """
        configs = self.configurations()
        raise_limit()
        self.settings.state.mkdir(parents=True, exist_ok=True)
        if not self._locked:
            self._lock.acquire()
            self._locked = True
        self.runtime = runtime = self.new_runtime()
        try:
            for config in configs:
                try:
                    self.workers.append(self._load(runtime, config))
                except BaseException:
                    loader.forget(config)  # its files may be mended before they are loaded again
                    raise
            self.wiring = Wiring(self, runtime)
            known = {worker.config.name: worker.own for worker in self.workers}
            for worker in self.workers:
                await self._bind(worker, known)
            await runtime.start()
            self.wiring.start()
            for worker in self.workers:
                self._start_crons(runtime, worker)
        except BaseException:
            await self._stop()
            raise
        self.failure = None

    def new_runtime(self) -> Runtime:
        """Returns the runtime that `start` uses: the seam for tests, which bring a commit log of their own."""
        return Runtime(
            self.settings.state,
            clock=self.clock,
            settings=RuntimeSettings(
                idle_seconds=self.settings.idle_seconds,
                max_open=self.settings.max_objects,
                sync_threads=self.settings.sync_threads,
                durable=self.settings.durable,
            ),
        )

    def _load(self, runtime: Runtime, config: WorkerConfig) -> Worker:
        compatibility = Compatibility.of(config.compatibility_date, config.compatibility_flags)
        variables = resolve_variables(
            config,
            self.environ,
            mode="dev" if self.mode == "dev" else "serve",
            env_files=self.env_files,
            overrides=self.overrides,
        )
        if variables.missing_secrets and self.require_secrets:
            raise BindingError(f"required secrets are set nowhere: {', '.join(variables.missing_secrets)}")
        for name in variables.missing_secrets:
            _log.warning("the secret %s is required, but set nowhere", name)
        if config.unsupported:
            names = ", ".join(f"{binding.name} ({binding.kind})" for binding in config.unsupported)
            raise BindingError(f"bindings that cannot be served here: {names}")
        context = WorkerContext(None, name=config.name, before_outgoing=gate_open)
        assets = assets_of(config, has_worker=config.main is not None)
        if config.main is None and assets is not None:
            module, found = ModuleType(config.name), Entrypoints()
        else:
            venvs.add(config.folder, self.environ)
            with running(context):
                module = loader.load_main(config)
            found = discover(module, compatibility)
        applied = apply(self.settings.state, config)
        for operation in applied.operations:
            _log.info("migration: %s", operation.describe())
        for warning in applied.warnings:
            _log.warning("%s", warning.message)
        old = config.compatibility_date is not None and config.compatibility_date < DELETE_ALL_DATE
        own = namespaces(runtime, config, found, applied, old)
        for known in config.classes:
            if not known.declared:
                _log.warning("class %s is bound, but no migration declares it: key-value storage only", known.name)
        with running(context):
            base = copy_context()
        return Worker(config, variables, module, found, context, own, base, assets=assets)

    async def _bind(self, worker: Worker, known: Mapping[str, Mapping[str, DurableObjectNamespace]]) -> None:
        values = {name: variable.value for name, variable in worker.variables.values.items()}
        env = await build_env(worker.config, values, worker.own, self.buckets, known, self.more_bindings(worker))
        worker.context.env = env
        for namespace in worker.own.values():
            namespace.env = env
            namespace.context = worker.base_context
            namespace.drive = switching.wrap
            # The platform's wrapper of a Python class answers to every name, so it never misses the handler.
            namespace.has_alarm = True
            if PLAIN_VALUES not in worker.config.compatibility_flags:
                namespace.present = to_platform
                namespace.listed = JsList
        started = getattr(worker.module, STARTED, None)
        if callable(started):
            with running(worker.context):
                value = started(env)
                if inspect.isawaitable(value):
                    await value

    def more_bindings(self, worker: Worker) -> Mapping[str, Any]:
        """Bindings of further kinds: key-value namespaces, databases, queues, services, assets and the like."""
        return {} if self.wiring is None else self.wiring.bindings(worker)

    def _start_crons(self, runtime: Runtime, worker: Worker) -> None:
        if not worker.config.crons:
            return
        if not worker.found.handles("scheduled"):
            _log.warning("%s has cron triggers, but no scheduled handler", worker.config.name)
            return

        async def fire(cron: str, moment: int) -> None:
            await self.scheduled(worker, cron, moment)

        worker.crons = Crons(worker.config.crons, self.clock, fire, runtime.plain_task)
        worker.crons.start()

    async def _stop(self) -> None:
        self.couplings.restart()
        for worker in self.workers:
            if worker.crons is not None:
                worker.crons.stop()
        if self.wiring is not None:
            await self.wiring.stop(self.settings.drain_seconds)
            self.wiring = None
        await sockets.close()
        for worker in self.workers:
            await worker.context.background.drain(self.settings.drain_seconds)
        if self.runtime is not None and not await self.runtime.quiet(self.settings.drain_seconds):
            _log.warning(
                "objects were still busy after %.0f s; what they had not finished is dropped",
                self.settings.drain_seconds,
            )
        await lifespan.shutdown_all()
        if self.runtime is not None:
            await self.runtime.close()
            self.runtime = None
        for worker in self.workers:
            loader.forget(worker.config)
        self.workers = []
        sys.path[:] = self._paths

    async def reload(self) -> None:
        """Ends the Workers, reads their files again, and starts them. Storage and alarms are kept.

        When the new code cannot be started the error is kept in `failure`, and requests are answered with it.
        """
        await self._stop()
        try:
            await self.start()
        except Exception as error:
            self.failure = error
            raise

    async def close(self) -> None:
        """Finishes background work, commits and closes every object and bucket."""
        await self._stop()
        await outgoing_http.close()
        await self.buckets.close()
        self._lock.release()
        self._locked = False

    # Events.

    def _target(self, worker: Worker, event: str) -> Callable[..., Any] | None:
        name = worker.found.handler_name(event)
        if name is not None and worker.found.default is not None:
            instance = worker.found.default(ExecutionContext(worker.context), worker.context.env)
            handler: Callable[..., Any] = getattr(instance, name)
            return handler
        return worker.found.legacy.get(event)

    async def fetch(self, worker: Worker, request: Request) -> Response:
        """Delivers a request to the Worker's static assets or its default entrypoint.

        Whatever the handler raises leaves.
        """
        if worker.assets is not None:
            answer = await worker.assets.first_answer(request)
            if answer is not None:
                return answer
        with running(worker.context):
            target = self._target(worker, "fetch")
            if target is None:
                raise LookupError(f"{worker.config.name} has no fetch handler")
            legacy = worker.found.default is None
            rest = (worker.context.env, ExecutionContext(worker.context)) if legacy else (None, None)
            try:
                return await call_fetch(target, request, *rest)
            except (SystemExit, CancelledError) as error:
                contain(error)

    async def scheduled(self, worker: Worker, cron: str, moment: int) -> None:
        """Delivers a cron event. Raises LookupError without a handler, and whatever the handler raises."""
        with running(worker.context):
            target = self._target(worker, "scheduled")
            if target is None:
                raise LookupError(f"{worker.config.name} has no scheduled handler")
            controller = ScheduledController(cron, moment)
            legacy = worker.found.default is None
            rest = (worker.context.env, ExecutionContext(worker.context)) if legacy else (None, None)
            await contained(call(target, controller, *rest))

    async def queue(self, worker: Worker, batch: MessageBatch) -> None:
        """Delivers a batch of messages. Raises LookupError without a handler, and whatever the handler raises."""
        with running(worker.context):
            target = self._target(worker, "queue")
            if target is None:
                raise LookupError(f"{worker.config.name} has no queue handler")
            legacy = worker.found.default is None
            rest = (worker.context.env, ExecutionContext(worker.context)) if legacy else (None, None)
            await contained(call(target, batch, *rest))
