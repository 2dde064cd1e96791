"""The runtime of one process: its namespaces, the open files and their limit, the commit log, and the drain."""

import asyncio
import contextlib
import inspect
import logging
import os
import random
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from . import gate as gates
from .awaitables import wake
from .clock import Clock, SystemClock
from .clone import Undefined
from .commitlog import CommitLog, NoSync, WalSync
from .errors import DurableObjectError
from .instance import Instance
from .namespace import DurableObjectNamespace
from .placement import LocalPlacement, Placement

DESCRIPTORS_PER_OBJECT = 4
PLACE_SECONDS = 5.0

_log = logging.getLogger("moorage.runtime")


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """What an operator may set.

    `idle_seconds`: idle time before eviction. `max_open`: open object files, 0 for what the descriptor limit allows
    (at most 1,000). `sync_threads`: threads that sync `-wal` files. `durable`: False gives up the promise that
    answered writes survive a power cut; for measurements.
    """

    idle_seconds: float = 10.0
    max_open: int = 0
    sync_threads: int = 2
    durable: bool = True


class Runtime:
    """Owns every namespace of a process. Make it, add namespaces, `await start()`, and `await close()` at the end.

    `folder` holds the objects' files (`<folder>/do/<worker>-<Class>/<id>.sqlite`); None keeps everything in memory.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None,
        *,
        clock: Clock | None = None,
        settings: RuntimeSettings | None = None,
        log: CommitLog | None = None,
        rng: random.Random | None = None,
        placement: Placement | None = None,
    ) -> None:
        self.folder = None if folder is None else Path(folder)
        self.clock: Clock = clock or SystemClock()
        self.placement: Placement = placement or LocalPlacement()
        self.settings = settings or RuntimeSettings()
        self.idle_seconds = self.settings.idle_seconds
        self.thread: int | None = None
        self.namespaces: dict[str, DurableObjectNamespace] = {}
        self._log = log
        self._rng = rng or random.SystemRandom()
        self._open: OrderedDict[Instance, None] = OrderedDict()
        self._threads = ThreadPoolExecutor(max_workers=4, thread_name_prefix="moorage-open")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        self.max_open = self.settings.max_open or _open_limit()
        self._places = self.max_open
        self._waiting: dict[asyncio.Future[None], None] = {}
        self._last_freed = 0.0  # by the loop's time, as the next
        self._passing_since = -PLACE_SECONDS
        self._passed = 0
        # Whether objects wait for a place and none was idle: whichever becomes idle then goes at once.
        self.crowded = False
        self._factory_before: Any = None
        self.make_request: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any] = _make_request

    @property
    def log(self) -> CommitLog:
        """The commit log. Made with the running loop at first use."""
        if self._log is None:
            if self.folder is None or not self.settings.durable:
                self._log = NoSync()
            else:
                self._log = WalSync(asyncio.get_running_loop(), self.settings.sync_threads)
        return self._log

    def folder_of(self, unique_key: str) -> str | None:
        """Returns the folder of a namespace's files."""
        return None if self.folder is None else str(self.folder / "do" / unique_key)

    def jitter(self) -> float:
        """A random number in 0..1, for retry delays."""
        return self._rng.random()

    def random_bytes(self, count: int) -> bytes:
        """Random bytes for unique ids."""
        return secrets.token_bytes(count)

    def namespace(
        self,
        unique_key: str,
        cls: type[Any],
        env: Any = None,
        *,
        folder: str | None = None,
        sqlite: bool = True,
        delete_all_deletes_alarm: bool = True,
    ) -> DurableObjectNamespace:
        """Adds a namespace; must be called on the loop, before `start()`. See `DurableObjectNamespace`."""
        made = DurableObjectNamespace(
            self,
            unique_key,
            cls,
            env,
            folder=folder,
            sqlite=sqlite,
            delete_all_deletes_alarm=delete_all_deletes_alarm,
        )
        self.namespaces[unique_key] = made
        return made

    async def start(self) -> None:
        """Takes the running loop, opens the alarm indexes, and lets alarms fire.

        Raises OSError or sqlite3.Error, after what was opened is closed again.
        """
        loop = asyncio.get_running_loop()
        self.thread = threading.get_ident()
        self._factory_before = loop.get_task_factory()
        loop.set_task_factory(gates.task_factory)
        try:
            for namespace in self.namespaces.values():
                await self.open_alarms(namespace)
        except BaseException:
            await self.close()
            raise

    async def open_alarms(self, namespace: DurableObjectNamespace) -> None:
        """Opens the alarm index of a namespace and arms its timer; a missing index is read back from the objects."""
        if namespace.folder is None:
            namespace.alarms.open()
        else:
            await self.in_thread(namespace.alarms.open)
            if namespace.alarms.fresh:
                await self.in_thread(namespace.alarms.rebuild, namespace.folder)
        namespace.alarms.start()

    async def quiet(self, seconds: float) -> bool:
        """Waits until no event and no `waitUntil` work runs in any object; False when `seconds` passed before."""
        end = asyncio.get_running_loop().time() + seconds
        while any(instance.active for instance in self._open):
            if asyncio.get_running_loop().time() >= end:
                return False
            await asyncio.sleep(0.005)
        return True

    async def close(self) -> None:
        """Commits, syncs and closes every object. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        for namespace in self.namespaces.values():
            namespace.alarms.stop()
        for namespace in self.namespaces.values():
            await namespace.close()
        if self._log is not None:
            await self._log.close()
        self._threads.shutdown(wait=False)
        loop = asyncio.get_running_loop()
        if loop.get_task_factory() is gates.task_factory:
            loop.set_task_factory(self._factory_before)

    def refuse_when_closed(self) -> None:
        """Raises an error once `close()` has begun."""
        if self._closed:
            raise DurableObjectError("the runtime is closing: no object can be started")

    # Open files: at most `max_open`, the longest unused evicted first.

    def added(self, instance: Instance) -> None:
        """A new instance was started."""
        self._open[instance] = None

    def used(self, instance: Instance) -> None:
        """An instance got an event."""
        if len(self._open) * 2 > self.max_open:
            self._open.move_to_end(instance)

    def removed(self, instance: Instance) -> None:
        """An instance ended. Readers that its code left open are closed: SQLite would keep the file open for them."""
        self._open.pop(instance, None)
        for reader in list(instance.database.cursors):
            reader.close()
        instance.database.cursors.clear()

    async def take_place(self, instance: Instance) -> None:
        """Returns when `instance` may open its file: an idle one goes for it, or it waits for one to become idle.

        Where all wait for one that cannot be opened no place ever comes free: once none has for 5 s a few pass the
        limit, and a few more 5 s later. A place that comes free to somebody else starts the 5 s anew: a slow disk is
        no reason to pass it.
        """
        if self._places <= 0 and not self.crowded:
            self.crowded = not self._evict_one()
        if self._places > 0:
            self._places -= 1
        else:
            await self._wait_for_place()
        instance.counted = True

    async def _wait_for_place(self) -> None:
        loop = asyncio.get_running_loop()
        handed: asyncio.Future[None] = loop.create_future()
        began = loop.time()
        self._waiting[handed] = None
        try:
            while not handed.done():
                given_up = max(began, self._last_freed) + PLACE_SECONDS
                if given_up <= loop.time():
                    if self._may_pass(loop.time()):
                        self._places -= 1
                        break
                    began = loop.time()
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(given_up):
                        await asyncio.shield(handed)
        except BaseException:
            if handed.done():
                self._free_place()
            raise
        finally:
            self._waiting.pop(handed, None)
            self.crowded = self.crowded and bool(self._waiting)

    def _may_pass(self, now: float) -> bool:
        """Whether one more may pass the limit now: an eighth of it in `PLACE_SECONDS`, at least one."""
        if now - self._passing_since >= PLACE_SECONDS:
            _log.warning("more than %d objects are open: none of them has become idle", self.max_open)
            self._passing_since, self._passed = now, 0
        self._passed += 1
        return self._passed <= max(1, self.max_open // 8)

    def give_place(self, instance: Instance) -> None:
        """The file of `instance` is closed."""
        if instance.counted:
            instance.counted = False
            self._free_place()

    def _free_place(self) -> None:
        self._last_freed = asyncio.get_running_loop().time()
        if self._places < 0 or not self._waiting:
            self._places += 1
            return
        handed = next(iter(self._waiting))
        del self._waiting[handed]
        wake(handed)

    def _evict_one(self) -> bool:
        for candidate in self._open:
            if candidate.evictable:
                candidate.namespace.evict(candidate)
                return True
        return False

    # Helpers of the parts.

    async def in_thread(self, function: Callable[..., Any], *args: Any) -> Any:
        """Runs blocking work of the runtime in a thread of its own pool."""
        return await gates.outside(asyncio.wrap_future, self.submit(function, *args))

    def submit(self, function: Callable[..., Any], *args: Any) -> "Future[Any]":
        """Starts blocking work of the runtime in a thread of its own pool."""
        return self._threads.submit(function, *args)

    def plain_task(self, coroutine: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Starts a task that belongs to no object, and keeps it until it ends."""
        task = gates.outside(asyncio.get_running_loop().create_task, coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def call_relaxed(self, handler: Callable[..., Any], *args: Any) -> Any:
        """Calls `handler` with as many of `args` as it declares (python-workers-api 2)."""
        count = _positional(getattr(handler, "__func__", handler), hasattr(handler, "__self__"))
        return handler(*args) if count is None else handler(*args[:count])


@lru_cache(maxsize=1024)
def _positional(function: Callable[..., Any], bound: bool) -> int | None:
    """How many positional arguments `function` takes, without `self`; None for any number."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters):
        return None
    kinds = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return sum(parameter.kind in kinds for parameter in parameters) - (1 if bound else 0)


def _open_limit() -> int:
    """How many object files may be open; the soft descriptor limit is raised first. RuntimeError below 1,024."""
    try:
        import resource
    except ImportError:  # not on this platform: take a number that always fits
        return 100
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 512 + 1000 * DESCRIPTORS_PER_OBJECT
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft < 1024:
        raise RuntimeError(f"at least 1,024 file descriptors are needed, the limit is {soft} (ulimit -n)")
    return max(1, min(1000, (soft - 512) // DESCRIPTORS_PER_OBJECT))


def _make_request(request: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    from .web import Request

    if isinstance(request, Undefined):
        raise TypeError("fetch() takes a Request or a URL")
    if len(args) > 1 or (args and not isinstance(args[0], dict)):
        raise TypeError("fetch() takes a Request or a URL, and options by keyword")
    merged = {**(args[0] if args else {}), **options}
    return request if isinstance(request, Request) and not merged else Request(request, **merged)


__all__ = ["Runtime", "RuntimeSettings"]
