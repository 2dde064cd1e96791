"""The document: what a state file holds, how it is loaded, what a subcommand answers (spec sweep-state 2 to 4)."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias

from .reading import SubsetError, parse

Json: TypeAlias = Any
Document: TypeAlias = dict[str, Json]

SCHEMA_VERSION: Final = 1

KNOWN_STATUSES: Final = (
    "ingested",
    "ack_deferred",
    "acknowledged",
    "needs_download",
    "needs_analysis",
    "manual_stuck",
    "analyzed",
    "in_plan",
    "fix_pending",
    "closed",
    "source_gone",
)
"""A description and no filter: any other value is stored and passed on."""

EVIDENCE: Final = ("fix_ref", "verified_merge_sha", "verified_at")
"""What a `closed` item must carry to remain `closed`."""

OUTCOMES: Final = ("completed", "aborted-locked", "partial", "failed")
"""The outcomes of a run."""


class Word(Enum):
    """The status words, printed on the first line (spec sweep-state 3)."""

    OK = "OK"
    NO_STATE = "NO-STATE"
    CORRUPT = "CORRUPT"
    LOCKED = "LOCKED"
    STALE_RECLAIMED = "STALE-RECLAIMED"
    LEASE_LOST = "LEASE-LOST"
    REFUSED = "REFUSED"
    ERROR = "ERROR"


class Standing(Enum):
    """What was found where the state file should be."""

    ABSENT = "absent"
    CORRUPT = "corrupt"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class State:
    """A loaded state. `document` is empty unless the standing is OK; `reason` says why a file is corrupt."""

    standing: Standing
    document: Document = field(default_factory=dict)
    reason: str = ""

    @classmethod
    def corrupt(cls, reason: str) -> "State":
        """A file that is there and cannot be used; it is never written over."""
        return cls(Standing.CORRUPT, reason=reason)


ABSENT: Final = State(Standing.ABSENT)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a subcommand says and does.

    `payload` is printed as JSON on the second line unless it is None. `document` is to be written; None means that
    nothing changed and nothing is written. `reason` explains a word other than OK to a person.
    """

    word: Word
    payload: Json = None
    document: Document | None = None
    reason: str = ""


class Malformed(ValueError):
    """A part of the document, or an argument, is not what the subcommand needs: ERROR, and nothing is written."""


def fresh() -> Document:
    """The document of a file that does not exist yet."""
    return {"schema_version": SCHEMA_VERSION, "sources": {}, "items": {}}


def load(data: bytes | None) -> State:
    """The state that a file's bytes hold; None stands for no file.

    An existing file of no bytes is corrupt: it has no `schema_version` (SW-2). A newer `schema_version` is kept as it
    stands (SW-1). `sources` and `items` default to empty maps.
    """
    if data is None:
        return ABSENT
    try:
        document = parse(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        return State.corrupt(f"byte {error.start}: not UTF-8")
    except SubsetError as error:
        return State.corrupt(str(error))
    if "schema_version" not in document:
        return State.corrupt("there is no schema_version")
    document.setdefault("sources", {})
    document.setdefault("items", {})
    return State(Standing.OK, document)


def item_key(source: str, item: str) -> str:
    """The key of an item: source and id joined by one colon, unescaped.

    Two pairs can join to one key (`upsert-colliding-composites`); source ids without colons keep them apart.
    """
    return f"{source}:{item}"


def mapping(document: Document, name: str) -> dict[str, Json]:
    """The map at the top-level key `name`. Raises Malformed when something else is there."""
    value = document.get(name)
    if not isinstance(value, dict):
        raise Malformed(f"{name} must be a map, not {_kind(value)}")
    return value


def _kind(value: Json) -> str:
    names = {dict: "a map", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
