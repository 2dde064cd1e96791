"""A crash at any durable step, then a re-run: the tree is that of an undisturbed run."""

import itertools
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.clients.ledger import locks
from moorage.clients.ledger.compaction import compact, prune
from moorage.clients.ledger.files import TrustedRoot
from moorage.clients.ledger.finalise import finalise
from moorage.clients.ledger.importer import import_shards
from moorage.clients.ledger.interrupt import interrupt_open_attempts
from moorage.clients.ledger.publisher import BlobSource, publish_tree
from moorage.clients.ledger.readers import iter_tree_events
from moorage.clients.ledger.sources import FolderSource
from moorage.clients.ledger.trees import iter_shards
from moorage.protocols.ledger.vocabulary import Phase, Status

from .support import Crash, MemoryBlobs, crash_at, real, record_item, recorder_in, tree


def _dead_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A "crashed process" leaves its locks, and they look dead, which it is not: the test is that process."""
    monkeypatch.setattr("moorage.clients.ledger.locks.is_dead", lambda pid, incarnation: True)
    release = locks._release

    def release_unless_crashed(*arguments: Any) -> None:
        if not isinstance(sys.exception(), Crash):
            release(*arguments)

    monkeypatch.setattr(locks, "_release", release_unless_crashed)


def _record(root: TrustedRoot) -> None:
    recorder = recorder_in(root)
    for index in range(1, 4):
        record_item(recorder, index, component="first")
    record_item(recorder, 4, component="second", phase=Phase.review_batch, status=Status.started)


def _finalise(root: TrustedRoot) -> None:
    recorder = recorder_in(root)
    interrupt_open_attempts(recorder, "timeout")
    finalise(recorder, f"{root.path}/out")


def _with_probe(path: Path, work: Callable[[TrustedRoot], None], step: int) -> bool:
    """Runs `work` with a crash at `step`; whether it crashed."""
    probe, _ = crash_at(step)
    root = TrustedRoot(real(path), probe=probe)
    try:
        work(root)
    except Crash:
        return True
    return False


def _steps() -> Iterator[int]:
    """Every early step, and a sample of the later ones."""
    yield from range(8)
    yield from sorted(random.Random(1).sample(range(8, 90), 12))
    yield 10_000


def test_recording_and_finalising_survive_a_crash_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _dead_lock(monkeypatch)

    def undisturbed(path: Path) -> dict[str, bytes]:
        (path / "out").mkdir(parents=True)
        root = TrustedRoot(real(path))
        _record(root)
        _finalise(root)
        return tree(path)

    expected = undisturbed(tmp_path / "expected")
    assert sum(name.startswith("out/") for name in expected) == 2
    crashes = 0
    for step in _steps():
        for work in (_record, _finalise):
            path = tmp_path / f"{work.__name__}{step}"
            (path / "out").mkdir(parents=True)
            if work is _finalise:
                _record(TrustedRoot(real(path)))
            crashes += _with_probe(path, work, step)
            root = TrustedRoot(real(path))
            _record(root) if work is _record else None
            _finalise(root)
            assert tree(path) == expected, f"{work.__name__}, step {step}"
    assert crashes > 25


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A shard tree of two producers."""
    path = tmp_path / "source"
    (path / "out").mkdir(parents=True)
    root = TrustedRoot(real(path))
    _record(root)
    _finalise(root)
    return path / "out"


def test_an_import_survives_a_crash_anywhere(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _dead_lock(monkeypatch)
    (tmp_path / "expected").mkdir()
    import_shards(real(source), real(tmp_path / "expected"))
    expected = tree(tmp_path / "expected")
    wanted = sorted(event.line for event in iter_tree_events(FolderSource(real(tmp_path / "expected"))))
    for step in itertools.count():
        path = tmp_path / f"import{step}"
        path.mkdir()
        crashed = _with_probe(path, lambda root: void(import_shards(real(source), root)), step)
        seen = [event.line for event in iter_tree_events(FolderSource(real(path)))]
        assert set(seen) <= set(wanted)
        for shard in iter_shards(FolderSource(real(path)), hidden=lambda refusal: None):
            assert shard.imported, "a payload became visible without its completion"
        import_shards(real(source), real(path))
        assert tree(path) == expected, f"step {step}"
        assert import_shards(real(source), real(path)).created == 0
        if not crashed:
            assert step > 25
            return


def void(value: object) -> None:
    """Drops a result."""


def test_a_publication_survives_a_cut_anywhere(source: Path) -> None:
    whole = MemoryBlobs()
    publish_tree(whole, real(source))
    expected = whole.blobs
    for step in range(len(expected) + 1):
        store = MemoryBlobs()
        probe, _ = crash_at(step)
        store.probe = probe
        try:
            publish_tree(store, real(source))
        except Crash:
            assert step < len(expected)
        store.probe = lambda path: None
        for shard in iter_shards(BlobSource(store), hidden=lambda refusal: None):
            assert shard.imported
        publish_tree(store, real(source))
        assert store.blobs == expected, f"put {step}"


def test_compaction_survives_a_crash_anywhere(tmp_path: Path, source: Path) -> None:
    (tmp_path / "expected").mkdir()
    import_shards(real(source), real(tmp_path / "expected"))
    compact(TrustedRoot(real(tmp_path / "expected")), today="2027-01-01", retention_months=1)
    expected = tree(tmp_path / "expected")
    for step in range(16):
        path = tmp_path / f"compact{step}"
        path.mkdir()
        import_shards(real(source), real(path))
        _with_probe(path, lambda root: void(compact(root, today="2027-01-01", retention_months=1)), step)
        prune(TrustedRoot(real(path)), dry_run=True)
        compact(TrustedRoot(real(path)), today="2027-01-01", retention_months=1)
        assert tree(path) == expected, f"step {step}"
