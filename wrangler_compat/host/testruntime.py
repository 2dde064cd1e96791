"""Objects under test: a clock set by hand, eviction and alarms at will, the way into an instance, failing syncs."""

import asyncio
import datetime
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from moorage.durable_objects.runtime import DurableObjectId, DurableObjectNamespace, Runtime, RuntimeSettings
from moorage.durable_objects.runtime.testing import ControlledLog, ManualClock, settle

STUCK_SECONDS: Final = 10.0
_ROUNDS: Final = 40


class HandSetClock(ManualClock):
    """Stands still until `advance`, which lets everything settle at each timer on the way."""

    def __init__(self, settled: Callable[[], Any]) -> None:
        super().__init__()
        self._settled = settled

    async def advance(self, milliseconds: int) -> None:
        """Moves the clock on by `milliseconds`; what became due on the way has run when this returns.

        Raises ValueError for a negative step.
        """
        if milliseconds < 0:
            raise ValueError("clocks do not go back: the step must be 0 milliseconds or more")
        target = self.now() + milliseconds
        await self._settled()
        while (due := self.next_timer()) is not None and due <= target:
            await super().advance(max(0, due - self.now()))
            await self._settled()
        await super().advance(target - self.now())


class ObjectsUnderTest:
    """What a test may do to the objects of a runtime. Stubs are those of `env.NS.getByName(…)`."""

    def __init__(self) -> None:
        self.clock = HandSetClock(self.settle)
        self.log = ControlledLog()
        self._holding = False

    def new_runtime(self, folder: Path, max_objects: int, idle_seconds: float) -> Runtime:
        """Returns a runtime with this clock and this commit log; its jitter is the same in every run."""
        settings = RuntimeSettings(idle_seconds=idle_seconds, max_open=max_objects)
        return Runtime(folder, clock=self.clock, settings=settings, log=self.log, rng=random.Random(0))

    def namespaces(self) -> Iterable[DurableObjectNamespace]:
        """The namespaces of the runtime."""
        raise NotImplementedError

    # Time.

    async def advance(self, step: int | float | datetime.timedelta) -> None:
        """Moves the clock on by `step` milliseconds (or a timedelta); alarms, crons and evictions that became due
        have run when this returns.
        """
        milliseconds = step.total_seconds() * 1000 if isinstance(step, datetime.timedelta) else step
        await self.clock.advance(round(milliseconds))

    async def settle(self) -> None:
        """Lets everything go on that does not wait for the clock, the test or a held sync.

        Raises TimeoutError when an alarm's handler or an opening takes ten seconds of real time.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + STUCK_SECONDS
        while True:
            await settle(_ROUNDS)
            busy = self._busy()
            if busy is None:
                return
            if loop.time() > end:
                raise TimeoutError(f"after {STUCK_SECONDS:.0f} s {busy}")
            await asyncio.sleep(0.001)  # files are opened and closed in threads

    def _busy(self) -> str | None:
        for namespace in self.namespaces():
            if namespace._closing:
                return f"an object of {namespace.unique_key} is still being closed"
            for instance in namespace.live.values():
                if instance.database.connection is None and instance.dead is None:
                    return f"an object of {namespace.unique_key} is still being opened"
            if namespace.alarms.running and not self._holding:
                return f"an alarm of {namespace.unique_key} still runs"
        return None

    # Alarms.

    async def alarm(self, stub: Any) -> int | None:
        """Returns when the object's alarm is due, in milliseconds since 1970; None without one."""
        return await self.run_in(stub, lambda _, ctx: ctx.storage.getAlarm())  # type: ignore[no-any-return]

    async def run_alarm(self, stub: Any) -> bool:
        """Runs the object's alarm now, whenever it is due, or its waiting retry; False when none is set.

        The clock stands still, and the handler is told the present time as the time it was set for. Raises what the
        handler raises; the retry that follows is then pending, as always.
        """
        namespace, object_id = stub._namespace, stub._id
        errors: list[BaseException] = []
        call = namespace.call_alarm

        async def watched(target: Any, info: Any) -> None:
            try:
                await call(target, info)
            except BaseException as error:
                errors.append(error)
                raise

        # not by its instance's `alarm`, which shows none while it runs
        due = await self.run_in(stub, lambda _, ctx: ctx._instance.alarm.raw())
        if due is None:
            return False
        namespace.call_alarm = watched
        try:
            if not namespace.alarms.hurry(object_id):
                now = self.clock.now()
                if due // 1_000_000 > now:
                    await self.run_in(stub, lambda _, ctx: ctx._instance.alarm.set(now))
                await self.advance(0)
            await self.settle()
        finally:
            del namespace.call_alarm
        if errors:
            raise errors[0]
        return True

    # Instances.

    async def run_in(self, stub: Any, function: Callable[..., Any]) -> Any:
        """Runs `function(instance)` or `function(instance, ctx)`, sync or async, as an event of the object.

        Returns its value as it is, no copy. An object that was evicted is built first.
        """
        instance = stub._namespace.instance(stub._id)

        def call() -> Any:
            return stub._namespace.runtime.call_relaxed(function, instance.object, instance.state)

        return await instance.event(call, lambda value: value)

    async def instance(self, stub: Any) -> Any:
        """Returns the object itself, of the Worker's own class, building it when it sleeps."""
        return await self.run_in(stub, lambda instance: instance)

    async def storage(self, stub: Any) -> Any:
        """Returns the object's `ctx.storage`; it works until the object is evicted or reset."""
        return await self.run_in(stub, lambda _, ctx: ctx.storage)

    def live(self, stub: Any) -> Any:
        """Returns the object in memory, or None when it sleeps; never builds one."""
        found = stub._namespace.live.get(str(stub._id))
        return None if found is None else found.object

    def object_ids(self, namespace: DurableObjectNamespace) -> list[DurableObjectId]:
        """Returns the ids of every object of a namespace that is live or has a file, in order of their digits."""
        found = set(namespace.live)
        if namespace.folder is not None and Path(namespace.folder).is_dir():
            found |= {path.stem for path in Path(namespace.folder).glob("*.sqlite") if len(path.stem) == 64}
        return [namespace.idFromString(key) for key in sorted(found)]

    async def evict(self, stub: Any) -> bool:
        """Drops the object from memory, as ten idle seconds would; False when it slept already.

        Its hibernating sockets stay open. Raises RuntimeError while requests, `waitUntil` work or plain sockets keep
        it.
        """
        await self.settle()
        instance = stub._namespace.live.get(str(stub._id))
        if instance is None:
            return False
        self._drop(stub._namespace, instance)
        await self.settle()
        return True

    async def evict_all(self) -> int:
        """Drops every object from memory; returns how many. Raises RuntimeError for one that is kept."""
        await self.settle()
        live = [(namespace, instance) for namespace in self.namespaces() for instance in namespace.live.values()]
        for namespace, instance in live:
            self._drop(namespace, instance)
        await self.settle()
        return len(live)

    def _drop(self, namespace: DurableObjectNamespace, instance: Any) -> None:
        if not instance.evictable:
            name = instance.id.name or str(instance.id)
            raise RuntimeError(
                f"{namespace.unique_key} {name!r} cannot be evicted: requests, waitUntil work, open plain WebSockets "
                "or held syncs keep it"
            )
        namespace.evict(instance)

    # Faults.

    def fail_next_sync(self, error: BaseException | None = None) -> None:
        """The next commit cannot be made durable: its object is reset, and its callers get an error."""
        self.log.fail(error or OSError(5, "Input/output error"))

    def hold_syncs(self) -> None:
        """No commit becomes durable, and so no answer leaves an object that wrote, until `release_syncs()`."""
        self._holding = True
        self.log.hold()

    def release_syncs(self) -> None:
        """Lets held commits through."""
        self._holding = False
        self.log.release()


__all__ = ["HandSetClock", "ObjectsUnderTest"]
