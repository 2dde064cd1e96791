"""`make vectors VECTORS=DIR [FAMILY=do] [AREA="kv sql"]`: runs the replayers over a folder laid out by family.

Prints what failed and what was skipped, ends with one line a family, `do: N passed, N failed, N skipped`, and exits
with 1 when a case failed, with 2 when there is nothing to run.
"""

import argparse
import importlib
import json
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from .result import CaseResult

# family: the replayers (module, what the names of its areas begin with) that share its folder, the first that fits
FAMILIES: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "do": (("r2", "r2-"), ("do", "")),
    "wrangler": (("wrangler", ""),),
    "state-plane": (("state_plane", ""),),
    "ledger": (("ledger", ""),),
    "sweep": (("sweep", ""),),
    "jobs": (("jobs", ""),),
}


def areas_of(folder: Path, wanted: list[str]) -> list[str]:
    """The areas (file names without ending) of a family's folder, those asked for if any are."""
    return [path.stem for path in sorted(folder.glob("*.json")) if not wanted or path.stem in wanted]


def replay(family: str, folder: Path, wanted: list[str]) -> Iterator[CaseResult]:
    """Yields the outcome of every case of a family."""
    left = areas_of(folder, wanted)
    for module, beginning in FAMILIES[family]:
        areas = [area for area in left if area.startswith(beginning)]
        left = [area for area in left if area not in areas]
        if areas:
            yield from importlib.import_module(f"tests.contract.{module}").run(folder, areas)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="make vectors", description=__doc__)
    parser.add_argument("--vectors", default="", help="folder with one folder a family; tests/vectors when empty")
    parser.add_argument("--family", default="", help="only this family")
    parser.add_argument("--area", default="", help="only these areas, separated by spaces")
    parser.add_argument("--json", action="store_true", help="one JSON object a case")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    root = Path(options.vectors or Path(__file__).parents[1] / "vectors")
    families = [options.family] if options.family else [name for name in FAMILIES if (root / name).is_dir()]
    unknown = [name for name in families if name not in FAMILIES]
    if unknown or not families or not root.is_dir():
        what = f"no family {unknown[0]!r}" if unknown else f"no families in {root}"
        print(f"{what}; families are {', '.join(FAMILIES)}", file=sys.stderr)
        return 2
    totals: dict[str, Counter[str]] = {}
    for family in families:
        count = totals[family] = Counter()
        for result in replay(family, root / family, options.area.split()):
            count[result.outcome] += 1
            _report(result, as_json=options.json)
    for family, count in totals.items():
        print(f"{family}: {count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    if not any(sum(count.values()) for count in totals.values()):
        print("no case was found", file=sys.stderr)
        return 2
    return 1 if any(count["failed"] for count in totals.values()) else 0


def _report(result: CaseResult, *, as_json: bool) -> None:
    if as_json:
        fields: dict[str, Any] = {
            name: getattr(result, name) for name in ("family", "area", "name", "outcome", "detail")
        }
        print(json.dumps(fields, ensure_ascii=False))
    elif result.outcome != "passed":
        print(f"{result.outcome}: {result.family}/{result.area}: {result.name}: {result.detail}")


if __name__ == "__main__":
    sys.exit(main())
