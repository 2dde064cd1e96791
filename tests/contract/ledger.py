"""Plays the recorded ledger cases against Moorage's ledger: `run(folder, areas)`.

Refusal is binding, its class is advice (spec action-ledger 18): a case that is refused with another class passes.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from . import ledger_files, ledger_rules
from .result import CaseResult

Case = dict[str, Any]

AREAS: dict[str, Callable[[Case], None]] = {**ledger_rules.AREAS, **ledger_files.AREAS}


def load(folder: Path, area: str) -> list[Case]:
    """The cases of one area."""
    cases: list[Case] = json.loads((folder / f"{area}.json").read_text())["cases"]
    return cases


def play(area: str, case: Case) -> CaseResult:
    """Runs one case."""
    try:
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
