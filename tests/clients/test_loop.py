"""The thread that synchronous clients run on."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from moorage.clients.loop import LoopThread


@contextlib.contextmanager
def interrupts(started: threading.Event | None = None) -> Iterator[None]:
    """SIGINT for this thread, once `started` is set; again if it came just before the thread began to wait."""
    main, ended = threading.get_ident(), threading.Event()

    def send() -> None:
        if started is not None:
            started.wait(10)
        pause = 0.01
        while not ended.wait(pause):
            signal.pthread_kill(main, signal.SIGINT)
            pause = 10

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        ended.set()
        sender.join()


class TestLoopThread:
    def test_closing_waits_until_what_was_cancelled_has_cleaned_up(self) -> None:
        order: list[str] = []
        started = threading.Event()

        async def work() -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                order.append("cleaned up")

        async def last() -> None:
            order.append("last")

        loop = LoopThread()
        with pytest.raises(KeyboardInterrupt):
            self.interrupt(loop, work(), started)
        loop.close(last)
        assert order == ["cleaned up", "last"]

    def test_what_is_last_may_fail(self) -> None:
        async def last() -> None:
            raise OSError("no")

        before = threading.active_count()
        loop = LoopThread()
        with pytest.raises(OSError, match="no"):
            loop.close(last)
        assert threading.active_count() == before

    @staticmethod
    def interrupt(loop: LoopThread, work: Any, started: threading.Event) -> None:
        with interrupts(started):
            loop.run(work)

    def test_no_thread_is_left(self) -> None:
        before = threading.active_count()
        loop = LoopThread()
        assert threading.active_count() == before + 1
        loop.close()
        loop.close()
        assert threading.active_count() == before

    def test_an_interrupted_step_of_an_iterator_ends_before_it_is_closed(self) -> None:
        closed = []

        async def slow() -> Any:
            try:
                await asyncio.Event().wait()
                yield 1
            finally:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                closed.append(True)

        loop = LoopThread()
        real = loop.run
        try:

            def interrupted(work: Any) -> Any:
                loop.run = real  # type: ignore[method-assign]
                with interrupts():
                    return real(work)

            loop.run = interrupted  # type: ignore[method-assign]
            with pytest.raises(KeyboardInterrupt):
                next(loop.iterate(slow()))
            assert closed == [True]
        finally:
            loop.close()

    def test_iterators_are_closed_when_they_are_dropped(self) -> None:
        closed = []

        async def numbers() -> Any:
            try:
                for number in range(10):
                    yield number
            finally:
                closed.append(True)

        loop = LoopThread()
        try:
            assert list(loop.iterate(numbers())) == list(range(10))
            dropped = loop.iterate(numbers())
            assert next(dropped) == 0
            dropped.close()  # type: ignore[attr-defined]
            assert closed == [True, True]
        finally:
            loop.close()
