"""Every recorded sweep sequence, through the command line."""

from pathlib import Path

import pytest

from .sweep import play_case, run

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "sweep"
AREAS = sorted(path.stem for path in VECTORS.glob("*.json"))


@pytest.mark.parametrize("area", AREAS)
def test_recorded_sequences(area: str) -> None:
    results = list(run(VECTORS, [area]))
    assert results
    assert [f"{result.name}: {result.detail}" for result in results if result.outcome != "passed"] == []


def test_a_wrong_answer_is_told() -> None:
    step = {"argv": ["read", "--state", "{state}"], "expect": {"exit": 0, "word": "OK", "no_payload": True}}
    result = play_case("made-up", {"id": "x", "state_before": None, "steps": [step]})
    assert (result.outcome, result.detail) == ("failed", "Differs: step 1: word is 'NO-STATE', not 'OK'")
