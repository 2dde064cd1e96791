"""The small files beside a spool: partition marker, producer lock, seal (spec action-ledger 9.2 to 9.4)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from .canonical import Json, canonical_text, parse_json
from .events import Event
from .numbers import integer
from .refusals import LedgerRefusal
from .shards import producer_text, replay_digest
from .text import is_digest
from .timestamps import calendar_date
from .whitespace import trim

MAX_MARKER_BYTES: Final = 64
MAX_LOCK_BYTES: Final = 1024
MAX_SEAL_BYTES: Final = 1_048_576
PRODUCER_LOCK: Final = "clawsweeper.action-ledger-producer-lock"
IMPORT_LOCK: Final = "clawsweeper.action-ledger-import-lock"
SEAL: Final = "clawsweeper.action-ledger-producer-finalization"

_NONCE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def parse_marker(content: str) -> str:
    """The date in a partition marker. Raises calendar-date."""
    text = trim(content)
    if not text:
        raise LedgerRefusal("calendar-date", "the partition marker is empty")
    return calendar_date(text, "partition marker")


@dataclass(frozen=True, slots=True)
class LockOwner:
    """Who holds a lock. `incarnation` is the digest that tells a process from a later one with the same id."""

    pid: int
    incarnation: str
    acquired_at_ms: int
    nonce: str

    def text(self, schema: str) -> str:
        """Content of the lock file."""
        return (
            canonical_text(
                {
                    "acquired_at_ms": self.acquired_at_ms,
                    "nonce": self.nonce,
                    "pid": self.pid,
                    "process_incarnation_sha256": self.incarnation,
                    "schema": schema,
                    "schema_version": 1,
                }
            )
            + "\n"
        )


def _canonical_object(content: str, code: str) -> dict[str, Any]:
    """The object of a file that is canonical text and a line feed; anything else is `code`."""
    try:
        value: Json = parse_json(content)
        if isinstance(value, dict) and f"{canonical_text(value)}\n" == content:
            return value
    except LedgerRefusal:
        pass
    raise LedgerRefusal(code, "must be one object in canonical text, ended by a line feed")


def parse_lock(content: str, schema: str) -> LockOwner:
    """The owner that a lock file names. Raises lock-invalid: such a lock is never reclaimed, a person must look."""
    value = _canonical_object(content, "lock-invalid")
    pid, acquired = value.get("pid"), value.get("acquired_at_ms")
    nonce, incarnation = value.get("nonce"), value.get("process_incarnation_sha256")
    try:
        if (
            value.get("schema") == schema
            and type(value.get("schema_version")) is int
            and value["schema_version"] == 1
        ):
            owner = LockOwner(integer(pid, 1, "pid"), str(incarnation), integer(acquired, 0, "acquired"), str(nonce))
            if is_digest(incarnation) and isinstance(nonce, str) and _NONCE.fullmatch(nonce):
                return owner
    except LedgerRefusal:
        pass
    raise LedgerRefusal("lock-invalid", f"must be a {schema}, version 1, with pid, incarnation, time and nonce")


@dataclass(frozen=True, slots=True)
class Seal:
    """What a finalised producer consists of."""

    producer: Mapping[str, Any]
    partition_date: str
    event_count: int
    replay_sha256: str

    def text(self) -> str:
        """Content of the seal file."""
        return (
            canonical_text(
                {
                    "event_count": self.event_count,
                    "partition_date": self.partition_date,
                    "producer": dict(self.producer),
                    "replay_sha256": self.replay_sha256,
                    "schema": SEAL,
                    "schema_version": 1,
                }
            )
            + "\n"
        )


def seal_of(producer: Mapping[str, Any], partition_date: str, ordered: Sequence[Event]) -> Seal:
    """The seal of a producer's events in causal order."""
    return Seal(producer, partition_date, len(ordered), replay_digest(ordered))


def parse_seal(content: str, producer: Mapping[str, Any]) -> Seal:
    """The seal in a file, which must be this producer's. Raises seal-invalid, calendar-date."""
    value = _canonical_object(content, "seal-invalid")
    count, digest, named = value.get("event_count"), value.get("replay_sha256"), value.get("producer")
    version = value.get("schema_version")
    if (
        value.get("schema") != SEAL
        or type(version) is not int
        or version != 1
        or not isinstance(named, dict)
        or canonical_text(named) != producer_text(producer)
        or type(count) is not int
        or count < 1
        or not is_digest(digest)
    ):
        raise LedgerRefusal("seal-invalid", f"must be a {SEAL}, version 1, of this producer")
    return Seal(producer, calendar_date(value.get("partition_date"), "partition_date"), count, str(digest))
