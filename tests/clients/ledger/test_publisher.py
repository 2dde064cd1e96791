"""Publication: create-only, complete or invisible, and one of two publishers wins."""

from pathlib import Path

import pytest

from moorage.clients.ledger.files import TrustedRoot
from moorage.clients.ledger.finalise import finalise
from moorage.clients.ledger.importer import import_shards
from moorage.clients.ledger.manifests import command_shards, read_manifest, write_manifest
from moorage.clients.ledger.publisher import BlobSource, publish_paths, publish_tree
from moorage.clients.ledger.readers import iter_events
from moorage.clients.ledger.verify import verify_tree
from moorage.protocols.ledger.refusals import LedgerConflict, LedgerRefusal
from moorage.protocols.ledger.vocabulary import Phase

from .support import ENVIRONMENT, NOW_MS, Crash, MemoryBlobs, crash_at, real, record_item, recorder_in


def shards_of(folder: Path, name: str, events: int = 2, *, clock: int = NOW_MS, **options: object) -> str:
    """A shard tree with one producer's events; its root."""
    (folder / name / "out").mkdir(parents=True)
    recorder = recorder_in(folder / name, clock=iter([clock] * 100))
    for index in range(1, events + 1):
        record_item(recorder, index, **options)
    finalise(recorder, real(folder / name / "out"))
    return real(folder / name / "out")


def test_a_published_tree_reads_like_the_local_one(tmp_path: Path) -> None:
    source, store = shards_of(tmp_path, "a", 5), MemoryBlobs()
    result = publish_tree(store, source)
    assert (result.created, result.unchanged) == (1, 0)
    assert set(store.blobs) == set(result.paths)
    local = [event.line for event in iter_events(source)]
    assert [event.line for event in iter_events(BlobSource(store))] == local
    assert verify_tree(BlobSource(store), event_bindings=True).fault is None
    again = publish_tree(store, source)
    assert (again.created, again.unchanged, again.paths) == (0, 1, result.paths)


def test_the_blobs_are_the_files_of_an_import(tmp_path: Path) -> None:
    source, store = shards_of(tmp_path, "a"), MemoryBlobs()
    publish_tree(store, source)
    (tmp_path / "state").mkdir()
    result = import_shards(source, real(tmp_path / "state"))
    assert {path: (tmp_path / "state" / path).read_bytes() for path in result.paths} == store.blobs
    listed = MemoryBlobs()
    stored = publish_paths(listed, TrustedRoot(real(tmp_path / "state")), "\n".join(result.paths) + "\n")
    assert (stored.created, stored.unchanged) == (len(store.blobs), 0)
    assert listed.blobs == store.blobs


def test_the_first_publishers_clocks_win(tmp_path: Path) -> None:
    store = MemoryBlobs()
    publish_tree(store, shards_of(tmp_path, "a"))
    before = dict(store.blobs)
    assert publish_tree(store, shards_of(tmp_path, "b", clock=NOW_MS + 60_000)).unchanged == 1
    assert store.blobs == before


def test_of_two_different_sets_one_wins_and_the_other_wrote_nothing(tmp_path: Path) -> None:
    one, two = shards_of(tmp_path, "a", 2), shards_of(tmp_path, "b", 3)
    store = MemoryBlobs()
    probe, _ = crash_at(3)
    store.probe = probe
    with pytest.raises(Crash):
        publish_tree(store, one)
    store.probe = lambda path: None
    before = dict(store.blobs)
    with pytest.raises(LedgerConflict, match="binding-conflict"):
        publish_tree(store, two)
    assert store.blobs == before
    assert list(iter_events(BlobSource(store))) == []
    publish_tree(store, one)
    assert len(list(iter_events(BlobSource(store)))) == 2


def test_opposing_parents_cannot_both_be_published(tmp_path: Path) -> None:
    """Two publishers, each with a child of the other's event, in step with one another."""
    first = recorder_in(tmp_path, clock=iter([NOW_MS] * 9))
    a, b = record_item(first, 1, component="a"), record_item(first, 2, component="b")
    one = shards_of(tmp_path, "one", 1, component="a", parent_event_id=b.event_id)
    (tmp_path / "two" / "out").mkdir(parents=True)
    recorder = recorder_in(tmp_path / "two", clock=iter([NOW_MS] * 9))
    record_item(recorder, 2, component="b", parent_event_id=a.event_id)
    finalise(recorder, real(tmp_path / "two" / "out"))
    two = real(tmp_path / "two" / "out")

    store = MemoryBlobs()
    refusals: list[str] = []

    def publish_the_other(path: str) -> None:
        if "/ledger/v1/events/" in f"/{path}":
            return
        if "completed" not in path and "/import-bindings/events/" in path:
            store.probe = lambda path: None
            try:
                publish_tree(store, two)
            except LedgerRefusal as refusal:
                refusals.append(refusal.code)

    store.probe = publish_the_other
    try:
        publish_tree(store, one)
    except LedgerRefusal as refusal:
        refusals.append(refusal.code)
    assert "causal-cycle" in refusals
    completed = [path for path in store.blobs if "completed-shard-sets" in path]
    assert len(completed) <= 1


def test_a_command_manifest_goes_from_job_to_job(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    recorder = recorder_in(tmp_path)
    record_item(recorder, 1, component="other")
    record_item(recorder, 2, component="router", phase=Phase.command_received)
    paths = finalise(recorder, real(tmp_path / "out"))
    output = TrustedRoot(real(tmp_path / "out"))
    chosen = command_shards(output, paths, ENVIRONMENT)
    assert len(paths) == 2
    assert len(chosen) == 1
    write_manifest(output, "router.json", "router", chosen, ENVIRONMENT)
    write_manifest(output, "router.json", "router", chosen, ENVIRONMENT)
    assert read_manifest(output, "router.json", "router", ENVIRONMENT).event_paths == tuple(chosen)
    with pytest.raises(LedgerConflict, match="manifest-conflict"):
        write_manifest(output, "router.json", "router", paths, ENVIRONMENT)
    with pytest.raises(LedgerRefusal, match="producer-provenance"):
        read_manifest(output, "router.json", "router", {**ENVIRONMENT, "GITHUB_RUN_ID": "101"})
    assert publish_tree(MemoryBlobs(), output.path, expected_paths=chosen).event_paths == tuple(chosen)
