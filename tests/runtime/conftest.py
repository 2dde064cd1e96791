"""Runtimes on disk and in memory, ended after each test."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from moorage.durable_objects.runtime import Runtime, RuntimeSettings
from moorage.durable_objects.runtime.testing import ControlledLog, ManualClock, memory_runtime

Make = Callable[..., Awaitable[Runtime]]


@pytest.fixture
async def on_disk(tmp_path: Path) -> AsyncIterator[Make]:
    """Makes started runtimes on a folder: `await on_disk({"Counter": Counter}, log=…, folder=…)`."""
    made: list[Runtime] = []

    async def make(
        classes: dict[str, type[Any]],
        *,
        folder: Path | None = None,
        log: ControlledLog | None = None,
        settings: RuntimeSettings | None = None,
        clock: ManualClock | None = None,
    ) -> Runtime:
        runtime = Runtime(folder or tmp_path / "state", settings=settings, log=log, clock=clock, rng=random.Random(1))
        for name, cls in classes.items():
            runtime.namespace(f"w-{name}", cls)
        await runtime.start()
        made.append(runtime)
        return runtime

    yield make
    for runtime in made:
        await runtime.close()


@pytest.fixture
async def in_memory() -> AsyncIterator[Make]:
    """Makes started runtimes in memory on a hand-set clock."""
    made: list[Runtime] = []

    async def make(classes: dict[str, type[Any]], **options: Any) -> Runtime:
        runtime = memory_runtime(**options)
        for name, cls in classes.items():
            runtime.namespace(f"w-{name}", cls)
        await runtime.start()
        made.append(runtime)
        return runtime

    yield make
    for runtime in made:
        await runtime.close()
