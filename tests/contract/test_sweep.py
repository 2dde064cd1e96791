"""Every recorded sweep sequence, through the command line."""

import json
import math
from pathlib import Path

import pytest
import yaml
from ruamel.yaml import YAML

from moorage.protocols.sweep import parse

from ..support.sweep_documents import (
    TYPED_KEYS_1_1,
    TYPED_KEYS_1_2,
    floats_of,
    is_text_in_yaml_1_1,
    keys_of,
    spelled,
)
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


def recorded_states() -> list[str]:
    """Every text of a state file that a step is recorded to leave."""
    steps = [
        step
        for path in sorted(VECTORS.glob("*.json"))
        for sequence in json.loads(path.read_text())["sequences"]
        for step in sequence["steps"]
    ]
    return [step["expect"]["state_after"] for step in steps if step["expect"].get("state_after")]


def test_every_recorded_state_reads_the_same_in_other_yaml_readers() -> None:
    """But for what the schema itself spells in a way that they take for something else (docs/sweep.md lists it)."""
    texts = recorded_states()
    left_out = 0
    for text in texts:
        value = parse(text)
        keys = keys_of(value)
        if keys & TYPED_KEYS_1_2 or any(not math.isfinite(number) for number in floats_of(value)):
            left_out += 1
            continue
        assert spelled(YAML(typ="safe", pure=True).load(text)) == spelled(value)
        if keys & TYPED_KEYS_1_1 or any(map(is_text_in_yaml_1_1, floats_of(value))):
            left_out += 1
            continue
        assert spelled(yaml.safe_load(text)) == spelled(value)
    assert len(texts) > 100
    assert left_out <= 3
