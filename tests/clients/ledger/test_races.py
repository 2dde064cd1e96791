"""Two at once: imports and publications that contradict one another."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from moorage.clients.ledger.finalise import finalise
from moorage.clients.ledger.importer import import_shards
from moorage.clients.ledger.publisher import BlobSource, publish_tree
from moorage.clients.ledger.readers import iter_events
from moorage.clients.ledger.sources import FolderSource
from moorage.clients.ledger.verify import verify_tree
from moorage.protocols.ledger.refusals import LedgerRefusal

from .support import NOW_MS, MemoryBlobs, real, record_item, recorder_in
from .test_publisher import shards_of


def both(one: Callable[[], object], two: Callable[[], object]) -> list[str]:
    """Runs both at once; "" for each that succeeded, the class of its refusal otherwise."""
    outcomes = ["", ""]
    barrier = threading.Barrier(2)

    def run(at: int, call: Callable[[], object]) -> None:
        barrier.wait(30)
        try:
            call()
        except LedgerRefusal as refusal:
            outcomes[at] = refusal.code

    threads = [threading.Thread(target=run, args=(at, call)) for at, call in enumerate((one, two))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return sorted(outcomes)


@pytest.fixture
def opposing(tmp_path: Path) -> tuple[str, str]:
    """Two trees, each with a child of the other's event."""
    probe = recorder_in(tmp_path, clock=iter([NOW_MS] * 4))
    a, b = record_item(probe, 1, component="a"), record_item(probe, 2, component="b")
    trees = []
    for name, index, parent in (("one", 1, b), ("two", 2, a)):
        (tmp_path / name / "out").mkdir(parents=True)
        recorder = recorder_in(tmp_path / name)
        record_item(recorder, index, component="ab"[index - 1], parent_event_id=parent.event_id)
        finalise(recorder, real(tmp_path / name / "out"))
        trees.append(real(tmp_path / name / "out"))
    return trees[0], trees[1]


def test_of_two_imports_with_opposing_parents_one_commits(tmp_path: Path, opposing: tuple[str, str]) -> None:
    for number in range(5):
        (tmp_path / f"state{number}").mkdir()
        state = real(tmp_path / f"state{number}")
        assert both(partial(import_shards, opposing[0], state), partial(import_shards, opposing[1], state)) == [
            "",
            "causal-cycle",
        ]
        assert len(list(iter_events(state))) == 1
        assert verify_tree(FolderSource(state), event_bindings=True).fault is None


def test_of_two_publications_with_opposing_parents_at_most_one_commits(opposing: tuple[str, str]) -> None:
    for _ in range(30):
        store = MemoryBlobs()
        outcomes = both(partial(publish_tree, store, opposing[0]), partial(publish_tree, store, opposing[1]))
        assert outcomes in (["", "causal-cycle"], ["causal-cycle", "causal-cycle"])
        assert len(list(iter_events(BlobSource(store)))) == outcomes.count("")


def test_of_two_publications_of_one_run_one_set_wins(tmp_path: Path) -> None:
    small, large = shards_of(tmp_path, "small", 2), shards_of(tmp_path, "large", 5)
    for _ in range(30):
        store = MemoryBlobs()
        assert both(partial(publish_tree, store, small), partial(publish_tree, store, large)) == [
            "",
            "binding-conflict",
        ]
        assert len(list(iter_events(BlobSource(store)))) in (2, 5)
        assert verify_tree(BlobSource(store), event_bindings=True).fault is None


def test_two_imports_of_the_same_set_are_one(tmp_path: Path) -> None:
    source = shards_of(tmp_path, "a", 3)
    (tmp_path / "state").mkdir()
    state = real(tmp_path / "state")
    assert both(partial(import_shards, source, state), partial(import_shards, source, state)) == ["", ""]
    assert len(list(iter_events(state))) == 3
