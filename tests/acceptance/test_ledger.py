"""The ledger at its sizes: a million events verified in constant memory, fifty rounds of eight writers."""

import os
from pathlib import Path

import pytest

from benchmarks.ledger import measure_verify

from ..clients.ledger.racing import check, race

EVENTS = int(os.environ.get("LEDGER_EVENTS", "1000000"))
"""Events of the verified tree."""
ROUNDS = int(os.environ.get("LEDGER_ROUNDS", "50"))
"""Rounds of eight writers and one finaliser."""

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(3600)]


def test_a_tree_of_any_size_verifies_in_constant_memory(tmp_path: Path) -> None:
    found = measure_verify(tmp_path, EVENTS)
    print(f"{EVENTS} events, {found['megabytes']:.0f} MB: {found['ours']:.1f} s, +{found['added_mib']:.1f} MiB")
    assert found["added_mib"] < 32


def test_no_round_loses_or_doubles_an_event(tmp_path: Path) -> None:
    refused: dict[str, int] = {}
    for number in range(ROUNDS):
        (tmp_path / str(number)).mkdir()
        found = race(tmp_path / str(number), writers=8, events=10, finalisations=2)
        check(found)
        for code in found.refused:
            refused[code] = refused.get(code, 0) + 1
    print(f"{ROUNDS} rounds, refused by class: {refused}")
