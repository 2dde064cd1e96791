"""`ctx.storage`: the asynchronous API, transactions, alarms, `sync`, and the synchronous `kv` (semantics 6 to 10).

With SQLite every operation finishes at once. The asynchronous methods therefore act when they are called and return a
finished awaitable: an un-awaited `put` counts, and awaiting one lets no other event in.
"""

from __future__ import annotations

import datetime
import inspect
import math
import sqlite3
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from .awaitables import Done, Failed, run_synchronous_part
from .bookmarking import Bookmarks
from .clone import Undefined, undefined
from .errors import DurableObjectError
from .kv import KeyValueTable, key_text, list_range, serialize
from .lazy import LazyDatabase
from .sql import SqlStorage

if TYPE_CHECKING:
    from .instance import Instance

NO_SYNC_KV: Final = (
    "The storage.kv (synchronous KV) API is only available for SQLite-backed Durable Objects, but this object's "
    "namespace is not declared to use SQLite. You can use the older, asyncronous interface via methods of `storage` "
    "itself (e.g. `storage.get()`). Alternatively, to enable SQLite, change `new_classes` to `new_sqlite_classes` "
    "within the 'migrations' field in your wrangler.jsonc or wrangler.toml file. If using workerd directly, set "
    "`enableSql = true` in your workerd config for the class. Note that this change cannot be made after the class "
    "is already deployed to production."
)
_LAST_MOMENT: Final = (2**63 - 1) // 1_000_000
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_PUT_FORMS: Final = (
    "put() may only be called with a single key-value pair and optional options as put(key, value, options) or with "
    "multiple key-value pairs and optional options as put(entries, options)"
)


def _many(keys: Any) -> bool:
    return isinstance(keys, list | tuple | set | frozenset) or (
        isinstance(keys, Iterable) and not isinstance(keys, str | bytes | Mapping)
    )


def _milliseconds(moment: datetime.datetime) -> int:
    # not by `timestamp()`, whose float may be a millisecond short
    return (moment.astimezone(datetime.UTC) - _EPOCH) // datetime.timedelta(milliseconds=1)


def alarm_time(value: Any, now: int) -> int:
    """Returns the alarm time in milliseconds; a time in the past counts as `now` (semantics 10.2).

    `value` is milliseconds or a datetime (a naive one is local time). Raises TypeError for times at or before 1970,
    for those whose nanoseconds need more than 64 bits, and for what is no time.
    """
    if isinstance(value, datetime.datetime):
        value = _milliseconds(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"setAlarm() takes milliseconds since 1970 or a datetime, not {type(value).__name__}")
    if isinstance(value, float) and not math.isfinite(value):
        raise TypeError("The value cannot be converted because it is not a valid Date.")
    moment = math.trunc(value)
    if moment >= _LAST_MOMENT:
        raise TypeError("This API doesn't support dates after 2189.")
    if moment <= -_LAST_MOMENT:
        raise TypeError("This API doesn't support dates before 1687.")
    if moment <= 0:
        raise TypeError("setAlarm() cannot be called with an alarm time <= 0")
    return max(moment, now)


class Operations:
    """The operations that `storage` and the `txn` of a transaction share. `_guard` refuses a call by raising."""

    _instance: Instance
    _kv: KeyValueTable

    def _guard(self, method: str) -> None:
        self._instance.check()

    def _present(self, value: Any) -> Any:
        return self._instance.namespace.present(value)

    def get(self, key: Any = undefined, options: Any = None) -> Awaitable[Any]:
        """Returns the value or None; for a list of keys a dict of those found, in key order."""
        try:
            self._guard("get")
            if isinstance(key, Undefined):
                raise TypeError("get() takes a key or a list of keys")
            if _many(key):
                names = sorted({key_text(name) for name in key}, key=str.encode)
                missing = object()
                pairs = ((name, self._kv.get(name, missing)) for name in names)
                return Done(self._present({name: value for name, value in pairs if value is not missing}))
            return Done(self._present(self._kv.get(key_text(key))))
        except Exception as error:
            return Failed(_plain(error))

    def put(self, key: Any = undefined, value: Any = undefined, options: Any = None) -> Awaitable[None]:
        """Stores `put(key, value)` or every pair of `put({key: value, …})`, all or nothing; values are copied now.

        Raises TypeError for an undefined value and DataCloneError for one that cannot be copied.
        """
        try:
            self._guard("put")
            if isinstance(key, Mapping):
                if not isinstance(value, Mapping | Undefined | None):
                    raise TypeError(_PUT_FORMS)
                options = value
                pairs = [
                    (key_text(name), serialize(item)) for name, item in key.items() if not isinstance(item, Undefined)
                ]
            else:
                if isinstance(value, Undefined):
                    raise TypeError("put() called with undefined value.")
                pairs = [(key_text(key), serialize(value))]
            confirmed = not _option(options, "allowUnconfirmed")
            for name, data in pairs:
                self._kv.put(name, data, confirmed=confirmed)
            return Done(None)
        except Exception as error:
            return Failed(_plain(error))

    def delete(self, key: Any = undefined, options: Any = None) -> Awaitable[bool | int]:
        """Deletes a key and returns whether it existed, or a list of keys and returns how many did."""
        try:
            self._guard("delete")
            if isinstance(key, Undefined):
                raise TypeError("delete() takes a key or a list of keys")
            confirmed = not _option(options, "allowUnconfirmed")
            if _many(key):
                names = dict.fromkeys(key_text(name) for name in key)
                return Done(sum(self._kv.delete(name, confirmed=confirmed) for name in names))
            return Done(self._kv.delete(key_text(key), confirmed=confirmed))
        except Exception as error:
            return Failed(_plain(error))

    def list(self, options: Any = None, **more: Any) -> Awaitable[dict[str, Any]]:
        """Returns a dict of the pairs that `start`, `startAfter`, `end`, `prefix`, `limit`, `reverse` select, in
        order.
        """
        try:
            self._guard("list")
            if more:
                options = {**(options or {}), **more}
            return Done(self._present(dict(self._kv.list(list_range(options)))))
        except Exception as error:
            return Failed(_plain(error))

    def getAlarm(self, options: Any = None) -> Awaitable[int | None]:
        """Returns the alarm's time in milliseconds, or None; None while its handler runs, unless a new one was
        set.
        """
        try:
            self._guard("getAlarm")
            return Done(self._instance.alarm.get())
        except Exception as error:
            return Failed(_plain(error))

    def setAlarm(self, scheduled_time: Any, options: Any = None) -> Awaitable[None]:
        """Sets the one alarm, replacing an earlier one. Raises TypeError (semantics 10.2, 10.3)."""
        try:
            self._guard("setAlarm")
            if not self._instance.namespace.has_alarm:
                raise TypeError("Your Durable Object class must have an alarm() handler in order to call setAlarm()")
            moment = alarm_time(scheduled_time, self._instance.clock.now())
            self._instance.alarm.set(moment, confirmed=not _option(options, "allowUnconfirmed"))
            return Done(None)
        except Exception as error:
            return Failed(_plain(error))

    def deleteAlarm(self, options: Any = None) -> Awaitable[None]:
        """Removes the alarm, if there is one."""
        try:
            self._guard("deleteAlarm")
            self._instance.alarm.set(None, confirmed=not _option(options, "allowUnconfirmed"))
            return Done(None)
        except Exception as error:
            return Failed(_plain(error))


def _option(options: Any, name: str) -> bool:
    return bool(options.get(name)) if isinstance(options, Mapping) else False


def _plain(error: Exception) -> Exception:
    if isinstance(error, sqlite3.Error):
        from .sql import describe

        return DurableObjectError(describe(error))
    return error


class DurableObjectStorage(Operations):
    """`ctx.storage`."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._kv = KeyValueTable(instance.database)
        self._sync_kv = SyncKvStorage(instance, self._kv)
        self._sql = SqlStorage(instance)
        self._bookmarks = Bookmarks(instance)
        self._transactions: list[DurableObjectTransaction] = []

    @property
    def sql(self) -> SqlStorage:
        """The SQL interface; its methods raise in a namespace that is not SQLite-backed."""
        return self._sql

    @property
    def kv(self) -> SyncKvStorage:
        """The synchronous key-value interface on the same table. Raises outside SQLite-backed namespaces."""
        if not self._instance.namespace.sqlite:
            raise DurableObjectError(NO_SYNC_KV)
        return self._sync_kv

    def sync(self) -> Awaitable[None]:
        """Returns when everything written so far is durable. A real wait: other events run meanwhile."""
        self._instance.check()
        return self._instance.sync()

    def deleteAll(self, options: Any = None) -> Awaitable[None]:
        """Removes keys, tables and everything else, and, by the newer compatibility dates, the alarm.

        Raises an error inside a transaction. What was written before is gone at once and durably with the next
        commit; the instance and its memory stay (semantics 8.9).
        """
        try:
            self._instance.check()
            if self._instance.database.nested:
                raise DurableObjectError("Cannot call deleteAll() within a transaction")
            self._instance.delete_all()
            return Done(None)
        except Exception as error:
            return Failed(_plain(error))

    def getCurrentBookmark(self) -> Awaitable[str]:
        """Returns a bookmark of what is stored now, which `onNextSessionRestoreBookmark` can go back to.

        A copy is kept for it; see `bookmarks` for how many and how long.
        """
        self._instance.check()
        return self._bookmarks.current()

    def getBookmarkForTime(self, timestamp: Any) -> Awaitable[str]:
        """Returns the newest kept bookmark at or before `timestamp` (milliseconds or datetime).

        Raises an error when none is kept from that time.
        """
        self._instance.check()
        if isinstance(timestamp, datetime.datetime):
            timestamp = _milliseconds(timestamp)
        if isinstance(timestamp, bool) or not isinstance(timestamp, int | float) or not math.isfinite(timestamp):
            raise TypeError("getBookmarkForTime() takes milliseconds since 1970 or a datetime")
        return self._bookmarks.for_time(int(timestamp))

    def onNextSessionRestoreBookmark(self, bookmark: str) -> Awaitable[str]:
        """Makes the next session begin with what was stored at `bookmark`; `ctx.abort()` starts it at once.

        Returns a bookmark of the present, to undo it. Raises an error for a bookmark that is not kept.
        """
        self._instance.check()
        return self._bookmarks.restore(bookmark)

    def transaction(self, closure: Callable[[DurableObjectTransaction], Any]) -> Awaitable[Any]:
        """Runs `closure(txn)`, sync or async, in a critical section and a transaction; returns its value.

        Commits when it returns; rolls back and raises the same error when it raises (semantics 8.1 to 8.5).
        """
        self._instance.check()
        if not callable(closure):
            raise TypeError(f"transaction() takes a function, not {type(closure).__name__}")
        return self._instance.critical_section(lambda: self._transaction(closure), resets=False)

    async def _transaction(self, closure: Callable[[DurableObjectTransaction], Any]) -> Any:
        database = self._instance.database
        if isinstance(database, LazyDatabase) and not database.explicit:
            await database.moved()
        database.begin_explicit()
        transaction = DurableObjectTransaction(self._instance, self._kv, self._transactions)
        self._transactions.append(transaction)
        try:
            value = closure(transaction)
            if inspect.isawaitable(value):
                value = await value
        except BaseException:
            self._transactions.remove(transaction)
            if transaction.state == "open" and self._instance.dead is None:
                database.rollback_explicit()
            transaction.state = "rolled back"
            raise
        self._transactions.remove(transaction)
        if transaction.state == "open":
            transaction.state = "committed"
            try:
                database.commit_explicit()
            except sqlite3.Error as error:
                self._instance.internal_error(error)
        return value

    def transactionSync(self, closure: Callable[[], Any]) -> Any:
        """Runs `closure()` in a savepoint; rolls back and raises when it raises. Nests (semantics 8.6).

        An async closure is not awaited: its coroutine is returned and what it writes later is not covered.
        """
        self._instance.check()
        database = self._instance.database
        name = f"moorage_sync_{self._instance.next_savepoint()}"
        database.savepoint(name)
        try:
            value = closure()
            if inspect.iscoroutine(value):
                value = run_synchronous_part(value)
        except BaseException:
            if self._instance.dead is None:
                database.rollback_to(name)
            raise
        database.release(name)
        return value


class DurableObjectTransaction(Operations):
    """The `txn` that a transaction's closure gets."""

    def __init__(self, instance: Instance, kv: KeyValueTable, siblings: list[DurableObjectTransaction]) -> None:
        self._instance = instance
        self._kv = kv
        self._siblings = siblings
        self.state = "open"

    def _guard(self, method: str) -> None:
        self._instance.check()
        if self.state == "rolled back":
            raise DurableObjectError(f"Cannot {method}() on rolled back transaction")
        if self.state == "committed":
            raise DurableObjectError(
                f"Cannot call {method}() on transaction that has already committed: did you move `txn` outside of "
                "the closure?"
            )

    def deleteAll(self, options: Any = None) -> Awaitable[None]:
        """Always refused (semantics 8.8)."""
        return Failed(DurableObjectError("Cannot call deleteAll() within a transaction"))

    def rollback(self) -> None:
        """Undoes the transaction and lets the closure go on; may be repeated.

        Raises an error while a nested transaction is open, and after the end.
        """
        self._instance.check()
        if self.state == "rolled back":
            return
        self._guard("rollback")
        if self._siblings and self._siblings[-1] is not self:
            raise DurableObjectError(
                "Cannot roll back an outer transaction while a nested transaction is still running."
            )
        self.state = "rolled back"
        self._instance.database.rollback_explicit()


class SyncKvStorage:
    """`ctx.storage.kv`: one key at a time, synchronously, on the table that the asynchronous API uses."""

    def __init__(self, instance: Instance, table: KeyValueTable) -> None:
        self._instance = instance
        self._table = table
        self._lists = 0

    def get(self, key: Any, options: Any = None) -> Any:
        """Returns the value or None."""
        self._instance.check()
        return self._instance.namespace.present(self._table.get(key_text(key)))

    def put(self, key: Any, value: Any, options: Any = None) -> None:
        """Stores a copy of `value`. Raises DataCloneError."""
        self._instance.check()
        self._table.put(key_text(key), serialize(value))

    def delete(self, key: Any, options: Any = None) -> bool:
        """Deletes `key`; returns whether it existed."""
        self._instance.check()
        return self._table.delete(key_text(key))

    def list(self, options: Any = None, **more: Any) -> Iterator[tuple[str, Any]]:
        """Returns an iterator of pairs; a later `list()` invalidates it (semantics 7.3). Options as for `list()`."""
        self._instance.check()
        if more:
            options = {**(options or {}), **more}
        self._lists += 1
        return self._iterate(list_range(options), self._lists)

    def _iterate(self, selection: Any, number: int) -> Iterator[tuple[str, Any]]:
        rows = self._table.iterate(selection)
        while True:
            if number != self._lists:
                raise DurableObjectError(
                    "kv.list() iterator was invalidated because a new call to kv.list() was started. Only one "
                    "kv.list() iterator can exist at a time."
                )
            self._instance.check()
            try:
                pair = next(rows)
            except StopIteration:
                return
            yield pair[0], self._instance.namespace.present(pair[1])
