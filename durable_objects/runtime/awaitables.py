"""Finished awaitables: what storage methods return. Awaiting one never yields, so no other event gets in between."""

from collections.abc import Generator
from typing import Any, Generic, NoReturn, TypeVar

T = TypeVar("T")


class Done(Generic[T]):
    """An awaitable that has its value already."""

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __await__(self) -> Generator[Any, None, T]:
        return self.value
        yield  # pragma: no cover - makes this a generator


class Failed:
    """An awaitable that raises its error when awaited; unawaited it stays silent, like a promise nobody reads."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __await__(self) -> Generator[Any, None, NoReturn]:
        raise self.error
        yield  # pragma: no cover - makes this a generator
