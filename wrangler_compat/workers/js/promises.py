"""`js.Promise`: an awaitable that is under way already and can be awaited any number of times."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from types import TracebackType
from typing import Any

from moorage.durable_objects.runtime.web import JsDict, JsList

from .errors import Error


class Promise(Coroutine[Any, Any, Any]):
    """`Promise.new(executor)` calls `executor(resolve, reject)`; the functions of the class give promises.

    Around an awaitable: it runs as a task from now on, whether or not somebody waits for it. A promise may stand
    where asyncio wants a coroutine: `asyncio.create_task(js.fetch(url))`.
    """

    __slots__ = ("_driven", "_future")

    _driven: dict[Any, Generator[Any, Any, Any]]

    def __init__(self, work: Awaitable[Any]) -> None:
        self._future: asyncio.Future[Any] = asyncio.ensure_future(work)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._future.__await__()

    def _waiting(self) -> Generator[Any, Any, Any]:
        """How far the task that runs has come in waiting for it."""
        if not hasattr(self, "_driven"):
            self._driven = {}
        return self._driven.setdefault(asyncio.current_task(), self._future.__await__())

    def send(self, value: Any) -> Any:
        try:
            return self._waiting().send(value)
        except BaseException:
            self._driven.pop(asyncio.current_task(), None)
            raise

    def throw(  # type: ignore[override]
        self, kind: Any, value: BaseException | None = None, traceback: TracebackType | None = None
    ) -> Any:
        error = kind if isinstance(kind, BaseException) else (value or kind())
        try:
            return self._waiting().throw(error)
        except BaseException:
            self._driven.pop(asyncio.current_task(), None)
            raise

    def close(self) -> None:
        """The work goes on: nobody who stops waiting ends it."""

    def then(
        self, fulfilled: Callable[[Any], Any] | None = None, rejected: Callable[[Any], Any] | None = None
    ) -> Promise:
        """What one of the functions makes of the value or of the error; awaitables that it returns are waited for."""

        async def follow() -> Any:
            try:
                value = await self._future
            except Exception as error:
                if rejected is None:
                    raise
                return await settled(rejected(error))
            return value if fulfilled is None else await settled(fulfilled(value))

        return Promise(follow())

    def catch(self, rejected: Callable[[Any], Any]) -> Promise:
        return self.then(None, rejected)

    def finally_(self, function: Callable[[], Any]) -> Promise:
        """The same result, after `function()` ran."""

        async def follow() -> Any:
            try:
                return await self._future
            finally:
                await settled(function())

        return Promise(follow())

    @classmethod
    def new(cls, executor: Callable[..., Any]) -> Promise:
        parts = cls.withResolvers()
        try:
            executor(parts.resolve, parts.reject)
        except Exception as error:
            parts.reject(error)
        promise: Promise = parts.promise
        return promise

    @classmethod
    def withResolvers(cls) -> JsDict:
        """`promise`, `resolve(value)` and `reject(reason)`; the first call of either counts."""
        decided: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        promise = cls.__new__(cls)
        promise._future = decided

        def resolve(value: Any = None) -> None:
            if decided.done():
                return
            if inspect.isawaitable(value):
                asyncio.ensure_future(settled(value)).add_done_callback(_copying(decided))
            else:
                decided.set_result(value)

        def reject(reason: Any = None) -> None:
            if not decided.done():
                decided.set_exception(_error(reason))

        return JsDict(promise=promise, resolve=resolve, reject=reject)

    @classmethod
    def resolve(cls, value: Any = None) -> Promise:
        return value if isinstance(value, Promise) else cls(settled(value))

    @classmethod
    def reject(cls, reason: Any = None) -> Promise:
        async def fail() -> Any:
            raise _error(reason)

        return cls(fail())

    @classmethod
    def all(cls, items: Iterable[Any]) -> Promise:
        started = [cls.resolve(item) for item in items]

        async def gather() -> JsList:
            return JsList(await asyncio.gather(*started))

        return cls(gather())

    @classmethod
    def allSettled(cls, items: Iterable[Any]) -> Promise:
        started = [cls.resolve(item) for item in items]

        async def gather() -> JsList:
            results = await asyncio.gather(*started, return_exceptions=True)
            return JsList(
                JsDict(status="rejected", reason=result)
                if isinstance(result, BaseException)
                else JsDict(status="fulfilled", value=result)
                for result in results
            )

        return cls(gather())

    @classmethod
    def race(cls, items: Iterable[Any]) -> Promise:
        """As the first that ends; the others go on, and what becomes of them is nobody's."""
        parts = cls.withResolvers()
        for item in items:
            cls.resolve(item)._future.add_done_callback(_copying(parts.promise._future))
        promise: Promise = parts.promise
        return promise

    @classmethod
    def any(cls, items: Iterable[Any]) -> Promise:
        """The first value; an `AggregateError` with `.errors` when all fail."""
        started = [cls.resolve(item) for item in items]
        parts = cls.withResolvers()
        errors: list[Any] = [None] * len(started)
        left = len(started)

        def ended(place: int) -> None:
            nonlocal left
            future = started[place]._future
            error = asyncio.CancelledError() if future.cancelled() else future.exception()
            if error is None:
                parts.resolve(future.result())
                return
            errors[place] = error
            left -= 1
            if not left:
                parts.reject(AggregateError(errors))

        for place, promise in enumerate(started):
            promise._future.add_done_callback(functools.partial(_told, ended, place))
        if not started:
            parts.reject(AggregateError([]))
        result: Promise = parts.promise
        return result


class AggregateError(Error):
    """What `Promise.any` fails with; `errors` are those of its promises, in their order."""

    name = "AggregateError"

    def __init__(self, errors: Iterable[Any]) -> None:
        super().__init__("All promises were rejected")
        self.errors = JsList(errors)


async def settled(value: Any) -> Any:
    """`value`, awaited for as long as it can be."""
    while inspect.isawaitable(value):
        value = await value
    return value


def _copying(target: asyncio.Future[Any]) -> Callable[[asyncio.Future[Any]], None]:
    def copy(source: asyncio.Future[Any]) -> None:
        error = None if source.cancelled() else source.exception()  # retrieved also where it comes too late
        if target.done():
            return
        if source.cancelled():
            target.cancel()
        elif error is not None:
            target.set_exception(error)
        else:
            target.set_result(source.result())

    return copy


def _told(function: Callable[[int], None], place: int, _future: asyncio.Future[Any]) -> None:
    function(place)


def _error(reason: Any) -> Exception:
    return reason if isinstance(reason, Exception) else Error(reason)


__all__ = ["AggregateError", "Promise", "settled"]
