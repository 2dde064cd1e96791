"""The state-writer lease: one holder at a time, a fair queue of three classes (spec state-plane-protocol 10).

Laws, each with its test:

1. A ticket moves only along `TRANSITIONS`; `completed` and `expired` are ends, and an id never lives twice.
2. At most one ticket is `leased`.
3. Every grant has a number greater than every earlier one (`fencing number`), and a token of its own.
4. Time only ends things; it grants nothing. The head of the line gets the lease when it asks, not when it falls free.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from .javascript import ABSENT, to_number, to_safe_integer, trimmed_text
from .wire.state_writer import (
    InvalidStateWriterHeartbeat,
    InvalidStateWriterRelease,
    InvalidStateWriterTicket,
)

_MINUTE: Final = 60_000
_ID: Final = re.compile(r"[A-Za-z0-9._:/@-]{1,200}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_MAX_TEXT: Final = 500
"""Longest workflow or job name, in UTF-16 units."""

RETENTION_MS: Final = 7 * 24 * 60 * _MINUTE
"""How long a ticket that ended is kept (storage 6)."""

PRUNED_PER_CALL: Final = 256


class WriterClass(Enum):
    """Who writes. Intakes go before batches, batches before ordinary writers, within the bounds of `Turns`."""

    ORDINARY = "ordinary"
    BATCH = "publication_batch"
    INTAKE = "cluster_intake"


class State(Enum):
    """The life of a ticket."""

    QUEUED = "queued"
    LEASED = "leased"
    COMPLETED = "completed"
    EXPIRED = "expired"


class Event(Enum):
    """What moves a ticket."""

    POLL = "poll"
    GRANT = "grant"
    HEARTBEAT = "heartbeat"
    RELEASE = "release"
    GO_STALE = "go stale"
    RUN_OUT = "run out"


TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.QUEUED, Event.POLL): State.QUEUED,
    (State.QUEUED, Event.GRANT): State.LEASED,
    (State.QUEUED, Event.GO_STALE): State.EXPIRED,
    (State.LEASED, Event.POLL): State.LEASED,
    (State.LEASED, Event.HEARTBEAT): State.LEASED,
    (State.LEASED, Event.RELEASE): State.COMPLETED,
    (State.LEASED, Event.RUN_OUT): State.EXPIRED,
    (State.COMPLETED, Event.RELEASE): State.COMPLETED,
}
"""Every move that exists. A release of a completed ticket is the same release, whose answer was lost."""


@dataclass(frozen=True, slots=True)
class Terms:
    """Durations in ms: `lease` per grant or heartbeat, `stale` for a queued ticket, `deadline` of a grant in all."""

    lease: int = 2 * _MINUTE
    stale: int = 2 * _MINUTE
    deadline: int = 30 * _MINUTE

    @classmethod
    def of(cls, lease: object = ABSENT, stale: object = ABSENT, deadline: object = ABSENT) -> "Terms":
        """Returns the terms that settings give: out of bounds is clamped, what is no number is the default."""
        base = cls()
        return cls(
            _clamp(lease, base.lease, _MINUTE // 2, 10 * _MINUTE),
            _clamp(stale, base.stale, _MINUTE // 2, 10 * _MINUTE),
            _clamp(deadline, base.deadline, 5 * _MINUTE, 60 * _MINUTE),
        )


def _clamp(value: object, default: int, low: int, high: int) -> int:
    if value is None or value is ABSENT or value == "":
        return default
    number = to_number(value)
    if number != number:
        return default
    return int(min(max(number, low), high))


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks for what; fixed for the life of a ticket id."""

    ticket_id: str
    owner: str
    branch: str
    repository: str
    workflow: str
    job: str
    run_id: str
    run_attempt: int
    writer_class: WriterClass


@dataclass(frozen=True, slots=True)
class Ticket:
    """A ticket as it is kept. Times are ms since 1970; lease members are None until the grant.

    `lease_expires_at` is None again when the ticket has ended.
    """

    seq: int
    identity: Identity
    state: State
    enqueued_at: int
    last_seen_at: int
    leased_at: int | None = None
    lease_token: str | None = None
    lease_generation: int = 0
    lease_expires_at: int | None = None
    lease_deadline_at: int | None = None
    completed_at: int | None = None

    def __post_init__(self) -> None:
        if (self.state is State.LEASED) is not (self.lease_expires_at is not None):
            raise ValueError("a ticket has a lease end exactly while it is leased")
        if self.state is State.LEASED and (self.lease_token is None or self.lease_deadline_at is None):
            raise ValueError("a leased ticket has a token and a deadline")

    def moved(self, event: Event) -> State:
        """Returns the state after `event`; raises ValueError for a move that does not exist."""
        try:
            return TRANSITIONS[self.state, event]
        except KeyError:
            raise ValueError(f"a {self.state.value} ticket cannot {event.value}") from None

    def holds(self, owner: str, token: str) -> bool:
        """Tells whether owner and token are those of this ticket's lease (the fencing triple with the id)."""
        return self.lease_token is not None and self.identity.owner == owner and self.lease_token == token


def parse_identity(body: object) -> Identity:
    """Returns the identity that an acquire request names; raises InvalidStateWriterTicket."""
    fields = body if isinstance(body, dict) else {}
    ids = {name: _id(fields.get(name, ABSENT)) for name in ("ticket_id", "owner", "branch", "repository", "run_id")}
    texts = {name: _text(fields.get(name, ABSENT)) for name in ("workflow", "job")}
    attempt = to_safe_integer(fields.get("run_attempt", ABSENT), 1)
    try:
        writer_class = WriterClass(fields.get("writer_class", WriterClass.ORDINARY.value))
    except ValueError:
        raise InvalidStateWriterTicket from None
    if None in ids.values() or None in texts.values() or attempt is None:
        raise InvalidStateWriterTicket
    return Identity(
        **{name: value for name, value in (ids | texts).items() if value is not None},
        run_attempt=attempt,
        writer_class=writer_class,
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """What a heartbeat or release must show: the fencing triple."""

    ticket_id: str
    owner: str
    lease_token: str


def parse_claim(body: object, refusal: type[InvalidStateWriterHeartbeat] | type[InvalidStateWriterRelease]) -> Claim:
    """Returns the fencing triple of a request; raises `refusal` when a member is missing or malformed."""
    fields = body if isinstance(body, dict) else {}
    found = [_id(fields.get(name, ABSENT)) for name in ("ticket_id", "owner", "lease_token")]
    ticket_id, owner, token = found
    if ticket_id is None or owner is None or token is None:
        raise refusal
    return Claim(ticket_id, owner, token)


def _id(value: object) -> str | None:
    text = trimmed_text(value)
    return text if _ID.fullmatch(text) else None


def _text(value: object) -> str | None:
    text = trimmed_text(value)
    units = len(text.encode("utf-16-le", "surrogatepass")) // 2
    return text if 1 <= units <= _MAX_TEXT and not _CONTROL.search(text) else None


# Turns: who is next.

MAX_PRIORITY_TURNS: Final = 2
"""Turns of batches and intakes together before a waiting ordinary writer; of batches alone, the same."""

MAX_INTAKE_TURNS: Final = 1
"""Intake turns in a row while anybody else waits."""


@dataclass(frozen=True, slots=True)
class Turns:
    """The durable turn counters: turns of batches (`consecutive_batch_turns`) and of intakes
    (`consecutive_intake_turns`) since the last ordinary one.

    They run beside each other only while an ordinary writer waits; without one, a turn of either kind ends the row of
    the other.
    """

    batch: int = 0
    intake: int = 0

    def after(self, granted: WriterClass, *, ordinary_waits: bool) -> "Turns":
        """Returns the counters after a grant; `ordinary_waits`: whether an ordinary writer is still in the line."""
        if granted is WriterClass.ORDINARY:
            return Turns()
        if granted is WriterClass.BATCH:
            return Turns(self.batch + 1, self.intake if ordinary_waits else 0)
        return Turns(self.batch if ordinary_waits else 0, self.intake + 1)


def next_class(turns: Turns, waiting: Iterable[WriterClass]) -> WriterClass | None:
    """Returns the class whose turn it is among those that wait, or None when nobody does.

    | waiting | next |
    | --- | --- |
    | ordinary, and two priority turns were taken | ordinary |
    | intake, and no intake turn was just taken, or nobody else waits | intake |
    | batch | batch |
    | else | ordinary |
    """
    classes = set(waiting)
    if WriterClass.ORDINARY in classes and turns.batch + turns.intake >= MAX_PRIORITY_TURNS:
        return WriterClass.ORDINARY
    if WriterClass.INTAKE in classes and (turns.intake < MAX_INTAKE_TURNS or len(classes) == 1):
        return WriterClass.INTAKE
    for writer_class in (WriterClass.BATCH, WriterClass.ORDINARY):
        if writer_class in classes:
            return writer_class
    return None


def line_up(queue: Iterable[tuple[int, WriterClass]], turns: Turns) -> list[int]:
    """Returns the sequence numbers of the waiting tickets in the order in which they will be granted.

    `queue`: sequence number and class, in any order. Within a class arrival decides.
    """
    lines: dict[WriterClass, list[int]] = {}
    for seq, writer_class in sorted(queue, reverse=True, key=lambda entry: entry[0]):
        lines.setdefault(writer_class, []).append(seq)
    order: list[int] = []
    while (turn := next_class(turns, lines)) is not None:
        order.append(lines[turn].pop())
        if not lines[turn]:
            del lines[turn]
        turns = turns.after(turn, ordinary_waits=WriterClass.ORDINARY in lines)
    return order


# Moves of one ticket. Each returns the ticket after it.


def is_stale(ticket: Ticket, now: int, terms: Terms) -> bool:
    """Tells whether a queued ticket was not asked for too long."""
    return ticket.state is State.QUEUED and ticket.last_seen_at + terms.stale <= now


def is_run_out(ticket: Ticket, now: int) -> bool:
    """Tells whether a lease's time is over."""
    return ticket.lease_expires_at is not None and ticket.lease_expires_at <= now


def grant(ticket: Ticket, now: int, token: str, terms: Terms) -> Ticket:
    """Returns the ticket with the lease; `token` is fresh."""
    return replace(
        ticket,
        state=ticket.moved(Event.GRANT),
        last_seen_at=now,
        leased_at=now,
        lease_token=token,
        lease_generation=ticket.lease_generation + 1,
        lease_expires_at=now + min(terms.lease, terms.deadline),
        lease_deadline_at=now + terms.deadline,
    )


def beat(ticket: Ticket, now: int, terms: Terms) -> Ticket:
    """Returns the ticket with its lease prolonged, never past the deadline."""
    deadline = ticket.lease_deadline_at
    if deadline is None:
        raise ValueError("only a leased ticket has a heartbeat")
    return replace(
        ticket,
        state=ticket.moved(Event.HEARTBEAT),
        last_seen_at=now,
        lease_expires_at=min(now + terms.lease, deadline),
    )


def end(ticket: Ticket, event: Event, now: int) -> Ticket:
    """Returns the ticket after a release, going stale or running out."""
    return replace(ticket, state=ticket.moved(event), lease_expires_at=None, completed_at=now)


def wire_ticket(ticket: Ticket, position: int) -> dict[str, object]:
    """Returns the ticket as answers show it; `position` is 1-based while queued, else 0."""
    return {
        "seq": ticket.seq,
        "ticketId": ticket.identity.ticket_id,
        "owner": ticket.identity.owner,
        "state": ticket.state.value,
        "leaseToken": ticket.lease_token,
        "leaseGeneration": ticket.lease_generation,
        "leaseExpiresAt": ticket.lease_expires_at,
        "leaseDeadlineAt": ticket.lease_deadline_at,
        "position": position,
    }
