"""Targets that are canonical records: `record:<slug>/<section>/<number>` (spec state-plane-protocol 3.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .catalogue import Target
from .hashes import text_hash
from .shapes import frontmatter_hash

RECORD_PREFIX = "record:"
SECTIONS = ("items", "closed", "plans", "decision-packets")
PROVIDER = "state-plane"
_NAME = re.compile(
    r"record:([A-Za-z0-9][A-Za-z0-9_.-]{0,199})/(items|closed|plans|decision-packets)/([1-9][0-9]{0,15})\Z"
)


@dataclass(frozen=True, slots=True)
class RecordName:
    """A record's identity."""

    slug: str
    section: str
    number: int

    @property
    def path(self) -> str:
        """The path of its focused read (spec state-plane 3.2)."""
        return f"/internal/state/records/{self.slug}/{self.section}/{self.number}"


def parse_record(path: str) -> RecordName | None:
    """The record that a target path names, None for any other path."""
    match = _NAME.match(path)
    return RecordName(match[1], match[2], int(match[3])) if match else None


def record_target(path: str, name: RecordName, content: str) -> Target:
    """The target for a live record. Its body is the whole text, so its header is hashed and rendered with it."""
    return Target(path, name.section, PROVIDER, text_hash(content), frontmatter_hash({}))
