"""A namespace: ids, stubs, and the live instances of one class (semantics 1 and 2)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import sqlite3
from collections.abc import Callable, Coroutine
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any

from . import gate as gates
from .alarms import AlarmOutcome, AlarmScheduler
from .base import DurableObject
from .bodies import outgoing_response
from .bookmarks import BookmarkFolder, BookmarkImages
from .clone import Undefined, undefined
from .database import Database
from .errors import DurableObjectError
from .ids import DurableObjectId, IdFactory, visible_name
from .instance import Bond, Instance
from .javascript import text_of
from .lazy import LazyDatabase
from .rpc import NOT_RPC, RpcMember, RpcPromise, Stub, _sender, copy_across, reach
from .web import Response
from .websockets import RESTARTED, HibernationManager, WebSocket

if TYPE_CHECKING:
    from .runtime import Runtime
    from .state import DurableObjectState

_log = logging.getLogger("moorage.runtime")


class DurableObjectNamespace:
    """The binding `env.NAME` of a Durable Object class.

    `unique_key` is `<worker>-<class>`: it decides the ids. `folder` names the folder that holds the files: the unique
    key unless the class was renamed. `sqlite` is False for classes declared by `new_classes`, whose `sql` and
    `kv` raise. `delete_all_deletes_alarm` is False for compatibility dates before 2026-02-24.
    """

    def __init__(
        self,
        runtime: Runtime,
        unique_key: str,
        cls: type[Any],
        env: Any,
        *,
        folder: str | None = None,
        sqlite: bool = True,
        delete_all_deletes_alarm: bool = True,
    ) -> None:
        self.runtime = runtime
        self.unique_key = unique_key
        self.cls = cls
        self.env = env
        self.sqlite = sqlite
        self.delete_all_deletes_alarm = delete_all_deletes_alarm
        self.has_alarm = callable(getattr(cls, "alarm", None))
        self.accepts_rpc = issubclass(cls, DurableObject)
        self.folder = runtime.folder_of(folder or unique_key)
        # What the host of the Worker sets: the context that object code runs in (None: the caller's), what drives its
        # coroutines, and the form in which values are handed to it.
        self.context: Context | None = None
        self.drive: Callable[[Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]] = _as_it_is
        self.present: Callable[[Any], Any] = _as_it_is
        self.listed: Callable[[list[Any]], list[Any]] = _as_it_is
        self.live: dict[str, Instance] = {}
        self.names: dict[str, str] = {}
        self.sockets: dict[str, HibernationManager] = {}
        self._closing: dict[str, asyncio.Future[None]] = {}
        self._unclosed: dict[str, Database] = {}
        self._images: dict[str, bytes] = {}
        self.bookmark_images: dict[str, BookmarkImages] = {}
        self._ids = IdFactory(unique_key, runtime.random_bytes)
        index = None if self.folder is None else os.path.join(self.folder, "alarms.sqlite")
        self.alarms = AlarmScheduler(self, index, runtime.log, runtime.clock, runtime.jitter)

    # The platform's interface.

    def idFromName(self, name: Any = undefined) -> DurableObjectId:
        """Returns the id of `name`: the same for the same name. Raises TypeError without one."""
        if isinstance(name, Undefined):
            raise TypeError("idFromName() takes a name")
        return self._ids.from_name(name if type(name) is str else text_of(name))

    def newUniqueId(self, options: Any = None) -> DurableObjectId:
        """Returns a fresh id. Raises an error for a jurisdiction: there are none here."""
        wanted = options.get("jurisdiction") if isinstance(options, dict) else None
        if wanted is not None and not isinstance(wanted, Undefined):
            raise DurableObjectError("Jurisdiction restrictions are not implemented in workerd.")
        return self._ids.unique()

    def idFromString(self, text: Any) -> DurableObjectId:
        """Returns the id that prints as `text`. Raises TypeError (semantics 1.3)."""
        return self._ids.from_string(text if type(text) is str else text_of(text))

    def get(self, object_id: DurableObjectId, options: Any = None) -> DurableObjectStub:
        """Returns a stub at once; the instance is built by the first call. Raises TypeError for what is no id.

        An id of another namespace is taken as it is, as the local platform does; `idFromString` checks.
        """
        if not isinstance(object_id, DurableObjectId):
            raise TypeError(f"get() takes a Durable Object id, not {type(object_id).__name__}; see idFromName()")
        return DurableObjectStub(self, object_id)

    def getByName(self, name: Any = undefined, options: Any = None) -> DurableObjectStub:
        """Returns `get(idFromName(name))`."""
        return DurableObjectStub(self, self.idFromName(name))

    def jurisdiction(self, name: Any = None) -> DurableObjectNamespace:
        """Returns the namespace for None. Raises an error for a named jurisdiction: there are none here."""
        if name is None or isinstance(name, Undefined):
            return self
        raise DurableObjectError("Jurisdiction restrictions are not implemented in workerd.")

    def __repr__(self) -> str:
        return f"DurableObjectNamespace({self.unique_key!r})"

    # Instances.

    def instance(self, object_id: DurableObjectId) -> Instance:
        """Returns the live instance, starting one if there is none."""
        key = str(object_id)
        found = self.live.get(key)
        if found is not None:
            self.runtime.used(found)
            return found
        self.runtime.refuse_when_closed()
        path = None if self.folder is None else os.path.join(self.folder, f"{key}.sqlite")
        made = Instance(
            self, object_id, LazyDatabase(self.runtime.submit, path, self.runtime.log, self._images.get(key))
        )
        self.live[key] = made
        self.runtime.added(made)
        made.boot()
        return made

    async def open_database(self, instance: Instance) -> None:
        """Opens the instance's file once the one before it is closed. Raises OSError or sqlite3.Error."""
        closing = self._closing.get(str(instance.id))
        if closing is not None:
            await asyncio.wait([closing])
        database = instance.database
        key = str(instance.id)
        await self.runtime.take_place(instance)
        if key in self._unclosed:
            # Its last sync and the checkpoint after it failed: what the file says may not be on the disk.
            await self._unclosed[key].close_again()
            del self._unclosed[key]
        if database.path is None:
            restored = self.bookmark_images[key].restore() if key in self.bookmark_images else None
            database.image = self._images.get(key) if restored is None else restored
            database.open()
        else:
            instance.opening = self.runtime.submit(_restore_and_open, database)
            await gates.outside(asyncio.wrap_future, instance.opening)

    def construct(self, state: DurableObjectState) -> Any:
        """Returns a new object of the class; whatever its constructor raises leaves."""
        return self.cls(state, self.env)

    def new_context(self) -> Context | None:
        """Returns the context for one event of an object."""
        return None if self.context is None else self.context.copy()

    def forget(self, instance: Instance) -> None:
        """A reset instance is no longer the live one; its file is closed."""
        key = str(instance.id)
        if self.live.get(key) is instance:
            del self.live[key]
            self.runtime.removed(instance)
            self._close(instance)

    def evict(self, instance: Instance) -> None:
        """Ends an idle instance silently."""
        if instance.evictable and self.live.get(str(instance.id)) is instance:
            instance.stop()
            self.forget(instance)
            manager = self.sockets.get(str(instance.id))
            if manager is not None:
                manager.hibernate()

    def socket_manager(self, instance: Instance) -> HibernationManager:
        """Returns what keeps the object's hibernating sockets, made at first use."""
        key = str(instance.id)
        found = self.sockets.get(key)
        if found is None:
            found = self.sockets[key] = HibernationManager(self, instance.id)
        return found

    def drop_sockets(self, instance: Instance) -> None:
        """A reset object loses its hibernating sockets: their clients see 1006 (semantics 2.6)."""
        manager = self.sockets.pop(str(instance.id), None)
        if manager is not None:
            manager.drop()

    def _close(self, instance: Instance) -> None:
        key = str(instance.id)
        before = self._closing.get(key)

        async def close() -> None:
            if before is not None:
                await asyncio.wait([before])
            try:
                if instance.opening is not None and not instance.opening.cancel():
                    # a thread may still be opening the file of an instance that ended meanwhile
                    await asyncio.wait([asyncio.wrap_future(instance.opening)])
                await instance.database.close()
            except (sqlite3.Error, OSError) as error:
                _log.error("the file of %s cannot be closed safely: %s", instance.id, error)
                self._unclosed[key] = instance.database
            finally:
                if instance.database.image is not None:
                    self._images[key] = instance.database.image
                if self._closing.get(key) is task:
                    del self._closing[key]
                self.runtime.give_place(instance)

        task = self.runtime.plain_task(close())
        self._closing[key] = task

    async def close(self) -> None:
        """Ends every instance and closes every file; nothing durable is lost."""
        for instance in list(self.live.values()):
            if instance.dead is None:
                instance.stop()
                self.forget(instance)
        while self._closing:
            await asyncio.wait(list(self._closing.values()))
        while self.sockets:
            self.sockets.popitem()[1].drop(RESTARTED)
        await self.alarms.close()

    # Alarms, for the scheduler.

    def start_alarm(
        self, actor_id: str, name: str | None, attempts: int, ended: Callable[[AlarmOutcome], None]
    ) -> None:
        """Delivers the alarm event to an object."""
        self.instance(DurableObjectId(actor_id, name)).run_alarm(attempts, ended)

    def give_up_alarm(self, actor_id: str, name: str | None, fired: int | None) -> None:
        """Removes an alarm whose retries are used up."""
        instance = self.instance(DurableObjectId(actor_id, name))

        def remove() -> None:
            if instance.alarm.raw() == fired or fired is None:
                instance.alarm.set(None)

        instance.event(remove, lambda value: value).add_done_callback(
            lambda done: done.cancelled() or done.exception()
        )

    async def call_alarm(self, target: Any, info: Any) -> None:
        """Calls `alarm(self, info)`, or `alarm(self)` where the class declares it so."""
        handler = getattr(target, "alarm", None)
        if not callable(handler):
            raise DurableObjectError(f"{type(target).__name__} has no alarm() handler, but its alarm is due")
        value = self.runtime.call_relaxed(handler, info)
        if inspect.isawaitable(value):
            await value


def _restore_and_open(database: Database) -> None:
    if database.path is not None:
        BookmarkFolder(database.path).restore()
    database.open()


def _as_it_is(value: Any) -> Any:
    return value


def _invoked(name: str, invoke: tuple[tuple[Any, ...], dict[str, Any]] | None, instance: Instance) -> Any:
    if not instance.namespace.accepts_rpc:
        raise TypeError(NOT_RPC)
    return reach(instance.object, name, DurableObject, invoke)


def _returned(instance: Instance, value: Any) -> Any:
    return instance.namespace.present(copy_across(value, instance))


def _hand_over(instance: Instance, answer: Any) -> Any:
    # The socket of an answer changes hands: the object's own side of it is used up.
    message = getattr(answer, "message", answer)
    if isinstance(message, Response):
        if isinstance(message.web_socket, WebSocket):
            message.web_socket = message.web_socket._handed_over()
        outgoing_response(instance, message)
    return answer


class DurableObjectStub(Stub):
    """Calls one object: `await stub.method(...)`, `await stub.fetch(...)`, `await stub.property`."""

    __slots__ = ("_bond", "_id", "_name", "_namespace")

    def __init__(self, namespace: DurableObjectNamespace, object_id: DurableObjectId) -> None:
        self._namespace = namespace
        self._id = object_id
        self._bond: Bond | None = None
        self._name = object_id.name

    @property
    def id(self) -> DurableObjectId:
        """The object's id."""
        return self._id

    @property
    def name(self) -> str | None:
        """The name the id was made from, or None."""
        return self._name

    def __getattr__(self, name: str) -> RpcMember:
        if name.startswith("__"):
            raise AttributeError(name)
        return RpcMember(partial(self._call, name), name)

    def _deliver(self, handler: Callable[[Instance], Any], finish: Callable[[Instance, Any], Any]) -> RpcPromise:
        return RpcPromise.of(partial(self._event, handler, finish), read=True)

    def _event(
        self, handler: Callable[[Instance], Any], finish: Callable[[Instance, Any], Any]
    ) -> asyncio.Future[Any]:
        if self._bond is not None and self._bond.error is not None:
            failed: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            failed.set_exception(self._bond.error)
            failed.exception()
            return failed
        instance = self._namespace.runtime.placement.reach(self._namespace, self._id)
        self._bond = instance.bond
        return instance.event(partial(handler, instance), partial(finish, instance))

    def _call(self, name: str, invoke: tuple[tuple[Any, ...], dict[str, Any]] | None) -> RpcPromise:
        sender = _sender()
        if invoke is not None:
            args, named = invoke
            invoke = (
                tuple([copy_across(value, sender) for value in args]) if args else args,
                copy_across(named, sender) if named else named,
            )
        return self._deliver(partial(_invoked, name, invoke), _returned)

    def fetch(self, request: Any = undefined, *args: Any, **options: Any) -> RpcPromise:
        """Sends a request (a `Request`, or a URL with `method=`, `headers=`, `body=`) to the object's `fetch`.

        Returns an awaitable of its Response.
        """
        made = self._namespace.runtime.make_request(request, args, options)

        def handler(instance: Instance) -> Any:
            target = instance.object
            handle = getattr(target, "fetch", None) or getattr(target, "on_fetch", None)
            if not callable(handle):
                raise DurableObjectError("Handler does not export a fetch() function.")
            return self._namespace.runtime.call_relaxed(handle, made)

        def flag_reset(done: asyncio.Future[Any]) -> None:
            if not done.cancelled() and (error := done.exception()) is not None:
                error.remote = True  # type: ignore[attr-defined]

        promise = self._deliver(handler, _hand_over)
        promise._future.add_done_callback(flag_reset)
        return promise

    def __repr__(self) -> str:
        return f"DurableObjectStub({self._namespace.unique_key!r}, {visible_name(self._name) or str(self._id)!r})"
