"""The surroundings of a job sequence where the queue is a `JobQueue` object: the same command, through `RemoteQueue`.

The object runs in the real runtime, in a loop of its own thread; only HTTP is left out between client and object.
"""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from moorage.clients.jobs.environment import Backend, Environment, RemoteBackend
from moorage.clients.jobs.remote import RemoteQueue
from moorage.clients.jobs.transport import refusal
from moorage.clients.loop import LoopThread
from moorage.durable_objects.objects.jobs import JobQueue
from moorage.durable_objects.runtime.testing import ManualClock, memory_runtime
from moorage.worker.routes.jobs import STORES

from .jobs_world import TABLES, Row, World, camel

DIFFERENT = {
    "submit-drift": "bodies are pushed, so a target does not drift",
    "submit-unreadable": "bodies are pushed",
    "submit-force-does-not-skip-drift": "bodies are pushed",
    "auto-fix-drift": "bodies are pushed",
    "all-mixed": "bodies are pushed",
    "all-removed-file": "bodies are pushed",
    "submit-agent-gate": "a nodeless probe passes the gate over HTTP (spec 7, step 4)",
    "list-filters": "an unknown status is refused over HTTP (spec 6)",
}
"""Sequences that a shared queue answers otherwise, and why."""


class OpenQueue(JobQueue):
    """The object, with its tables in the open."""

    async def dump(self, table: str) -> list[Row]:
        return self._storage.rows(f"SELECT * FROM {table} ORDER BY rowid") if self._storage.made else []

    async def run(self, text: str, bindings: list[Any]) -> None:
        self._storage.rows(text, *bindings)


class ObjectTransport:
    """Calls the object as the routes do."""

    def __init__(self, loop: LoopThread, stub: Any) -> None:
        self._loop = loop
        self._stub = stub

    def call(self, path: str, body: Mapping[str, Any], **options: Any) -> dict[str, Any]:
        verb = path.rpartition("/")[2]
        reply = self._loop.run(self._ask(verb, dict(body)))
        if reply["status"] != 200:
            raise refusal(reply["value"]) or AssertionError(reply)
        answer: dict[str, Any] = reply["value"]
        return answer

    async def _ask(self, verb: str, body: dict[str, Any]) -> Any:
        if verb == "claim":
            return await self._stub.claim(body, "token")
        if verb in STORES:
            return await getattr(self._stub, verb)(body)
        return await self._stub.call(verb, body)

    def close(self) -> None:
        """Nothing to close: the object stays."""


class SharedWorld(World):
    """As `World`; what is scanned is pushed."""

    def __init__(self, root: Path, fixture: dict[str, Any]) -> None:
        self._loop = LoopThread()
        self._clock = ManualClock(0)
        self._namespace = self._loop.run(self._start())
        self._use("q")
        super().__init__(root, fixture)
        self._queue.call("agent", {})

    async def _start(self) -> Any:
        self._runtime = memory_runtime(clock=self._clock)
        namespace = self._runtime.namespace("w-JobQueue", OpenQueue, SimpleNamespace())
        await self._runtime.start()
        return namespace

    def _use(self, name: str) -> None:
        self._stub = self._namespace.getByName(name)
        self._queue = RemoteQueue(ObjectTransport(self._loop, self._stub), name)  # type: ignore[arg-type]

    def close(self) -> None:
        self._loop.run(self._runtime.close())
        self._loop.close()

    def backend(self, environment: Environment) -> Backend:
        self._clock._now = self.now
        return RemoteBackend(self._queue)

    def scan(self) -> None:
        self._queue.push_extensions(self.folder)
        assert self._queue.push_targets(self.folder)["problems"] == []

    def set_up(self, step: dict[str, Any]) -> None:
        super().set_up(step)
        if step["setup"] == "delete_database":
            # nothing deletes a shared queue; one that nothing was pushed to is as absent
            self._use("another")
        if step["setup"] in ("config", "edit_template", "edit_schema", "bump_version"):
            self._queue.push_extensions(self.folder)
        if step["setup"] == "uninstall_agent":
            self._queue.call("agent", {"version": 0})

    def _execute(self, sql: str, *bindings: Any) -> None:
        self._loop.run(self._run(sql, list(bindings)))

    async def _run(self, sql: str, bindings: list[Any]) -> None:
        await self._stub.run(sql, bindings)

    def tables(self) -> dict[str, dict[tuple[Any, ...], Row]]:
        async def dump() -> list[list[Row]]:
            return [await self._stub.dump(table) for table, _ in TABLES.values()]

        found = self._loop.run(dump())
        return {
            name: {
                tuple(row[part] for part in key): {camel(column): value for column, value in row.items()}
                for row in rows
            }
            for (name, (_, key)), rows in zip(TABLES.items(), found, strict=True)
        }
