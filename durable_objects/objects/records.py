"""Canonical records in the SQLite of the queue object. Rules: `moorage.protocols.records`; statements: `records_sql`.

`Records` is synchronous throughout: every method finishes before any other event of the object runs, and a write is
one transaction. Direct publication writes with `Records.apply` inside a transaction of its own, together with the end
of the lease.
"""

import base64
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any, Final, TypeVar

import msgspec

from moorage.protocols import json_body
from moorage.protocols import records as rules
from moorage.protocols.javascript import iso_time
from moorage.protocols.wire import Reply, reply, wire_method
from moorage.protocols.wire.records import (
    CanonicalCommitRecordConflict,
    CanonicalRecordTupleConflict,
    InvalidCanonicalCommitRecords,
    InvalidCanonicalRecordTupleJson,
    RecordNotFound,
)

from . import records_sql as sql

T = TypeVar("T")

INLINE_BYTES: Final = 3 * 512 * 1024
"""Contents above this lie in chunks: a row may have about 2 MB on the hosted platform (storage 2.1)."""

CHUNK_BYTES: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class Record:
    """One record as it is stored; `content` and `digest` are None for a tombstone. Time in ms since 1970."""

    content: str | None = field(repr=False)
    digest: str | None
    revision: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a snapshot: the name in the archive and the bytes."""

    name: str
    content: bytes = field(repr=False)


class Records:
    """The record store over `ctx.storage`. `now`: milliseconds since 1970. Tables are made at construction."""

    def __init__(self, storage: Any, now: Callable[[], int]) -> None:
        self._storage = storage
        self._sql = storage.sql
        self._now = now
        self._next_pruning = 0
        storage.transactionSync(self._upgrade)

    def _upgrade(self) -> None:
        """Makes the tables, and seeds the journal from rows that have none: all are compared once, later a sample."""
        self._sql.exec(sql.SCHEMA)
        if not self._sql.exec(sql.HAS_COMPARED).one()["present"]:
            self._sql.exec(sql.ADD_COMPARED)
        compared = self._sql.exec(sql.COMPARED).one()["journal_compared"]
        if not compared or self._sql.exec(sql.SAMPLE_UNSEEDED).one()["missing"]:
            self._sql.exec(sql.SEED_JOURNAL)
            self._sql.exec(sql.CATCH_UP_COUNTER)
            self._sql.exec(sql.SET_COMPARED)

    # Reading.

    def current_revision(self) -> int:
        """Returns the global counter: the store revision of the newest write, 0 before the first."""
        return int(self._sql.exec(sql.CURRENT_REVISION).one()["current_revision"])

    def read(self, slug: str, section: str, number: int) -> Record | None:
        """Returns one record of a tuple section, a tombstone too; None when it was never written."""
        rows = self._sql.exec(sql.READ_RECORD, slug, section, number).toArray()
        if not rows:
            return None
        row = rows[0]
        content = row["content"]
        if row["chunk_count"]:
            content = self._chunked(slug, section, str(number), row["byte_length"]).decode()
        return Record(content, row["digest"], row["revision"], row["updated_at"])

    @staticmethod
    def _joined(chunks: Iterable[Any], byte_length: int) -> bytes:
        data = b"".join(base64.b64decode(row["content_base64"], validate=True) for row in chunks)
        if len(data) != byte_length:
            raise ValueError(f"a stored record has {len(data)} bytes in its chunks, and {byte_length} are recorded")
        return data

    def sections(self, slug: str, number: int) -> dict[str, rules.StoredSection]:
        """Returns digest and revision of the rows that an item has, by section."""
        return {
            row["section"]: rules.StoredSection(row["digest"], row["revision"])
            for row in self._sql.exec(sql.READ_TUPLE, slug, number)
        }

    def slugs(self) -> list[dict[str, Any]]:
        """Returns slug and newest store revision of every repository, tombstones included, by slug."""
        return [{"repoSlug": row[0], "revision": row[1]} for row in self._sql.exec(sql.LIST_SLUGS).raw()]

    def listing(self, asked: rules.Listing) -> dict[str, Any]:
        """Returns one page of live numbers, ascending (spec state-plane-protocol 3.4)."""
        rows = self._sql.exec(sql.LIST_LIVE, asked.slug, asked.section, asked.cursor, asked.limit).raw()
        records = [
            {"id": number, "digest": digest, "revision": revision, "updatedAt": iso_time(updated_at)}
            for number, digest, revision, updated_at in rows
        ]
        return {
            "repoSlug": asked.slug,
            "section": asked.section,
            "cursor": asked.cursor,
            "limit": asked.limit,
            "records": records,
            "nextCursor": rules.list_cursor(asked.limit, [record["id"] for record in records]),
        }

    def export(self, asked: rules.Export) -> dict[str, Any]:
        """Returns one page of the journal with the contents (spec state-plane-protocol 3.5).

        Rows come one by one out of an ordered scan per section, so a page costs its own rows and one more a section.
        """
        revision = self.current_revision()
        page: list[dict[str, Any]] = []
        bound = rules.PageBound()
        last = None
        for row in self._journal(asked):
            if len(page) == asked.limit:
                last = page[-1]["storeRevision"]
                break
            record, text_bytes = self._exported(asked.slug, row)
            if not bound.admits(text_bytes, partial(_json_size, record)):
                last = page[-1]["storeRevision"]
                break
            page.append(record)
        return {
            "repoSlug": asked.slug,
            "sections": list(asked.sections),
            "sinceRevision": asked.since_revision,
            "cursor": asked.cursor,
            "limit": asked.limit,
            "revision": revision,
            "records": page,
            "nextCursor": last,
        }

    def _journal(self, asked: rules.Export) -> Iterator[list[Any]]:
        scans = [
            self._sql.exec(
                sql.EXPORT_COMMITS if section == "commits" else sql.EXPORT_SECTION,
                asked.slug,
                section,
                asked.after,
                asked.limit + 1,
            ).raw()
            for section in asked.sections
        ]
        return heapq.merge(*scans, key=itemgetter(0)) if len(scans) > 1 else iter(scans[0])

    def _exported(self, slug: str, row: list[Any]) -> tuple[dict[str, Any], int]:
        store_revision, section, record_id, digest, deleted, revision, updated_at, content, byte_length, chunks = row
        if chunks:
            content = self._chunked(slug, section, record_id, byte_length).decode()
        if content is not None and section != "commits":
            content = rules.wire_text(content)
        record = {
            "section": section,
            "id": record_id,
            "content": content,
            "digest": digest,
            "revision": revision,
            "storeRevision": store_revision,
            "updatedAt": iso_time(updated_at),
            "deleted": bool(deleted),
        }
        return record, byte_length or 0

    def _chunked(self, slug: str, section: str, record_id: str, byte_length: int) -> bytes:
        if section == "commits":
            rows = self._sql.exec(sql.READ_BACKFILL_CHUNKS, slug, section, record_id)
        else:
            rows = self._sql.exec(sql.READ_CHUNKS, slug, section, int(record_id))
        return self._joined(rows, byte_length)

    def live_ids(self, slug: str, section: str, after: str, limit: int) -> list[str]:
        """Returns up to `limit` ids of live records behind `after`, in the order of their text (10 before 2)."""
        return [row[0] for row in self._sql.exec(sql.LIVE_IDS, slug, section, after, limit).raw()]

    def file(self, slug: str, section: str, record_id: str) -> bytes | None:
        """Returns the bytes of one record of any section; None when it is not there or a tombstone."""
        if section != "commits":
            record = self.read(slug, section, int(record_id))
            return record.content.encode() if record is not None and record.content is not None else None
        rows = self._sql.exec(sql.READ_COMMIT, slug, section, record_id).toArray()
        if not rows:
            return None
        if rows[0]["chunk_count"]:
            return self._chunked(slug, section, record_id, rows[0]["byte_length"])
        content: str = rows[0]["content"]
        return content.encode()

    def live_at(self, slug: str, watermark: int) -> list[tuple[str, str]]:
        """Returns section and id of every live record whose last write is at or below `watermark`."""
        return [
            (row[0], row[1])
            for section in rules.SECTIONS
            for row in self._sql.exec(sql.LIVE_AT_OR_BELOW, slug, section, watermark).raw()
        ]

    # Writing.

    def write_tuple(self, write: rules.TupleWrite) -> rules.Write | rules.Replay | rules.Conflict:
        """Writes a record tuple, or says why not; one transaction, which may be part of the caller's."""
        return self._storage.transactionSync(lambda: self._write_tuple(write))  # type: ignore[no-any-return]

    def _write_tuple(self, write: rules.TupleWrite) -> rules.Write | rules.Replay | rules.Conflict:
        now = self._now()
        self._prune_receipts(now)
        receipts = self._sql.exec(sql.READ_RECEIPT, write.delivery_id).toArray()
        receipt = (receipts[0]["fingerprint"], receipts[0]["revision"]) if receipts else None
        rows = [] if receipt is not None else self._sql.exec(sql.READ_TUPLE, write.slug, write.number).toArray()
        stored = {row["section"]: rules.StoredSection(row["digest"], row["revision"]) for row in rows}
        decision = rules.decide(write, receipt, stored)
        if isinstance(decision, rules.Write):
            chunked = [row["section"] for row in rows if row["chunk_count"]]
            self._store(write.slug, write.number, write.operations, decision.revision, write.key, 1, now, chunked)
            self._sql.exec(sql.WRITE_RECEIPT, write.delivery_id, write.fingerprint, decision.revision, now)
        return decision

    def apply(
        self,
        slug: str,
        number: int,
        operations: Sequence[rules.Operation],
        *,
        item_key: str,
        claim_generation: int = 1,
        at_least: int = 1,
    ) -> int:
        """Writes some sections of an item without comparing anything, and returns their revision.

        For direct publication: to be called inside `transactionSync`. `operations` name each section at most once;
        the revision is the next one of the item, or `at_least` if that is larger (11.9).
        """
        rows = self._sql.exec(sql.READ_TUPLE, slug, number).toArray()
        stored = {row["section"]: rules.StoredSection(row["digest"], row["revision"]) for row in rows}
        revision = max(rules.next_revision(stored), at_least)
        chunked = [row["section"] for row in rows if row["chunk_count"]]
        self._store(slug, number, operations, revision, item_key, claim_generation, self._now(), chunked)
        return revision

    def _store(
        self,
        slug: str,
        number: int,
        operations: Sequence[rules.Operation],
        revision: int,
        item_key: str,
        claim_generation: int,
        now: int,
        chunked: Iterable[str],
    ) -> None:
        """Writes rows and journal; `chunked` are the sections whose old content lies in chunks."""
        count = len(operations)
        newest = int(self._sql.exec(sql.TAKE_REVISIONS, count).one()["current_revision"])
        changed = {operation.section for operation in operations}
        for section in chunked:
            if section in changed:
                self._sql.exec(sql.DELETE_CHUNKS, slug, section, number)
        record: list[Any] = [slug, number, revision, item_key, claim_generation, now]
        journal: list[Any] = [slug, str(number), revision, now]
        for store_revision, operation in enumerate(operations, newest - count + 1):
            record += (operation.section, *self._columns(slug, number, operation), int(operation.deletes))
            journal += (operation.section, operation.digest, int(operation.deletes), store_revision)
        self._sql.exec(sql.RECORD_STATEMENTS[count], *record)
        self._sql.exec(sql.JOURNAL_STATEMENTS[count], *journal)

    def _columns(self, slug: str, number: int, operation: rules.Operation) -> tuple[Any, ...]:
        """Returns content, digest, byte length and chunk count of a row, having written its chunks."""
        content = operation.content
        if content is None:
            return (None, None, 0, 0)
        if len(content) <= INLINE_BYTES:
            return (content.decode(), operation.digest, len(content), 0)
        chunks = _chunks(content)
        for index, chunk in enumerate(chunks):
            self._sql.exec(sql.INSERT_CHUNK, slug, operation.section, number, index, chunk)
        return (None, operation.digest, len(content), len(chunks))

    def _prune_receipts(self, now: int) -> None:
        """Removes receipts of seven days; the oldest one is remembered, so that most writes look at nothing."""
        if now < self._next_pruning:
            return
        self._sql.exec(sql.PRUNE_RECEIPTS, now - rules.RECEIPT_LIFETIME_MS, rules.RECEIPTS_PRUNED_PER_WRITE)
        oldest = self._sql.exec(sql.OLDEST_RECEIPT).one()["oldest"]
        self._next_pruning = (now if oldest is None else oldest) + rules.RECEIPT_LIFETIME_MS

    def current_tuple(self, slug: str, number: int, revision: int) -> dict[str, Any]:
        """Returns the `current` member of a conflict: the tuple in the shape of a new request (3.6)."""
        prefix = rules.reconcile_prefix(slug, number)
        found = self._sql.exec(sql.NEWEST_RECONCILE, prefix, prefix[:-1] + ";", revision).toArray()
        operations: list[dict[str, Any]] = []
        for section in rules.TUPLE_SECTIONS:
            record = self.read(slug, section, number)
            operation: dict[str, Any] = {
                "path": rules.tuple_path(slug, section, number),
                "expectedDigest": None if record is None else record.digest,
            }
            if record is not None and record.content is not None:
                operation["contentBase64"] = base64.b64encode(record.content.encode()).decode()
            operations.append(operation)
        return {
            "key": f"{slug}/{number}",
            "revision": revision,
            "deliveryId": found[0]["delivery_id"] if found else None,
            "operations": operations,
        }

    def write_commits(self, lot: rules.CommitLot) -> tuple[rules.CommitInsert | rules.CommitConflict, int]:
        """Writes a lot of commit records, all or nothing; returns the decision and the store's counter after it."""
        return self._storage.transactionSync(lambda: self._write_commits(lot))  # type: ignore[no-any-return]

    def _write_commits(self, lot: rules.CommitLot) -> tuple[rules.CommitInsert | rules.CommitConflict, int]:
        shas = msgspec.json.encode([record.sha for record in lot.records]).decode()
        stored = {row[0]: row[1] for row in self._sql.exec(sql.READ_COMMIT_DIGESTS, lot.slug, shas).raw()}
        decision = rules.decide_commits(lot, stored)
        if isinstance(decision, rules.CommitConflict) or not decision.records:
            return decision, self.current_revision()
        now = self._now()
        new = decision.records
        newest = int(self._sql.exec(sql.TAKE_REVISIONS, len(new)).one()["current_revision"])
        numbered = list(enumerate(new, newest - len(new) + 1))
        small = [pair for pair in numbered if pair[1].byte_length <= INLINE_BYTES]
        for rows in _batched(small, sql.COMMITS_PER_STATEMENT):
            values = [value for revision, row in rows for value in (revision, row.content, row.byte_length)]
            self._sql.exec(sql.COMMIT_STATEMENTS[len(rows)], *values)
        for revision, record in numbered:
            if record.byte_length > INLINE_BYTES:
                self._store_large_commit(lot.slug, revision, record)
        for rows in _batched(numbered, sql.COMMITS_PER_STATEMENT):
            values = [value for revision, row in rows for value in (row.sha, row.digest, revision)]
            self._sql.exec(sql.COMMIT_JOURNAL_STATEMENTS[len(rows)], lot.slug, now, *values)
        return decision, newest

    def _store_large_commit(self, slug: str, revision: int, record: rules.CommitRecord) -> None:
        data = record.content.encode()
        chunks = _chunks(data)
        self._sql.exec(sql.INSERT_LARGE_COMMIT, revision, len(data), len(chunks))
        for index, chunk in enumerate(chunks):
            self._sql.exec(sql.INSERT_BACKFILL_CHUNK, slug, "commits", record.sha, index, chunk)


def _chunks(content: bytes) -> list[str]:
    return [
        base64.b64encode(content[start : start + CHUNK_BYTES]).decode()
        for start in range(0, len(content), CHUNK_BYTES)
    ]


def _batched(rows: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (rows[start : start + size] for start in range(0, len(rows), size))


def _json_size(record: dict[str, Any]) -> int:
    return len(msgspec.json.encode(record)) + 1


class RecordMethods:
    """The queue object's methods for records. Large values cross as JSON bytes: copying those costs nothing."""

    records: Records

    @wire_method
    def read_record(self, slug: str, section: str, number: int) -> Reply:
        """200 with content, digest, revision and time. Refuses: record_not_found."""
        record = self.records.read(slug, section, number)
        if record is None:
            raise RecordNotFound
        if record.content is None:
            raise RecordNotFound(
                digest=None, revision=record.revision, updatedAt=iso_time(record.updated_at), deleted=True
            )
        return reply(
            {
                "content": rules.wire_text(record.content),
                "digest": record.digest,
                "revision": record.revision,
                "updatedAt": iso_time(record.updated_at),
            }
        )

    def read_record_page(self, slug: str, section: str, number: int) -> Reply:
        """As `read_record`, but a 200 as JSON."""
        answer = self.read_record(slug, section, number)
        return answer if answer["status"] != 200 else reply(msgspec.json.encode(answer["value"]))

    def list_record_slugs(self) -> Reply:
        """200 with the repositories."""
        return reply({"ok": True, "repositories": self.records.slugs()})

    @wire_method
    def list_records(self, members: dict[str, Any]) -> Reply:
        """200 with a page of live numbers, as JSON. Refuses: invalid_canonical_record_listing."""
        return reply(msgspec.json.encode(self.records.listing(rules.parse_listing(members))))

    @wire_method
    def export_records(self, members: dict[str, Any]) -> Reply:
        """200 with a page of the journal, as JSON. Refuses: invalid_canonical_record_export."""
        return reply(msgspec.json.encode(self.records.export(rules.parse_export(members))))

    @wire_method
    def write_record_tuple(self, body: bytes) -> Reply:
        """202 with the revision. Refuses: invalid_canonical_record_tuple_json, invalid_canonical_record_tuple,
        canonical_record_tuple_conflict."""
        try:
            write = rules.parse_tuple(json_body.parse(body))
        except json_body.NotJson:
            raise InvalidCanonicalRecordTupleJson from None
        decision = self.records.write_tuple(write)
        if isinstance(decision, rules.Conflict):
            if decision.revision is None:
                raise CanonicalRecordTupleConflict
            current = self.records.current_tuple(write.slug, write.number, decision.revision)
            raise CanonicalRecordTupleConflict(current=current)
        accepted = isinstance(decision, rules.Write)
        return reply({"ok": True, "accepted": accepted, "deduped": not accepted, "revision": decision.revision}, 202)

    @wire_method
    def write_commit_records(self, body: bytes) -> Reply:
        """202 with the counts. Refuses as `parse_commits` raises, and canonical_commit_record_conflict.

        Texts keep their lone surrogates until they are stored (`records/commits-digest`).
        """
        try:
            lot = rules.parse_commits(json_body.parse(body, keep_surrogates=True))
        except json_body.NotJson:
            raise InvalidCanonicalCommitRecords("the body is no JSON") from None
        decision, watermark = self.records.write_commits(lot)
        if isinstance(decision, rules.CommitConflict):
            raise CanonicalCommitRecordConflict
        return reply(
            {
                "ok": True,
                "repo_slug": lot.slug,
                "inserted": len(decision.records),
                "unchanged": decision.unchanged,
                "watermark": watermark,
            },
            202,
        )
