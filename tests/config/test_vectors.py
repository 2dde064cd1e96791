"""Every recorded case of the platform's configuration tool, and the replayer's own eyesight."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.wrangler import CODES, REPLAYERS, check_config, run

FOLDER = Path(__file__).resolve().parents[1] / "vectors" / "wrangler"
CASES = [
    pytest.param(check, case, id=f"{area}-{name}")
    for area, replay in REPLAYERS.items()
    for name, case, check in replay(json.loads((FOLDER / f"{area}.json").read_text(encoding="utf-8")))
]


@pytest.mark.parametrize(("check", "case"), CASES)
def test_case(check: Any, case: dict[str, Any]) -> None:
    assert check(case) == ""


def test_every_case_of_the_files_is_run() -> None:
    count = 0
    for path in FOLDER.glob("*.json"):
        document = json.loads(path.read_text(encoding="utf-8"))
        count += sum(len(value) for value in document.values() if isinstance(value, list))
    results = list(run(FOLDER, []))
    assert len(results) == count == len(CASES)
    assert {result.outcome for result in results} == {"passed"}


def test_the_codes_are_those_of_the_cases() -> None:
    cases = json.loads((FOLDER / "config-cases.json").read_text(encoding="utf-8"))["cases"]
    assert {entry["code"] for case in cases for key in ("errors", "warnings") for entry in case.get(key, [])} == CODES


def test_a_name_that_no_case_had_before_is_compared_by_its_path() -> None:
    exports = {"A": {"type": "durable-object", "state": "deleted", "storage": "sqlite"}}
    case: dict[str, Any] = {
        "file": "wrangler.json",
        "text": json.dumps({"exports": exports}),
        "env": None,
        "warnings": [],
    }
    for code, path, passes in [
        ("forbidden", "exports.A.storage", True),
        ("forbidden", "exports.A.state", False),
        ("required", "exports.A.storage", False),
    ]:
        assert (check_config({**case, "errors": [{"code": code, "path": path}]}) == "") is passes


def test_areas_select_files() -> None:
    assert {result.area for result in run(FOLDER, ["migration-cases"])} == {"migration-cases"}


def test_an_unknown_file_is_skipped_case_by_case(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(json.dumps({"cases": [{"name": "a"}, {"name": "b"}]}))
    assert [(r.name, r.outcome) for r in run(tmp_path, [])] == [("a", "skipped"), ("b", "skipped")]


def _spoilt(area: str, case: dict[str, Any]) -> list[dict[str, Any]]:
    """The case with one expectation made wrong, in each way that its kind has."""
    result = []

    def spoil(**changes: Any) -> None:
        result.append({**copy.deepcopy(case), **changes})

    if area == "config-cases" and "refused" not in case:
        spoil(errors=[*case["errors"], {"code": "required", "path": "no.such.key"}])
        spoil(warnings=[*case["warnings"], {"code": "unexpected-field", "path": "top-level:none"}])
        spoil(refused={"code": "python-flag-missing"})
        spoil(config={**case.get("config", {}), "name": "another"})
        if case["errors"]:
            spoil(errors=case["errors"][1:])
            spoil(errors=[{**case["errors"][0], "code": "other"}, *case["errors"][1:]])
        if case["warnings"]:
            spoil(warnings=case["warnings"][1:])
    elif area == "config-cases":
        spoil(refused={"code": "other"})
    elif area == "migration-cases":
        spoil(
            **({"refused": {**case["refused"], "class": "Z"}} if "refused" in case else {"classes": {"Z": "sqlite"}})
        )
    elif area == "dev-vars-cases":
        spoil(expect={**case["expect"], "Z": {"type": "plain_text", "value": ""}})
        name, value = next(iter(case["expect"].items()))
        spoil(expect={**case["expect"], name: {**value, "type": "json"}})
    elif "id" in case:
        spoil(id=case["id"][::-1])
    else:
        spoil(**({"accepted": "0" * 64} if "accepted" in case else {"refused": "neither"}))
    return result


@pytest.mark.parametrize("area", REPLAYERS)
def test_a_wrong_expectation_is_seen(area: str) -> None:
    document = json.loads((FOLDER / f"{area}.json").read_text(encoding="utf-8"))
    unseen = [
        (name, spoilt)
        for name, case, check in REPLAYERS[area](document)
        for spoilt in _spoilt(area, case)
        # a case that expects Z or json already would pass rightly; none does
        if check(spoilt) == ""
    ]
    assert unseen == []
