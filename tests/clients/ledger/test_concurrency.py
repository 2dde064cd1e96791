"""Many processes, one producer."""

from pathlib import Path

from .racing import check, race


def test_no_event_is_lost_or_doubled_while_another_process_finalises(tmp_path: Path) -> None:
    found = race(tmp_path, writers=4, events=12, finalisations=3)
    check(found)
    assert len(found.recorded) + len(found.refused) >= 4 * 12
