"""One live instance of an object: gate, database, events and their answers, its end (semantics 2 to 5)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
import sqlite3
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from . import gate as gates
from .alarms import HANDLER_LIMIT, AlarmInvocationInfo, AlarmOutcome, AlarmSlot
from .database import Database
from .errors import DurableObjectAbort, DurableObjectError, across_boundary, escaped, reset_error
from .gate import MAX_DEPTH, Gate, Section, SectionResult
from .ids import DurableObjectId
from .state import DurableObjectState
from .websockets.end import SocketEnd

if TYPE_CHECKING:
    from .namespace import DurableObjectNamespace

BLOCK_LIMIT = 30.0
BLOCK_TIMED_OUT = (
    "A call to blockConcurrencyWhile() in a Durable Object waited for too long. The call was canceled and the "
    "Durable Object was reset."
)
ABORTED = "Application called abort() to reset Durable Object."
CONSTRAINTS = (
    "Durable Object was reset and rolled back to its last known good state because the application left the database "
    "in a state where constraints were violated: "
)

_log = logging.getLogger("moorage.runtime")


class Bond:
    """What stubs keep of the instance they were bound to: only the error that broke it, if one did."""

    __slots__ = ("error",)

    def __init__(self) -> None:
        self.error: Exception | None = None


class Instance:
    """Built by the first event, dropped after ten idle seconds, an abort, or a failed commit."""

    def __init__(self, namespace: DurableObjectNamespace, object_id: DurableObjectId, database: Database) -> None:
        self.namespace = namespace
        self.id = object_id
        self.clock = namespace.runtime.clock
        self.loop = asyncio.get_running_loop()
        self.gate = Gate()
        self.database = database
        self.alarm = AlarmSlot(self)
        self.bond = Bond()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.answers: set[asyncio.Future[Any]] = set()
        self.sockets: set[SocketEnd] = set()
        self.dead: BaseException | None = None
        self.object: Any = None
        self.state: DurableObjectState | None = None
        self.active = 0
        self.idle_since = self.clock.now()
        # The thread that opens the file, and whether the instance counts among the open files.
        self.opening: Future[None] | None = None
        self.counted = False
        self._idle_timer: Any = None
        self._savepoints = 0
        self._thread = namespace.runtime.thread
        database.on_dirty = self._schedule_commit
        database.on_failure = self._commit_failed
        database.before_commit = self.alarm.before_commit
        database.after_commit = self.alarm.after_commit

    # Doors: every way out of, or into the storage of, the object checks that the instance lives.

    def check(self) -> None:
        """Raises what broke the instance, if it is broken; RuntimeError from a foreign thread."""
        if self.dead is not None:
            if gates.current is not None and gates.current.owner is self:
                raise DurableObjectAbort("the instance was reset")
            raise self.bond.error or DurableObjectError("the instance is gone")
        if self._thread is not None and self._thread != get_ident():
            raise RuntimeError("a Durable Object's storage may only be used on the event loop's thread")

    def next_savepoint(self) -> int:
        """Returns a number for a savepoint's name."""
        self._savepoints += 1
        return self._savepoints

    # Life.

    def boot(self) -> None:
        """Starts opening and constructing; events that arrive meanwhile wait at the gate, in order."""
        section = Section(None)
        self.gate.enter(section)
        self.active += 1
        space = self.namespace
        gates.start(self.gate, self, section, space.drive(self._boot(section)), self.loop, space.new_context())

    async def _boot(self, section: Section) -> None:
        try:
            await self.namespace.open_database(self)
            self.alarm.reconcile()
            self.state = DurableObjectState(self)
            self.object = self.namespace.construct(self.state)
        except BaseException as error:
            if self.dead is not None:
                raise
            self.reset(error if isinstance(error, Exception) else escaped(error))
        finally:
            self._done()
            if self.dead is None:
                self.gate.leave(section)

    def _done(self) -> None:
        self.active -= 1
        if self.active == 0 and self.dead is None:
            self.idle_since = self.clock.now()
            if self.namespace.runtime.crowded:
                self.loop.call_soon(self.namespace.evict, self)
            if self._idle_timer is None:
                self._arm_idle(self.namespace.runtime.idle_seconds)

    def _arm_idle(self, delay: float) -> None:
        self._idle_timer = self.clock.call_later(delay, self._idle)

    def _idle(self) -> None:
        self._idle_timer = None
        if self.dead is not None or self.active:
            return
        left = self.namespace.runtime.idle_seconds - (self.clock.now() - self.idle_since) / 1000
        if left > 0:
            self._arm_idle(left)
        else:
            self.namespace.evict(self)
            if self.dead is None:
                self._arm_idle(self.namespace.runtime.idle_seconds)

    @property
    def evictable(self) -> bool:
        """Whether nothing runs in it and nothing waits for it."""
        idle = self.dead is None and self.active == 0 and self.gate.top is None
        return idle and self.database.clean and not self.database.in_transaction

    def stop(self) -> None:
        """Ends the instance silently (eviction): background tasks are dropped, storage is kept.

        Calls that are still running, when the runtime closes, get an error.
        """
        self.database.commit_implicit()
        if self.dead is not None:
            return
        self._end(DurableObjectError("the instance was evicted"))
        answers, self.answers = self.answers, set()
        for waiting in answers:
            if not waiting.done():
                _fail(waiting, DurableObjectError("the runtime was closed before the call was finished"))

    def _end(self, error: BaseException) -> None:
        self.dead = error
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        self.gate.close()
        for end in list(self.sockets):
            end.abandon()
        self.sockets.clear()
        for task in list(self.tasks):
            if task is not asyncio.current_task(self.loop):
                task.cancel()

    def reset(self, error: BaseException, answer: Exception | None = None) -> None:
        """Ends the instance because of `error`: open transactions are undone, every caller gets the error.

        `answer` replaces what callers get; the default is `error`, flagged `durableObjectReset`.
        """
        if self.dead is not None:
            return
        self.bond.error = answer or reset_error(error)
        self._end(error)
        self.namespace.drop_sockets(self)
        answers, self.answers = self.answers, set()
        for waiting in answers:
            if not waiting.done():
                _fail(waiting, self.bond.error)
        if self.database.connection is not None:
            self.database.rollback_all(self.bond.error)
        self.namespace.forget(self)

    def abort(self, reason: Any = None) -> None:
        """`ctx.abort()`: ends the instance at once; no further line of the running code has an effect outside it."""
        message = ABORTED if reason is None else str(reason)
        self.reset(reason if isinstance(reason, Exception) else DurableObjectError(message))
        raise DurableObjectAbort(message)

    def internal_error(self, error: BaseException) -> None:
        """Resets the instance with an opaque text; the log has the cause under the same reference."""
        reference = secrets.token_hex(12)
        _log.error("internal error; reference = %s: %s", reference, error)
        self.reset(DurableObjectError(f"internal error; reference = {reference}"))
        raise DurableObjectAbort(str(error))

    # Commits.

    def _schedule_commit(self) -> None:
        self.loop.call_soon(self.database.commit_implicit)

    def _commit_failed(self, error: BaseException) -> None:
        if isinstance(error, sqlite3.IntegrityError):
            from .sql import describe

            plain = DurableObjectError(CONSTRAINTS + describe(error))
            self.reset(plain, plain)
        elif isinstance(error, sqlite3.Error):
            from .sql import describe

            self.reset(DurableObjectError(f"Durable Object storage failed: {describe(error)}"))
        else:
            self.reset(DurableObjectError(f"Durable Object storage could not be made durable: {error}"))

    def sync(self) -> Awaitable[None]:
        """Commits and returns a future that is done once everything written so far is durable."""
        self.database.commit_implicit()
        done: asyncio.Future[None] = self.loop.create_future()

        def begin() -> None:
            # looked up now: inside `transactionSync` the commit was put off, and has been made since
            self.database.when_durable(self.database.committed, lambda error: _settle(done, error))

        self.loop.call_soon(begin)
        return done

    def when_clean(self, callback: Callable[[BaseException | None], None]) -> None:
        """The output gate: calls back when everything that holds it is durable, or with the error."""
        if self.dead is not None:
            callback(self.bond.error or self.dead)
        elif self.database.clean:
            callback(None)
        else:
            self.database.commit_implicit()
            if self.dead is not None:
                callback(self.bond.error or self.dead)
            else:
                self.database.when_durable(self.database.hold, callback)

    def delete_all(self) -> None:
        """Removes everything the file holds (semantics 8.9)."""
        kept = None if self.namespace.delete_all_deletes_alarm else self.alarm.raw()
        self.database.delete_all(lambda: self.alarm.restore(kept))

    # Critical sections.

    def critical_section(self, body: Callable[[], Awaitable[Any]], *, resets: bool) -> Awaitable[Any]:
        """Runs `body` while no event that it did not start is delivered; the section is entered at the call.

        With `resets`, an error in it resets the instance. Longer than 30 s resets it in any case (semantics 4).
        """
        turn = gates.current
        parent = turn.section if turn is not None and turn.owner is self else None
        section = Section(parent)
        if section.depth > MAX_DEPTH:
            raise DurableObjectError(f"blockConcurrencyWhile() calls are nested too deeply: at most {MAX_DEPTH}")
        result: asyncio.Future[Any] = self.loop.create_future()
        result.add_done_callback(lambda future: future.cancelled() or future.exception())
        timer: Any = None

        async def run() -> None:
            try:
                value = await body()
            except BaseException as raised:
                timer.cancel()
                if self.dead is not None and not isinstance(raised, Exception):
                    raise
                error = raised if isinstance(raised, Exception) else escaped(raised)
                if resets or self.dead is not None:
                    self.reset(error)
                    raise DurableObjectAbort(str(error)) from None
                _settle(result, error)
            else:
                timer.cancel()
                if not result.done():
                    result.set_result(value)
            # Whoever awaits the result is woken first, by its future; then the section ends for the others.
            self.loop.call_soon(self.gate.leave, section)

        def begin() -> None:
            nonlocal timer
            timer = self.clock.call_later(BLOCK_LIMIT, timed_out)
            gates.start(self.gate, self, section, self.namespace.drive(run()), self.loop)

        def timed_out() -> None:
            self.reset(DurableObjectError(BLOCK_TIMED_OUT, overloaded=True))

        section.started = begin
        self.gate.enter(section)
        return SectionResult(section, result)

    # Events.

    def event(self, handler: Callable[[], Any], finish: Callable[[Any], Any]) -> asyncio.Future[Any]:
        """Delivers an event: runs `handler()` behind the gate and returns a future of `finish(its value)`.

        The future is done when the answer may leave: everything written before it is durable. Its error counts as
        read: a caller need not wait for it.
        """
        return self.deliver(handler, finish)[0]

    def deliver(
        self, handler: Callable[[], Any], finish: Callable[[Any], Any]
    ) -> tuple[asyncio.Future[Any], asyncio.Future[Any]]:
        """Like `event`; returns the task that runs the handler, too."""
        answer: asyncio.Future[Any] = self.loop.create_future()
        if self.dead is not None:
            _fail(answer, self.bond.error or DurableObjectError("the instance is gone"))
            return answer, answer
        self.active += 1
        self.answers.add(answer)
        space = self.namespace
        coroutine = space.drive(self._handle(handler, finish, answer))
        return answer, gates.start(self.gate, self, None, coroutine, self.loop, space.new_context())

    def release(self) -> None:
        """Something that kept the instance in memory has ended."""
        self._done()

    async def _handle(
        self, handler: Callable[[], Any], finish: Callable[[Any], Any], answer: asyncio.Future[Any]
    ) -> None:
        error: Exception | None = None
        value: Any = None
        try:
            value = handler()
            while hasattr(value, "__await__"):  # what is returned unawaited is awaited, as promises are
                value = await value
            value = finish(value)
        except BaseException as raised:
            if self.dead is not None:
                raise
            error = across_boundary(raised if isinstance(raised, Exception) else escaped(raised))
            # The caller's traceback goes on with the object's own lines; without this frame there is no cycle.
            trace = raised.__traceback__
            error.__cause__ = raised.with_traceback(None if trace is None else trace.tb_next)
            del trace
            _log.debug("an event of %s failed", self.id, exc_info=raised)
        self._answer(answer, value, error)

    def _answer(self, answer: asyncio.Future[Any], value: Any, error: Exception | None) -> None:
        if self.database.clean:
            self._leave(answer, value, error)
        else:
            self.database.when_durable(self.database.hold, partial(self._leave, answer, value, error))

    def _leave(
        self, answer: asyncio.Future[Any], value: Any, error: Exception | None, failure: BaseException | None = None
    ) -> None:
        self.answers.discard(answer)
        if not answer.done():
            if failure is not None:
                _fail(answer, self.bond.error or failure)
            elif error is not None:
                _fail(answer, error)
            else:
                answer.set_result(value)
        self._done()

    def wait_until(self, awaitable: Awaitable[Any]) -> None:
        """Keeps the instance alive until `awaitable` is done; its error is nobody's (semantics 2.5)."""
        self.active += 1
        turn = gates.current
        section = turn.section if turn is not None and turn.owner is self else None
        coroutine = awaitable if inspect.iscoroutine(awaitable) else _await(awaitable)

        def ended(task: asyncio.Task[Any]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                _log.warning("waitUntil() work of %s failed: %r", self.id, error, exc_info=error)
            self._done()

        gates.start(self.gate, self, section, coroutine, self.loop).add_done_callback(ended)

    # Sockets taken by `accept()`: they keep the instance in memory until they are closed (semantics 2.3).

    def hold_socket(self, end: SocketEnd) -> None:
        """An open socket begins to keep the instance."""
        self.sockets.add(end)
        self.active += 1

    def drop_socket(self, end: SocketEnd) -> None:
        """The peer of a socket has closed."""
        if end in self.sockets:
            self.sockets.discard(end)
            self._done()

    # Alarms.

    def run_alarm(self, attempts: int, ended: Callable[[AlarmOutcome], None]) -> None:
        """Delivers the alarm event; `ended` is told the outcome once what the handler wrote is durable."""
        fired: int | None = None

        async def handler() -> bool:
            nonlocal fired
            value = self.alarm.raw()
            now = self.clock.now()
            due = value is not None and value // 1_000_000 <= now
            if value is None or (not due and attempts == 0):
                self.alarm.reconcile()  # it was removed or moved later since the index was written
                return True
            fired = value if due else None
            self.alarm.firing = fired
            info = AlarmInvocationInfo(attempts, attempts > 0, value // 1_000_000)
            limit = self.clock.call_later(HANDLER_LIMIT, too_long)
            try:
                await self.namespace.call_alarm(self.object, info)
            except Exception as error:
                changed = self.alarm.raw() != fired
                self.alarm.firing = None
                _log.warning("alarm() of %s failed: %r", self.id, error, exc_info=error)
                return changed and fired is not None
            finally:
                limit.cancel()
            if fired is not None and self.alarm.raw() == fired:
                self.alarm.set(None)
            self.alarm.firing = None
            return True

        def too_long() -> None:
            self.reset(DurableObjectError("alarm() ran for more than 15 minutes; the Durable Object was reset."))

        def done(answer: asyncio.Future[Any]) -> None:
            error = None if answer.cancelled() else answer.exception()
            if answer.cancelled():
                return
            if error is None:
                ended(AlarmOutcome(retry=not answer.result(), fired=fired))
            else:
                counted = not isinstance(self.dead, sqlite3.Error | OSError)
                ended(AlarmOutcome(retry=True, counted=counted, fired=fired))

        self.event(handler, lambda value: value).add_done_callback(done)


def _fail(answer: asyncio.Future[Any], error: BaseException) -> None:
    answer.set_exception(error)
    answer.exception()  # read: nobody has to await the answer, and a callback for it would cost every call


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _settle(future: asyncio.Future[Any], error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
