"""Cursors: compare-and-set, lenient numbers, audit batches, and what storage may hold."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.cursors import (
    Cursor,
    CursorWrite,
    decide,
    is_mode,
    parse_audit_batch,
    parse_write,
    read_stored,
    storage_key,
)
from moorage.protocols.javascript import ABSENT, MAX_SAFE_INTEGER
from moorage.protocols.wire.cursors import (
    FanoutCursorRevisionConflict,
    FanoutCursorStoreInvalid,
    InvalidAuditBatch,
    InvalidFanoutCursor,
)

NOW = "2026-11-30T14:19:33.997Z"
BATCH: dict[str, Any] = {
    "remainingTargets": [{"targetRepo": "example/widgets", "defaultBranch": "main", "visibility": "PUBLIC"}],
    "outstandingRunIds": ["123", "4"],
    "dispatchingTarget": "example/widgets",
}


@pytest.mark.parametrize(
    "mode",
    [
        "hot-intake",
        "normal-review",
        "audit",
        "review-placeholder-0123456789abcdef-open",
        "review-placeholder-" + "f" * 16 + "-closed",
    ],
)
def test_modes(mode: str) -> None:
    assert is_mode(mode)
    assert storage_key(mode) == f"target-fanout-cursor:v1:{mode}"


@pytest.mark.parametrize(
    "mode",
    [
        "",
        "AUDIT",
        "audit\n",
        "review-placeholder-0123456789abcdef-open\n",
        "review-placeholder-0123456789ABCDEF-open",
    ],
)
def test_other_modes(mode: str) -> None:
    assert not is_mode(mode)


class TestAuditBatch:
    def test_normal_form(self) -> None:
        target = {**BATCH["remainingTargets"][0], "more": 1}
        assert parse_audit_batch({**BATCH, "remainingTargets": [target], "other": None}) == BATCH

    def test_null_dispatching(self) -> None:
        empty: dict[str, Any] = {"remainingTargets": [], "outstandingRunIds": [], "dispatchingTarget": None}
        assert parse_audit_batch(empty) == empty

    @pytest.mark.parametrize(
        "change",
        [
            {"remainingTargets": None},
            {"remainingTargets": {}},
            {"remainingTargets": ["example/widgets"]},
            {"remainingTargets": [{"targetRepo": "example", "defaultBranch": "main", "visibility": "PUBLIC"}]},
            {"remainingTargets": [{"targetRepo": "a/b/c", "defaultBranch": "main", "visibility": "PUBLIC"}]},
            {"remainingTargets": [{"targetRepo": "a/b\n", "defaultBranch": "main", "visibility": "PUBLIC"}]},
            {"remainingTargets": [{"targetRepo": "a/ü", "defaultBranch": "main", "visibility": "PUBLIC"}]},
            {"remainingTargets": [{"targetRepo": "a/b", "defaultBranch": "", "visibility": "PUBLIC"}]},
            {"remainingTargets": [{"targetRepo": "a/b", "defaultBranch": "main", "visibility": "public"}]},
            {"outstandingRunIds": ["1", "1"]},
            {"outstandingRunIds": ["01"]},
            {"outstandingRunIds": [1]},
            {"outstandingRunIds": ["٣"]},
            {"outstandingRunIds": "1"},
            {"dispatchingTarget": "example/other"},
            {"dispatchingTarget": 1},
            {"dispatchingTarget": []},
        ],
    )
    def test_refusals(self, change: dict[str, Any]) -> None:
        with pytest.raises(InvalidAuditBatch):
            parse_audit_batch({**BATCH, **change})

    @pytest.mark.parametrize("value", [1, "x", [], True])
    def test_no_object(self, value: Any) -> None:
        with pytest.raises(InvalidAuditBatch):
            parse_write("audit", {"next_cursor": 1, "expected_revision": 0, "audit_batch": value})

    def test_is_ignored_on_other_modes(self) -> None:
        write = parse_write("hot-intake", {"next_cursor": 1, "expected_revision": 0, "audit_batch": 1})
        assert write.audit_batch is ABSENT

    def test_life_of_a_batch(self) -> None:
        """The answers of the recorded audit exchanges."""
        cursor = Cursor("audit")
        assert "audit_batch" not in cursor.answer()
        cursor = decide(cursor, CursorWrite(2, 0, BATCH), NOW)
        assert cursor.answer()["audit_batch"] == BATCH
        cursor = decide(cursor, CursorWrite(3, 1), NOW)
        assert cursor.answer()["audit_batch"] == BATCH
        cursor = decide(cursor, CursorWrite(3, 2, None), NOW)
        assert cursor.answer()["audit_batch"] is None
        assert read_stored("audit", cursor.stored()) == cursor


class TestCompareAndSet:
    def test_conflict_shows_the_current_state(self) -> None:
        current = Cursor("audit", 5, 1, NOW)
        with pytest.raises(FanoutCursorRevisionConflict) as caught:
            decide(current, CursorWrite(6, 0), NOW)
        assert caught.value.body() == {"error": "fanout_cursor_revision_conflict", "current": current.answer()}

    def test_revision_cannot_grow_past_its_maximum(self) -> None:
        with pytest.raises(FanoutCursorStoreInvalid):
            decide(Cursor("audit", 5, MAX_SAFE_INTEGER, NOW), CursorWrite(6, MAX_SAFE_INTEGER), NOW)

    @given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 12)), max_size=30))
    def test_revision_grows_by_one_a_write_and_nothing_else_moves_it(self, writes: list[tuple[int, int]]) -> None:
        cursor = Cursor("hot-intake")
        for position, expected in writes:
            try:
                after = decide(cursor, CursorWrite(position, expected), NOW)
            except FanoutCursorRevisionConflict:
                assert expected != cursor.revision
                continue
            assert expected == cursor.revision
            assert (after.revision, after.next_cursor) == (cursor.revision + 1, position)
            assert read_stored("hot-intake", after.stored()) == after
            cursor = after

    @given(
        st.dictionaries(
            st.sampled_from(["next_cursor", "expected_revision"]),
            st.none() | st.booleans() | st.floats() | st.text() | st.integers(),
        )
    )
    def test_any_body_is_a_write_or_refused(self, members: dict[str, Any]) -> None:
        try:
            write = parse_write("audit", members)
        except InvalidFanoutCursor:
            return
        assert 0 <= write.next_cursor <= MAX_SAFE_INTEGER
        assert 0 <= write.expected_revision <= MAX_SAFE_INTEGER


GOOD = {"mode": "audit", "nextCursor": 5, "revision": 1, "updatedAt": NOW}


@pytest.mark.parametrize(
    "value",
    [
        1,
        "x",
        [],
        {},
        {**GOOD, "mode": "hot-intake"},
        {**GOOD, "nextCursor": -1},
        {**GOOD, "nextCursor": "5"},
        {**GOOD, "nextCursor": True},
        {**GOOD, "revision": 0},
        {**GOOD, "revision": 1.5},
        {**GOOD, "revision": 2**53},
        {**GOOD, "updatedAt": None},
        {**GOOD, "updatedAt": "yesterday"},
        {**GOOD, "auditBatch": {}},
        {**GOOD, "auditBatch": 1},
    ],
)
def test_unreadable_storage(value: Any) -> None:
    with pytest.raises(FanoutCursorStoreInvalid):
        read_stored("audit", value)


def test_storage_as_another_runtime_may_have_written_it() -> None:
    assert read_stored("audit", {**GOOD, "nextCursor": 5.0}) == Cursor("audit", 5, 1, NOW)
    assert read_stored("audit", None) == Cursor("audit")
