"""Events: three ways to the same texts, and readers that agree."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.ledger.canonical import canonical_text, sha256_text
from moorage.protocols.ledger.duplicates import scan_json
from moorage.protocols.ledger.events import Event
from moorage.protocols.ledger.refusals import LedgerRefusal
from moorage.protocols.ledger.validate import (
    _quick,
    parse_event_line,
    parse_event_line_in_full,
    parse_shard_text,
    validate_record,
)

from .support import an_event, event_sets, json_values

RICH = an_event(
    learning={"category": "q", "signal": "s", "confidence": 0.25},
    evidence=[
        {"kind": "run", "runUrl": "https://github.com/openclaw/clawsweeper/actions/runs/100"},
        {"kind": "report", "reportPath": "records/a.md", "sha256": "a" * 64},
    ],
    attributes={"attempt": 1, "state": ["open", "closed"], "coverage_ratio": 0.5},
    privacy={"classification": "public", "redactionVersion": "v1", "fieldsDropped": ["b", "a", "b"]},
    occurredAt="2026-07-12T10:00:00.25+02:00",
)


@given(event_sets())
def test_assembled_texts_are_the_canonical_texts(events: list[Event]) -> None:
    for event in [*events, RICH]:
        record = event.record
        assert canonical_text(record) == event.line
        dropped = {"recorded_at"} | (set() if event.is_source_time else {"occurred_at"})
        assert event.replay_text == canonical_text({key: record[key] for key in record if key not in dropped})
        occurrence = {"occurred_at_source": record["occurred_at_source"]}
        if event.is_source_time:
            occurrence["occurred_at"] = record["occurred_at"]
        envelope = {"schema", "schema_version", "event_id", "event_key", "semantic_sha256", "recorded_at"}
        semantic = {key: record[key] for key in record if key not in envelope | {"occurred_at", "occurred_at_source"}}
        assert record["semantic_sha256"] == sha256_text(
            canonical_text({"occurrence": occurrence, "semantic": semantic})
        )


@given(event_sets())
def test_a_written_line_is_read_by_both_readers(events: list[Event]) -> None:
    for event in [*events, RICH]:
        quick = _quick.read(event.line)
        assert quick is not None
        assert (quick, quick.record, quick.replay_text) == (event, event.record, event.replay_text)
        assert parse_event_line_in_full(event.line) == parse_event_line(event.line) == event
    text = "".join(f"{event.line}\n" for event in events)
    assert [event.line for event in parse_shard_text(text)] == [event.line for event in events]


def _outcome(line: str) -> Any:
    try:
        return parse_event_line_in_full(line).record
    except LedgerRefusal:
        return None


@given(st.data())
def test_a_changed_line_is_read_alike_by_both_readers(data: st.DataObject) -> None:
    line = data.draw(st.sampled_from([RICH.line, an_event().line]))
    at = data.draw(st.integers(0, len(line)))
    cut = data.draw(st.integers(0, 6))
    put = data.draw(st.sampled_from(["", '"', "0", "1.0", "-", "null", "true", "[]", "{}", " ", ",", '"a":1,', "é"]))
    changed = line[:at] + put + line[at + cut :]
    quick = _quick.read(changed)
    assert quick is None or quick.record == _outcome(changed)
    if changed != line and _outcome(changed) is not None:
        # no digest covers the writer's clocks
        assert parse_event_line(changed).replay_text == parse_event_line(line).replay_text


@given(st.data())
def test_a_changed_record_is_read_alike_by_both_readers(data: st.DataObject) -> None:
    record = json.loads(RICH.line)
    holder = data.draw(st.sampled_from([record, record["action"], record["producer"], record["privacy"]]))
    name = data.draw(st.sampled_from([*sorted(holder), "extra"]))
    if data.draw(st.booleans()) and name in holder:
        del holder[name]
    else:
        holder[name] = data.draw(json_values)
    try:
        line = canonical_text(record)
    except LedgerRefusal:
        return
    quick = _quick.read(line)
    assert quick is None or quick.record == _outcome(line)


@given(json_values)
def test_the_scan_takes_what_json_takes(value: Any) -> None:
    scan_json(json.dumps(value))
    scan_json(json.dumps(value, indent=2, ensure_ascii=False))


@given(st.text('{}[]",:\\ u0123eE+-.truefalsn', max_size=40))
def test_the_scan_refuses_what_json_refuses(text: str) -> None:
    code = ""
    try:
        scan_json(text)
    except LedgerRefusal as refusal:
        code = refusal.code
    try:
        json.loads(text, parse_constant=lambda name: int(name, 0))
    except ValueError:
        assert code in ("json-syntax", "duplicate-key")
    else:
        assert code in ("", "duplicate-key")


@pytest.mark.parametrize("text", ['{"a":1,"a":1}', '{"a":1,"\\u0061":2}', '[{"b":{"x":[],"x":{}}}]'])
def test_repeated_keys_are_found_decoded_and_nested(text: str) -> None:
    with pytest.raises(LedgerRefusal, match="duplicate-key"):
        scan_json(text)


def test_what_is_remembered_does_not_change_with_an_event() -> None:
    first = parse_event_line(RICH.line)
    first.record["producer"]["job"] = "other"
    first.record["attributes"]["state"].append("x")
    first.record["evidence"][0]["kind"] = "other"
    assert parse_event_line(RICH.line).record == RICH.record


@given(json_values)
def test_any_json_value_is_refused_by_name(value: Any) -> None:
    with pytest.raises(LedgerRefusal) as caught:
        validate_record(value)
    assert caught.value.code
