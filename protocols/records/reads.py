"""Reading records: lists, journal exports and the bounds of their pages (spec state-plane-protocol 3.2 to 3.5)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..javascript import ABSENT, to_safe_integer, trimmed_text
from ..wire.records import InvalidCanonicalRecordExport, InvalidCanonicalRecordListing
from .identity import SECTIONS, TUPLE_SECTIONS, is_slug

LIST_DEFAULT: Final = 100
LIST_MAXIMUM: Final = 500
EXPORT_DEFAULT: Final = 200
EXPORT_MAXIMUM: Final = 200
PAGE_TEXT_BYTES: Final = 2 * 1024 * 1024
"""A page ends before its record texts pass this."""
PAGE_JSON_BYTES: Final = 4 * 1024 * 1024
"""A page ends before its rows, as JSON, pass this."""
_LONGEST_ESCAPE: Final = 6
_ROW_NAMES: Final = 512
"""At least the bytes of a row's names, digits and punctuation."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Live numbers of one section above `cursor`, at most `limit`."""

    slug: str
    section: str
    cursor: int
    limit: int


@dataclass(frozen=True, slots=True)
class Export:
    """Journal rows of `sections` behind both revisions, at most `limit`."""

    slug: str
    sections: tuple[str, ...]
    since_revision: int
    cursor: int
    limit: int

    @property
    def after(self) -> int:
        """The store revision that the page starts behind."""
        return max(self.since_revision, self.cursor)


def parse_listing(body: object) -> Listing:
    """Returns the listing that a request's JSON asks for; raises InvalidCanonicalRecordListing."""
    fields = body if isinstance(body, dict) else {}
    slug = trimmed_text(fields.get("repoSlug", ABSENT))
    section = trimmed_text(fields.get("section", ABSENT))
    if not is_slug(slug):
        raise InvalidCanonicalRecordListing("repoSlug: a repository slug is needed")
    if section not in TUPLE_SECTIONS:
        raise InvalidCanonicalRecordListing(f"section: one of {', '.join(TUPLE_SECTIONS)}")
    cursor = to_safe_integer(fields.get("cursor", 0))
    limit = to_safe_integer(fields.get("limit", LIST_DEFAULT), 1, LIST_MAXIMUM)
    if cursor is None:
        raise InvalidCanonicalRecordListing("cursor: an integer from 0 is needed")
    if limit is None:
        raise InvalidCanonicalRecordListing(f"limit: an integer from 1 to {LIST_MAXIMUM} is needed")
    return Listing(slug, section, cursor, limit)


def parse_export(body: object) -> Export:
    """Returns the export that a request's JSON asks for; raises InvalidCanonicalRecordExport."""
    fields = body if isinstance(body, dict) else {}
    slug = trimmed_text(fields.get("repoSlug", ABSENT))
    if not is_slug(slug):
        raise InvalidCanonicalRecordExport("repoSlug: a repository slug is needed")
    listed = fields.get("sections", list(SECTIONS))
    sections = tuple(trimmed_text(entry) for entry in listed) if isinstance(listed, list) else ()
    if not sections or len(set(sections)) != len(sections) or not set(sections) <= set(SECTIONS):
        raise InvalidCanonicalRecordExport(f"sections: a list of some of {', '.join(SECTIONS)}, each at most once")
    since = to_safe_integer(fields.get("sinceRevision", 0))
    cursor = to_safe_integer(fields.get("cursor", 0))
    limit = to_safe_integer(fields.get("limit", EXPORT_DEFAULT), 1, EXPORT_MAXIMUM)
    if since is None or cursor is None:
        raise InvalidCanonicalRecordExport("sinceRevision, cursor: integers from 0 are needed")
    if limit is None:
        raise InvalidCanonicalRecordExport(f"limit: an integer from 1 to {EXPORT_MAXIMUM} is needed")
    return Export(slug, sections, since, cursor, limit)


def list_cursor(limit: int, ids: list[int]) -> int | None:
    """Returns the next cursor of a list page: its last number when the page is full, even if nothing follows."""
    return ids[-1] if len(ids) == limit else None


class PageBound:
    """Decides row by row how far an export page goes: until its texts or its JSON would pass their bounds.

    The first row is always admitted. JSON sizes are measured only once six times the text (the longest escapes) could
    pass the bound.
    """

    __slots__ = ("_json", "_taken", "_texts", "_unmeasured", "_upper")

    def __init__(self) -> None:
        self._taken = 0
        self._texts = 0
        self._json = 0
        self._upper = 0
        self._unmeasured: list[Callable[[], int]] = []

    def admits(self, text_bytes: int, measure: Callable[[], int]) -> bool:
        """Tells whether the next row goes in; `measure` returns its JSON size in bytes. After a refusal: no more."""
        self._texts += text_bytes
        self._upper += _LONGEST_ESCAPE * text_bytes + _ROW_NAMES
        self._unmeasured.append(measure)
        if self._json + self._upper > PAGE_JSON_BYTES:
            self._json += sum(size() for size in self._unmeasured)
            self._upper = 0
            self._unmeasured.clear()
        if self._taken and (self._texts > PAGE_TEXT_BYTES or self._json + self._upper > PAGE_JSON_BYTES):
            return False
        self._taken += 1
        return True
