"""How a rule that needs stored rows stays pure: it yields statements as values and is sent their rows.

An operation of the queue is a generator of `Statement`. Whoever holds a database runs it inside one transaction:
each statement is executed, its rows are sent back, and the returned value is the outcome; an exception rolls back.
The local engine does so on a SQLite connection, the `JobQueue` object on `ctx.storage.sql`, and a test on a list.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
SqlValue: TypeAlias = str | int | float | None
Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """One SQL statement and its bindings, in the order of its `?`."""

    sql: str
    bindings: tuple[SqlValue, ...] = ()


Steps: TypeAlias = Generator[Statement, list[Row], T]
Execute: TypeAlias = Callable[[Statement], list[Row]]


def run_steps(steps: Steps[T], execute: Execute) -> T:
    """Drives an operation with `execute`, which returns the rows of a statement. The transaction is the caller's."""
    try:
        statement = next(steps)
        while True:
            statement = steps.send(execute(statement))
    except StopIteration as stop:
        outcome: T = stop.value
        return outcome
