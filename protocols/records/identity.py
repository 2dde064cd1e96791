"""What a canonical record is called: repository slug, section, id, path (spec state-plane-protocol 3.1)."""

import re
from dataclasses import dataclass
from typing import Final

from ..javascript import MAX_SAFE_INTEGER

TUPLE_SECTIONS: Final = ("items", "closed", "plans", "decision-packets")
"""The four sections of one item number, written together; the order of `current` in a conflict."""

SECTIONS: Final = (*TUPLE_SECTIONS, "commits")

EXTENSIONS: Final = {"items": "md", "closed": "md", "plans": "md", "decision-packets": "json", "commits": "md"}

SLUG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
COMMIT_ID: Final = re.compile(r"[0-9a-f]{40}")
DIGEST: Final = re.compile(r"[0-9a-f]{64}")
ITEM_NUMBER: Final = re.compile(r"[1-9][0-9]*")

RESERVED_SLUGS: Final = frozenset({"ledger", "assets", "artifacts"})
"""First segments of the blob prefixes: a snapshot of such a repository would lie among blobs (storage 4)."""


def is_slug(text: str) -> bool:
    """Tells whether `text` is a repository slug, exactly as written (no trimming)."""
    return SLUG.fullmatch(text) is not None


def item_number(text: str) -> int | None:
    """Returns the item number that `text` spells: at least 1, no leading zero, a safe integer; else None."""
    if ITEM_NUMBER.fullmatch(text) is None or len(text) > 16:
        return None
    number = int(text)
    return number if number <= MAX_SAFE_INTEGER else None


def is_record_id(section: str, text: str) -> bool:
    """Tells whether `text` is an id of `section`: 40 lowercase hex for commits, an item number elsewhere."""
    if section == "commits":
        return COMMIT_ID.fullmatch(text) is not None
    return section in EXTENSIONS and item_number(text) is not None


@dataclass(frozen=True, slots=True, order=True)
class RecordId:
    """One record. Raises ValueError for a slug, section or id outside the grammar."""

    slug: str
    section: str
    id: str

    def __post_init__(self) -> None:
        if not is_slug(self.slug):
            raise ValueError(f"repository slug {self.slug!r}: 1 to 200 letters, digits, '_', '.' and '-'")
        if self.section not in EXTENSIONS:
            raise ValueError(f"section {self.section!r}: one of {', '.join(SECTIONS)} is needed")
        if not is_record_id(self.section, self.id):
            wanted = "40 lowercase hex digits" if self.section == "commits" else "an item number without leading zero"
            raise ValueError(f"record id {self.id!r} of section {self.section}: {wanted} is needed")

    @property
    def file_name(self) -> str:
        """`<id>.md`, or `<id>.json` for decision packets."""
        return f"{self.id}.{EXTENSIONS[self.section]}"

    @property
    def path(self) -> str:
        """`records/<slug>/<section>/<file name>`, the path form of the wire."""
        return f"records/{self.slug}/{self.section}/{self.file_name}"

    @classmethod
    def parse(cls, path: str) -> "RecordId":
        """Returns the record that `path` names; raises ValueError when it is not a record path to the letter."""
        parts = path.split("/")
        if len(parts) != 4 or parts[0] != "records":
            raise ValueError(f"path {path!r}: records/<slug>/<section>/<file name> is needed")
        stem, dot, extension = parts[3].rpartition(".")
        if not dot or EXTENSIONS.get(parts[2]) != extension:
            raise ValueError(f"path {path!r}: the file name does not fit the section")
        return cls(parts[1], parts[2], stem)


def tuple_path(slug: str, section: str, number: int) -> str:
    """Returns the path of one section of an item; arguments are trusted (they were checked before)."""
    return f"records/{slug}/{section}/{number}.{EXTENSIONS[section]}"


def repository_slug(repository: str) -> str:
    """Returns the slug that stands for `owner/name`: a dash for the slash, lowercase. Raises ValueError."""
    owner, slash, name = repository.partition("/")
    slug = f"{owner}-{name}".lower()
    if not slash or not owner or not name or "/" in name or not is_slug(slug):
        raise ValueError(f"repository {repository!r}: owner/name is needed")
    return slug
