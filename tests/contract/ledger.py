"""Plays the recorded ledger cases against Moorage's ledger: `run(folder, areas)`.

Refusal is binding, its class is advice (spec action-ledger 18): a case that is refused with another class passes.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import ledger_files, ledger_rules
from .result import CaseResult, refuse_unknown

Case = dict[str, Any]

MEMBERS = frozenset({
    "accepted", "args", "bytes", "canonical", "component", "components", "content", "count", "dir_range", "dirs",
    "enabled", "env", "event_count", "event_id", "event_ids", "event_line", "event_line_bytes", "event_line_sha256",
    "event_lines", "events", "file_range", "file_sha256", "files", "files_after", "files_base64", "flush_paths",
    "flush_rejected", "function", "generated_occurred_at", "group", "id", "identity", "index", "input", "input_parts",
    "kind", "lane", "left", "links", "marker", "mode", "name", "normalized", "note", "now", "ops", "order",
    "output_tree", "partition_marker", "path", "preimage", "producer", "recipes", "rejected", "replay_json",
    "replay_sha256", "repository", "request", "response_status", "result", "reverse", "right", "root_tree",
    "semantic_sha256", "sha256", "shards", "skipped", "spool_path", "steps", "tree", "tree_file_count", "tree_sha256",
    "value", "value_parts", "values", "wrote_anything",
})  # fmt: skip
"""What the cases of any area may hold."""

STEP_MEMBERS = frozenset({
    "dest_suffix", "disabled", "env", "event_id", "events", "expected_event_paths", "expected_producer", "input",
    "labels", "now", "op", "path", "paths", "reason_code", "rejected", "result", "root", "source", "started", "text",
    "written",
})  # fmt: skip

AREAS: dict[str, Callable[[Case], None]] = {**ledger_rules.AREAS, **ledger_files.AREAS}


def load(folder: Path, area: str) -> list[Case]:
    """The cases of one area."""
    cases: list[Case] = json.loads((folder / f"{area}.json").read_text())["cases"]
    return cases


def play(area: str, case: Case) -> CaseResult:
    """Runs one case."""
    try:
        refuse_unknown(case, MEMBERS, "case")
        for step in (*case.get("ops", ()), *case.get("steps", ())):
            refuse_unknown(step, STEP_MEMBERS, "step")
        AREAS[area](case)
    except ledger_rules.OtherClass:
        pass
    except Exception as failure:  # whatever goes wrong is this case's failure, and the next one is played
        return CaseResult("ledger", area, case["id"], "failed", f"{type(failure).__name__}: {failure}"[:2000])
    return CaseResult("ledger", area, case["id"], "passed")


def run(folder: Path, areas: list[str]) -> Iterator[CaseResult]:
    """Results of every case below `folder` (the family's folder, or the one that holds it). No areas means all."""
    if (folder / "ledger").is_dir():
        folder = folder / "ledger"
    for path in sorted(folder.glob("*.json")):
        area = path.stem
        if areas and area not in areas:
            continue
        for case in load(folder, area):
            if area in AREAS:
                yield play(area, case)
            else:
                yield CaseResult("ledger", area, case["id"], "skipped", "no such area is known")
