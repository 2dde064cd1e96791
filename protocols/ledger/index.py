"""The index of imports in R2: what its routes take, the lock of imports, and what a reservation can be refused with.

The binding files in R2 are the truth. The index answers at once what would take as many reads as there are events,
decides between two publishers in one step, and can be made anew from those files at any time. Its clock is the
state plane's, in milliseconds since 1970.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from .bindings import ROOT, parse_reservation
from .canonical import sha256_text
from .refusals import LedgerRefusal

PREFIX: Final = "/internal/ledger/"
MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""A batch of the largest size, 16 MiB of shards, is claimed in one request: what is claimed of an event is less than
its line. More than 32 MiB would not pass from the Worker to the object at all."""
DEFAULT_TTL_SECONDS: Final = 120
MAX_TTL_SECONDS: Final = 3600
MAX_SETS: Final = 256
PAGE: Final = 200
"""Binding files that one step of a rebuild reads, and shards that one step of a prune looks at."""

Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
Ttl = Annotated[int, Meta(ge=1, le=MAX_TTL_SECONDS)]
Token = Annotated[int, Meta(ge=1)]
Who = Literal["webhook", "operator"]


class BadBody(ValueError):
    """The body is not what the verb takes; the text names the member."""


class Body(Struct, frozen=True, forbid_unknown_fields=True):
    """A request's body; of a verb that takes nothing, `{}`."""


class Acquire(Body, frozen=True):
    """`lock-acquire`. `holder`: who imports, unique among publishers."""

    holder: Name
    ttl_seconds: Ttl = DEFAULT_TTL_SECONDS


class Held(Body, frozen=True):
    """`lock-renew` and `lock-release`."""

    holder: Name
    token: Token
    ttl_seconds: Ttl = DEFAULT_TTL_SECONDS


class SetClaim(Body, frozen=True):
    """A shard set: path and text of its reservation file, and its events as `[event_id, semantic_sha256, parent]`."""

    path: Name
    text: Annotated[str, Meta(max_length=1_048_576)]
    events: list[tuple[Digest, Digest, Digest | None]]


class Reserve(Body, frozen=True):
    """`reserve`: every set of a batch, all of them or none."""

    holder: Name
    token: Token
    sets: Annotated[list[SetClaim], Meta(min_length=1, max_length=MAX_SETS)]


class Complete(Body, frozen=True):
    """`complete`: identity digests of sets whose completion markers were stored."""

    holder: Name
    token: Token
    sets: Annotated[list[Digest], Meta(min_length=1, max_length=MAX_SETS)]


class Rebuild(Body, frozen=True):
    """`rebuild`: one step. The first has neither member; the next ones have what the last answered."""

    generation: Token | None = None
    cursor: Annotated[str, Meta(max_length=4096)] | None = None


class Prune(Body, frozen=True):
    """`prune`: removes shards that the segment with this manifest holds, from the path after `after` on."""

    manifest: Name
    after: Annotated[str, Meta(max_length=1024)] = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb's body, whose signature it wants, and one line on it."""

    body: type[Body]
    who: Who
    summary: str


VERBS: Final[dict[str, Verb]] = {
    "lock-acquire": Verb(Acquire, "webhook", "Takes the lock of imports; answers with a fencing token."),
    "lock-renew": Verb(Held, "webhook", "Lengthens one's own lock."),
    "lock-release": Verb(Held, "webhook", "Gives one's own lock back."),
    "reserve": Verb(Reserve, "webhook", "Reserves the shard sets of a batch, all or none. Needs the lock."),
    "complete": Verb(Complete, "webhook", "Notes sets as complete whose markers are in R2. Needs the lock."),
    "status": Verb(Body, "webhook", "Counts, unfinished sets and the lock."),
    "rebuild": Verb(Rebuild, "operator", "One step of making the index anew from the binding files in R2."),
    "prune": Verb(Prune, "operator", "Removes shards that a verified segment holds, each read back first."),
}
"""One table for the routes, the object and the client."""


def parse_body(verb: str, data: bytes) -> Any:
    """The body of a request; blank counts as `{}`. Raises BadBody."""
    try:
        return msgspec.json.decode(data.strip() or b"{}", type=VERBS[verb].body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadBody(str(error)) from None
    except RecursionError:
        raise BadBody("the body is nested too deeply") from None


@dataclass(frozen=True, slots=True)
class Lock:
    """The lock of imports. `holder` is None when it was given back; `token` counts the acquisitions."""

    token: int = 0
    holder: str | None = None
    expires_at: int = 0

    def acquired(self, holder: str, ttl_seconds: int, now: int) -> "Lock | None":
        """The lock in `holder`'s hands, None while somebody else holds it. A holder may take its own again."""
        if self.holder is not None and self.holder != holder and now < self.expires_at:
            return None
        return Lock(self.token + 1, holder, now + ttl_seconds * 1000)

    def refusal(self, holder: str, token: int, now: int) -> str | None:
        """Why the holder of `token` may not write, None when it may."""
        if self.holder != holder or self.token != token:
            return "somebody else took the lock since" if self.token > token else "never held under this token"
        return None if now < self.expires_at else "the lock's time is over"


@dataclass(frozen=True, slots=True)
class Claim:
    """One shard set that is to be reserved."""

    path: str
    digest: str
    run_digest: str
    partition_date: str
    reservation_sha256: str
    events: tuple[tuple[str, str, str | None], ...]


def parse_claims(body: Reserve) -> list[Claim]:
    """The checked claims. Raises BadBody: not a reservation, a set twice, an event twice or its own parent."""
    claims: list[Claim] = []
    seen: set[str] = set()
    for place, given in enumerate(body.sets):
        try:
            found = parse_reservation(given.path, given.text)
        except LedgerRefusal as refusal:
            raise BadBody(f"sets[{place}].text: {refusal}") from None
        ids = [event[0] for event in given.events]
        if not ids or len(set(ids)) != len(ids) or not seen.isdisjoint(ids):
            raise BadBody(f"sets[{place}].events: a set has events, each given once in the whole body")
        if any(event[0] == event[2] for event in given.events):
            raise BadBody(f"sets[{place}].events: an event is not its own parent")
        seen.update(ids)
        identity = found.identity
        digest = identity.digest()
        if any(claim.digest == digest for claim in claims):
            raise BadBody(f"sets[{place}]: this set is given twice")
        claims.append(
            Claim(
                given.path,
                digest,
                identity.run_digest(),
                identity.partition_date,
                sha256_text(given.text),
                tuple(given.events),
            )
        )
    return claims


@dataclass(frozen=True, slots=True)
class SetRow:
    """A set that the index knows."""

    run_digest: str
    partition_date: str
    reservation_sha256: str


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event that the index knows. `owner`: digest of the set that reserved it, None when a rebuild found it."""

    semantic_sha256: str
    parent: str | None
    owner: str | None


@dataclass(frozen=True, slots=True)
class Row:
    """A row by table and key, as a refusal names what is in the way."""

    table: Literal["sets", "events"]
    key: str

    @property
    def path(self) -> str:
        """Its binding file."""
        folder = "shard-sets" if self.table == "sets" else "events"
        return f"{ROOT}/{folder}/{self.key}.json"


@dataclass(frozen=True, slots=True)
class Clash:
    """Why a batch cannot be reserved. `code` is the ledger's refusal class; `rows` are those in the way."""

    code: Literal["binding-conflict", "event-identity-conflict", "split-partition", "causal-cycle"]
    where: str
    rows: tuple[Row, ...]


def find_clash(
    claims: Sequence[Claim],
    set_row: Callable[[str], SetRow | None],
    run_rows: Callable[[str], Iterator[tuple[str, SetRow]]],
    event_row: Callable[[str], EventRow | None],
) -> Clash | None:
    """The first reason that the index has against a batch (spec action-ledger 12.2), None when there is none.

    `run_rows` gives the sets of a producer run, by digest.
    """
    for claim in claims:
        known = set_row(claim.digest)
        if known is not None and known.reservation_sha256 != claim.reservation_sha256:
            return Clash("binding-conflict", claim.path, (Row("sets", claim.digest),))
        for digest, row in run_rows(claim.run_digest):
            if row.partition_date != claim.partition_date:
                return Clash("split-partition", claim.path, (Row("sets", digest),))
    incoming = {event_id: (semantic, parent) for claim in claims for event_id, semantic, parent in claim.events}
    for event_id, (semantic, parent) in incoming.items():
        event = event_row(event_id)
        if event is not None and (event.semantic_sha256 != semantic or event.parent != parent):
            code: Literal["event-identity-conflict", "binding-conflict"] = (
                "event-identity-conflict" if event.semantic_sha256 != semantic else "binding-conflict"
            )
            return Clash(code, event_id, (Row("events", event_id),))
    return _find_cycle(incoming, event_row)


def _find_cycle(
    incoming: Mapping[str, tuple[str, str | None]], event_row: Callable[[str], EventRow | None]
) -> Clash | None:
    safe: set[str] = set()
    for start in incoming:
        walk: dict[str, None] = {}
        at: str | None = start
        while at is not None and at not in safe:
            if at in walk:
                stored = tuple(Row("events", event) for event in walk if event not in incoming)
                return Clash("causal-cycle", at, stored)
            walk[at] = None
            if at in incoming:
                at = incoming[at][1]
            else:
                row = event_row(at)
                at = None if row is None else row.parent
        safe.update(walk)
    return None
