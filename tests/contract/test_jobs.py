"""The recorded job cases, as copied into `tests/vectors/jobs`."""

import json
from pathlib import Path
from typing import Any

import pytest

from moorage.protocols.jobs.errors import REFUSALS

from . import jobs, jobs_sequences, jobs_shared

FOLDER = Path(__file__).parents[1] / "vectors" / "jobs"
FIXTURE = json.loads((FOLDER / "fixture.json").read_text())

TABLE_CASES = [
    pytest.param(table, case, id=f"{table}/{case['id']}")
    for path in sorted(FOLDER.glob("table-*.json"))
    for table, cases in json.loads(path.read_text())["tables"].items()
    for case in cases
]
SEQUENCES = [
    pytest.param(sequence, id=sequence["id"])
    for path in sorted(FOLDER.glob("cli-*.json"))
    for sequence in json.loads(path.read_text())["sequences"]
]


@pytest.mark.parametrize(("table", "case"), TABLE_CASES)
def test_table(table: str, case: dict[str, Any]) -> None:
    result = jobs.play_table("table", table, case)
    assert result.outcome == "passed", result.detail


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_sequence(sequence: dict[str, Any], tmp_path: Path) -> None:
    jobs_sequences.play(sequence, FIXTURE, tmp_path)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_sequence_on_a_shared_queue(sequence: dict[str, Any], tmp_path: Path) -> None:
    world = jobs_shared.SharedWorld(tmp_path, FIXTURE)
    try:
        if sequence["id"] in jobs_shared.DIFFERENT:
            with pytest.raises(jobs_sequences.Mismatch):
                jobs_sequences.play(sequence, FIXTURE, tmp_path, world)
        else:
            jobs_sequences.play(sequence, FIXTURE, tmp_path, world)
    finally:
        world.close()


def test_every_recorded_file_is_played() -> None:
    played = {result.area for result in jobs.run(FOLDER, ["table-hashes", "cli-no-db"])}
    assert played == {"table-hashes", "cli-no-db"}
    assert {path.stem for path in FOLDER.glob("*.json")} - {"fixture"} == {
        path.stem for pattern in ("table-*.json", "cli-*.json") for path in FOLDER.glob(pattern)
    }


def test_a_wrong_answer_fails() -> None:
    case = {"id": "x", "title": "", "inputs": {"extensionKind": "analyzer", "requested": True}}
    assert jobs.play_table("t", "auto_fix_flag", {**case, "expect": {"autoFix": True}}).outcome == "passed"
    assert jobs.play_table("t", "auto_fix_flag", {**case, "expect": {"autoFix": False}}).outcome == "failed"
    assert jobs.play_table("t", "unheard-of", {**case, "expect": {}}).outcome == "skipped"


def test_refusals_have_an_exit_code_and_a_status() -> None:
    assert all(1 < exit_code <= 5 and 400 <= status <= 500 for exit_code, status in REFUSALS.values())


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (0, {"exit": 1}),
        (0, {"stdout_text": "another"}),
        (0, {"db_unchanged": True}),
        (0, {"db": {"jobs": {"added": []}}}),
        (1, {"stdout_json": {"id": "<job:1>", "failed": True}}),
    ],
)
def test_a_changed_expectation_fails(number: int, change: dict[str, Any], tmp_path: Path) -> None:
    (sequence,) = (param.values[0] for param in SEQUENCES if param.id == "cancel-queued")
    changed = json.loads(json.dumps(sequence))
    expect = changed["steps"][number]["expect"]
    if "db_unchanged" in change:
        del expect["db"]
    expect.update(change)
    with pytest.raises(jobs_sequences.Mismatch, match=f"step {number + 1}"):
        jobs_sequences.play(changed, FIXTURE, tmp_path)
