"""Canonical records: focused reads, tuples with expectations, commits, lists and the journal as iterators.

Spec state-plane-protocol 3, 12. Every answer of success is checked before it is believed: shape, order, and that the
digest is that of the content; what fails the check is asked for again.
"""

import base64
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

from moorage.protocols import records as rules
from moorage.protocols.wire import WireError

from .errors import ConfigurationError, Conflict, InvalidAnswer, NotFound
from .http import AsyncHttp, Http
from .record_answers import (
    Committed,
    Item,
    JournalPage,
    JournalRow,
    Listed,
    Record,
    RecordConflict,
    RevisionConflict,
    Written,
    count_of,
    journal_page,
    list_page,
    record_of,
)

PREFIX: Final = "/internal/state/records/"
LIST_PAGE: Final = 500
JOURNAL_PAGE: Final = 200


def _slug(slug: str) -> str:
    if not rules.is_slug(slug):
        raise ConfigurationError(
            f"{slug!r} is no repository slug: owner-name, 1 to 200 letters, digits, '_', '.', '-'"
        )
    return slug


def _record_id(slug: str, section: str, number: int) -> rules.RecordId:
    try:
        return rules.RecordId(_slug(slug), section, str(number))
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def _commit_text(sha: str, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"the record of commit {sha} is not UTF-8 at byte {error.start}") from None


def _checked(parse: Callable[[Any], object], body: Any) -> None:
    """Applies the service's own rule before anything is sent. Raises ConfigurationError with the rule's text."""
    try:
        parse(body)
    except WireError as error:
        raise ConfigurationError(str(error)) from None


class AsyncRecords:
    """Records over an `AsyncHttp`. Methods raise ClientError and its kinds."""

    def __init__(self, http: AsyncHttp) -> None:
        self._http = http

    async def read(self, record_id: rules.RecordId) -> Record | None:
        """The record, a tombstone included; None when it was never written. Commits have no focused read."""
        if record_id.section not in rules.TUPLE_SECTIONS:
            raise ConfigurationError(f"{record_id.path}: there is no focused read of commits; use the journal")
        path = f"{PREFIX}{record_id.slug}/{record_id.section}/{record_id.id}"

        def check(value: dict[str, Any]) -> None:
            record_of(record_id, value)

        try:
            return record_of(record_id, await self._http.json("GET", path, check=check))
        except NotFound as error:
            if error.code != "record_not_found":
                raise
            return record_of(record_id, error.body) if error.body.get("deleted") is True else None

    async def item(self, slug: str, number: int) -> Item:
        """The four sections of an item, one request each: nothing of the repository else is read."""
        found: dict[str, Record] = {}
        for section in rules.TUPLE_SECTIONS:
            record = await self.read(_record_id(slug, section, number))
            if record is not None:
                found[section] = record
        return Item(slug, number, found)

    async def repositories(self) -> dict[str, int]:
        """The newest store revision of every repository, by slug; those with tombstones only included."""

        def check(value: dict[str, Any]) -> None:
            listed = value.get("repositories")
            if not isinstance(listed, list):
                raise InvalidAnswer("the answer lists no repositories")
            for entry in listed:
                if not isinstance(entry, dict) or not rules.is_slug(str(entry.get("repoSlug"))):
                    raise InvalidAnswer("a repository has no slug")
                count_of(entry.get("revision"), "the revision of a repository")

        found = await self._http.json("POST", f"{PREFIX}slugs", {}, check=check)
        return {entry["repoSlug"]: entry["revision"] for entry in found["repositories"]}

    async def live(self, slug: str, section: str, *, page: int = LIST_PAGE) -> AsyncIterator[Listed]:
        """Every live record of a tuple section, by number, without contents."""
        cursor: int | None = 0
        while cursor is not None:
            body = {"repoSlug": _slug(slug), "section": section, "cursor": cursor, "limit": page}
            entries: list[Listed] = []
            following: int | None = None

            def check(value: dict[str, Any], after: int = cursor) -> None:
                nonlocal entries, following
                entries, following = list_page(slug, section, after, value)

            await self._http.json("POST", f"{PREFIX}list", body, check=check)
            for entry in entries:
                yield entry
            cursor = following

    async def journal_page(
        self, slug: str, *, sections: Sequence[str] = rules.SECTIONS, since: int = 0, cursor: int = 0,
        limit: int = JOURNAL_PAGE,
    ) -> JournalPage:  # fmt: skip
        """One page of the journal behind `since` and `cursor`."""
        body = {
            "repoSlug": _slug(slug),
            "sections": list(sections),
            "sinceRevision": since,
            "cursor": cursor,
            "limit": limit,
        }
        page: JournalPage | None = None

        def check(value: dict[str, Any]) -> None:
            nonlocal page
            page = journal_page(slug, sections, max(since, cursor), value)

        await self._http.json("POST", f"{PREFIX}export", body, check=check)
        return cast(JournalPage, page)

    async def pages(
        self, slug: str, *, sections: Sequence[str] = rules.SECTIONS, since: int = 0, limit: int = JOURNAL_PAGE
    ) -> AsyncIterator[JournalPage]:
        """The journal since a store revision, page by page; the first page's `revision` is a watermark for it all."""
        cursor: int | None = 0
        while cursor is not None:
            page = await self.journal_page(slug, sections=sections, since=since, cursor=cursor, limit=limit)
            yield page
            cursor = page.next_cursor

    async def journal(
        self, slug: str, *, sections: Sequence[str] = rules.SECTIONS, since: int = 0, limit: int = JOURNAL_PAGE
    ) -> AsyncIterator[JournalRow]:
        """The rows of `pages`: the latest state of every record written since, tombstones included."""
        async for page in self.pages(slug, sections=sections, since=since, limit=limit):
            for row in page.rows:
                yield row

    async def write(
        self,
        slug: str,
        number: int,
        contents: Mapping[str, bytes | None],
        *,
        expected: Mapping[str, str | None],
        delivery_id: str,
    ) -> Written:
        """Writes a tuple: `contents` by section, what is missing or None becomes a tombstone.

        `expected`: the digests that the sections have now (missing: none). `delivery_id` makes it repeatable.
        Raises RecordConflict.
        """
        operations: list[dict[str, Any]] = []
        for section in rules.TUPLE_SECTIONS:
            operation: dict[str, Any] = {
                "path": _record_id(slug, section, number).path,
                "expectedDigest": expected.get(section),
            }
            content = contents.get(section)
            if content is not None:
                operation["contentBase64"] = base64.b64encode(content).decode()
            operations.append(operation)
        body = {"deliveryId": delivery_id, "key": f"{slug}/{number}", "operations": operations}
        _checked(rules.parse_tuple, body)

        def check(value: dict[str, Any]) -> None:
            count_of(value.get("revision"), "the revision of a tuple", 1)

        try:
            found = await self._http.json("POST", f"{PREFIX}tuples", body, check=check)
        except Conflict as conflict:
            if conflict.code != "canonical_record_tuple_conflict":
                raise
            current = conflict.body.get("current")
            raise RecordConflict(
                f"{slug}/{number} was changed by somebody else, or the delivery id is taken",
                current if isinstance(current, dict) else None,
            ) from None
        return Written(found["revision"], found.get("deduped") is True)

    async def put(
        self,
        slug: str,
        number: int,
        contents: Mapping[str, bytes | None],
        *,
        expected_revision: int | None = None,
        delivery_id: str | None = None,
    ) -> Written:
        """Reads the item, compares its revision with `expected_revision` when given, and writes it.

        With a `delivery_id` of the caller's an item that holds just these contents already counts as written: so the
        call can be repeated, although the expectations that it reads are part of what a delivery id is bound to.
        The service compares digests: a rival that writes in between is a RecordConflict. One that wrote the very same
        contents meanwhile is not noticed, and nothing is lost by it. Raises RevisionConflict, RecordConflict.
        """
        item = await self.item(slug, number)
        if expected_revision is not None and item.revision != expected_revision:
            raise RevisionConflict(item, expected_revision)
        expected = {section: item.digest(section) for section in rules.TUPLE_SECTIONS}
        if delivery_id is not None and item.records:
            digests = {name: None if data is None else rules.digest_of(data) for name, data in contents.items()}
            if all(expected[section] == digests.get(section) for section in rules.TUPLE_SECTIONS):
                return Written(item.revision, True)
        return await self.write(
            slug, number, contents, expected=expected, delivery_id=delivery_id or f"moorage:{uuid.uuid4()}"
        )

    async def commit(self, slug: str, contents: Mapping[str, bytes]) -> Committed:
        """Writes commit records by sha, in lots that fit; each lot is all or nothing. Raises Conflict."""
        inserted = unchanged = watermark = 0
        for lot in _lots(contents):
            records = [
                {"sha": sha, "content": _commit_text(sha, content), "digest": rules.digest_of(content)}
                for sha, content in lot
            ]
            body = {"repo_slug": _slug(slug), "records": records}
            _checked(rules.parse_commits, body)

            def check(value: dict[str, Any], size: int = len(lot)) -> None:
                counts = [count_of(value.get(name), name) for name in ("inserted", "unchanged", "watermark")]
                if counts[0] + counts[1] != size:
                    raise InvalidAnswer("the counts of the commit records do not add up")

            found = await self._http.json("POST", f"{PREFIX}commits", body, check=check)
            inserted += found["inserted"]
            unchanged += found["unchanged"]
            watermark = found["watermark"]
        return Committed(inserted, unchanged, watermark)


LOT_BYTES: Final = 1024 * 1024
"""Text of one commits request: with escapes it stays below the request's 4 MiB, unless one record alone is larger."""


def _lots(contents: Mapping[str, bytes]) -> Iterator[list[tuple[str, bytes]]]:
    lot: list[tuple[str, bytes]] = []
    size = 0
    for sha, content in contents.items():
        if lot and (len(lot) == rules.MAX_COMMITS or size + len(content) > LOT_BYTES):
            yield lot
            lot, size = [], 0
        lot.append((sha, content))
        size += len(content)
    if lot:
        yield lot


class Records:
    """The synchronous face of `AsyncRecords`, over an `Http`."""

    def __init__(self, http: Http) -> None:
        self._loop = http.loop
        self._records = AsyncRecords(http.asynchronous)

    def read(self, record_id: rules.RecordId) -> Record | None:
        """See `AsyncRecords.read`."""
        return self._loop.run(self._records.read(record_id))

    def item(self, slug: str, number: int) -> Item:
        """See `AsyncRecords.item`."""
        return self._loop.run(self._records.item(slug, number))

    def repositories(self) -> dict[str, int]:
        """See `AsyncRecords.repositories`."""
        return self._loop.run(self._records.repositories())

    def live(self, slug: str, section: str, *, page: int = LIST_PAGE) -> Iterator[Listed]:
        """See `AsyncRecords.live`."""
        return self._loop.iterate(self._records.live(slug, section, page=page))

    def journal_page(self, slug: str, **options: Any) -> JournalPage:
        """See `AsyncRecords.journal_page`."""
        return self._loop.run(self._records.journal_page(slug, **options))

    def journal(self, slug: str, **options: Any) -> Iterator[JournalRow]:
        """See `AsyncRecords.journal`."""
        return self._loop.iterate(self._records.journal(slug, **options))

    def write(self, slug: str, number: int, contents: Mapping[str, bytes | None], **options: Any) -> Written:
        """See `AsyncRecords.write`."""
        return self._loop.run(self._records.write(slug, number, contents, **options))

    def put(self, slug: str, number: int, contents: Mapping[str, bytes | None], **options: Any) -> Written:
        """See `AsyncRecords.put`."""
        return self._loop.run(self._records.put(slug, number, contents, **options))

    def commit(self, slug: str, contents: Mapping[str, bytes]) -> Committed:
        """See `AsyncRecords.commit`."""
        return self._loop.run(self._records.commit(slug, contents))


__all__ = [
    "AsyncRecords",
    "Committed",
    "Item",
    "JournalPage",
    "JournalRow",
    "Listed",
    "Record",
    "RecordConflict",
    "Records",
    "RevisionConflict",
    "Written",
]
