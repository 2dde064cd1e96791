"""The record store: transactions, bytes, chunks, upgrade, query plans, and that no revision ever goes back."""

import base64
import re
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from moorage.durable_objects.objects import records_sql
from moorage.durable_objects.objects.exact_review_queue import RETIRED_TABLES, ExactReviewQueue
from moorage.durable_objects.objects.records import INLINE_BYTES, Records
from moorage.durable_objects.runtime.testing import ManualClock, memory_runtime
from moorage.protocols import records as rules
from tests.objects.record_requests import commit_lot, digest, tuple_write
from tests.objects.sqlite_storage import Storage

SLUG = "acme-widgets"


@pytest.fixture
def storage() -> Any:
    opened = Storage()
    yield opened
    opened.close()


@pytest.fixture
def records(storage: Any) -> Records:
    return Records(storage, lambda: 1_000)


def export(records: Records, **fields: Any) -> dict[str, Any]:
    return records.export(rules.parse_export({"repoSlug": SLUG, **fields}))


def test_a_tuple_consumes_four_store_revisions(records: Records) -> None:
    assert records.write_tuple(tuple_write("d-1", items="one\n")) == rules.Write(1)

    assert records.current_revision() == 4
    assert [row["storeRevision"] for row in export(records)["records"]] == [1, 2, 3, 4]


def test_a_refused_tuple_changes_nothing(records: Records) -> None:
    records.write_tuple(tuple_write("d-1", items="one\n"))
    before = export(records)

    decision = records.write_tuple(tuple_write("d-2", items="two\n"))

    assert isinstance(decision, rules.Conflict)
    assert export(records) == before


def test_a_byte_order_mark_is_kept_and_not_shown(records: Records) -> None:
    text = "\ufeff# hi\n"
    records.write_tuple(tuple_write("d-1", items=text))

    assert records.file(SLUG, "items", "7") == text.encode()
    shown = export(records, sections=["items"])["records"][0]
    assert (shown["content"], shown["digest"]) == ("# hi\n", digest(text))
    assert rules.restore_text(shown["content"], shown["digest"]) == text.encode()


@pytest.mark.parametrize("size", [INLINE_BYTES, INLINE_BYTES + 1, rules.MAX_RECORD_BYTES])
def test_large_contents_come_back_whole_and_leave_no_chunks(records: Records, storage: Any, size: int) -> None:
    text = "é" * (size // 2) + "x" * (size % 2)
    records.write_tuple(tuple_write("d-1", items=text))
    record = records.read(SLUG, "items", 7)
    assert record is not None
    assert record.content == text

    records.write_tuple(tuple_write("d-2", items="small\n", expected={"items": digest(text)}))

    left = storage.sql.exec("SELECT count(*) AS n FROM exact_review_canonical_record_chunks").one()["n"]
    assert left == 0


def test_a_damaged_chunk_is_an_error_and_never_content(records: Records, storage: Any) -> None:
    records.write_tuple(tuple_write("d-1", items="x" * (INLINE_BYTES + 1)))
    storage.sql.exec("DELETE FROM exact_review_canonical_record_chunks WHERE chunk_index = 0")

    with pytest.raises(ValueError, match="are recorded"):
        records.read(SLUG, "items", 7)


def test_commits_are_all_or_nothing(records: Records) -> None:
    records.write_commits(commit_lot(["one\n"]))
    bad = commit_lot(["two\n", "three\n"])
    clash = rules.CommitRecord(commit_lot(["one\n"]).records[0].sha, "uno\n", digest("uno\n"), 4)

    decision, revision = records.write_commits(rules.CommitLot(SLUG, (*bad.records, clash)))

    assert isinstance(decision, rules.CommitConflict)
    assert revision == records.current_revision() == 1
    assert records.file(SLUG, "commits", bad.records[0].sha) is None


@pytest.mark.parametrize("count", [1, 23, 24, 25, 100])
def test_a_lot_of_any_size_is_written_in_order(records: Records, count: int) -> None:
    lot = commit_lot([f"c{number}\n" for number in range(count)])
    large = "z" * (INLINE_BYTES + 5)
    lot = rules.CommitLot(SLUG, (*lot.records[:-1], commit_lot([large]).records[0]))

    decision, revision = records.write_commits(lot)

    assert isinstance(decision, rules.CommitInsert)
    assert revision == count
    rows: list[Any] = []
    while page := export(records, sections=["commits"], cursor=rows[-1]["storeRevision"] if rows else 0)["records"]:
        rows += page
    assert [row["id"] for row in rows] == [record.sha for record in lot.records]
    assert [row["storeRevision"] for row in rows] == list(range(1, count + 1))
    assert records.file(SLUG, "commits", lot.records[-1].sha) == large.encode()


def test_direct_publication_writes_inside_a_transaction_of_its_own(records: Records, storage: Any) -> None:
    records.write_tuple(tuple_write("d-1", items="one\n"))
    operations = tuple_write("-", closed="done\n").operations[:2]

    def publish(fail: bool) -> int:
        revision = records.apply(SLUG, 7, operations, item_key="acme/widgets#7", claim_generation=3, at_least=9)
        if fail:
            raise RuntimeError("the lease is gone")
        return revision

    with pytest.raises(RuntimeError):
        storage.transactionSync(lambda: publish(True))
    assert records.current_revision() == 4

    assert storage.transactionSync(lambda: publish(False)) == 9
    assert records.current_revision() == 6
    assert {section: row.revision for section, row in records.sections(SLUG, 7).items()} == {
        "items": 9,
        "closed": 9,
        "plans": 1,
        "decision-packets": 1,
    }


def test_receipts_go_after_seven_days_in_bounded_lots() -> None:
    time = [0]
    storage = Storage()
    records = Records(storage, lambda: time[0])
    for number in range(1, 301):
        records.write_tuple(tuple_write(f"d-{number}", number, items="x\n"))
    time[0] = rules.RECEIPT_LIFETIME_MS

    records.write_tuple(tuple_write("later-1", 1000, items="x\n"))
    left = storage.sql.exec("SELECT count(*) AS n FROM canonical_record_tuple_receipts").one()["n"]
    assert left == 300 - rules.RECEIPTS_PRUNED_PER_WRITE + 1

    records.write_tuple(tuple_write("later-2", 1001, items="x\n"))
    left = storage.sql.exec("SELECT count(*) AS n FROM canonical_record_tuple_receipts").one()["n"]
    assert left == 2
    storage.close()


def test_the_journal_is_seeded_from_rows_that_have_none(records: Records, storage: Any) -> None:
    records.write_tuple(tuple_write("d-1", items="one\n"))
    storage.sql.exec("DELETE FROM exact_review_record_export_index WHERE section = 'items'")
    (imported,) = commit_lot(["imported\n"]).records
    large = "x" * (INLINE_BYTES + 1)
    (chunked,) = commit_lot([large]).records
    for record, content, chunks in ((imported, imported.content, 0), (chunked, None, 1)):
        storage.sql.exec(
            "INSERT INTO exact_review_record_backfill VALUES (?, 'commits', ?, ?, ?, ?, ?, 1000)",
            *(SLUG, record.sha, content, record.digest, record.byte_length, chunks),
        )
    storage.sql.exec(
        "INSERT INTO exact_review_record_backfill_chunks VALUES (?, 'commits', ?, 0, ?)",
        *(SLUG, chunked.sha, base64.b64encode(large.encode()).decode()),
    )

    again = Records(storage, lambda: 2_000)

    rows = export(again)["records"]
    contents = {row["id"]: row["content"] for row in rows if row["section"] == "commits"}
    assert contents == {imported.sha: "imported\n", chunked.sha: large}
    assert again.file(SLUG, "commits", imported.sha) == b"imported\n"
    assert again.file(SLUG, "commits", chunked.sha) == large.encode()
    decision, _ = again.write_commits(commit_lot(["imported\n"]))
    assert isinstance(decision, rules.CommitInsert)
    assert (decision.records, decision.unchanged) == ((), 1)
    assert {row["section"] for row in rows} == set(rules.SECTIONS)
    revisions = [row["storeRevision"] for row in rows]
    assert revisions == sorted(set(revisions))
    assert max(revisions) == again.current_revision() == 7


def test_tables_of_the_reference_layout_go_on(storage: Any) -> None:
    old = records_sql.SCHEMA.replace("(repo_slug, item_id, section)", "(repo_slug, section, item_id)")
    old = old.replace("STRICT, WITHOUT ROWID", "STRICT")
    assert old.count("WITHOUT ROWID") == 0
    storage.sql.exec(old)
    records = Records(storage, lambda: 1_000)
    records.write_tuple(tuple_write("d-1", items="one\n"))
    records.write_tuple(tuple_write("d-2", items="two\n", expected={"items": digest("one\n")}))
    records.write_commits(commit_lot(["c\n"]))
    assert records.write_tuple(
        tuple_write("d-2", items="two\n", expected={"items": digest("one\n")})
    ) == rules.Replay(2)
    assert {row["content"] for row in export(records)["records"]} == {"two\n", None, "c\n"}


def test_a_store_from_before_this_release_is_compared_once(records: Records, storage: Any) -> None:
    for number in range(1, 40):
        records.write_tuple(tuple_write(f"d-{number}", number, items="one\n"))
    storage.sql.exec("DELETE FROM exact_review_record_export_index WHERE record_id = '20'")
    storage.sql.exec("ALTER TABLE exact_review_record_export_meta DROP COLUMN journal_compared")

    again = Records(storage, lambda: 2_000)

    assert [row["id"] for row in export(again, sections=["items"], sinceRevision=39 * 4)["records"]] == ["20"]


PLANS = {
    "LIST_LIVE": (records_sql.LIST_LIVE, (SLUG, "items", 0, 100)),
    "EXPORT_SECTION": (records_sql.EXPORT_SECTION, (SLUG, "items", 0, 100)),
    "EXPORT_COMMITS": (records_sql.EXPORT_COMMITS, (SLUG, "commits", 0, 100)),
    "LIVE_IDS": (records_sql.LIVE_IDS, (SLUG, "items", "", 100)),
    "LIVE_AT_OR_BELOW": (records_sql.LIVE_AT_OR_BELOW, (SLUG, "items", 9)),
    "READ_RECORD": (records_sql.READ_RECORD, (SLUG, "items", 7)),
    "READ_TUPLE": (records_sql.READ_TUPLE, (SLUG, 7)),
    "PRUNE_RECEIPTS": (records_sql.PRUNE_RECEIPTS, (0, 256)),
    "NEWEST_RECONCILE": (records_sql.NEWEST_RECONCILE, ("a", "b", 1)),
    "READ_COMMIT_DIGESTS": (records_sql.READ_COMMIT_DIGESTS, (SLUG, "[]")),
}


@pytest.mark.parametrize("name", PLANS)
def test_no_statement_walks_over_a_table(records: Records, storage: Any, name: str) -> None:
    text, bindings = PLANS[name]
    plan = [row["detail"] for row in storage.sql.exec(f"EXPLAIN QUERY PLAN {text}", *bindings).toArray()]
    tables = [line for line in plan if re.match(r"(SCAN|SEARCH) (?!json_each|SUBQUERY|\(subquery)", line)]

    assert tables
    assert [line for line in tables if line.startswith("SCAN")] == []
    if name in ("LIST_LIVE", "EXPORT_SECTION", "EXPORT_COMMITS", "LIVE_IDS"):
        assert not any("TEMP B-TREE" in line for line in plan), plan


def test_a_list_meets_only_live_rows(records: Records, storage: Any) -> None:
    plan = storage.sql.exec(f"EXPLAIN QUERY PLAN {records_sql.LIST_LIVE}", SLUG, "items", 0, 100).toArray()

    assert "exact_review_canonical_records_live" in plan[0]["detail"]


async def test_tables_of_the_retired_projection_are_dropped() -> None:
    runtime = memory_runtime(clock=ManualClock())

    class Before(ExactReviewQueue):
        def __init__(self, ctx: Any, env: Any) -> None:
            for table in RETIRED_TABLES:
                ctx.storage.sql.exec(f"CREATE TABLE {table} (x)")
            super().__init__(ctx, env)

        def tables(self) -> list[str]:
            rows = self.ctx.storage.sql.exec("SELECT name FROM sqlite_master WHERE type = 'table'")
            return [row["name"] for row in rows]

    namespace = runtime.namespace("state-plane-ExactReviewQueue", Before, None)
    await runtime.start()
    tables = await namespace.getByName("global").tables()
    await runtime.close()

    assert not set(RETIRED_TABLES) & set(tables)
    assert "exact_review_canonical_records" in tables


class RecordStoreMachine(RuleBasedStateMachine):
    """Against a model: revisions grow, four store revisions a write, the journal holds every record once."""

    written = Bundle("written")

    @initialize()
    def open(self) -> None:
        self.storage = Storage()
        self.records = Records(self.storage, lambda: 5)
        self.current: dict[int, dict[str, str]] = {}
        self.revision: dict[int, int] = {}
        self.deliveries: dict[str, tuple[str, int]] = {}
        self.seen = 0

    def teardown(self) -> None:
        if hasattr(self, "storage"):
            self.storage.close()

    @rule(
        target=written,
        number=st.integers(1, 3),
        items=st.none() | st.sampled_from(["a", "b"]),
        plans=st.none() | st.just("p"),
        delivery=st.integers(1, 6),
        stale=st.booleans(),
    )
    def write(self, number: int, items: str | None, plans: str | None, delivery: int, stale: bool) -> int:
        current = self.current.get(number, {})
        expected = {section: digest(text) for section, text in current.items()}
        if stale:
            expected["items"] = digest("never")
        contents = {"items": items, "plans": plans if items is not None else None}
        write = tuple_write(f"d-{delivery}", number, expected=expected, **contents)
        decision = self.records.write_tuple(write)
        known = self.deliveries.get(write.delivery_id)
        if known is not None:
            fingerprint, revision = known
            if fingerprint == write.fingerprint:
                assert decision == rules.Replay(revision)
            else:
                assert isinstance(decision, rules.Conflict)
        elif stale:
            assert isinstance(decision, rules.Conflict)
        else:
            revision = self.revision.get(number, 0) + 1
            assert decision == rules.Write(revision)
            self.revision[number] = revision
            self.current[number] = {section: text for section, text in contents.items() if text is not None}
            self.deliveries[write.delivery_id] = (write.fingerprint, revision)
        return number

    @rule(number=written)
    def read(self, number: int) -> None:
        record = self.records.read(SLUG, "items", number)
        text = self.current.get(number, {}).get("items")
        assert (record.content if record else None) == text

    @invariant()
    def store_revisions_grow_by_four(self) -> None:
        if hasattr(self, "records"):
            now = self.records.current_revision()
            assert now == 4 * sum(self.revision.values())
            assert now >= self.seen
            self.seen = now

    @invariant()
    def the_journal_holds_each_record_once(self) -> None:
        if hasattr(self, "records"):
            rows = export(self.records)["records"]
            keys = [(row["section"], row["id"]) for row in rows]
            assert len(keys) == len(set(keys)) == 4 * len(self.revision)
            order = [row["storeRevision"] for row in rows]
            assert order == sorted(order)


TestRecordStore = RecordStoreMachine.TestCase
TestRecordStore.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
