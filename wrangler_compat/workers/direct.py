"""Whether the result of the call that is running goes to the host as it is.

`return await asgi.fetch(app, request, env)` needs no response object: the application can write straight to the
server. But a program may also look at the response, change it, or answer with another one, and then nothing may have
been sent. So the frames between `asgi.fetch` and the host are looked at: every one must be awaiting with nothing but
`return` behind it. Where that cannot be told (another interpreter, a frame that is no coroutine) the answer is no,
which costs a copy and is never wrong.
"""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_roots: set[CodeType] = set()
_known: dict[tuple[CodeType, int], bool] = {}
_SKIPPED = frozenset({"END_SEND", "CACHE", "NOP", "EXTENDED_ARG"})
_MOST_KNOWN = 4096


def root(function: F) -> F:
    """Marks a coroutine function of the host: a result that is returned to it is used as it is."""
    _roots.add(function.__code__)
    return function


def goes_to_the_host(depth: int = 1) -> bool:
    """Whether every coroutine from `depth` frames above the caller up to the host returns what it awaits."""
    if sys.implementation.name != "cpython":
        return False
    frame: FrameType | None = sys._getframe(depth + 1)
    while frame is not None:
        code = frame.f_code
        if code in _roots:
            return True
        if not code.co_flags & inspect.CO_COROUTINE or not _returns_what_it_awaits(code, frame.f_lasti):
            return False
        frame = frame.f_back
    return False


def _returns_what_it_awaits(code: CodeType, offset: int) -> bool:
    key = (code, offset)
    known = _known.get(key)
    if known is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        known = _known[key] = _look(code, offset)
    return known


def _look(code: CodeType, offset: int) -> bool:
    instructions = {instruction.offset: instruction for instruction in dis.get_instructions(code)}
    # Python 3.12 gives the place of the instruction's inline cache, which is no instruction of its own.
    waiting = instructions[max(place for place in instructions if place <= offset)] if offset >= 0 else None
    if waiting is None or not waiting.opname.startswith("SEND") or not isinstance(waiting.argval, int):
        return False
    place = waiting.argval
    while place in instructions and instructions[place].opname in _SKIPPED:
        place += 2
    return place in instructions and instructions[place].opname == "RETURN_VALUE"
