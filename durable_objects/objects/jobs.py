"""A job queue shared by many machines: one `JobQueue` object for each name.

The verbs are those of `moorage.protocols.jobs.engine`, the same code as of a local queue. What is of its own here is
waiting: a blocked claim sleeps in the object and is woken by a submit, and so is a reader of events.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import Any

from moorage.protocols.jobs import shared, wire
from moorage.protocols.jobs.engine import JobEngine
from moorage.protocols.jobs.errors import Refused
from moorage.protocols.jobs.records import RECORD_PREFIX, RecordName, parse_record
from moorage.protocols.jobs.routes import WAIT_LIMIT_SECONDS
from moorage.protocols.jobs.settings import LIMIT
from moorage.protocols.wire import Reply, reply
from moorage.protocols.wire.jobs import wire_refusal

from ..runtime import DurableObject
from .clock import clock_of
from .jobs_reports import validate
from .jobs_store import QueueStorage, StoredCatalogue, StoredSuppressions, StoredTargets, put_targets, register

log = logging.getLogger("moorage.jobs")

BINDING = "JOB_QUEUE"
REGISTRY = ":queues"
"""Name of the object that knows which queues there are; no name of a queue."""

QUEUEING = frozenset({"submit", "record"})
"""Verbs after which there may be more to claim: a record chains fixers."""
EVENTFUL = frozenset({"cancel", "fail", "disable"})
"""Other verbs that write events; so does a claim."""

ONE_FINDING = frozenset({"resolve", "dismiss", "reopen"})
TARGET_VERBS = frozenset({"submit", "record", "findings", "findings-prune"}) | ONE_FINDING
"""Verbs that look a target up, which may be a canonical record of another object."""

TARGETS_AT_ONCE = 20
"""Targets of a fan-out between two looks at what else there is to do."""

# by name: else SQLite reads every running job for it
NEXT_EXPIRY = """SELECT expires_at AS at FROM state_jobs INDEXED BY ix_state_jobs_expiry
 WHERE status = 'running' AND expires_at IS NOT NULL ORDER BY expires_at LIMIT 1"""
RECORDS_OF_FINDINGS = f"""SELECT DISTINCT node_id FROM state_findings
 WHERE node_id >= '{RECORD_PREFIX}' AND node_id < '{RECORD_PREFIX[:-1]};'"""


def _log(op: str, detail: Mapping[str, Any]) -> None:
    log.info("%s", op, extra={"op": op, **{f"job_{key}": value for key, value in detail.items()}})


class JobQueue(DurableObject):
    """See the module. Every method answers with a `Reply`; a refusal is one too."""

    def __init__(self, ctx: Any, env: Any) -> None:
        super().__init__(ctx, env)
        self._ctx = ctx
        self._env = env
        self._now = clock_of(ctx)
        self._storage = QueueStorage(ctx.storage, str(ctx.id.name))
        self._catalogue = StoredCatalogue(self._storage)
        self._claimers = Waiters()
        self._readers = Waiters()
        self._engine = JobEngine(
            transact=self._storage.transact,
            query=self._storage.query,
            targets=StoredTargets(self._storage),
            catalogue=self._catalogue,
            presence=self._catalogue,
            suppressions=StoredSuppressions(self._storage, self._catalogue.config),
            config=self._catalogue.config,
            validate=validate,
            now=self._now,
            draw=secrets.token_hex,
            log=_log,
        )

    # -- verbs --------------------------------------------------------------------------------------------------

    async def call(self, verb: str, body: dict[str, Any]) -> Reply:
        """Runs a verb of `moorage.protocols.jobs.wire`; 200 with its answer, or the refusal."""
        try:
            self._storage.require()
            engine = self._engine
            if verb in TARGET_VERBS and (paths := self._record_paths(verb, body)):
                records = {path: await self._read_record(name) for path, name in paths.items()}
                engine = replace(engine, targets=StoredTargets(self._storage, records))
            if verb == "submit" and body.get("all") is True:
                # whoever waits for work need not wait for the last target
                return reply(await _gradually(wire.submit_all(engine, body, "http"), self._claimers.wake))
            return reply(wire.call(engine, verb, body, "http"))
        except Refused as error:
            return _refused(error)
        finally:
            if verb in QUEUEING:
                self._claimers.wake()
            if verb in QUEUEING or verb in EVENTFUL:
                self._readers.wake()

    def _record_paths(self, verb: str, body: Mapping[str, Any]) -> dict[str, RecordName]:
        """The canonical records that the verb may ask for."""
        if verb == "submit":
            paths = [body.get("node")]
        elif verb == "record":
            rows = self._storage.rows("SELECT node_id FROM state_jobs WHERE id = ?", str(body.get("id")))
            paths = [row["node_id"] for row in rows]
        elif verb in ONE_FINDING:
            identifier = body.get("id")
            known = isinstance(identifier, int) and abs(identifier) <= LIMIT
            text = "SELECT node_id FROM state_findings WHERE id = ?"
            paths = [row["node_id"] for row in self._storage.rows(text, identifier)] if known else []
        elif isinstance(body.get("node"), str):
            paths = [body["node"]]
        else:
            paths = [row["node_id"] for row in self._storage.rows(RECORDS_OF_FINDINGS)]
        return {path: name for path in paths if isinstance(path, str) and (name := parse_record(path)) is not None}

    async def _read_record(self, name: RecordName) -> str | None:
        """The live record's text, asked of the object that owns it; None when there is none, or no such object."""
        namespace = getattr(self._env, "EXACT_REVIEW_QUEUE", None)
        if namespace is None:
            return None
        answer = await namespace.getByName("global").read_record(name.slug, name.section, name.number)
        content: str | None = answer["value"]["content"] if answer["status"] == 200 else None
        return content

    async def install(self, body: dict[str, Any]) -> Reply:
        """Replaces extensions, skills and settings. Queued jobs of what is gone stay: their content is rendered."""
        try:
            wire.parse(body, shared.InstallBody).check()
        except Refused as error:
            return _refused(error)
        namespace, name = getattr(self._env, BINDING, None), self._ctx.id.name
        if namespace is not None and name is not None:
            await namespace.getByName(REGISTRY).register(name)
        return self._store(body, shared.InstallBody, self._catalogue.install, lambda _: self._installed())

    def _installed(self) -> dict[str, Any]:
        extensions = self._catalogue.all()
        problems = [f"{extension.id}: {extension.problem}" for extension in extensions if extension.problem]
        return {"extensions": len(extensions), "problems": problems}

    async def targets(self, body: dict[str, Any]) -> Reply:
        """Adds, replaces or forgets targets."""
        return self._store(body, shared.TargetsBody, put_targets, lambda count: {"targets": count})

    async def agent(self, body: dict[str, Any]) -> Reply:
        """An agent says that it processes the queue."""
        return self._store(
            body, shared.AgentBody, self._catalogue.announce, lambda _: {"state": self._catalogue.state()}
        )

    def _store(
        self,
        body: dict[str, Any],
        kind: type[Any],
        steps: Callable[[Any], Any],
        answer: Callable[[Any], dict[str, Any]],
    ) -> Reply:
        try:
            return reply(answer(self._storage.store(steps(wire.parse(body, kind)))))
        except Refused as error:
            return _refused(error)

    # -- the registry -------------------------------------------------------------------------------------------

    async def register(self, name: str) -> None:
        """Of the object `REGISTRY`: remembers a queue that something was installed in."""
        self._storage.store(register(name))

    async def knows(self, name: str) -> bool:
        """Of the object `REGISTRY`: whether there is such a queue.

        Who may record needs no signature, so a name that nobody installed must not make an object, that is a file.
        """
        return self._storage.made and bool(self._storage.rows("SELECT name FROM known_queues WHERE name = ?", name))

    # -- waiting ------------------------------------------------------------------------------------------------

    async def claim(self, body: dict[str, Any], token: str) -> Reply:
        """Claims; with `waitSeconds` waits for a job, woken by whatever changes the queue.

        While it waits, expired jobs are reaped at their expiry, and every `interval` seconds if that is given.
        `abandon(token)` ends the wait without a claim: a job must not go to a caller who has hung up.
        """
        try:
            self._storage.require()
            wanted: shared.HeldClaimBody = wire.parse(body, shared.HeldClaimBody)
            deadline = self._now() + int(min(wanted.wait_seconds, WAIT_LIMIT_SECONDS) * 1000)
            due = False
            while True:
                answer = wire.call(self._engine, "claim", {"filter": wanted.filter}, "http")
                if due:
                    # it may have reaped, which readers are not to learn of when this wait is over
                    self._readers.wake()
                left = deadline - self._now()
                if answer["job"] is not None or left <= 0:
                    return reply(answer)
                pause = min(left, self._until_reap(wanted.interval))
                due = pause < left
                if not await self._claimers.sleep(self._ctx, token, pause):
                    return reply(answer)
        except Refused as error:
            return _refused(error)
        finally:
            self._readers.wake()

    def _until_reap(self, interval: int | None) -> int:
        """Milliseconds to the next moment at which a reap has something to do."""
        rows = self._storage.rows(NEXT_EXPIRY)
        expiry = rows[0]["at"] if rows else None
        pauses = [WAIT_LIMIT_SECONDS * 1000]
        if interval is not None:
            pauses.append(interval * 1000)
        if expiry is not None:
            pauses.append(max(1, expiry - self._now() + 1))
        return min(pauses)

    async def abandon(self, token: str) -> None:
        """Ends the wait of a caller who has hung up."""
        self._claimers.abandon(token)
        self._readers.abandon(token)

    async def events(self, after: int, wait_seconds: float, token: str) -> Reply:
        """Events past a number, waiting that long for the first one; `last` is the number to go on from.

        `after` -1 asks for the newest number alone.
        """
        try:
            self._storage.require()
        except Refused as error:
            return _refused(error)
        if after < 0:
            rows = self._storage.rows("SELECT coalesce(max(seq), 0) AS seq FROM state_events")
            return reply({"events": [], "last": rows[0]["seq"]})
        deadline = self._now() + int(wait_seconds * 1000)
        while True:
            found = wire.call(self._engine, "events", {"after": after}, "http")["events"]
            left = deadline - self._now()
            if found or left <= 0 or not await self._readers.sleep(self._ctx, token, left):
                return reply({"events": found, "last": found[-1]["seq"] if found else after})


async def _gradually(work: Generator[None, None, dict[str, Any]], pause: Callable[[], None]) -> dict[str, Any]:
    """Runs a fan-out a few targets at a time; after each lot `pause` is called, and others are served."""
    while True:
        for _ in range(TARGETS_AT_ONCE):
            try:
                next(work)
            except StopIteration as stop:
                answer: dict[str, Any] = stop.value
                return answer
        pause()
        await asyncio.sleep(0)


class Waiters:
    """Callers that sleep until something changes, by their tokens."""

    def __init__(self) -> None:
        self._futures: dict[str, asyncio.Future[bool]] = {}
        self._gone: set[str] = set()

    async def sleep(self, ctx: Any, token: str, milliseconds: int) -> bool:
        """Waits for a change, at most that long; False when the caller has hung up."""
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._futures[token] = waiter
        timer = _later(ctx, milliseconds / 1000, lambda: _resolve(waiter, True))
        try:
            # who hung up after the wake and before it was heard is gone all the same
            return await waiter and token not in self._gone
        finally:
            timer.cancel()
            self._gone.discard(token)
            if self._futures.get(token) is waiter:
                del self._futures[token]

    def wake(self) -> None:
        """Wakes everybody, in the order in which they came."""
        for waiter in list(self._futures.values()):
            _resolve(waiter, True)

    def abandon(self, token: str) -> None:
        """Ends one wait."""
        waiter = self._futures.get(token)
        if waiter is not None:
            self._gone.add(token)
            _resolve(waiter, False)


def _resolve(waiter: asyncio.Future[bool], value: bool) -> None:
    if not waiter.done():
        waiter.set_result(value)


def _later(ctx: Any, seconds: float, callback: Callable[[], object]) -> Any:
    clock = getattr(ctx, "clock", None)
    if clock is not None:
        return clock.call_later(seconds, callback)
    return asyncio.get_running_loop().call_later(seconds, callback)


def _refused(error: Refused) -> Reply:
    refusal = wire_refusal(error)
    return {"status": refusal.status, "value": refusal.body()}
