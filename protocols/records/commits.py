"""Commit records: immutable, written in lots of up to 100, all or nothing (spec state-plane-protocol 3.7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from ..javascript import ABSENT, to_text, trimmed_text
from ..wire.records import CanonicalRecordDigestMismatch, CanonicalRecordTooLarge, InvalidCanonicalCommitRecords
from .identity import COMMIT_ID, DIGEST, is_slug
from .text import MAX_RECORD_BYTES, digest_of, hashed_and_stored

MAX_COMMITS: Final = 100
COMMIT_REVISION: Final = 1
"""Commits are never rewritten, so their revision is always this one."""


class CommitRecord(msgspec.Struct, frozen=True, gc=False):
    """One commit record: 40 hex digits, its text, the digest over the text's UTF-8 and their number.

    A Struct, since a lot makes a hundred of them: a frozen dataclass costs five times as much to build.
    """

    sha: str
    content: str
    digest: str
    byte_length: int

    def __repr__(self) -> str:
        return f"CommitRecord({self.sha}, {self.byte_length} bytes)"


@dataclass(frozen=True, slots=True)
class CommitLot:
    """A valid commits request."""

    slug: str
    records: tuple[CommitRecord, ...]


def parse_commits(body: object) -> CommitLot:
    """Returns the lot that a request's JSON describes.

    Raises InvalidCanonicalCommitRecords, CanonicalRecordTooLarge or CanonicalRecordDigestMismatch for the first rule
    that it breaks, record by record.
    """
    if not isinstance(body, dict):
        raise InvalidCanonicalCommitRecords("body: an object is needed")
    slug = trimmed_text(body.get("repo_slug", ABSENT))
    if not is_slug(slug):
        raise InvalidCanonicalCommitRecords("repo_slug: a repository slug is needed")
    records = body.get("records")
    if not isinstance(records, list) or not 1 <= len(records) <= MAX_COMMITS:
        raise InvalidCanonicalCommitRecords(f"records: a list of 1 to {MAX_COMMITS} is needed")
    return CommitLot(slug, tuple(_parse_record(entry) for entry in records))


def _parse_record(entry: object) -> CommitRecord:
    if not isinstance(entry, dict):
        raise InvalidCanonicalCommitRecords("records: every entry is an object")
    sha, content = entry.get("sha", ABSENT), entry.get("content")
    if type(sha) is not str or COMMIT_ID.fullmatch(sha) is None:
        sha = trimmed_text(sha)
        if COMMIT_ID.fullmatch(sha) is None:
            raise InvalidCanonicalCommitRecords("records.sha: 40 lowercase hex digits are needed")
    if type(content) is str and len(content) <= MAX_RECORD_BYTES // 4 and content.isascii():
        # the ordinary record, without the detours that the lenient forms and odd texts need
        digest = digest_of(content.encode())
        if digest == entry.get("digest"):
            return CommitRecord(sha, content, digest, len(content))
    # unlike the sha and the slug, not trimmed
    digest = to_text(entry.get("digest", ABSENT)).lower()
    if not isinstance(content, str) or DIGEST.fullmatch(digest) is None:
        raise InvalidCanonicalCommitRecords(f"records: {sha} needs a text as content and 64 hex digits as digest")
    data, stored = hashed_and_stored(content)
    if len(data) > MAX_RECORD_BYTES:
        raise CanonicalRecordTooLarge(section="commits", id=sha, maxBytes=MAX_RECORD_BYTES)
    if digest_of(data) != digest:
        raise CanonicalRecordDigestMismatch(section="commits", id=sha)
    return CommitRecord(sha, stored, digest, len(data))


@dataclass(frozen=True, slots=True)
class CommitInsert:
    """Insert `records`; `unchanged` of the lot were there already."""

    records: tuple[CommitRecord, ...]
    unchanged: int


@dataclass(frozen=True, slots=True)
class CommitConflict:
    """A sha is there with another digest: the whole lot is refused."""

    sha: str


def decide_commits(lot: CommitLot, stored: Mapping[str, str | None]) -> CommitInsert | CommitConflict:
    """Decides a lot against the digests that the store has, by sha (None: a deleted row, which is a conflict).

    A sha that occurs twice in the lot counts as stored from its first occurrence on.
    """
    known = dict(stored)
    new: list[CommitRecord] = []
    for record in lot.records:
        if record.sha not in known:
            known[record.sha] = record.digest
            new.append(record)
        elif known[record.sha] != record.digest:
            return CommitConflict(record.sha)
    return CommitInsert(tuple(new), len(lot.records) - len(new))
