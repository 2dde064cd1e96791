"""Every recorded ledger case, byte for byte."""

from pathlib import Path

import pytest

from .ledger import AREAS, run

VECTORS = Path(__file__).resolve().parents[1] / "vectors" / "ledger"


@pytest.mark.parametrize("area", sorted(AREAS))
def test_recorded_cases(area: str) -> None:
    results = list(run(VECTORS, [area]))
    assert results
    failed = [f"{result.name}: {result.detail}" for result in results if result.outcome != "passed"]
    assert failed == []


def test_every_file_has_its_player() -> None:
    assert {path.stem for path in VECTORS.glob("*.json")} == set(AREAS)
