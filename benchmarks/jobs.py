"""Claims a second of a job queue, beside SQLite doing the same `UPDATE … RETURNING` alone in the same run.

`run()` measures one process claiming from a local queue and the statement alone on the same rows, both with synced
commits; the same without syncs, where the code shows and not the disk; four processes at once; and eight callers of
the shared queue's object, which sees no network but syncs what it answers.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moorage.clients.jobs.folder import JobsFolder
from moorage.clients.jobs.local import LocalQueue
from moorage.protocols.jobs import sql
from moorage.protocols.jobs.steps import Statement
from tests.support.jobs_bulk import bulk, fill

JOBS = 2000
PROCESSES = 4


def _rate(work: Callable[[], int]) -> float:
    start = time.perf_counter()
    count = work()
    return count / (time.perf_counter() - start)


def _queue(root: Path, synced: bool) -> int:
    count = 0
    with LocalQueue.open(root) as queue:
        if not synced:
            queue.database.execute(Statement("PRAGMA synchronous = OFF"))
        while queue.call("claim", {})["job"] is not None:
            count += 1
    return count


def _statement(root: Path, synced: bool) -> int:
    count = 0
    connection = sqlite3.connect(JobsFolder(root).database, isolation_level=None, timeout=60)
    try:
        connection.execute(f"PRAGMA synchronous = {'FULL' if synced else 'OFF'}")
        while True:
            now = time.time_ns() // 1_000_000
            if not connection.execute(sql.CLAIM, (now, now)).fetchall():
                return count
            count += 1
    finally:
        connection.close()


def _measure(work: Callable[[Path, bool], int], synced: bool, jobs: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), jobs)
        return _rate(lambda: work(Path(folder), synced))


def _measure_many(work: Callable[[Path, bool], int], jobs: int) -> float:
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder, context.Pool(PROCESSES) as pool:
        fill(Path(folder), jobs)
        pool.map(abs, range(PROCESSES))  # every process is up
        return _rate(lambda: sum(pool.starmap(work, [(Path(folder), True)] * PROCESSES)))


async def _object(jobs: int) -> float:
    """The object's claim without HTTP, on files with grouped syncs, eight callers at once."""
    from types import SimpleNamespace

    from moorage.durable_objects.objects.jobs import JobQueue
    from moorage.durable_objects.runtime import Runtime

    class Filled(JobQueue):
        async def fill(self, count: int) -> None:
            self._storage.store(bulk(count))

    with tempfile.TemporaryDirectory() as folder:
        runtime = Runtime(folder)
        namespace = runtime.namespace("bench-JobQueue", Filled, SimpleNamespace())
        await runtime.start()
        try:
            await namespace.getByName("q").fill(jobs)

            async def caller(number: int) -> int:
                count = 0
                while (await namespace.getByName("q").claim({}, str(number)))["value"]["job"] is not None:
                    count += 1
                return count

            start = time.perf_counter()
            count = sum(await asyncio.gather(*(caller(number) for number in range(8))))
            return count / (time.perf_counter() - start)
        finally:
            await runtime.close()


def run(jobs: int = JOBS) -> dict[str, Any]:
    """Prints and returns claims a second by case, each with its baseline and the ratio baseline / ours."""
    results: dict[str, Any] = {}

    def show(name: str, ours: float, baseline: float) -> None:
        ratio = baseline / ours
        results[name] = {"claims_per_second": ours, "sqlite_alone": baseline, "ratio": ratio}
        print(f"jobs: {name:<28} {ours:>8.0f} claims/s   SQLite alone {baseline:>8.0f}   ratio {ratio:.2f}")

    alone = _measure(_statement, True, jobs)
    show("local, one process", _measure(_queue, True, jobs), alone)
    show("local, one process, no sync", _measure(_queue, False, jobs), _measure(_statement, False, jobs))
    show(f"local, {PROCESSES} processes", _measure_many(_queue, jobs), _measure_many(_statement, jobs))
    show("shared object, 8 callers", asyncio.run(_object(jobs)), alone)
    return results


if __name__ == "__main__":
    run()
