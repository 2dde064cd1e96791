"""The input gate: which code of an object may run now (semantics 3 and 4).

asyncio cannot hold back a timer or an answer: a Task resumes its coroutine as soon as the awaited future is done. So
the Task is handed not the coroutine but a `Turn` that drives it; every resumption passes the gate of its object.
The Task stays a genuine one: timeouts, task groups and cancel scopes work inside an object.

What escapes the gate: bare `loop.call_later`/`call_soon` callbacks, and finalisers of abandoned async generators.
"""

from __future__ import annotations

import asyncio
import functools
from asyncio import CancelledError, Future, Task
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from .errors import DurableObjectAbort, escaped

P = ParamSpec("P")
T = TypeVar("T")

MAX_DEPTH = 64

# The Turn whose step is running. A step is synchronous, so one variable per process (one loop) is exact.
current: Turn | None = None


class Section:
    """A critical section: `blockConcurrencyWhile` or `transaction`. Sections nest by parent links."""

    __slots__ = ("depth", "done", "parent", "started")

    def __init__(self, parent: Section | None) -> None:
        self.parent = parent
        self.depth: int = 1 if parent is None else parent.depth + 1
        self.done = False
        self.started: Callable[[], None] | None = None


def _live(section: Section | None) -> Section | None:
    while section is not None and section.done:
        section = section.parent
    return section


class Gate:
    """The gate of one instance: a stack of open sections and, per section, who waits for it, oldest first."""

    __slots__ = ("blocks", "closed", "granted", "top", "waiters")

    def __init__(self) -> None:
        self.top: Section | None = None
        self.closed = False
        self.granted: Turn | None = None
        self.waiters: dict[Section | None, deque[tuple[Turn, Future[None]]]] = {}
        self.blocks: dict[Section | None, deque[Section]] = {}

    def enter(self, section: Section) -> None:
        """Opens `section` now if its parent is the innermost open one, else when its turn comes."""
        parent = _live(section.parent)
        if parent is self.top and not self.blocks.get(parent):
            self._open(section)
        else:
            self.blocks.setdefault(parent, deque()).append(section)

    def _open(self, section: Section) -> None:
        section.parent = _live(section.parent)
        self.top = section
        if section.started is not None:
            section.started()

    def leave(self, section: Section) -> None:
        """Ends `section`; what waited inside it now belongs to its parent. Ready blocks go before ordinary events."""
        if section.done:
            return
        section.done = True
        parent = _live(section.parent)
        waiting = self.waiters.pop(section, None)
        if waiting:
            self.waiters.setdefault(parent, deque()).extend(waiting)
        blocks = self.blocks.pop(section, None)
        if blocks:
            self.blocks.setdefault(parent, deque()).extend(blocks)
        if self.top is section:
            self.top = parent
            self.settle()

    def settle(self) -> None:
        """Starts the next block that may open, else wakes the next waiting Turn."""
        if self.granted is not None:
            return
        blocks = self.blocks.get(self.top)
        if blocks:
            self._open(blocks.popleft())
            return
        waiting = self.waiters.get(self.top)
        while waiting:
            turn, future = waiting.popleft()
            if not future.done():
                self.granted = turn
                future.set_result(None)
                break
        if waiting is not None and not waiting:
            self.waiters.pop(self.top, None)

    def close(self) -> None:
        """The instance is gone: everybody who waits is woken to find that out."""
        self.closed = True
        self.blocks.clear()
        for waiting in self.waiters.values():
            for _, future in waiting:
                if not future.done():
                    future.set_result(None)
        self.waiters.clear()


class Turn(Coroutine[Any, Any, Any]):
    """Drives one coroutine of an object: an event, or a task that an event started."""

    __slots__ = ("__name__", "__qualname__", "awaits", "coro", "gate", "kept", "owner", "section", "task")

    def __init__(self, gate: Gate, owner: Any, section: Section | None, coro: Coroutine[Any, Any, Any]) -> None:
        self.gate = gate
        self.owner = owner
        self.section = section
        self.coro = coro
        self.kept: BaseException | None = None
        # The section this Turn waits for, with its result: whoever awaits a section goes on before others are let in.
        self.awaits: tuple[Section, Future[Any]] | None = None
        self.task: Task[Any] | None = None
        self.__name__ = getattr(coro, "__name__", "turn")
        self.__qualname__ = getattr(coro, "__qualname__", "turn")

    def send(self, value: Any) -> Any:
        global current
        gate = self.gate
        if gate.closed:
            self._drop()
        if gate.top is not self.section or gate.waiters or gate.granted is not None:
            waiting = self._wait()
            if waiting is not None:
                return waiting
        before, current = current, self
        try:
            if self.kept is not None:
                kept, self.kept = self.kept, None
                return self.coro.throw(kept)
            return self.coro.send(value)
        except StopIteration:
            self._ended()
            raise
        except DurableObjectAbort:
            self._ended()
            raise CancelledError from None
        except SystemExit as error:
            # in a task of the object's own: out of it, it would end the whole process
            self._ended()
            raise escaped(error) from None
        except BaseException:
            self._ended()
            raise
        finally:
            current = before
            if gate.granted is self:
                gate.granted = None
                gate.settle()

    def throw(  # type: ignore[override]
        self, kind: Any, value: BaseException | None = None, traceback: TracebackType | None = None
    ) -> Any:
        self.kept = kind if isinstance(kind, BaseException) else (value or kind())
        return self.send(None)

    def close(self) -> None:
        self.coro.close()

    def __await__(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        # anyio looks at `cr_running` and the like before it cancels a task.
        if name.startswith("cr_"):
            return getattr(self.coro, name)
        raise AttributeError(name)

    def _ended(self) -> None:
        # here, not in a callback of the task: that would cost every call of an object a turn of the loop
        self.owner.tasks.discard(self.task)
        self.task = None

    def _drop(self) -> None:
        global current
        self._ended()
        before, current = current, self
        try:
            self.coro.close()
        except BaseException:
            pass
        finally:
            current = before
        raise CancelledError

    def _wait(self) -> Future[None] | None:
        """A future to wait for when somebody else's section is open or others are ahead, else None."""
        gate = self.gate
        self.section = section = _live(self.section)
        if self.awaits is not None and self.awaits[0] is gate.top and self.awaits[1].done():
            return None
        if gate.granted is self:
            if section is gate.top:
                return None
            gate.granted = None
            gate.settle()
        elif section is gate.top and gate.granted is None and not gate.waiters.get(section):
            return None
        future: Future[None] = asyncio.get_running_loop().create_future()
        gate.waiters.setdefault(section, deque()).append((self, future))
        future._asyncio_future_blocking = True
        return future


class SectionResult:
    """What entering a critical section returns: awaiting it gives the section's result."""

    __slots__ = ("_future", "_section")

    def __init__(self, section: Section, future: Future[Any]) -> None:
        self._section = section
        self._future = future

    def __await__(self) -> Generator[Any, None, Any]:
        turn = current
        if turn is None:
            return (yield from self._future.__await__())
        before, turn.awaits = turn.awaits, (self._section, self._future)
        try:
            return (yield from self._future.__await__())
        finally:
            turn.awaits = before


def task_factory(
    loop: asyncio.AbstractEventLoop, coro: Any, *, context: Context | None = None, **options: Any
) -> Task[Any]:
    """Tasks that object code starts belong to the object and to the section they were started in."""
    if not asyncio.iscoroutine(coro) and hasattr(coro, "__await__"):
        coro = _await(coro)  # the result of a method call, say
    turn = current
    if turn is None or type(coro) is Turn:
        return Task(coro, loop=loop, context=context, **options)
    return start(turn.gate, turn.owner, turn.section, coro, loop, context, **options)


def start(
    gate: Gate,
    owner: Any,
    section: Section | None,
    coro: Coroutine[Any, Any, Any],
    loop: asyncio.AbstractEventLoop,
    context: Context | None = None,
    *,
    name: str | None = None,
    **_options: Any,
) -> Task[Any]:
    """Starts `coro` as a task behind `gate` and lets `owner.tasks` know of it until it ends.

    Newer versions of asyncio hand a factory further options; of them only the name means anything behind a gate.
    """
    turn = Turn(gate, owner, section, coro)
    turn.task = task = Task(turn, loop=loop, context=context, name=name)
    owner.tasks.add(task)
    return task


def outside(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Calls `function` as if no object code were running: tasks it starts are plain ones.

    For work of the runtime itself (an outgoing connection, say) that another event's section must not hold.
    """
    global current
    before, current = current, None
    try:
        return function(*args, **kwargs)
    finally:
        current = before


async def _await(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def run_outside(awaitable: Awaitable[Any]) -> Task[Any]:
    """Runs `awaitable` in a plain task and returns it; only the answer passes the caller's gate."""
    return outside(functools.partial(asyncio.ensure_future, _await(awaitable)))
