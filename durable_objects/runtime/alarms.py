"""Alarms: the slot in each object's file, and the durable index that says which objects are due (semantics 10).

An alarm moved earlier enters the index before the object's commit, and the index is synced first; one moved later
leaves after. The index may therefore name a time that is too early, never one that is too late: what is due is looked
up in the object itself before it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from .clock import Clock, TimerHandle
from .commitlog import CommitLog, WalFile
from .database import Database

if TYPE_CHECKING:
    from .instance import Instance
    from .namespace import DurableObjectNamespace

MAX_RETRIES: Final = 6
FIRST_DELAY: Final = 2.0
MAX_UNCOUNTED_BACKOFF: Final = 9
HANDLER_LIMIT: Final = 15 * 60.0
WRITE_AGAIN: Final = 5.0
_NANOSECONDS: Final = 1_000_000
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

_log = logging.getLogger("moorage.runtime.alarms")


@dataclass(frozen=True, slots=True)
class AlarmInvocationInfo:
    """What `alarm(info)` is told: how often it was retried, whether this is a retry, and its time in milliseconds."""

    retryCount: int
    isRetry: bool
    scheduledTime: int

    def __getitem__(self, name: str) -> Any:
        return self.to_py()[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.to_py().get(name, default)

    def to_py(self) -> dict[str, Any]:
        """Returns the three members as a dict."""
        return {"retryCount": self.retryCount, "isRetry": self.isRetry, "scheduledTime": self.scheduledTime}


class AlarmSlot:
    """The alarm that an object's file holds: nanoseconds in `_cf_METADATA`, the digits below a millisecond being a
    counter, so that an alarm set anew to the same millisecond is another value."""

    __slots__ = ("_counter", "_instance", "_later", "firing", "indexed", "touched")

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._counter = 0
        self._later: int | bool | None = False
        self.firing: int | None = None
        self.touched = False
        self.indexed: int | None = None

    def raw(self) -> int | None:
        """Returns the stored nanoseconds, also while the handler of that alarm runs."""
        database = self._instance.database
        if not database.has_table("_cf_METADATA"):
            return None
        row = database.connection.execute("SELECT value FROM _cf_METADATA WHERE key=1").fetchone()
        return None if row is None else int(row[0])

    def get(self) -> int | None:
        """Returns the alarm as `getAlarm()` shows it, in milliseconds."""
        value = self.raw()
        return None if value is None or value == self.firing else value // _NANOSECONDS

    def set(self, milliseconds: int | None, *, confirmed: bool = True) -> None:
        """Stores the alarm, or removes it, in the open transaction."""
        database = self._instance.database
        if milliseconds is None and not database.has_table("_cf_METADATA"):
            return
        database.write(confirmed=confirmed)
        self.touched = True
        if milliseconds is None:
            database.connection.execute("DELETE FROM _cf_METADATA WHERE key=1")
            return
        self._counter = (self._counter + 1) % _NANOSECONDS
        value = milliseconds * _NANOSECONDS + self._counter
        if value == self.raw() or value == self.firing:
            value += 1
        self._store(value)

    def _store(self, value: int) -> None:
        database = self._instance.database
        if not database.has_table("_cf_METADATA"):
            database.connection.execute("CREATE TABLE _cf_METADATA(key INTEGER PRIMARY KEY, value BLOB)")
            database.tables["_cf_METADATA"] = True
        database.connection.execute(
            "INSERT INTO _cf_METADATA(key,value) VALUES(1,?) ON CONFLICT(key) DO UPDATE SET value=excluded.value",
            (value,),
        )

    def restore(self, value: int | None) -> None:
        """After everything was deleted: stores raw nanoseconds again, or, with None, lets the index know.

        The alarm whose handler runs stays that very alarm: it is not to fire anew.
        """
        self.touched = True
        if value is not None:
            self._instance.database.write()
            self._store(value)

    def before_commit(self) -> tuple[WalFile, ...]:
        """Puts an alarm that is earlier than the index knows into the index; returns what must be synced first."""
        if not self.touched:
            return ()
        self.touched = False
        value = self.raw()
        self._later = value
        scheduler = self._instance.namespace.alarms
        if value is not None and (self.indexed is None or value < self.indexed):
            self.indexed = value
            self._later = False
            return scheduler.index(self._instance.id, value)
        return ()

    def after_commit(self) -> None:
        """Once the commit is durable: an alarm moved later, or gone, leaves its old place in the index."""
        if self._later is False:
            return
        value, self._later = self._later, False
        if value != self.indexed:
            self.indexed = None if value is None else int(value)
            self._instance.namespace.alarms.moved(self._instance.id, self.indexed)

    def reconcile(self) -> None:
        """After opening: what the file says is what the index must say."""
        value = self.raw()
        scheduler = self._instance.namespace.alarms
        self.indexed = scheduler.indexed(self._instance.id)
        if value != self.indexed:
            self.indexed = value
            scheduler.moved(self._instance.id, value)


class _Run:
    """An alarm that is running or waits for its retry."""

    __slots__ = ("attempts", "backoff", "failing", "timer", "uncounted")

    def __init__(self) -> None:
        self.attempts = 0
        self.backoff = 0
        self.uncounted = False
        self.timer: TimerHandle | None = None
        self.failing: int | None = None


class AlarmScheduler:
    """The alarms of one namespace: its index, its timer, and its retries."""

    def __init__(
        self,
        namespace: DurableObjectNamespace,
        path: str | None,
        log: CommitLog,
        clock: Clock,
        jitter: Callable[[], float],
    ) -> None:
        self._namespace = namespace
        self._clock = clock
        self._jitter = jitter
        self._log = log
        self._database = Database(path, log)
        self._reopening: asyncio.Task[None] | None = None
        self._timer: TimerHandle | None = None
        self._timer_due: int | None = None
        self._runs: dict[str, _Run] = {}
        # How many of them have a handler that runs. First runs wait for their turn beyond half of the open files.
        self._running = 0
        self._at_once = max(1, namespace.runtime.max_open // 2)
        # What could not be written into the index (a full disk): until it is, these times count and not the index's.
        self._unwritten: dict[str, tuple[Any, int | None]] = {}
        self._again: TimerHandle | None = None
        self._closed = False
        self.fresh = False

    def open(self) -> None:
        """Opens or creates the index (in a thread). Sets `fresh` when there was none, or a damaged one.

        A damaged one is set aside as `alarms.sqlite.damaged`. Raises sqlite3.Error, OSError.
        """
        path = self._database.path
        self.fresh = path is not None and not os.path.exists(path)
        try:
            self._open_index()
        except sqlite3.DatabaseError as error:
            if path is None or getattr(error, "sqlite_errorcode", 0) & 0xFF not in _DAMAGED:
                raise
            _log.error("the alarm index %s is damaged: %s", path, error)
            _set_aside(path)
            self._database = Database(path, self._log)
            self.fresh = True
            self._open_index()

    def _open_index(self) -> None:
        self._database.open()
        try:
            execute = self._database.connection.execute
            execute(
                "CREATE TABLE IF NOT EXISTS _cf_ALARM("
                "actor_id TEXT PRIMARY KEY, scheduled_time INTEGER, actor_name TEXT) WITHOUT ROWID"
            )
            execute("CREATE INDEX IF NOT EXISTS _cf_ALARM_due ON _cf_ALARM(scheduled_time)")
            execute("SELECT actor_id, actor_name FROM _cf_ALARM ORDER BY scheduled_time LIMIT 1").fetchone()
        except sqlite3.Error:
            self._database.connection.close()
            if self._database.wal is not None:
                os.close(self._database.wal.descriptor)
            raise

    def rebuild(self, folder: str) -> None:
        """Reads the alarm of every object file in `folder` into a fresh index (in a thread)."""
        found = []
        for entry in os.scandir(folder):
            digits, dot, ending = entry.name.partition(".")
            if dot and ending == "sqlite" and len(digits) == 64:
                value = alarm_in_file(entry.path)
                if value is not None:
                    found.append((digits, value))
        connection = self._database.connection
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT OR IGNORE INTO _cf_ALARM(actor_id, scheduled_time) VALUES(?,?)", found)
        connection.execute("COMMIT")
        if found:
            _log.warning(
                "the alarm index was missing or damaged: %d alarms were read back from the objects", len(found)
            )

    def start(self) -> None:
        """Arms the timer for the next alarm."""
        self._arm()

    def stop(self) -> None:
        """Stops timers: no alarm fires any more. They stay in the index."""
        self._closed = True
        for timer in (self._timer, self._again):
            if timer is not None:
                timer.cancel()
        for run in self._runs.values():
            if run.timer is not None:
                run.timer.cancel()

    async def close(self) -> None:
        """Stops, and closes the index."""
        self.stop()
        if self._reopening is not None:
            await asyncio.wait([self._reopening])
        await self._database.close()

    # The index.

    def indexed(self, object_id: Any) -> int | None:
        """Returns the indexed nanoseconds of an object, or None."""
        row = self._database.connection.execute(
            "SELECT scheduled_time FROM _cf_ALARM WHERE actor_id=?", (str(object_id),)
        ).fetchone()
        return None if row is None else int(row[0])

    def index(self, object_id: Any, value: int) -> tuple[WalFile, ...]:
        """Writes an earlier time; returns the file that must be synced before the object's own.

        Once a sync of it has failed, commits that need it fail until it is opened anew, which is begun here.
        """
        self._write(object_id, value)
        self._arm_for(value)
        wal = self._database.wal
        if wal is None:
            return ()
        if wal.failed is not None and self._reopening is None and not self._closed:
            self._reopening = self._namespace.runtime.plain_task(self._reopen())
        return (wal,)

    async def _reopen(self) -> None:
        fresh = Database(self._database.path, self._log)
        try:
            await self._namespace.runtime.in_thread(_open_after_failed_sync, fresh)
            before, self._database = self._database, fresh
            await before.close()
        except (sqlite3.Error, OSError) as error:
            _log.error("the alarm index cannot be opened anew after a failed sync, will be tried again: %s", error)
        finally:
            self._reopening = None

    def moved(self, object_id: Any, value: int | None) -> None:
        """Writes a later time, or removes the entry. Removing it cancels a pending retry (semantics 10.11).

        Never raises: the object's own commit is durable already, and an index that names too early a time is right.
        """
        try:
            self._write(object_id, value)
        except sqlite3.Error as error:
            _log.warning("the alarm index cannot be written, will be tried again: %s", error)
            self._unwritten[str(object_id)] = (object_id, value)
            if self._again is None and not self._closed:
                self._again = self._clock.call_later(WRITE_AGAIN, self._write_again)
        if value is None:
            run = self._runs.get(str(object_id))
            if run is not None and run.timer is not None:
                run.timer.cancel()
                del self._runs[str(object_id)]
        else:
            self._arm_for(value)

    def _write_again(self) -> None:
        self._again = None
        unwritten, self._unwritten = self._unwritten, {}
        for object_id, value in unwritten.values():
            self.moved(object_id, value)

    def _write(self, object_id: Any, value: int | None) -> None:
        connection = self._database.connection
        if value is None:
            connection.execute("DELETE FROM _cf_ALARM WHERE actor_id=?", (str(object_id),))
        else:
            connection.execute(
                "INSERT INTO _cf_ALARM(actor_id, scheduled_time, actor_name) VALUES(?,?,?) ON CONFLICT(actor_id) DO "
                "UPDATE SET scheduled_time=excluded.scheduled_time, "
                "actor_name=coalesce(excluded.actor_name,actor_name)",
                (str(object_id), value, object_id.name),
            )
        self._unwritten.pop(str(object_id), None)
        self._database.autocommitted()

    # The timer.

    def _arm_for(self, value: int) -> None:
        if self._timer_due is None or value < self._timer_due:
            self._set_timer(value)

    def _set_timer(self, value: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._closed:
            return
        self._timer_due = value
        # A timer may fire a touch early by the clock that alarms go by: `_due` looks again and re-arms.
        delay = max(0.0, value / _NANOSECONDS - self._clock.now()) / 1000
        self._timer = self._clock.call_later(min(delay, 86_400.0), self._due)

    def _arm(self) -> None:
        self._timer_due = None
        if self._running >= self._at_once:
            return  # whichever ends first arms it
        rows = self._database.connection.execute(
            "SELECT actor_id, scheduled_time FROM _cf_ALARM ORDER BY scheduled_time LIMIT ?",
            (len(self._runs) + len(self._unwritten) + 1,),
        )
        for actor_id, value in rows.fetchall():
            if actor_id not in self._runs and actor_id not in self._unwritten:
                self._set_timer(value)
                return

    def _due(self) -> None:
        self._timer = None
        if self._closed:
            return
        rows = self._database.connection.execute(
            "SELECT actor_id, actor_name FROM _cf_ALARM WHERE scheduled_time<? ORDER BY scheduled_time LIMIT ?",
            ((self._clock.now() + 1) * _NANOSECONDS, len(self._runs) + len(self._unwritten) + self._at_once),
        ).fetchall()
        for actor_id, name in rows:
            if self._running >= self._at_once:
                break
            if actor_id not in self._runs and actor_id not in self._unwritten:
                self._runs[actor_id] = _Run()
                self._fire(actor_id, name)
        self._arm()

    @property
    def running(self) -> bool:
        """Whether an alarm's handler runs now; one that waits for its retry does not count."""
        return self._running > 0

    def hurry(self, object_id: Any) -> bool:
        """Starts a retry that waits for its delay at once, for tests; returns whether there was one."""
        run = self._runs.get(str(object_id))
        if run is None or run.timer is None:
            return False
        run.timer.cancel()
        self._fire(str(object_id), object_id.name)
        return True

    # Running.

    def _fire(self, actor_id: str, name: str | None) -> None:
        run = self._runs[actor_id]
        run.timer = None
        self._running += 1
        self._namespace.start_alarm(
            actor_id, name, run.attempts, lambda outcome: self._ended(actor_id, name, outcome)
        )

    def _ended(self, actor_id: str, name: str | None, outcome: AlarmOutcome) -> None:
        self._running -= 1
        run = self._runs.get(actor_id)
        if run is None or self._closed:
            return
        if not outcome.retry:
            del self._runs[actor_id]
            self._arm()
            return
        if outcome.counted:
            if run.uncounted:
                run.uncounted, run.backoff = False, 0
            run.attempts += 1
            if run.attempts > MAX_RETRIES:
                _log.error("alarm of %s given up after %d failed runs", actor_id, run.attempts)
                del self._runs[actor_id]
                self._namespace.give_up_alarm(actor_id, name, outcome.fired)
                self._arm()
                return
            exponent = run.backoff
        else:
            run.uncounted = True
            exponent = min(run.backoff, MAX_UNCOUNTED_BACKOFF)
        run.backoff += 1
        delay = FIRST_DELAY * 2.0**exponent * (1 + 0.25 * self._jitter())
        run.timer = self._clock.call_later(delay, lambda: self._fire(actor_id, name))
        if self._timer is None:
            self._arm()


@dataclass(frozen=True, slots=True)
class AlarmOutcome:
    """How a run ended: whether it is to be retried, whether that counts, and which stored value it was for."""

    retry: bool
    counted: bool = True
    fired: int | None = None


def _set_aside(path: str) -> None:
    os.replace(path, f"{path}.damaged")
    for ending in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + ending)


def _open_after_failed_sync(database: Database) -> None:
    """Opens the index whose last sync failed: what its -wal holds is written and synced as pages first (in a thread).

    Raises sqlite3.Error when a writer is in the way, OSError.
    """
    connection = sqlite3.connect(str(database.path), timeout=0)
    try:
        if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise sqlite3.OperationalError("the checkpoint was blocked")
    finally:
        connection.close()
    database.open()


def alarm_in_file(path: str) -> int | None:
    """Returns the alarm that an object's file holds, in nanoseconds, or None. Raises sqlite3.Error."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name='_cf_METADATA'").fetchone() is None:
            return None
        row = connection.execute("SELECT value FROM _cf_METADATA WHERE key=1").fetchone()
        return None if row is None else int(row[0])
    finally:
        connection.close()
