"""Every recorded R2 case, on every backend that keeps bytes; and the list of what may differ."""

import json
from pathlib import Path

import pytest

from moorage.r2.backends.file import DIFFERENCES as FILE_DIFFERENCES
from moorage.r2.backends.moto import DIFFERENCES as MOTO_DIFFERENCES

from .r2 import AREAS, run
from .r2_rules import RULES
from .result import CaseResult

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "do"
EXPECTED_CASES = 119


@pytest.fixture(scope="module")
def results() -> dict[str, list[CaseResult]]:
    return {backend: list(run(VECTORS, [], backend)) for backend in ("memory", "file", "moto")}


@pytest.mark.parametrize("backend", ["memory", "file", "moto"])
def test_every_case_passes_or_is_allowed_by_a_rule(results: dict[str, list[CaseResult]], backend: str) -> None:
    outcomes = results[backend]
    skipped = [result for result in outcomes if result.outcome == "skipped"]
    print(f"r2 on {backend}: {len(outcomes)} cases, {len(skipped)} skipped: {[result.name for result in skipped]}")
    assert [result for result in outcomes if result.outcome == "failed"] == []
    assert len(outcomes) == EXPECTED_CASES


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_r2_rules_are_needed(results: dict[str, list[CaseResult]], rule: object) -> None:
    name, of = rule.name, rule.of  # type: ignore[attr-defined]
    using = {backend for backend, outcomes in results.items() if any(name in result.detail for result in outcomes)}
    assert using == of


def test_the_embedded_backends_need_no_rule(results: dict[str, list[CaseResult]]) -> None:
    for backend in ("memory", "file"):
        assert {result.outcome for result in results[backend]} == {"passed"}


def test_a_wrong_expectation_fails(tmp_path: Path) -> None:
    text = (VECTORS / "r2-objects.json").read_text()
    planted = text.replace('"etag": "5d41402abc4b2a76b9719d911017c592"', '"etag": "5d41402abc4b2a76b9719d911017c593"')
    assert planted != text
    (tmp_path / "r2-objects.json").write_text(planted)
    failed = [result for result in run(tmp_path, ["r2-objects"], "memory") if result.outcome == "failed"]
    assert failed
    assert "5d41402abc4b2a76b9719d911017c593" in failed[0].detail


@pytest.mark.parametrize(
    ("case", "right", "wrong"),
    [
        ("r2-storage-class", '"key":"k"', '"key":"other"'),
        ("r2-storage-class", '"storageClass":""', '"storageClass":"Standard"'),
        ("r2-multipart-no-parts", '"key":"big"', '"key":"small"'),
    ],
)
def test_a_wrong_expectation_fails_where_an_s3_store_may_differ(
    tmp_path: Path, case: str, right: str, wrong: str
) -> None:
    for area in AREAS:
        cases = json.loads((VECTORS / f"{area}.json").read_text())["cases"]
        found = [entry for entry in cases if entry["name"] == case]
        if found:
            text = json.dumps(found[0]["observed"], separators=(",", ":"))
            assert right in text
            found[0]["observed"] = json.loads(text.replace(right, wrong, 1))
            (tmp_path / f"{area}.json").write_text(json.dumps({"cases": found}))
    assert [result.outcome for result in run(tmp_path, [], "moto")] == ["failed"]


def test_what_the_rules_allow_is_in_the_backends_list_of_differences() -> None:
    assert {"empty key", "no parts", "storage class"} <= MOTO_DIFFERENCES.keys()
    assert not {"empty key", "no parts"} & FILE_DIFFERENCES.keys()
