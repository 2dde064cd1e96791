"""The areas of the ledger vectors that play on a file system, each case in fresh folders."""

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from moorage.clients.ledger.files import TrustedRoot
from moorage.clients.ledger.finalise import finalise
from moorage.clients.ledger.importer import import_shards
from moorage.clients.ledger.interrupt import interrupt_open_attempts
from moorage.clients.ledger.recorder import Recorder
from moorage.clients.ledger.shard_files import read_shard
from moorage.clients.ledger.spool import read_event_file, read_spool, read_spool_repository
from moorage.protocols.ledger.identity import event_key
from moorage.protocols.ledger.paths import spool_path
from moorage.protocols.ledger.producers import is_enabled
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.timestamps import instant

from .ledger_rules import OtherClass, attempt, event_of, same
from .ledger_trees import files, lay, lay_source, paths_digest, put, same_tree, tree_digest

Case = dict[str, Any]

# A full, enabled run, to which the partition cases add their variables.
ENVIRONMENT = {
    "CLAWSWEEPER_ACTION_LEDGER_FORCE": "1",
    "GITHUB_REPOSITORY": "openclaw/clawsweeper",
    "GITHUB_SHA": "0123456789abcdef0123456789abcdef01234567",
    "GITHUB_WORKFLOW_REF": "openclaw/clawsweeper/.github/workflows/sweep.yml@refs/heads/main",
    "GITHUB_JOB": "review",
    "GITHUB_RUN_ID": "100",
    "GITHUB_RUN_ATTEMPT": "1",
    "GITHUB_ACTION": "run_review",
}
_SNAKE = re.compile("[A-Z]")


@contextmanager
def fresh_root() -> Iterator[Path]:
    """A new folder whose path is its own real path."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(os.path.realpath(made))


def milliseconds(timestamp: str) -> int:
    """Milliseconds since the epoch of a timestamp."""
    seconds, fraction = instant(timestamp)
    return seconds * 1000 + int(f"{fraction}000"[:3])


def snake(given: Case) -> Case:
    """Call options of camelCase input."""
    return {_SNAKE.sub(lambda found: f"_{found[0].lower()}", name): value for name, value in given.items()}


def all_or_class(case: Case, call: Callable[[], Any], others: list[str]) -> Any:
    """`attempt`, with other classes noted instead of raised, for cases of several steps."""
    try:
        return attempt(case, call)
    except OtherClass as other:
        others.append(str(other))
        return None


def partition(case: Case) -> None:
    if case["function"] == "enabled":
        assert is_enabled(case["env"]) == case["enabled"]
        return
    with fresh_root() as root:
        recorder = Recorder(str(root), environment={**ENVIRONMENT, **case["env"]}, now_ms=lambda: 0)

        def record() -> str:
            recorder.record_action_event(
                scope="review.completed",
                identity={"number": 42},
                type="review.completed",
                component="review_lane",
                subject={"repository": "openclaw/openclaw", "kind": "issue", "number": 42},
                action={"name": "review", "status": "completed", "retryable": False, "mutation": False},
            )
            (marker,) = [data for path, data in files(root).items() if path.endswith(".txt")]
            return marker.decode()

        others: list[str] = []
        result = all_or_class(case, record, others)
        if "rejected" in case:
            assert bool(files(root)) == case["wrote_anything"]
        else:
            same(case, marker=result)
        if others:
            raise OtherClass(others[0])


def reader_files(case: Case) -> None:
    with fresh_root() as root:
        put(root, "content", case["content"].encode())
        trusted = TrustedRoot(str(root))

        def read() -> list[str]:
            if case["function"] == "read_event_file":
                event = read_event_file(trusted, "content")
                assert event is not None
                return [event.event_id]
            return [event.event_id for event in read_shard(trusted, "content")]

        result = attempt(case, read)
        if result is not None:
            same(case, events=result)


def spool_read(case: Case) -> None:
    with fresh_root() as root:
        lay(root, case)
        if "components" in case:
            recipe = case["components"]
            for index in range(1, recipe["count"] + 1):
                base = recipe["base"]
                event = event_of(
                    {
                        **base,
                        "eventKey": event_key(recipe["scope"], {"index": index}),
                        "phaseSeq": index,
                        "producer": {**base["producer"], "component": f"c{index:03}"},
                    },
                    recipe["now"],
                )
                put(
                    root,
                    spool_path(event.record["subject"]["repository"], event.event_id),
                    f"{event.line}\n".encode(),
                )
        trusted = TrustedRoot(str(root))
        result = attempt(
            case,
            lambda: (
                read_spool(trusted)
                if case["function"] == "read_spool"
                else read_spool_repository(trusted, case["repository"])
            ),
        )
        if result is not None:
            same(case, event_ids=[event.event_id for event in result], event_count=len(result))


def play_op(recorder: Recorder, op: Case, output: Path) -> Case:
    """One operation of a runtime case; its result under the names of the vectors."""
    if op["op"] == "flush":
        return {"paths": finalise(recorder, str(output), projections=queue_of(recorder))}
    if op["op"] == "interrupt":
        written = interrupt_open_attempts(recorder, op.get("reason_code", "timeout"))
        return {"written": len(written)}
    call = recorder.record_phase_event if op["op"] == "phase" else recorder.record_action_event
    event = call(**snake(op["input"]))
    return {"disabled": True} if event is None else {"event_id": event.event_id}


def queue_of(recorder: Recorder) -> Any:
    """The projection queue of a recorder, for its drain."""
    return recorder._projections


def failing_queue() -> Any:
    """A live queue whose every delivery fails, as in the recorded runs."""
    from moorage.clients.ledger.delivery import ProjectionQueue

    def refuse(request: Any) -> int:
        return 503

    return ProjectionQueue(send=refuse)


def runtime(case: Case) -> None:
    others: list[str] = []
    with fresh_root() as root, fresh_root() as output:
        queue = failing_queue()
        for number, op in enumerate(case["ops"]):
            environment = {**case["env"], **op.get("env", {})}
            environment = {name: value for name, value in environment.items() if value is not None}
            now = milliseconds(op["now"]) if "now" in op else 0
            recorder = Recorder(str(root), environment=environment, now_ms=partial(int, now), projections=queue)
            result = all_or_class(op, partial(play_op, recorder, op, output), others)
            recorded = {name: op[name] for name in ("event_id", "disabled", "paths", "written") if name in op}
            assert (result or {}) == recorded, f"op {number}: {result}, recorded {recorded}"
        same_tree(files(root), case["root_tree"], "root")
        same_tree(files(output), case["output_tree"], "output")
    if others:
        raise OtherClass("; ".join(others))


def markers(case: Case) -> None:
    others: list[str] = []
    with fresh_root() as root, fresh_root() as output:
        lay(root, case)
        recorder = Recorder(str(root), environment=case["env"], now_ms=lambda: milliseconds(case["now"]))

        def record() -> Any:
            return recorder.record_action_event(**snake(case["input"]))

        event = all_or_class(case, record, others)
        if event is not None:
            same(case, event_id=event.event_id)
        if "flush_paths" in case or "flush_rejected" in case:
            flush = {"rejected": case["flush_rejected"]} if "flush_rejected" in case else {}
            paths = all_or_class(flush, lambda: finalise(recorder, str(output)), others)
            if paths is not None:
                same(case, flush_paths=paths)
        found = sorted(path for path in files(root) if path.startswith(".clawsweeper-repair/"))
        assert found == case["files_after"], f"files: {found}"
    if others:
        raise OtherClass("; ".join(others))


def play_step(step: Case, destination: Path, holder: Path) -> Case | None:
    """One step of an import case."""
    if step["op"] == "remove":
        (destination / step["path"]).unlink()
    elif step["op"] == "write":
        put(destination, step["path"], step["text"].encode())
    elif step["op"] == "read":
        return {"events": [event.event_id for event in read_shard(TrustedRoot(str(destination)), step["path"])]}
    elif step["op"] == "import":
        source = step["source"]
        if source.get("absent"):
            holder = holder / "absent"
        else:
            lay_source(holder, source)
        result = import_shards(
            f"{holder}{source.get('root_suffix', '')}",
            f"{destination}{step.get('dest_suffix', '')}",
            expected_paths=step.get("expected_event_paths"),
            expected_producer=step.get("expected_producer"),
        )
        found = result.to_json()
        found["reservation_count"] = len(result.reservation_paths)
        found["path_count"] = len(result.paths)
        found["paths_sha256"] = paths_digest(result.paths)
        return {"result": found}
    else:
        raise AssertionError(f"unknown step {step['op']}")
    return None


def imports(case: Case) -> None:
    others: list[str] = []
    with fresh_root() as destination:
        for number, step in enumerate(case["steps"]):
            with fresh_root() as holder:
                found = all_or_class(
                    step,
                    partial(play_step, step, destination, holder),
                    others,
                )
            if found is None or "rejected" in step:
                assert not {"events", "result"} & set(step), f"step {number}: there is nothing to compare"
                continue
            if "events" in step:
                events = found["events"]
                assert step["events"] in (events, len(events)), f"step {number}: {events}"
            for name, value in step.get("result", {}).items():
                assert found["result"][name] == value, (
                    f"step {number}: {name} {found['result'][name]!r}, not {value!r}"
                )
        tree = files(destination)
        same(case, tree_file_count=len(tree), tree_sha256=tree_digest(tree))
        if "tree" in case:
            same_tree(tree, case["tree"], "tree")
    if others:
        raise OtherClass("; ".join(others))


AREAS: dict[str, Callable[[Case], None]] = {
    "partition": partition,
    "reader-files": reader_files,
    "spool-read": spool_read,
    "runtime": runtime,
    "markers": markers,
    "import": imports,
}

__all__ = ["AREAS", "LedgerRefusal"]
