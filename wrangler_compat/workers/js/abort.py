"""`AbortController` and `AbortSignal`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from moorage.durable_objects.runtime.web import JsDict

from .errors import DOMException

_log = logging.getLogger("moorage.workers")


class AbortSignal:
    """`.aborted`, `.reason`, `throwIfAborted()`, `addEventListener("abort", …)`; `await wait()` is ours."""

    def __init__(self) -> None:
        self.aborted = False
        self.reason: Any = None
        self.onabort: Callable[..., Any] | None = None
        self._listeners: list[Callable[..., Any]] = []
        self._waiters: list[asyncio.Future[None]] = []

    @classmethod
    def abort(cls, reason: Any = None) -> AbortSignal:
        signal = cls()
        signal.trigger(reason)
        return signal

    @classmethod
    def timeout(cls, milliseconds: float) -> AbortSignal:
        signal = cls()
        error = DOMException("The operation was aborted due to timeout", "TimeoutError")
        asyncio.get_running_loop().call_later(milliseconds / 1000, signal.trigger, error)
        return signal

    @classmethod
    def any(cls, signals: Any) -> AbortSignal:
        signal = cls()
        for other in signals:
            if other.aborted:
                signal.trigger(other.reason)
            else:
                other.addEventListener("abort", lambda event: signal.trigger(event.target.reason))
        return signal

    def trigger(self, reason: Any = None) -> None:
        if self.aborted:
            return
        self.aborted = True
        self.reason = DOMException("The operation was aborted", "AbortError") if reason is None else reason
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        event = JsDict(type="abort", target=self)
        for listener in [*([self.onabort] if self.onabort else []), *self._listeners]:
            try:
                listener(event)
            except Exception:
                # whoever aborts is not to blame, and the other listeners are to hear it
                _log.exception("a listener of an abort signal failed")

    def error(self) -> Exception:
        """What an operation raises that was aborted."""
        return self.reason if isinstance(self.reason, Exception) else DOMException(str(self.reason), "AbortError")

    def throwIfAborted(self) -> None:
        if self.aborted:
            raise self.error()

    def addEventListener(self, kind: str, listener: Callable[..., Any], options: Any = None) -> None:
        if kind == "abort":
            self._listeners.append(listener)

    def removeEventListener(self, kind: str, listener: Callable[..., Any], options: Any = None) -> None:
        if kind == "abort" and listener in self._listeners:
            self._listeners.remove(listener)

    async def wait(self) -> None:
        """Returns when it is aborted."""
        if not self.aborted:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            finally:
                self._waiters.remove(waiter)


class AbortController:
    def __init__(self) -> None:
        self.signal = AbortSignal()

    @classmethod
    def new(cls) -> AbortController:
        return cls()

    def abort(self, reason: Any = None) -> None:
        self.signal.trigger(reason)
