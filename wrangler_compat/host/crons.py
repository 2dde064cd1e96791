"""Cron triggers: `[triggers] crons` call `scheduled` at their times, in UTC (platform: triggers)."""

import asyncio
import datetime
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cronsim import CronSim, CronSimError

from moorage.durable_objects.runtime import Clock

from .limits import limited

_log = logging.getLogger("moorage.host.crons")
_NAMES: Final = {"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}


class CronError(ValueError):
    """An expression that is no cron expression; the text names it."""


@dataclass(frozen=True, slots=True)
class ScheduledController:
    """What `scheduled(controller)` is told: the expression, and its time in milliseconds since 1970."""

    cron: str
    scheduledTime: int
    type: str = "scheduled"

    def noRetry(self) -> None:
        """Kept for programs that call it: a failed run is never retried here."""


def _weekdays(text: str) -> str:
    """The platform counts days of the week from 1 (Sunday) to 7; the library from 0 (Sunday) to 6."""

    def shift(match: "re.Match[str]") -> str:
        return str(int(match[0]) - 1) if match[0] != "0" else "0"

    if re.fullmatch(r"[*/\d]*\*(/\d+)?", text):
        return text
    head, slash, step = text.partition("/")
    return re.sub(r"(?<![#\w])[0-7](?!\d)", shift, head) + slash + step


def parse(expression: str, after: datetime.datetime) -> CronSim:
    """Returns an iterator of the times of `expression` after `after`. Raises CronError."""
    parts = expression.upper().split()
    if len(parts) != 5:
        raise CronError(f"cron {expression!r} has {len(parts)} fields, not 5: minute hour day month weekday")
    parts[4] = _weekdays(parts[4])
    try:
        return CronSim(" ".join(parts), after)
    except CronSimError as error:
        raise CronError(f"cron {expression!r} cannot be read: {error}") from None


class Crons:
    """Runs `fire(cron, milliseconds)` at the times of each expression, for 15 minutes at most.

    A time that was missed is not made up for. `spawn` starts a task that belongs to no object.
    """

    def __init__(
        self,
        expressions: Sequence[str],
        clock: Clock,
        fire: Callable[[str, int], Awaitable[Any]],
        spawn: Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"],
    ) -> None:
        self._clock = clock
        self._fire = fire
        self._spawn = spawn
        self._timers: dict[str, Any] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._expressions = list(dict.fromkeys(expressions))
        now = self._now()
        for expression in self._expressions:
            parse(expression, now)

    def _now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._clock.now() / 1000, datetime.UTC)

    def start(self) -> None:
        """Arms a timer for each expression."""
        for expression in self._expressions:
            self._arm(expression)

    def stop(self) -> None:
        """Cancels the timers; runs that have begun go on."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    async def drain(self, seconds: float) -> None:
        """Waits for runs that have begun, at most `seconds`; what still runs then is cancelled, and logged."""
        if not self._running:
            return
        _, late = await asyncio.wait(set(self._running), timeout=seconds)
        if late:
            _log.warning("%d runs of scheduled() did not end in time", len(late))
            for task in late:
                task.cancel()
            await asyncio.wait(late, timeout=1)

    def _arm(self, expression: str) -> None:
        try:
            due = next(parse(expression, self._now()))
        except StopIteration:
            _log.warning("cron %r never comes again", expression)
            return
        moment = int(due.timestamp() * 1000)

        def run() -> None:
            # Long waits are cut, so that a clock that was set does not go unnoticed.
            if self._clock.now() < moment:
                self._wait(expression, moment, run)
                return
            task = self._spawn(self._run(expression, moment))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            self._arm(expression)

        self._wait(expression, moment, run)

    def _wait(self, expression: str, moment: int, run: Callable[[], None]) -> None:
        delay = max(0, moment - self._clock.now()) / 1000
        self._timers[expression] = self._clock.call_later(min(delay, 3600.0), run)

    async def _run(self, expression: str, moment: int) -> None:
        try:
            await limited(self._fire(expression, moment), self._clock, "scheduled()")
        except Exception:
            _log.exception("scheduled() failed for cron %r", expression)
