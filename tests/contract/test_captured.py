"""Every captured exchange of the state plane's subjects is answered as the reference answered it."""

from pathlib import Path

from tests.contract.captured import ORDER, replay

CAPTURED = Path(__file__).parents[1] / "vectors" / "captured"


async def test_every_capture_replays() -> None:
    results = await replay(CAPTURED)

    assert [result.name for result in results] == list(ORDER)
    assert [result for result in results if result.outcome != "passed"] == []
