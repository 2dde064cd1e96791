"""Claim and reap (spec job-lifecycle 14, 15)."""

from __future__ import annotations

from dataclasses import dataclass

from . import events, ids, sql
from .errors import Refused
from .record import insert_execution
from .states import Trigger
from .steps import Statement, Steps
from .submit import emit


@dataclass(frozen=True, slots=True)
class Claimed:
    """A handover: the only answer, with that of submit, that carries a nonce."""

    id: str
    nonce: str
    content: str


@dataclass(frozen=True, slots=True)
class ContentMissing:
    """The claimed job had no content row. It is failed and nothing is handed over; the next call takes the next."""

    id: str

    def refusal(self) -> Refused:
        """The refusal that says so."""
        message = f"the content of {self.id} is missing; the job is failed as job-file-missing. Run doctor"
        return Refused("job-file-missing", message, {"id": self.id})


@dataclass(frozen=True, slots=True)
class ClaimOutcome:
    """What a claim did: the handover, a missing content, or None for an empty queue; and the jobs that it reaped."""

    handover: Claimed | ContentMissing | None
    reaped: tuple[str, ...]


def reap(now: int, draw: ids.Draw) -> Steps[tuple[str, ...]]:
    """Fails every running job whose armed expiry has passed; the ids of those jobs. Each gets its short run."""
    rows = yield Statement(sql.REAP, (now, now))
    for row in rows:
        run = ids.run_id("ext", now, draw(2))
        yield from emit(events.started(now, run))
        yield from emit(events.failed(now, run, row["id"], "abandoned", None, None))
        yield from emit(events.summary(now, run, completed=0, failed=1, metrics={}))
    return tuple(row["id"] for row in rows)


def claim(now: int, draw: ids.Draw, name: str | None = None) -> Steps[ClaimOutcome]:
    """Reaps, then claims the next queued job that `name` (qualified or bare id) lets through, in one transaction."""
    reaped = yield from reap(now, draw)
    filtered = () if name is None else (name, name)
    rows = yield Statement(sql.CLAIM if name is None else sql.CLAIM_FILTERED, (now, now, *filtered))
    if not rows:
        return ClaimOutcome(None, reaped)
    job = rows[0]
    contents = yield Statement(sql.CONTENT, (job["content_hash"],))
    run = ids.run_id("ext", now, draw(2))
    if not contents:
        yield Statement(sql.RECORD[Trigger.CONTENT_MISSING], (now, job["id"]))
        words = f"the content row {job['content_hash']} is missing"
        yield from insert_execution(job, Trigger.CONTENT_MISSING, words, {}, None, now, draw)
        yield from emit(events.failed(now, run, job["id"], "job-file-missing", words, None))
        return ClaimOutcome(ContentMissing(job["id"]), reaped)
    yield from emit(events.claimed(now, run, job))
    return ClaimOutcome(Claimed(job["id"], job["nonce"], contents[0]["content"]), reaped)
