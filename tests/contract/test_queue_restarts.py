"""The recorded sequences of the queue's areas once more, with a restart of every object before each step."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.contract.state_plane import _Replay

VECTORS = Path(__file__).parent.parent / "vectors" / "state-plane"
AREAS = (
    "artifact-receipts",
    "command-intake",
    "exact-review-enqueue",
    "exact-review-lease",
    "exact-review-publication",
)
SEQUENCES = [
    sequence for area in AREAS for sequence in json.loads((VECTORS / f"{area}.json").read_text())["sequences"]
]


class Restarting(_Replay):
    """Ends every object before each request and after each move of the clock."""

    restarts = 0

    async def _http(self, step: Mapping[str, Any]) -> None:
        await self.plane.restart()
        self.restarts += 1
        await super()._http(step)

    async def _clock(self, step: Mapping[str, Any]) -> None:
        await super()._clock(step)
        await self.plane.restart()


@pytest.mark.parametrize("sequence", SEQUENCES, ids=[sequence["name"] for sequence in SEQUENCES])
async def test_sequence_with_restarts(sequence: dict[str, Any]) -> None:
    replay = Restarting(sequence)
    await replay.run()
    assert replay.restarts or all(step.get("kind") for step in sequence["steps"])
