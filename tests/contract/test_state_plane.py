"""Recorded sequences and captured exchanges of the state plane, replayed in this process."""

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.contract import captured, state_plane
from tests.contract.result import CaseResult
from tests.support.templates import Mismatch, Scope

VECTORS = Path(__file__).parent.parent / "vectors"
AREAS = sorted(path.stem for path in (VECTORS / "state-plane").glob("*.json"))


def sequences(area: str) -> Iterator[dict[str, Any]]:
    yield from json.loads((VECTORS / "state-plane" / f"{area}.json").read_text())["sequences"]


CASES = [(area, sequence) for area in AREAS for sequence in sequences(area)]


@pytest.mark.parametrize(("area", "sequence"), CASES, ids=[sequence["name"] for _, sequence in CASES])
def test_sequence(area: str, sequence: dict[str, Any]) -> None:
    result = state_plane.replay(area, sequence)
    assert result.outcome == "passed", result.detail


@cache
def captured_results() -> tuple[CaseResult, ...]:
    return tuple(captured.run(VECTORS / "captured"))


@pytest.mark.parametrize("name", captured.CHAIN)
def test_captured_exchanges(name: str) -> None:
    document = json.loads((VECTORS / "captured" / f"{name}.json").read_text())
    results = [result for result in captured_results() if result.area == name]
    assert len(results) == len(document["exchanges"])
    assert [result.detail for result in results if result.outcome == "failed"] == []


def test_what_the_captures_give_way_to_is_exactly_what_the_rules_name() -> None:
    skipped = Counter(result.detail for result in captured_results() if result.outcome == "skipped")
    assert skipped == {
        captured.ALLOWED["audit-batch-never-written"][0]: 1,
        captured.ALLOWED["small-parts"][0]: 1,
        captured.ALLOWED["export-limit"][0]: 2,
    }


class TestMatching:
    """The comparison itself must be able to fail."""

    @pytest.mark.parametrize(
        ("want", "got"),
        [
            ({"a": 1}, {"a": 2}),
            ({"a": 1}, {}),
            ({"a": 1}, {"a": 1, "b": 2}),
            ([1], [1, 2]),
            ([1, 2], [1]),
            (True, 1),
            (0, False),
            (None, 0),
            ({"$any": "integer"}, True),
            ({"$any": "string"}, 1),
            ({"$uuid": True}, "x"),
            ({"$regex": "^a$"}, "b"),
            ({"$one_of": [1, 2]}, 3),
            ({"$time": "iso"}, "2026-11-30"),
            ({"$time": "ms", "from_now_ms": 0, "slack_ms": 5}, 1010),
            ({"$var": "v"}, "other"),
        ],
    )
    def test_differences_are_found(self, want: Any, got: Any) -> None:
        with pytest.raises(Mismatch):
            Scope(lambda: 1000, {"v": "value"}).match(want, got)

    def test_captures_are_kept(self) -> None:
        scope = Scope(lambda: 0, {})
        scope.match({"a": {"$capture": "x", "of": {"$any": "string"}}}, {"a": "kept"})
        scope.match({"b": {"$var": "x"}, "c": "@{x}!"}, {"b": "kept", "c": "kept!"})
        assert scope.build({"$concat": ["@{x}", {"$repeat": ["-", 3]}]}) == "kept---"

    def test_a_wrong_expectation_fails(self) -> None:
        sequence = json.loads(json.dumps(next(sequences("cursors"))))
        sequence["steps"][-1]["response"]["json"]["next_cursor"] = 1
        result = state_plane.replay("cursors", sequence)
        assert (result.outcome, "next_cursor" in result.detail) == ("failed", True)

    def test_every_spoiled_capture_fails(self) -> None:
        with pytest.raises(captured.Differs):
            captured.match({"updatedAt": "2026-11-30T14:17:54.859Z"}, {"updatedAt": None}, captured.Learned())
        with pytest.raises(captured.Differs):
            captured.match({"ok": True, "revision": 1}, {"ok": True, "revision": 2}, captured.Learned())
