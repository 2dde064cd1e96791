"""ASGI lifespan, once an application and process (the platform runs it for every request).

The state that startup fills is copied into every request's `scope["state"]`. An application is known by identity; of
those that a program makes anew for each request only the newest few are kept, and the others are shut down.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import Any

from .current import current

logger = logging.getLogger("asgi")

ASGI = {"version": "3.0", "spec_version": "2.4"}
MOST = 64

_running: OrderedDict[int, Lifespan] = OrderedDict()


class LifespanFailed(RuntimeError):
    """Startup or shutdown of the application failed; the text is the application's own."""


class Lifespan:
    """One application between startup and shutdown, on one loop."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.loop = asyncio.get_running_loop()
        self.state: dict[str, Any] = {}
        self._events: asyncio.Queue[dict[str, str]] = asyncio.Queue()
        self._started: asyncio.Future[bool] = self.loop.create_future()
        self._stopped: asyncio.Future[None] = self.loop.create_future()
        self._events.put_nowait({"type": "lifespan.startup"})
        self._task: asyncio.Future[None] = asyncio.ensure_future(current().outside(self._run()))

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": ASGI, "state": self.state}
        try:
            await self.app(scope, self._events.get, self._send)
        except Exception as error:
            if not self._started.done():
                # the protocol is optional: an application that raises at once does without it
                logger.debug("ASGI lifespan: the application raised before it reported a start", exc_info=error)
                self._started.set_result(False)
            elif (failure := self._failure()) is not None:
                failure.__cause__ = error
            else:
                logger.error("Exception in ASGI lifespan application", exc_info=error)
        finally:
            if not self._started.done():
                self._started.set_result(False)
            if not self._stopped.done():
                self._stopped.set_result(None)

    def _failure(self) -> BaseException | None:
        for future in (self._stopped, self._started):
            if future.done() and not future.cancelled() and future.exception() is not None:
                return future.exception()
        return None

    async def _send(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        future: asyncio.Future[Any] = self._started if kind.startswith("lifespan.startup.") else self._stopped
        if kind not in {
            f"lifespan.{phase}.{end}" for phase in ("startup", "shutdown") for end in ("complete", "failed")
        }:
            raise RuntimeError(f"Unexpected lifespan event {kind}")
        if future.done():
            return
        if kind.endswith("complete"):
            future.set_result(True)
        else:
            phase = kind.split(".")[1]
            future.set_exception(LifespanFailed(message.get("message") or f"ASGI lifespan {phase} failed"))

    @property
    def ready(self) -> bool:
        """Whether the application has started, or knows no lifespan."""
        return self._started.done() and self._started.exception() is None

    @property
    def here(self) -> bool:
        """Whether it belongs to the running loop."""
        return self.loop is asyncio.get_running_loop()

    async def started(self) -> bool:
        """Waits for the start. False when the application knows no lifespan; LifespanFailed when it failed."""
        try:
            return await asyncio.shield(self._started)
        except LifespanFailed:
            await asyncio.wait({self._task})  # its own exception becomes the cause
            raise

    async def stop(self) -> None:
        """Runs the shutdown. LifespanFailed when the application reports that it failed."""
        if self._task.done() or not self.ready:
            self._task.cancel()
            await asyncio.wait({self._task})
            return
        self._events.put_nowait({"type": "lifespan.shutdown"})
        await asyncio.wait({self._task, self._stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not self._task.done():
            await asyncio.wait({self._task})
        if self._stopped.done():
            self._stopped.result()


def known_state(app: Any) -> dict[str, Any] | None:
    """The lifespan state of `app` when it has started on this loop, else None: see `state_of`."""
    known = _running.get(id(app))
    return known.state if known is not None and known.ready and known.app is app and known.here else None


async def state_of(app: Any) -> dict[str, Any]:
    """The lifespan state of `app`, which is started first if it is not yet.

    Raises LifespanFailed when the startup fails; the next call tries again.
    """
    known = _running.get(id(app))
    if known is None or known.app is not app or not known.here:
        known = Lifespan(app)
        _running[id(app)] = known
        while len(_running) > MOST:
            current().background.add(_running.popitem(last=False)[1].stop())
    try:
        await known.started()
    except LifespanFailed:
        if _running.get(id(app)) is known:
            del _running[id(app)]
        raise
    return known.state


async def shutdown_all() -> None:
    """Shuts down every application of the running loop; the host calls it when it stops. Failures are logged."""
    loop = asyncio.get_running_loop()
    for key, lifespan in list(_running.items()):
        del _running[key]
        if lifespan.loop is loop:
            try:
                await lifespan.stop()
            except LifespanFailed as error:
                logger.error("ASGI lifespan shutdown failed: %s", error)
