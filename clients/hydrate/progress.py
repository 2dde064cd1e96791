"""Showing a person how far a long run is."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Bar(Protocol):
    """A running count."""

    def update(self, n_steps: int) -> None:
        """Counts on by `n_steps`."""


class Silent:
    """Shows nothing: for programs, and where no terminal is attached."""

    @contextmanager
    def bar(self, label: str, length: int | None) -> Iterator[Bar]:
        """A bar that is not shown."""
        yield self

    def update(self, n_steps: int) -> None:
        """Does nothing."""


class Terminal:
    """A bar on standard error for every stage."""

    @contextmanager
    def bar(self, label: str, length: int | None) -> Iterator[Bar]:
        """A bar of `length` steps; without one, a count."""
        import click

        if length is None:
            counter = _Counter(label)
            yield counter
            counter.end()
            return
        with click.progressbar(length=length, label=label, file=sys.stderr) as shown:
            yield shown


class _Counter:
    def __init__(self, label: str) -> None:
        self._label = label
        self._count = 0

    def update(self, n_steps: int) -> None:
        """Shows the count."""
        self._count += n_steps
        sys.stderr.write(f"\r{self._label}: {self._count}")
        sys.stderr.flush()

    def end(self) -> None:
        """Ends the line."""
        if self._count:
            sys.stderr.write("\n")


Progress = Silent | Terminal


def progress_of(wanted: bool = True) -> Progress:
    """Bars when a person is looking at standard error, and they are wanted."""
    return Terminal() if wanted and sys.stderr.isatty() else Silent()
