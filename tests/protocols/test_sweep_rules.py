"""Items, cursors, imports and the subcommands where no recorded sequence looks."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.sweep import Standing, State, Word, emit, load, operations
from moorage.protocols.sweep.cursors import may_move, precedes
from moorage.protocols.sweep.document import EVIDENCE
from moorage.protocols.sweep.items import lacks_evidence, merged, redacted
from moorage.protocols.sweep.legacy import parse_source_map
from tests.support.sweep_documents import documents, spelled, unhurried, values

NOW = "2026-07-02T12:00:00+00:00"
HELD = {"writer": "w1", "timestamp": NOW, "ttl_minutes": 60}


def state(**parts: Any) -> State:
    return State(Standing.OK, {"schema_version": 1, "lease": HELD, "sources": {}, "items": {}, **parts})


def upsert(before: State, text: str = "{}", source: str = "s", item: str = "1") -> Any:
    return operations.upsert_item(before, source=source, item=item, text=text, writer="w1", now=NOW)


def advance(before: State, to: str = "2", item: str = "1") -> Any:
    return operations.cursor_advance(before, source="s", to=to, past_item=item, writer="w1", now=NOW)


class TestCursors:
    @unhurried
    @given(st.text("0123456789", min_size=1), st.text("0123456789", min_size=1))
    def test_digits_are_compared_as_numbers(self, left: str, right: str) -> None:
        assert precedes(left, right) == (int(left) < int(right))

    @unhurried
    @given(st.text(), st.text())
    def test_one_of_two_different_cursors_comes_first(self, left: str, right: str) -> None:
        assert not (precedes(left, right) and precedes(right, left))
        digits = left.isascii() and left.isdigit() and right.isascii() and right.isdigit()
        assert digits or (left == right) or precedes(left, right) or precedes(right, left)

    def test_digits_of_other_scripts_are_texts(self) -> None:
        assert precedes("9", "²")
        assert precedes("10", "٩")
        assert not precedes("٩", "10")

    def test_a_number_of_any_length(self) -> None:
        assert precedes("9" * 10_000, "1" + "0" * 10_000)

    @pytest.mark.parametrize("current", [None, "5", 5, 5.0])
    def test_forward_is_free(self, current: Any) -> None:
        assert may_move(current, "6")

    def test_a_stored_number_is_compared_through_its_text(self) -> None:
        assert not may_move(10, "9")
        # 5.0 is no text of digits, so these are compared as texts
        assert may_move(5.0, "50")
        assert not may_move(5.0, "5")


class TestItems:
    @unhurried
    @given(st.dictionaries(st.text(), values(), max_size=4), st.dictionaries(st.text(), values(), max_size=4))
    def test_a_merge_owns_only_its_keys(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        record = merged(old, new, "s", "1")
        assert (record.pop("source"), record.pop("id")) == ("s", "1")
        expected = {key: new.get(key, value) if key in new else value for key, value in {**old, **new}.items()}
        assert record == {key: value for key, value in expected.items() if key not in ("source", "id")}

    def test_redaction_takes_the_two_top_fields_and_no_more(self) -> None:
        record = {"sensitive": True, "body": 1, "quote": 2, "title": 3, "deep": {"body": 4}}
        assert redacted(record, None) == {"sensitive": True, "title": 3, "deep": {"body": 4}}
        assert redacted({"body": 1}, {"sensitive": True}) == {}
        for flag in (1, "true", None, [True]):
            assert redacted({"sensitive": flag, "body": 1}, {"sensitive": flag}) == {"sensitive": flag, "body": 1}

    @pytest.mark.parametrize("field", EVIDENCE)
    @pytest.mark.parametrize("value", ["", 0, 0.0, False, None, [], {}])
    def test_falsy_evidence_is_none(self, field: str, value: Any) -> None:
        whole = dict.fromkeys(EVIDENCE, "x")
        assert not lacks_evidence({"status": "closed", **whole})
        assert lacks_evidence({"status": "closed", **whole, field: value})
        del whole[field]
        assert lacks_evidence({"status": "closed", **whole})


class TestOperations:
    @unhurried
    @given(documents(), st.sampled_from(["read", "validate", "acquire", "record"]))
    def test_nothing_that_is_not_known_is_dropped_or_changed_in_place(
        self, document: dict[str, Any], name: str
    ) -> None:
        before = State(Standing.OK, document)
        kept = spelled(document)
        outcome = {
            "read": lambda: operations.read(before),
            "validate": lambda: operations.validate(before),
            "acquire": lambda: operations.lease_acquire(before, writer="w9", now="2100-01-01T00:00:00Z"),
            "record": lambda: operations.run_record(before, writer="w", outcome="failed", counts="{}", timestamp="t"),
        }[name]()
        assert spelled(document) == kept
        if outcome.document is not None:
            others = set(document) - {"lease", "last_run", "items"}
            assert {key: outcome.document[key] for key in others} == {key: document[key] for key in others}
            assert set(outcome.document["items"]) == set(document["items"])

    @pytest.mark.parametrize(
        "text", ["", "{", "[]", "1", '"x"', "null", "true", '{"a": 1e999}', "{} x", "[" * 100_000]
    )
    def test_an_item_that_is_no_object(self, text: str) -> None:
        outcome = upsert(state(), text)
        assert (outcome.word, outcome.document) == (Word.ERROR, None)
        assert "item" in outcome.reason

    @pytest.mark.parametrize("wrong", [None, [], "x", 1, True])
    def test_parts_of_the_wrong_type_are_errors_and_nothing_is_written(self, wrong: Any) -> None:
        broken = [
            upsert(state(items=wrong)),
            upsert(state(sources=wrong)),
            operations.validate(state(items=wrong)),
            operations.cursor_get(state(sources=wrong), source="s"),
            advance(state(sources=wrong, items={"s:1": 1})),
            operations.import_legacy(state(items=wrong), text="{}"),
            operations.import_legacy(state(sources=wrong), text="{}"),
        ]
        assert {(outcome.word, outcome.document) for outcome in broken} == {(Word.ERROR, None)}
        assert all("must be a map" in outcome.reason for outcome in broken)
        moved = advance(state(items=wrong))
        assert moved.word is (Word.REFUSED if wrong == [] else Word.ERROR)

    def test_run_record_knows_four_outcomes(self) -> None:
        with pytest.raises(ValueError, match="completed, aborted-locked, partial, failed"):
            operations.run_record(state(), writer="w", outcome="done", counts="{}", timestamp="t")

    @pytest.mark.parametrize("counts", ["[1]", "5", "null", '"x"'])
    def test_any_json_is_stored_as_counts(self, counts: str) -> None:
        outcome = operations.run_record(state(), writer="w", outcome="failed", counts=counts, timestamp="t")
        assert outcome.document is not None
        assert f"  counts: {counts}\n" in emit(outcome.document)

    def test_a_corrupt_state_answers_corrupt_with_its_reason(self) -> None:
        corrupt = load(b"a: b\n")
        assert corrupt.standing is Standing.CORRUPT
        for outcome in (operations.read(corrupt), upsert(corrupt), operations.lease_release(corrupt, writer="w")):
            assert (outcome.word, outcome.document) == (Word.CORRUPT, None)
            assert outcome.reason.startswith("line 1: ")

    @pytest.mark.parametrize("data", [b"", b"\n", b"# x\n", b"\xff", "\ufeffschema_version: 1\n".encode()])
    def test_what_is_corrupt(self, data: bytes) -> None:
        assert load(data).standing is Standing.CORRUPT


class TestLegacy:
    def imported(self, text: str, source_map: str | None = None, **parts: Any) -> Any:
        outcome = operations.import_legacy(state(**parts), text=text, source_map=source_map)
        return outcome.payload, outcome.document

    def test_channels_are_mapped_and_items_keep_their_keys(self) -> None:
        text = (
            '{"channels": {"C1": {"cursor": 5}}, "items": {"C1:1": {"channel": "C1", "status": "x", "body": "no"}}}'
        )
        payload, document = self.imported(text, '{"C1": "slack:C1", "C2": 3}')
        assert payload == {"cursors_imported": 1, "items_imported": 1}
        assert document["sources"] == {"slack:C1": {"cursor": "5"}}
        assert document["items"] == {"C1:1": {"status": "x", "source": "C1"}}

    def test_the_first_cursor_field_that_is_not_empty(self) -> None:
        channels = '{"a": {"last_processed_ts": "", "cursor": "7"}, "b": {"last_processed_ts": "8", "cursor": "9"}}'
        text = f'{{"channels": {channels}}}'
        assert self.imported(text)[1]["sources"] == {"a": {"cursor": "7"}, "b": {"cursor": "8"}}

    @pytest.mark.parametrize(
        "text",
        [
            "[]",
            "1",
            '{"channels": []}',
            '{"channels": {"a": "5"}}',
            '{"items": 5}',
            '{"items": ["a", {"x": 1}]}',
            "\0",
        ],
    )
    def test_other_shapes_import_nothing(self, text: str) -> None:
        assert self.imported(text) == ({"cursors_imported": 0, "items_imported": 0}, None)

    def test_entries_of_another_type_in_the_state_stay(self) -> None:
        text = '{"channels": {"a": {"cursor": "5"}}, "items": {"k": {"status": "x"}}}'
        assert self.imported(text, sources={"a": "odd"}, items={"k": 1})[1] is None

    @pytest.mark.parametrize("text", [None, "", "{", "[1]", "5"])
    def test_a_source_map_that_is_none(self, text: str | None) -> None:
        assert parse_source_map(text) == {}
