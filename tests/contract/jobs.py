"""Plays the recorded job cases: tables of pure rules, and command sequences. `run(folder, areas)`."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import jobs_sequences, jobs_tables
from .result import CaseResult

FAMILY = "jobs"


def _note(case: dict[str, Any]) -> str:
    divergence = case.get("divergence")
    return f"{divergence['code']}: the text's answer is the one that holds" if divergence else ""


def play_table(area: str, table: str, case: dict[str, Any]) -> CaseResult:
    """One case of a table."""
    name = f"{table}/{case['id']}"
    if table not in jobs_tables.TABLES:
        return CaseResult(FAMILY, area, name, "skipped", "no such table is known")
    try:
        jobs_tables.play(table, case)
    except Exception as failure:
        return CaseResult(FAMILY, area, name, "failed", f"{type(failure).__name__}: {failure}"[:2000])
    return CaseResult(FAMILY, area, name, "passed", _note(case))


def play_sequence(area: str, sequence: dict[str, Any], fixture: dict[str, Any]) -> CaseResult:
    """One command sequence in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            jobs_sequences.play(sequence, fixture, Path(folder))
        except Exception as failure:
            detail = f"{type(failure).__name__}: {failure}"[:2000]
            return CaseResult(FAMILY, area, sequence["id"], "failed", detail)
    return CaseResult(FAMILY, area, sequence["id"], "passed", _note(sequence))


def _fixture(folder: Path, name: str) -> Path:
    """The surroundings that sequences start from; our copy where a folder of cases brings none."""
    own = folder / name
    return own if own.exists() else Path(__file__).parents[1] / "vectors" / FAMILY / name


def run(folder: Path, areas: list[str]) -> Iterator[CaseResult]:
    """Results of every case below `folder` (the family's folder, or the one that holds it). No areas means all."""
    if (folder / FAMILY).is_dir():
        folder = folder / FAMILY
    for path in sorted(folder.glob("*.json")):
        document = json.loads(path.read_text())
        area = path.stem
        if areas and area not in areas:
            continue
        for table, cases in document.get("tables", {}).items():
            for case in cases:
                yield play_table(area, table, case)
        for sequence in document.get("sequences", ()):
            fixture = json.loads(_fixture(folder, document["fixture"]).read_text())
            yield play_sequence(area, sequence, fixture)
