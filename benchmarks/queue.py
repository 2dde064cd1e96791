"""The review queue: what events, claims, heartbeats and completions cost, and how that changes as the queue grows.

`run()` first fills the queue and measures events at each size, then lets 64 workers work items of many repositories
off, hand-outs by the alarm included. No HTTP; files with grouped syncs, so that every answer is durable. The baseline
of the same run is SQLite alone, measured beside each row: one indexed row a commit, synced. A rate follows that
baseline; CPU a call is what tells whether a growing queue costs more.

    python -m benchmarks queue                  # small
    python -m benchmarks.queue 100000 20000     # largest queue, items that are worked off
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

LARGEST = 10_000
WORKED_OFF = 2_000
REPOSITORIES = 500
WORKERS = 64
SAMPLE = 2_000
REFERENCE_CPU_MS = 12.5
"""What an event cost the reference Worker on its own runtime after some thousand items."""


def _decision(number: int) -> dict[str, Any]:
    return {
        "targetRepo": f"acme/r{number % REPOSITORIES}",
        "targetBranch": "main",
        "itemNumber": number,
        "itemKind": "issue",
        "sourceEvent": "issues",
        "sourceAction": "opened",
        "supersedesInProgress": False,
    }


class Latencies:
    """Times of one kind of call."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.started = time.perf_counter()
        self.cpu = time.process_time()

    async def time(self, call: Callable[[], Awaitable[Any]]) -> Any:
        """Awaits the call and keeps how long it took."""
        start = time.perf_counter()
        answer = await call()
        self.seconds.append(time.perf_counter() - start)
        return answer

    def row(self) -> dict[str, float]:
        """Calls a second, CPU of the process a call, and percentiles."""
        elapsed, cpu = time.perf_counter() - self.started, time.process_time() - self.cpu
        ordered = sorted(self.seconds)
        return {
            "per_second": len(ordered) / elapsed,
            "cpu_ms": 1000 * cpu / len(ordered),
            "p50_ms": 1000 * ordered[len(ordered) // 2],
            "p99_ms": 1000 * ordered[len(ordered) * 99 // 100],
        }


def _sqlite_alone(rows: int = 500) -> float:
    """Rows a second: one indexed row of an event's size a commit, synced."""
    with tempfile.TemporaryDirectory() as folder:
        connection = sqlite3.connect(Path(folder) / "baseline.sqlite", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE t (k TEXT PRIMARY KEY, v TEXT, due INTEGER)")
        connection.execute("CREATE INDEX i ON t (due, k)")
        start = time.perf_counter()
        for number in range(rows):
            connection.execute("INSERT INTO t VALUES (?, ?, ?)", (f"acme/r#{number}", str(_decision(number)), number))
        elapsed = time.perf_counter() - start
        connection.close()
        return rows / elapsed


async def _events(queue: Any, numbers: range, callers: int = 16) -> Latencies:
    """New items, `callers` at a time."""
    waiting = iter(numbers)
    latencies = Latencies()

    async def caller() -> None:
        for number in waiting:
            event = {"delivery_id": f"d-{number}", "decision": _decision(number)}
            answer = await latencies.time(partial(queue.enqueue, event))
            assert answer["value"]["queued"], answer

    await asyncio.gather(*(caller() for _ in range(callers)))
    return latencies


async def _grow(namespace: Any, largest: int, show: Callable[[str, dict[str, float]], None]) -> None:
    queue, done = namespace.getByName("growing"), 0
    for size in (1_000, 10_000, 100_000):
        if size > largest:
            break
        sample = min(SAMPLE, size // 2)
        await _events(queue, range(done + 1, size - sample + 1))
        show(f"event, {size:,} pending", (await _events(queue, range(size - sample + 1, size + 1))).row())
        done = size


async def _work_off(namespace: Any, host: Any, items: int, show: Callable[[str, dict[str, float]], None]) -> None:
    queue = namespace.getByName("worked-off")
    kinds = {kind: Latencies() for kind in ("claim", "heartbeat", "complete")}
    finished = 0

    async def worker(number: int) -> None:
        nonlocal finished
        while finished < items:
            payload = await host.handed_out.get()
            if payload is None:
                return
            held = {
                "lease_id": payload["queue_lease_id"],
                **{name: payload["queue_claim"][name] for name in ("item_key", "lease_revision")},
                "run_id": str(number + 1),
                "run_attempt": 1,
            }
            claimed = await kinds["claim"].time(partial(queue.claim_lease, held))
            assert claimed["status"] == 200, claimed
            held["claim_generation"] = claimed["value"]["claim_generation"]
            await kinds["heartbeat"].time(partial(queue.heartbeat_lease, held))
            ended = await kinds["complete"].time(partial(queue.complete_lease, {**held, "outcome": "success"}))
            assert ended["status"] == 200, ended
            finished += 1
            if finished == items:
                for _ in range(WORKERS):
                    host.handed_out.put_nowait(None)

    await _events(queue, range(1, items + 1))
    for latencies in kinds.values():
        latencies.started, latencies.cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker(number) for number in range(WORKERS)))
    rows = {kind: latencies.row() for kind, latencies in kinds.items()}
    for kind, row in rows.items():
        show(f"{kind}, {WORKERS} workers", row)


async def _measure(largest: int, items: int, show: Callable[[str, dict[str, float]], None]) -> None:
    from moorage.durable_objects.objects.codehost.local import TrustingCodeHost
    from moorage.durable_objects.objects.exact_review_queue import ExactReviewQueue
    from moorage.durable_objects.runtime import Runtime

    class Host(TrustingCodeHost):
        def __init__(self) -> None:
            self.handed_out: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()

        async def dispatch(self, event_type: str, payload: dict[str, Any]) -> None:
            self.handed_out.put_nowait(payload)

    host = Host()

    class Growing(ExactReviewQueue):
        """Nothing is handed out."""

    class Working(ExactReviewQueue):
        """Everything is handed out as fast as there are workers."""

        def __init__(self, ctx: Any, env: Any) -> None:
            super().__init__(ctx, env)
            self.codehost = host

    env = SimpleNamespace(
        EXACT_REVIEW_DISPATCH_DEBOUNCE_MS="0",
        EXACT_REVIEW_DISPATCH_DEBOUNCE_MAX_MS="0",
        EXACT_REVIEW_QUEUE_MAX_CONCURRENT=str(2 * WORKERS),
        EXACT_REVIEW_ADMISSION_PASS_LIMIT=str(2 * WORKERS),
        EXACT_REVIEW_ADMISSION_PASS_INTERVAL_MS="0",
        EXACT_REVIEW_DISPATCH_CONCURRENCY="32",
    )
    with tempfile.TemporaryDirectory() as folder:
        runtime = Runtime(folder)
        growing = runtime.namespace("bench-Growing", Growing, env)
        working = runtime.namespace("bench-Working", Working, env)
        await runtime.start()
        try:
            await _grow(growing, largest, show)
            await _work_off(working, host, items, show)
        finally:
            await runtime.close()


def run(largest: int = LARGEST, items: int = WORKED_OFF) -> dict[str, Any]:
    """Prints and returns a row for each kind of call, beside SQLite alone and the reference's CPU an event."""
    results: dict[str, Any] = {}

    def show(name: str, row: dict[str, float]) -> None:
        # beside each row, not once: what a sync costs changes with what else the disk is doing
        alone = _sqlite_alone()
        results[name] = {**row, "sqlite_alone_per_second": alone, "reference_cpu_ms": REFERENCE_CPU_MS}
        print(
            f"queue: {name:<24}{row['per_second']:>8.0f}/s  p50 {row['p50_ms']:>6.2f} ms"
            f"  p99 {row['p99_ms']:>7.2f} ms  CPU {row['cpu_ms']:>5.2f} ms   SQLite alone {alone:>7.0f} rows/s",
            flush=True,
        )

    asyncio.run(_measure(largest, items, show))
    return results


if __name__ == "__main__":
    run(*map(int, sys.argv[1:]))
