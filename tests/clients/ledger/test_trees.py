"""Reading, verifying, compacting and pruning trees."""

import json
import re
from pathlib import Path
from random import Random

import pytest

from moorage.clients.ledger import sources
from moorage.clients.ledger.compaction import compact, last_compactable_month, prune
from moorage.clients.ledger.files import TrustedRoot
from moorage.clients.ledger.finalise import finalise
from moorage.clients.ledger.importer import import_shards
from moorage.clients.ledger.publisher import BlobSource, publish_segment, publish_tree
from moorage.clients.ledger.readers import iter_events
from moorage.clients.ledger.sources import FolderSource
from moorage.clients.ledger.trees import iter_shards
from moorage.clients.ledger.verify import VerifyReport, verify_tree
from moorage.protocols.ledger.refusals import LedgerConflict, LedgerRefusal
from moorage.protocols.ledger.vocabulary import Phase, Status

from .support import MemoryBlobs, real, record_item, recorder_in, tree


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """An imported tree: two producers, three days in two months, five events."""
    (tmp_path / "out").mkdir()
    (tmp_path / "state").mkdir()
    for number, day in enumerate(("2026-06-30", "2026-07-01", "2026-07-02")):
        recorder = recorder_in(
            tmp_path, CLAWSWEEPER_ACTION_LEDGER_PARTITION_DATE=day, GITHUB_RUN_ID=str(100 + number)
        )
        record_item(recorder, 1, occurred_at=f"{day}T10:00:00Z")
        if number:
            record_item(
                recorder, 2, phase=Phase.command_received, status=Status.received, occurred_at=f"{day}T11:00:00Z"
            )
        finalise(recorder, real(tmp_path / "out"))
    import_shards(real(tmp_path / "out"), real(tmp_path / "state"))
    return tmp_path / "state"


def _source(path: Path) -> FolderSource:
    return FolderSource(real(path))


def test_events_come_by_path_and_filters_hold(state: Path) -> None:
    everything = list(iter_events(state))
    assert len(everything) == 5
    days = [event.record["occurred_at"][:10] for event in everything]
    assert days == sorted(days)
    assert len(list(iter_events(state, type="command"))) == 2
    assert len(list(iter_events(state, type="review.item"))) == 3
    assert len(list(iter_events(state, subject="openclaw/openclaw#42"))) == 5
    assert list(iter_events(state, subject="openclaw/openclaw#43")) == []
    assert len(list(iter_events(state, subject="OpenClaw/openclaw:issue"))) == 5
    assert len(list(iter_events(state, since="2026-07-01T10:00:00Z", until="2026-07-02T10:00:00Z"))) == 2
    operation = everything[0].record["operation_id"]
    assert {event.record["operation_id"] for event in iter_events(state, operation=operation)} == {operation}
    with pytest.raises(LedgerRefusal):
        list(iter_events(state, operation="x"))


def test_a_sound_tree_verifies_with_progress(state: Path) -> None:
    seen: list[int] = []

    def progress(report: VerifyReport) -> None:
        seen.append(report.events)

    report = verify_tree(_source(state), event_bindings=True, progress=progress)
    assert report.fault is None
    assert (report.shards, report.events, seen) == (3, 5, [1, 3, 5])
    assert report.bytes == sum(len(data) for path, data in tree(state).items() if path.endswith(".jsonl"))


def _fault(path: Path, *, bindings: bool = True, event_bindings: bool = False) -> str:
    fault = verify_tree(_source(path), bindings=bindings, event_bindings=event_bindings).fault
    assert fault is not None
    assert fault.where
    return fault.code


def test_every_kind_of_damage_is_found(state: Path) -> None:
    files = tree(state)
    shard = next(path for path in files if path.endswith(".jsonl"))
    reservation = next(path for path in files if "/shard-sets/" in path)
    completion = reservation.replace("/shard-sets/", "/completed-shard-sets/")
    binding = next(path for path in files if "/import-bindings/events/" in path)

    def damaged(path: str, data: bytes | None, **options: bool) -> str:
        (state / path).unlink()
        if data is not None:
            (state / path).write_bytes(data)
        try:
            return _fault(state, **options)
        finally:
            (state / path).unlink(missing_ok=True)
            (state / path).write_bytes(files[path])

    assert damaged(shard, files[shard].replace(b"completed", b"cancelled")) == "semantic-digest"
    assert damaged(shard, files[shard][:-1]) == "framing"
    assert damaged(shard, b"") == "empty-shard"
    assert damaged(shard, files[shard].replace(b'"phase_seq":1', b'"phase_seq":1,"phase_seq":1')) == "duplicate-key"
    assert damaged(shard, b"\xff\n") == "utf8"
    assert damaged(shard, None) == "missing"
    assert damaged(completion, None) == "import-incomplete"
    assert damaged(reservation, None) == "import-transaction"
    assert damaged(completion, files[completion].replace(b"sha256", b"sha255")) == "import-transaction"
    assert damaged(binding, None, event_bindings=True) == "import-transaction"
    assert damaged(binding, files[binding] + b" ", event_bindings=True) == "binding-conflict"
    stray = state / Path(shard).parent / "stray.txt"
    stray.write_text("")
    assert _fault(state) == "path-syntax"
    stray.unlink()
    (state / Path(shard).parent / "x.jsonl").symlink_to(state / shard)
    assert _fault(state) == "unsafe-entry"


@pytest.mark.parametrize(
    "path",
    [
        "ledger/v1/events/x.jsonl",
        "ledger/v1/events/2026/x.jsonl",
        "ledger/v1/events/20x6/07/01/a/b/c.jsonl",
        "ledger/v1/events/2026/13/01/a/b/c.jsonl",
        "ledger/v1/segments/x",
        "ledger/v1/segments/2026/6/x",
        "ledger/v1/import-bindings/shard-sets/x",
    ],
)
def test_what_lies_where_no_shard_may_is_a_fault(state: Path, path: str) -> None:
    (state / path).parent.mkdir(parents=True, exist_ok=True)
    (state / path).write_bytes(b"{}\n")
    report = verify_tree(_source(state))
    assert report.fault is not None
    assert report.fault.code == "path-syntax"
    assert report.fault.where.startswith(str(state / "ledger/v1"))


def test_sets_beyond_what_a_listing_holds_are_verified(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_FOLDER_ENTRIES", 2)
    assert len(list((state / "ledger/v1/import-bindings/shard-sets").iterdir())) == 3
    assert verify_tree(_source(state), event_bindings=True).fault is None


def test_no_change_of_a_byte_goes_unseen_but_of_the_writers_clock(state: Path) -> None:
    files = tree(state)
    random = Random(20261130)
    for path, data in files.items():
        clocks = re.finditer(rb'"recorded_at":"[^"]*"', data) if path.endswith(".jsonl") else ()
        unseen = {at for clock in clocks for at in range(*clock.span())}
        places = sorted({0, len(data) - 1, *random.sample(range(len(data)), 12)} - unseen)
        spoiled = [data[:-1], b"", data + b"\n", data.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + data, None]
        spoiled += [
            data[:at] + bytes([data[at] ^ 1 << random.randrange(7)]) + data[at + 1 :] for at in sorted(places)
        ]
        for wrong in spoiled:
            (state / path).unlink(missing_ok=True)
            if wrong is not None:
                (state / path).write_bytes(wrong)
            report = verify_tree(_source(state), event_bindings=True)
            assert report.fault is not None, (path, wrong)
            assert report.fault.where
        (state / path).write_bytes(data)
    assert verify_tree(_source(state), event_bindings=True).fault is None


def test_months_before_the_retention_are_whole(state: Path) -> None:
    assert last_compactable_month("2026-09-15", 1) == "2026/07"
    assert last_compactable_month("2026-01-31", 1) == "2025/11"
    assert last_compactable_month("2026-03-01", 14) == "2024/12"
    assert compact(TrustedRoot(real(state)), today="2026-08-31", retention_months=1)[0].month == "2026/06"


def test_a_compacted_and_pruned_tree_reads_the_same(state: Path) -> None:
    root = TrustedRoot(real(state))
    lines = [event.line for event in iter_events(state)]
    segments = compact(root, today="2027-01-01", retention_months=1)
    assert [segment.month for segment in segments] == ["2026/06", "2026/07"]
    assert compact(root, today="2027-01-01", retention_months=1) == []
    assert [event.line for event in iter_events(state)] == lines
    shards = [path for path in tree(state) if "/events/2026/" in path]
    assert prune(root, dry_run=True).removed == tuple(sorted(shards))
    assert prune(root).removed == tuple(sorted(shards))
    assert not [path for path in tree(state) if "/events/2026/" in path]
    assert [event.line for event in iter_events(state)] == lines
    assert verify_tree(_source(state), event_bindings=True).fault is None
    assert prune(root).removed == ()


def test_a_segment_keeps_the_import_rules(state: Path) -> None:
    root = TrustedRoot(real(state))
    compact(root, today="2027-01-01", retention_months=1)
    prune(root)
    completion = next(path for path in tree(state) if "completed-shard-sets" in path)
    (state / completion).unlink()
    assert _fault(state, bindings=False) == "import-incomplete"
    hidden: list[str] = []
    assert len(list(iter_shards(_source(state), hidden=lambda refusal: hidden.append(refusal.code)))) == 2
    assert hidden == ["import-incomplete"]


def test_damaged_segments_are_refused_and_nothing_is_pruned(state: Path) -> None:
    root = TrustedRoot(real(state))
    (first, _) = compact(root, today="2027-01-01", retention_months=1)
    payload = state / first.payload_path
    data = payload.read_bytes()
    payload.unlink()
    payload.write_bytes(data.replace(b"completed", b"cancelled"))
    assert _fault(state) == "segment-damaged"
    with pytest.raises(LedgerRefusal, match="segment-damaged"):
        prune(root)
    payload.write_bytes(data)
    manifest = state / first.manifest_path
    text = manifest.read_text()
    value = json.loads(text)
    value["shards"][0]["events"] = 7
    manifest.write_text(json.dumps(value, sort_keys=True, separators=(",", ":")) + "\n")
    assert _fault(state) == "segment-invalid"
    manifest.write_text(text)
    shard = state / first.shards[0].path
    whole = shard.read_text()
    for spoiled in (whole.replace("completed", "cancelled"), whole[:-1], "", whole.splitlines(keepends=True)[0] * 2):
        assert spoiled != whole
        shard.write_text(spoiled)
        with pytest.raises(LedgerConflict, match="segment-conflict"):
            prune(root)
        assert shard.exists()
    # the same events with other clocks, written again after the shard went once
    other = whole.replace("2026-07-12T10:00:00.000Z", "2026-07-12T10:00:00.001Z")
    assert other != whole
    shard.write_text(other)
    assert first.shards[0].path in prune(root).removed
    assert not shard.exists()


def test_segments_are_read_from_r2_too(state: Path) -> None:
    store, root = MemoryBlobs(), TrustedRoot(real(state))
    publish_tree(store, root.path)
    lines = [event.line for event in iter_events(state)]
    segments = compact(root, today="2027-01-01", retention_months=1)
    assert [publish_segment(store, root, segment) for segment in segments] == [True, True]
    assert [publish_segment(store, root, segment) for segment in segments] == [False, False]
    for path in [path for path in store.blobs if "/events/2026/" in path]:
        del store.blobs[path]
    assert [event.line for event in iter_events(BlobSource(store))] == lines
    assert verify_tree(BlobSource(store)).fault is None
