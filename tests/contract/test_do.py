"""Every Durable Object observation, replayed; and the rules by which a few may differ, held to be needed."""

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .do import AREAS, replay_case
from .do_rules import RULES, UNAVAILABLE

FOLDER = Path(__file__).parents[1] / "vectors" / "do"


def cases(area: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / f"{area}.json").read_text())["cases"]
    return found


ALL = [(area, case) for area in AREAS for case in cases(area)]


@pytest.mark.parametrize(("area", "case"), ALL, ids=[f"{area}/{case['name']}" for area, case in ALL])
def test_observation(area: str, case: dict[str, Any]) -> None:
    outcome, detail = replay_case(case)
    if outcome == "skipped":
        pytest.skip(detail)
    assert outcome == "passed", detail


def test_every_rule_is_needed() -> None:
    """On uvloop, which serves: so every observation is replayed on both event loops."""
    uvloop = pytest.importorskip("uvloop")
    used: Counter[str] = Counter()
    for area, case in ALL:
        outcome, detail = replay_case(case, uvloop.run)
        assert outcome != "failed", f"{area}/{case['name']}: {detail}"
        if outcome == "skipped":
            used.update(name.strip() for name in detail.split(":")[0].split(","))
    known = {rule.name for rule in RULES} | set(UNAVAILABLE.values())
    # `offset` excuses nothing that is recorded here, but texts where a name occurs twice are of the same kind.
    assert known - {"offset"} <= set(used), "a rule that excuses nothing must go"
    assert set(used) <= known


@pytest.mark.parametrize("area", ["kv", "sql", "gates", "alarms", "transactions"])
def test_a_wrong_expectation_is_noticed(area: str) -> None:
    """The replayer can fail: every observed number is made wrong, one case at a time."""
    noticed = 0
    for case in cases(area)[:12]:
        spoilt = copy.deepcopy(case)
        if not _spoil(spoilt["observed"]):
            continue
        if replay_case(case)[0] == "passed":
            assert replay_case(spoilt)[0] == "failed", case["name"]
            noticed += 1
    assert noticed > 0


def _spoil(value: Any) -> bool:
    items: Any = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        if isinstance(item, bool):
            value[key] = not item
            return True
        if isinstance(item, int) and key not in {"tol_ms", "slept"}:
            value[key] = item + 1
            return True
        if isinstance(item, dict | list) and _spoil(item):
            return True
    return False
