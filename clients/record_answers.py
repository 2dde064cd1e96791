"""What the record routes answer, as values; anything that is not what the protocol says is an InvalidAnswer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moorage.protocols import records as rules

from .errors import ClientError, InvalidAnswer


@dataclass(frozen=True, slots=True)
class Record:
    """One record as the service has it; `content` and `digest` are None for a tombstone."""

    id: rules.RecordId
    content: bytes | None = field(repr=False)
    digest: str | None
    revision: int
    updated_at: str

    @property
    def deleted(self) -> bool:
        """Whether it is a tombstone."""
        return self.content is None


@dataclass(frozen=True, slots=True)
class Item:
    """The tuple of one item: the records that were ever written, by section."""

    slug: str
    number: int
    records: Mapping[str, Record]

    @property
    def revision(self) -> int:
        """The item's revision, 0 before its first write."""
        return max((record.revision for record in self.records.values()), default=0)

    def digest(self, section: str) -> str | None:
        """The digest of a section; None for a tombstone and for what was never written."""
        return self.records[section].digest if section in self.records else None

    def content(self, section: str) -> bytes | None:
        """The content of a section, or None."""
        return self.records[section].content if section in self.records else None


@dataclass(frozen=True, slots=True)
class Listed:
    """A live record in a list, without its content."""

    number: int
    digest: str
    revision: int
    updated_at: str


@dataclass(frozen=True, slots=True)
class JournalRow:
    """The latest state of a record, at its place in the journal."""

    record: Record
    store_revision: int


@dataclass(frozen=True, slots=True)
class JournalPage:
    """One page. `revision`: the store's counter before its rows were read; `next_cursor`: None at the end."""

    revision: int
    rows: tuple[JournalRow, ...]
    next_cursor: int | None


@dataclass(frozen=True, slots=True)
class Written:
    """A tuple was written at `revision`; `replayed`: this very delivery had been accepted before."""

    revision: int
    replayed: bool


@dataclass(frozen=True, slots=True)
class Committed:
    """Commit records: how many are new, how many were there, and the store's counter."""

    inserted: int
    unchanged: int
    watermark: int


class RecordConflict(ClientError):
    """Another writer was first, or the delivery id belongs to another payload.

    `current`: the tuple as it is now, when the service could show it, in the form of a request.
    """

    def __init__(self, message: str, current: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.current = current


class RevisionConflict(RecordConflict):
    """The item is not at the revision that was expected; `found` is the one that it is at."""

    def __init__(self, item: Item, expected: int) -> None:
        super().__init__(f"{item.slug}/{item.number} is at revision {item.revision}, not at {expected}")
        self.found = item.revision


def count_of(value: Any, name: str, minimum: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise InvalidAnswer(f"{name} is no integer from {minimum}")
    return value


def _content(value: Any, digest: Any, name: str) -> bytes:
    if not isinstance(value, str) or not isinstance(digest, str):
        raise InvalidAnswer(f"{name} has no content or no digest")
    data = rules.restore_text(value, digest)
    if data is None:
        raise InvalidAnswer(f"the digest of {name} is not that of its content")
    return data


def record_of(record_id: rules.RecordId, value: Mapping[str, Any]) -> Record:
    revision = count_of(value.get("revision"), f"the revision of {record_id.path}")
    updated_at = str(value.get("updatedAt") or "")
    if value.get("deleted") is True:
        if value.get("content") is not None or value.get("digest") is not None:
            raise InvalidAnswer(f"{record_id.path} is deleted and has content")
        return Record(record_id, None, None, revision, updated_at)
    content = _content(value.get("content"), value.get("digest"), record_id.path)
    return Record(record_id, content, value["digest"], revision, updated_at)


def journal_page(slug: str, sections: Sequence[str], after: int, value: Mapping[str, Any]) -> JournalPage:
    """Returns the page that an export answer holds, behind store revision `after`. Raises InvalidAnswer."""
    rows: list[JournalRow] = []
    last = after
    listed = value.get("records")
    if value.get("repoSlug") != slug or not isinstance(listed, list):
        raise InvalidAnswer(f"the answer is no journal of {slug}")
    for entry in listed:
        if not isinstance(entry, dict) or entry.get("section") not in sections:
            raise InvalidAnswer("a journal row has another section than was asked for")
        try:
            record_id = rules.RecordId(slug, entry["section"], str(entry.get("id")))
        except ValueError as error:
            raise InvalidAnswer(f"a journal row names no record: {error}") from None
        store_revision = count_of(entry.get("storeRevision"), "a store revision", 1)
        if store_revision <= last:
            raise InvalidAnswer("the journal is out of order")
        last = store_revision
        rows.append(JournalRow(record_of(record_id, entry), store_revision))
    cursor = value.get("nextCursor")
    if cursor is not None and (not rows or cursor != last):
        raise InvalidAnswer("the cursor of a journal page is not its last row")
    return JournalPage(count_of(value.get("revision"), "the revision of the store"), tuple(rows), cursor)


def list_page(slug: str, section: str, cursor: int, value: Mapping[str, Any]) -> tuple[list[Listed], int | None]:
    listed = value.get("records")
    if value.get("repoSlug") != slug or value.get("section") != section or not isinstance(listed, list):
        raise InvalidAnswer(f"the answer is no list of {slug}/{section}")
    entries: list[Listed] = []
    last = cursor
    for entry in listed:
        if not isinstance(entry, dict) or not isinstance(entry.get("digest"), str):
            raise InvalidAnswer("an entry of a list has no digest")
        number = count_of(entry.get("id"), "the number of a record", 1)
        if number <= last:
            raise InvalidAnswer("a list is out of order")
        last = number
        revision = count_of(entry.get("revision"), "a revision", 1)
        entries.append(Listed(number, entry["digest"], revision, str(entry.get("updatedAt") or "")))
    following = value.get("nextCursor")
    if following is not None and (not entries or following != last):
        raise InvalidAnswer("the cursor of a list is not its last number")
    return entries, following
