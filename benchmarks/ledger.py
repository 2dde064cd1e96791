"""The action ledger, beside the plain work that it adds to, in the same run.

Building an event (canonicalise, identify, validate) beside `json.dumps` and SHA-256 of it; reading one beside
`json.loads` and SHA-256; recording beside creating and syncing a bare file; packing; importing beside bare files for
the same bindings; verifying a tree beside hashing and parsing the same bytes, with the memory that it took.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from moorage.clients.ledger.files import TrustedRoot
from moorage.clients.ledger.importer import import_shards
from moorage.clients.ledger.recorder import Recorder
from moorage.clients.ledger.shard_files import write_shards
from moorage.clients.ledger.sources import FolderSource
from moorage.clients.ledger.trees import iter_shards
from moorage.clients.ledger.verify import verify_tree
from moorage.protocols.ledger.events import Event, build_event
from moorage.protocols.ledger.identity import attempt_id, event_key, idempotency_key, operation_id
from moorage.protocols.ledger.shards import ShardIdentity, build_shards
from moorage.protocols.ledger.timestamps import millisecond_text
from moorage.protocols.ledger.validate import parse_event_line

NOW_MS = 1_783_850_400_000
PRODUCER = {
    "repository": "openclaw/clawsweeper",
    "sha": "0123456789abcdef0123456789abcdef01234567",
    "workflow": "sweep.yml",
    "job": "review",
    "runId": "100",
    "runAttempt": 1,
    "component": "review_lane.run_review.default",
}


def given(index: int, run: str = "100") -> dict[str, Any]:
    """Input of one event, its identities computed: no two are about the same item, revision or time."""
    operation = operation_id("openclaw/openclaw", "review", {"number": index})
    attempt = attempt_id(operation, {"run": run})
    return {
        "eventKey": event_key("review.item", {"attemptId": attempt, "index": index}),
        "operationId": operation,
        "attemptId": attempt,
        "parentEventId": None,
        "phaseSeq": index,
        "idempotencyKeySha256": idempotency_key({"index": index, "run": run}),
        "type": "review.item",
        "producer": {**PRODUCER, "runId": run},
        "subject": {
            "repository": "openclaw/openclaw",
            "kind": "issue",
            "number": index,
            "sourceRevision": f"2026-07-12T09:00:{index % 60:02}Z",
        },
        "action": {"name": "review.item", "status": "completed", "retryable": False, "mutation": False},
        "attributes": {"duration_ms": index, "model": "claude", "input_tokens": index * 3},
        "evidence": [{"kind": "report", "reportPath": f"records/{index}.md", "sha256": f"{index:064x}"}],
    }


def events(count: int, run: str = "100") -> Iterator[Event]:
    """That many events of one producer."""
    for index in range(1, count + 1):
        yield build_event(given(index, run), recorded_at=millisecond_text(NOW_MS + index))


def seconds(work: Callable[[], Any], *, cpu: bool = True) -> float:
    """Processor (or wall) seconds of `work`, the best of three for short work."""
    clock = time.process_time if cpu else time.perf_counter
    best, spent = float("inf"), 0.0
    while spent < 0.5 and best > 0.05:
        start = clock()
        work()
        taken = clock() - start
        best, spent = min(best, taken), spent + taken
    return best


def measure_events(count: int) -> Iterator[tuple[str, float, float]]:
    """(name, ours, baseline) in processor microseconds an event."""
    made = list(events(count))
    records = [event.record for event in made]
    lines = [event.line for event in made]

    def dumps() -> None:
        for record in records:
            hashlib.sha256(json.dumps(record).encode()).hexdigest()

    def loads() -> None:
        for line in lines:
            hashlib.sha256(line.encode()).hexdigest()
            json.loads(line)

    def read() -> None:
        for line in lines:
            parse_event_line(line)

    scale = 1e6 / count
    yield "build an event", seconds(lambda: list(events(count))) * scale, seconds(dumps) * scale
    yield "read an event", seconds(read) * scale, seconds(loads) * scale


def bare_files(folder: Path, count: int) -> float:
    """Wall seconds of creating and syncing `count` files of an event's size, each with its folder."""
    data = b"x" * 1200
    descriptor = os.open(folder, os.O_RDONLY)
    start = time.perf_counter()
    for index in range(count):
        file = os.open(folder / str(index), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(file, data)
        os.fsync(file)
        os.close(file)
        os.fsync(descriptor)
    os.close(descriptor)
    return time.perf_counter() - start


def measure_spool(folder: Path, count: int) -> tuple[float, float]:
    """Events a second: recorded, and bare files."""
    environment = {
        "CLAWSWEEPER_ACTION_LEDGER_FORCE": "1",
        "GITHUB_REPOSITORY": "openclaw/clawsweeper",
        "GITHUB_SHA": PRODUCER["sha"],
        "GITHUB_WORKFLOW": "sweep.yml",
        "GITHUB_JOB": "review",
        "GITHUB_RUN_ID": "100",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_RUN_STARTED_AT": "2026-07-12T09:59:00Z",
    }
    root, bare = folder / "spool", folder / "bare"
    root.mkdir()
    bare.mkdir()
    recorder = Recorder(os.path.realpath(root), environment={key: str(value) for key, value in environment.items()})
    start = time.perf_counter()
    for index in range(1, count + 1):
        recorder.record_phase_event(
            phase="review.item",
            status="completed",
            identity={"index": index},
            component="lane",
            subject={"repository": "openclaw/openclaw", "kind": "issue", "number": index},
            retryable=False,
            mutation=False,
        )
    ours = time.perf_counter() - start
    return count / ours, count / bare_files(bare, count)


def identity_of(run: str) -> ShardIdentity:
    """The shard identity of a run of the benchmark's producer."""
    return ShardIdentity.of_input(
        {**PRODUCER, "producer": PRODUCER["component"], "runId": run, "partitionDate": "2026-07-12"}
    )


def measure_import(folder: Path, count: int, batch: int) -> tuple[float, float]:
    """Events a second: imported in batches, and bare files for the same number of bindings."""
    (folder / "state").mkdir()
    (folder / "bindings").mkdir()
    state = os.path.realpath(folder / "state")
    taken = 0.0
    for number in range(0, count, batch):
        source = folder / f"source{number}"
        source.mkdir()
        run = str(1000 + number)
        write_shards(TrustedRoot(os.path.realpath(source)), identity_of(run), list(events(batch, run)))
        start = time.perf_counter()
        import_shards(os.path.realpath(source), state)
        taken += time.perf_counter() - start
    return count / taken, count / bare_files(folder / "bindings", count)


def make_tree(folder: Path, count: int) -> None:
    """A tree of `count` events in runs of 8192, written without syncing: only reading it is measured."""
    for number in range(0, count, 8192):
        run = str(10_000 + number)
        made = list(events(min(8192, count - number), run))
        for shard in build_shards(identity_of(run), made):
            path = folder / shard.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(shard.text)


def _baseline(tree: Path) -> float:
    start = time.perf_counter()
    for path in sorted(tree.rglob("*.jsonl")):
        data = path.read_bytes()
        hashlib.sha256(data).hexdigest()
        for line in data.splitlines():
            json.loads(line)
    return time.perf_counter() - start


def _verify(tree: str) -> tuple[float, float, int, int]:
    """Wall seconds, MiB that verifying added to this fresh process, events and bytes."""
    source = FolderSource(tree)
    next(iter(iter_shards(source)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    report = verify_tree(source)
    taken = time.perf_counter() - start
    if report.fault is not None:
        raise AssertionError(f"the tree does not verify: {report.fault}")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return taken, (after - before) / 1024, report.events, report.bytes


def measure_verify(folder: Path, count: int) -> dict[str, float]:
    """Wall seconds of verifying and of hashing and parsing the same bytes, and what verifying added to memory.

    The memory is that beyond reading one shard.
    """
    tree = folder / "tree"
    tree.mkdir()
    make_tree(tree, count)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        ours, added, seen, size = pool.apply(_verify, (os.path.realpath(tree),))
    if seen != count:
        raise AssertionError(f"{seen} events verified of {count}")
    return {"ours": ours, "baseline": _baseline(tree), "megabytes": size / 1e6, "added_mib": added}


def run(
    *, built: int = 2000, spooled: int = 300, packed: int = 65_536, imported: int = 4096, verified: int = 65_536
) -> dict[str, Any]:
    """Prints and returns every figure beside its baseline."""
    results: dict[str, Any] = {}

    def show(name: str, text: str, **values: float) -> None:
        results[name] = values
        print(f"ledger: {name:<18} {text}")

    for name, ours, baseline in measure_events(built):
        ratio = ours / baseline
        show(
            name,
            f"{ours:>8.1f} µs CPU   {1e6 / ours:.0f}/s   JSON and SHA-256 {baseline:.1f} µs   ratio {ratio:.2f}",
            microseconds=ours,
            baseline=baseline,
            ratio=ratio,
        )
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        ours, baseline = measure_spool(folder, spooled)
        show(
            "record",
            f"{ours:>8.0f} events/s   bare synced files {baseline:>8.0f}/s   ratio {baseline / ours:.2f}",
            ours=ours,
            baseline=baseline,
        )
        made_events = list(events(packed))
        start = time.perf_counter()
        shards = build_shards(identity_of("100"), made_events)
        taken = time.perf_counter() - start
        show(
            "pack",
            f"{packed / taken:>8.0f} events/s   {packed} events into {len(shards)} shards in {taken:.2f} s",
            seconds=taken,
        )
        del made_events, shards
        ours, baseline = measure_import(folder, imported, min(imported, 4096))
        show(
            "import",
            f"{ours:>8.0f} events/s   bare synced files {baseline:>8.0f}/s   ratio {baseline / ours:.2f}",
            ours=ours,
            baseline=baseline,
        )
    with tempfile.TemporaryDirectory() as made:
        found = measure_verify(Path(made), verified)
        show(
            "verify",
            f"{verified / found['ours']:>8.0f} events/s   {found['megabytes']:.0f} MB in {found['ours']:.2f} s   "
            f"SHA-256 and json.loads alone {found['baseline']:.2f} s   "
            f"ratio {found['ours'] / found['baseline']:.2f}   memory +{found['added_mib']:.1f} MiB",
            **found,
        )
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for option, default in (("built", 2000), ("spooled", 300), ("packed", 65_536), ("imported", 4096)):
        parser.add_argument(f"--{option}", type=int, default=default)
    parser.add_argument("--verified", type=int, default=65_536, help="1000000 for the million")
    run(**vars(parser.parse_args()))
