"""What one `upsert-item` among 10,000 items costs, beside parsers that anybody may use, in the same run.

`run()` measures on a state file of `items` items: the whole command as a process of its own, beside a Python process
that does nothing but start; the engine inside a process, beside PyYAML's C reader and writer on the same file, where
it is there; and a batch of 1,000 upserts of the shared object on disk, beside SQLite alone writing the same rows in
one synced transaction. Beside the seconds on the wall the command's CPU seconds are shown, which a busy machine does
not stretch.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from moorage.clients.sweep import SweepFile
from moorage.protocols.sweep import Word

ITEMS = 10_000
BATCH = 1000
ROUNDS = 5
NOW = "2026-07-02T12:00:00+00:00"


def document(items: int) -> dict[str, Any]:
    """A state with that many items of nine fields, held by writer `w1`."""
    return {
        "schema_version": 1,
        "lease": {"writer": "w1", "timestamp": NOW, "ttl_minutes": 60},
        "sources": {"slack:C42": {"cursor": "1699999999.000100"}},
        "items": {
            f"slack:C42:{number}": {
                "source": "slack:C42",
                "status": "acknowledged",
                "title": f"Report {number}: “the page” does not load",
                "url": f"https://example.test/archives/C42/p{number}",
                "body": "It hangs on the second step. " * 4 + f'"{number}"',
                "id": str(number),
                "labels": ["bug", "triage"],
                "thread": {"replies": number % 7, "last": NOW},
            }
            for number in range(items)
        },
    }


def _seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The best of some rounds."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def _children_cpu() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def _process(*arguments: str) -> Callable[[], object]:
    return lambda: subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def _yaml_round(path: Path) -> Callable[[], object] | None:
    import yaml

    if not hasattr(yaml, "CSafeLoader"):
        return None

    def work() -> None:
        value = yaml.load(path.read_bytes(), yaml.CSafeLoader)
        path.with_suffix(".copy").write_text(yaml.dump(value, Dumper=yaml.CSafeDumper, allow_unicode=True))

    return work


async def _object(items: int) -> float:
    from moorage.durable_objects.objects.sweep_state import SweepState
    from moorage.durable_objects.runtime import Runtime
    from moorage.protocols.sweep import emit
    from moorage.protocols.sweep.shared import dumps

    with tempfile.TemporaryDirectory() as folder:
        runtime = Runtime(folder)
        namespace = runtime.namespace("bench-SweepState", SweepState, SimpleNamespace())
        await runtime.start()
        try:
            stub = namespace.getByName("bench")
            await stub.call("import", dumps({"document": emit(document(items))}))
            rows = [{"source": "s", "id": str(number), "item": {"status": "ingested"}} for number in range(BATCH)]
            body = dumps({"writer": "w1", "items": rows})
            best = float("inf")
            for _ in range(3):
                start = time.perf_counter()
                answer = await stub.call("upsert-items", body)
                best = min(best, time.perf_counter() - start)
                assert answer["status"] == 200, answer
            return best
        finally:
            await runtime.close()


def _rows(folder: Path) -> Callable[[], object]:
    connection = sqlite3.connect(folder / "rows.sqlite")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE rows (name TEXT PRIMARY KEY, value TEXT)")
    record = json.dumps({"source": "s", "status": "ingested", "id": "1000"})

    def work() -> None:
        with connection:
            connection.executemany(
                "INSERT OR REPLACE INTO rows VALUES (?, ?)", ((f"s:{number}", record) for number in range(BATCH))
            )

    return work


def run(items: int = ITEMS) -> dict[str, Any]:
    """Prints and returns seconds by case, each with its baseline and the ratio ours / baseline."""
    results: dict[str, Any] = {}

    def show(name: str, ours: float, what: str, baseline: float | None) -> None:
        results[name] = {"seconds": ours, "baseline": what, "baseline_seconds": baseline}
        beside = "not there" if baseline is None else f"{baseline:.3f} s   ratio {ours / baseline:.2f}"
        print(f"sweep: {name:<34} {ours:.3f} s   {what} {beside}")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "sweep-state.yaml"
        engine = SweepFile(path)
        engine.put(document(items))

        def upsert() -> None:
            outcome = engine.upsert_item("slack:C42", "17", '{"status": "analyzed"}', "w1", NOW)
            assert outcome.word is Word.OK, outcome

        arguments = ["upsert-item", "--state", str(path), "--id", "17", "--source", "slack:C42", "--writer", "w1"]
        started = _children_cpu()
        command = _process("-m", "moorage.clients.cli", "sweep", *arguments, "--json", '{"status": "in_plan"}')
        wall = _seconds(command)
        cpu = (_children_cpu() - started) / ROUNDS
        show(f"upsert-item, {items} items, command", wall, "python -c ''", _seconds(_process("-c", "")))
        results["command CPU"] = {"seconds": cpu, "baseline": None, "baseline_seconds": None}
        print(f"sweep: upsert-item, {items} items, command, CPU {cpu:.3f} s")
        copy = _yaml_round(path)
        show(
            f"upsert-item, {items} items, engine",
            _seconds(upsert),
            "PyYAML (C) load and dump",
            None if copy is None else _seconds(copy, 1),
        )
        batch = asyncio.run(_object(items))
        show(f"{BATCH} upserts in one batch, object", batch, "SQLite alone", _seconds(_rows(folder)))
    return results


if __name__ == "__main__":
    run()
