"""The review queue's captured exchanges, replayed in this process."""

from pathlib import Path

import pytest

from tests.contract.captured_queue import CHAINS, CapturedQueue

VECTORS = Path(__file__).parent.parent / "vectors" / "captured"


@pytest.mark.parametrize("chain", CHAINS)
async def test_captured_exchanges_of_the_queue(chain: str) -> None:
    results = await CapturedQueue(chain, VECTORS).results()
    assert results
    for name, number, want, got in results:
        assert got == want, f"{name} exchange {number}"
