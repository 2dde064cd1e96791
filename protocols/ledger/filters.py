"""Which events a reader wants."""

import re
from dataclasses import dataclass
from typing import Any

from .events import Event
from .refusals import LedgerRefusal
from .text import digest_text, repository_text
from .timestamps import instant, timestamp_text
from .vocabulary import FAMILIES, SUBJECT_KINDS


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Conditions that all must hold; an absent one holds. Built through `event_filter`, which checks the values.

    `types` are event types; `since` is the first and `until` the first no longer wanted instant of `occurred_at`.
    """

    operation_id: str | None = None
    repository: str | None = None
    kind: str | None = None
    number: int | None = None
    subject_id: str | None = None
    types: frozenset[str] | None = None
    since: tuple[int, str] | None = None
    until: tuple[int, str] | None = None

    def matches(self, event: Event) -> bool:
        """Whether every condition holds for `event`."""
        record, subject = event.record, event.record["subject"]
        if self.operation_id is not None and record["operation_id"] != self.operation_id:
            return False
        if self.types is not None and record["event_type"] not in self.types:
            return False
        for name, wanted in (
            ("repository", self.repository),
            ("kind", self.kind),
            ("number", self.number),
            ("subject_id", self.subject_id),
        ):
            if wanted is not None and subject.get(name) != wanted:
                return False
        if self.since is None and self.until is None:
            return True
        at = instant(record["occurred_at"])
        return (self.since is None or at >= self.since) and (self.until is None or at < self.until)


def parse_subject(text: str) -> dict[str, Any]:
    """Conditions of `owner/name`, `owner/name#number` or `owner/name:kind[:subject id]`."""
    repository, hash_sign, number = text.partition("#")
    if hash_sign:
        if not re.fullmatch("[1-9][0-9]{0,15}", number):
            raise LedgerRefusal("positive-integer", "must be owner/name#number", "subject")
        return {"repository": repository_text(repository, "subject"), "number": int(number)}
    repository, colon, rest = text.partition(":")
    conditions: dict[str, Any] = {"repository": repository_text(repository, "subject")}
    if colon:
        kind, _, subject_id = rest.partition(":")
        if kind not in SUBJECT_KINDS:
            raise LedgerRefusal("subject-kind", f"must be one of {', '.join(sorted(SUBJECT_KINDS))}", "subject")
        conditions["kind"] = kind
        if subject_id:
            conditions["subject_id"] = subject_id
    return conditions


def event_filter(
    *,
    operation: str | None = None,
    subject: str | None = None,
    type: str | None = None,
    since: str | None = None,
    until: str | None = None,
) -> EventFilter:
    """A filter of texts: operation id, subject as in `parse_subject`, event type or family, timestamps."""
    return EventFilter(
        operation_id=None if operation is None else digest_text(operation, "operation"),
        types=None if type is None else frozenset(FAMILIES.get(type, (type,))),
        since=None if since is None else instant(timestamp_text(since, "since")),
        until=None if until is None else instant(timestamp_text(until, "until")),
        **({} if subject is None else parse_subject(subject)),
    )
