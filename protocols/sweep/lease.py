"""The lease: one writer owns the sweep (sweep state schema, "Lease"; spec sweep-state 6)."""

import datetime
from dataclasses import dataclass
from enum import Enum
from typing import Final

from .document import Json, Word

DEFAULT_TTL_MINUTES: Final = 60
_MINUTE: Final = datetime.timedelta(minutes=1) // datetime.timedelta.resolution


class Holding(Enum):
    """How the lease stands to one writer at one instant."""

    FREE = "free"
    OWN = "own"
    LIVE = "another's"
    STALE = "another's, and provably over"


class Move(Enum):
    """What a writer wants of the lease."""

    ACQUIRE = "acquire"
    WRITE = "write"
    RELEASE = "release"


class Effect(Enum):
    """What becomes of the lease record."""

    KEEP = "keep"
    TAKE = "take"
    RESTAMP = "restamp"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The status word of a move, what it does to the record, and why."""

    word: Word
    effect: Effect
    reason: str = ""


_NOT_HOLDER: Final = Verdict(Word.LEASE_LOST, Effect.KEEP, "another writer holds the lease")

VERDICTS: Final[dict[tuple[Holding, Move], Verdict]] = {
    (Holding.FREE, Move.ACQUIRE): Verdict(Word.OK, Effect.TAKE),
    (Holding.OWN, Move.ACQUIRE): Verdict(Word.OK, Effect.TAKE),
    (Holding.LIVE, Move.ACQUIRE): Verdict(Word.LOCKED, Effect.KEEP, "another writer holds a live lease"),
    (Holding.STALE, Move.ACQUIRE): Verdict(Word.STALE_RECLAIMED, Effect.TAKE),
    (Holding.FREE, Move.WRITE): Verdict(Word.LEASE_LOST, Effect.KEEP, "nobody holds the lease"),
    # also when it has run out: only somebody else's acquisition ends a lease
    (Holding.OWN, Move.WRITE): Verdict(Word.OK, Effect.RESTAMP),
    (Holding.LIVE, Move.WRITE): _NOT_HOLDER,
    (Holding.STALE, Move.WRITE): _NOT_HOLDER,
    (Holding.FREE, Move.RELEASE): Verdict(Word.OK, Effect.KEEP),
    (Holding.OWN, Move.RELEASE): Verdict(Word.OK, Effect.REMOVE),
    (Holding.LIVE, Move.RELEASE): _NOT_HOLDER,
    (Holding.STALE, Move.RELEASE): _NOT_HOLDER,
}
"""Every move in every holding. Leases end by release or by another's acquisition, never by time alone."""


def instant(value: Json) -> datetime.datetime | None:
    """The instant of an ISO 8601 text, in UTC when it names no offset; None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.datetime.fromisoformat(value)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)


def ttl_minutes(value: Json) -> int:
    """The time-to-live of a stored lease: an integer, a text of one, or a fraction, which is cut; else 60."""
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        return DEFAULT_TTL_MINUTES


def record_of(value: Json) -> dict[str, Json] | None:
    """The lease record, or None when `value` is none: a map whose `writer` is not empty."""
    return value if isinstance(value, dict) and value.get("writer") else None


def is_stale(record: dict[str, Json], now: Json) -> bool:
    """Whether the lease is provably over: both instants parse and more than the time-to-live lies between them."""
    stamped, moment = instant(record.get("timestamp")), instant(now)
    if stamped is None or moment is None:
        return False
    # whole microseconds: a time-to-live may be beyond what a timedelta holds
    age = (moment - stamped) // datetime.timedelta.resolution
    return age > ttl_minutes(record.get("ttl_minutes")) * _MINUTE


def holding(value: Json, writer: str, now: Json = None) -> Holding:
    """How the lease `value` of a document stands to `writer`; without `now` nobody's lease is over."""
    record = record_of(value)
    if record is None:
        return Holding.FREE
    if record["writer"] == writer:
        return Holding.OWN
    return Holding.STALE if is_stale(record, now) else Holding.LIVE


def judge(value: Json, move: Move, writer: str, now: Json = None) -> Verdict:
    """What `writer` gets for `move`."""
    return VERDICTS[holding(value, writer, now), move]


def taken(writer: str, now: str, ttl: int) -> dict[str, Json]:
    """The record after an acquisition: exactly these fields, whatever the earlier record held."""
    return {"writer": writer, "timestamp": now, "ttl_minutes": ttl}


def restamped(record: dict[str, Json], now: str) -> dict[str, Json]:
    """The record after an owned write: only its stamp changes."""
    return {**record, "timestamp": now}
