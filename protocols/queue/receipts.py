"""What the queue writes to the code host, as outside writes of the action ledger.

One producer a day: its events are complete when the day is over and nothing of it is open. An effect names what is to
happen outside: a lease's hand-out, a batch's run, a command's reaction or status comment.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..intake.versions import CommandIntake
from ..javascript import iso_time, to_safe_integer
from ..ledger.canonical import Json
from ..ledger.identity import idempotency_key
from ..ledger.receipts import Outcome, OutsideWrite, Word
from ..ledger.refusals import LedgerRefusal
from ..ledger.text import repository_text
from ..ledger.timestamps import calendar_date
from ..ledger.vocabulary import Phase, SubjectKind
from ..wire.mutations import InvalidPartitionDate
from ..wire.queue import InvalidCursor, InvalidLimit
from .items import QueueItem

UNKNOWN_SHA: Final = "0" * 40
_SHA: Final = re.compile(r"[0-9a-f]{40}")


def partition_date(now: int) -> str:
    """The day of `now` (milliseconds), UTC, `YYYY-MM-DD`: what is attempted then is filed under it."""
    return iso_time(now)[:10]


def producer(repository: str, sha: str, date: str) -> dict[str, Any]:
    """The ledger's producer of a day. `sha`: the deployed commit; 40 zeros stand for one that is not known.

    Raises LedgerRefusal where `repository` is not `owner/name`.
    """
    return {
        "repository": repository_text(repository, "CLAWSWEEPER_REPO"),
        "sha": sha if _SHA.fullmatch(sha) else UNKNOWN_SHA,
        "workflow": "state-plane",
        "job": "exact-review-queue",
        "runId": date.replace("-", ""),
        "runAttempt": 1,
        "component": "code-host",
    }


@dataclass(frozen=True, slots=True)
class Write:
    """One effect outside: the same for every try."""

    phase: Phase
    word: Word
    effect: Json
    subject: Mapping[str, Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """The digest that names the effect in every receipt of it."""
        return idempotency_key(self.effect)

    def tried(self, producer: Mapping[str, Any], number: int) -> OutsideWrite:
        """Try `number`, from 1.

        A subject that no event may hold (an owner that begins with a dot, say) gives way to the producer's own
        repository and the effect's digest: no write is held back for its name.
        """
        return OutsideWrite(
            self.phase, self.word, producer, self._subject(producer), self.effect, number, self.attributes
        )

    def _subject(self, producer: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            repository_text(self.subject["repository"])
        except LedgerRefusal:
            return {
                "repository": producer["repository"],
                "kind": str(SubjectKind.queue_item),
                "subjectId": self.digest,
            }
        return self.subject


def dispatch_write(item: QueueItem, event_type: str) -> Write:
    """The hand-out of a leased item: one effect a lease."""
    decision = item.held_decision or item.decision
    kind = SubjectKind.publication if item.lane == "publication" else SubjectKind(decision.item_kind)
    return Write(
        Phase.dispatch_lifecycle,
        "dispatch",
        {"effect": event_type, "itemKey": item.key, "leaseId": item.lease_id, "leaseRevision": item.lease_revision},
        {"repository": decision.target_repo, "kind": str(kind), "number": decision.item_number},
        {"dispatch_kind": event_type},
    )


def departure_write(repository: str, dispatch_id: str, event_type: str) -> Write:
    """The start of a run that will claim a batch: one effect a dispatch id."""
    return Write(
        Phase.dispatch_lifecycle,
        "dispatch",
        {"effect": event_type, "dispatchId": dispatch_id},
        {"repository": repository, "kind": str(SubjectKind.workflow)},
        {"dispatch_kind": event_type},
    )


def acknowledgement_write(intake: CommandIntake, part: str) -> Write:
    """One part of the acknowledgement of a command: one effect a version and part."""
    return Write(
        Phase.command_mutation,
        "mutation",
        {"effect": part, "commandVersionId": intake.command_version_id},
        {
            "repository": intake.decision.target_repo,
            "kind": str(SubjectKind.command),
            "number": intake.decision.item_number,
            "subjectId": intake.command_version_id,
        },
        {"status_kind": part},
    )


def outcome_of(status: int | None, perhaps_done: bool) -> Outcome:
    """The outcome of a write that failed with the code host's `status`, None without an answer.

    Only an answer below 500, and a request that never left, show that nothing was written.
    """
    if perhaps_done or (status is not None and status >= 500):
        return Outcome.unknown
    return Outcome.rejected


MAX_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class Page:
    """Receipts that were asked for: after `cursor`, filed under a day before `before` (None: any)."""

    cursor: int
    limit: int
    before: str | None


def parse_page(members: Mapping[str, Any]) -> Page:
    """The page. Raises InvalidCursor, InvalidLimit, InvalidPartitionDate."""
    cursor = to_safe_integer(members["cursor"]) if members.get("cursor") is not None else 0
    if cursor is None:
        raise InvalidCursor
    limit = to_safe_integer(members["limit"], 1, MAX_PAGE) if "limit" in members else MAX_PAGE
    if limit is None:
        raise InvalidLimit
    before = members.get("before")
    if before is None:
        return Page(cursor, limit, None)
    try:
        return Page(cursor, limit, calendar_date(before, "before"))
    except LedgerRefusal:
        raise InvalidPartitionDate from None
