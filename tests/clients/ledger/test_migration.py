"""Moving a lane: both written, one read, differences told."""

import logging
from pathlib import Path

import pytest

from moorage.clients.ledger.finalise import finalise
from moorage.clients.ledger.migration import dual_write, lane_mode, lane_variable, read_view
from moorage.clients.ledger.readers import iter_events
from moorage.clients.ledger.shard_files import read_shard_file
from moorage.clients.ledger.spool import read_spool
from moorage.clients.ledger.views import write_view
from moorage.protocols.ledger.folds import review_histories
from moorage.protocols.ledger.parity import ReaderMode
from moorage.protocols.ledger.producers import without_ledger_settings
from moorage.protocols.ledger.refusals import LedgerRefusal

from .support import ENVIRONMENT, real, record_item, recorder_in


def test_the_event_is_durable_before_the_legacy_write(tmp_path: Path) -> None:
    recorder = recorder_in(tmp_path)

    def broken(event: object) -> None:
        assert len(read_spool(recorder.root)) == 1
        raise OSError("no legacy today")

    with pytest.raises(OSError, match="no legacy"):
        dual_write(lambda: record_item(recorder, 1), broken)
    assert dual_write(lambda: record_item(recorder, 1), lambda event: "written") == "written"
    assert len(read_spool(recorder.root)) == 1


def test_a_lane_reads_what_its_switch_says(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = recorder_in(tmp_path)
    record_item(recorder, 1)
    view = review_histories(iter_events(recorder.root))
    name = lane_variable("review.items")
    assert name == "MOORAGE_LEDGER_READER_REVIEW_ITEMS"

    def read(mode: str) -> object:
        return read_view(
            {name: mode},
            "review.items",
            legacy=lambda: {"legacy": True},
            events=lambda: review_histories(iter_events(recorder.root)),
        )

    assert read("") == {"legacy": True}
    assert read("events") == view
    with caplog.at_level(logging.WARNING):
        assert read("both") == {"legacy": True}
    assert "review.items" in caplog.text
    assert lane_mode({}, "review.items") is ReaderMode.legacy
    with pytest.raises(LedgerRefusal, match="reader-mode"):
        read("neither")


def test_a_view_is_replaced_whole(tmp_path: Path) -> None:
    target = tmp_path / "view.json"
    write_view(target, {"b": [1, None], "a": "é"})
    assert target.read_text() == '{"a":"é","b":[1,null]}\n'
    with pytest.raises(LedgerRefusal):
        write_view(target, {"a": object()})
    assert target.read_text() == '{"a":"é","b":[1,null]}\n'
    assert [path.name for path in tmp_path.iterdir()] == ["view.json"]


def test_a_shard_is_read_by_its_absolute_path(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    recorder = recorder_in(tmp_path)
    event = record_item(recorder, 1)
    (path,) = finalise(recorder, real(tmp_path / "out"))
    assert read_shard_file(f"{real(tmp_path / 'out')}/{path}") == [event]
    loose = tmp_path / "loose.jsonl"
    loose.write_text(f"{event.line}\n")
    assert read_shard_file(real(loose)) == [event]
    with pytest.raises(LedgerRefusal, match="missing"):
        read_shard_file(f"{real(tmp_path)}/none.jsonl")


def test_untrusted_children_see_none_of_the_ledgers_variables() -> None:
    kept = without_ledger_settings(ENVIRONMENT)
    assert "CLAWSWEEPER_ACTION_LEDGER_FORCE" not in kept
    assert kept["GITHUB_RUN_ID"] == "100"
