"""The operator's verbs: cancel, fail, the disable cascade, prune (spec job-lifecycle 4, 6, 20)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from . import events, ids, sql
from .errors import Refused
from .steps import Statement, Steps
from .submit import emit

Verb = Literal["cancel", "fail"]
_ONE = {"cancel": sql.CANCEL, "fail": sql.FAIL}
_ALL = {"cancel": sql.CANCEL_ALL, "fail": sql.FAIL_ALL}


def _event(verb: Verb, now: int, run: str, job: str) -> events.Envelope:
    return events.cancelled(now, run, job) if verb == "cancel" else events.operator_failed(now, run, job)


def close_one(verb: Verb, job: str, now: int, draw: ids.Draw) -> Steps[None]:
    """Cancels or fails one job. Raises `Refused` with `not-found` or `already-terminal`.

    The affected row is the verdict; the row is read again only to tell the two refusals apart.
    """
    rows = yield Statement(_ONE[verb], (now, job))
    if rows:
        yield from emit(_event(verb, now, ids.run_id("queue", now, draw(2)), job))
        return
    rows = yield Statement("SELECT status FROM state_jobs WHERE id = ?", (job,))
    if not rows:
        raise Refused("not-found", f"no job {job}")
    raise Refused("already-terminal", f"{job} is {rows[0]['status']} already", {"id": job, **rows[0]})


def close_all(verb: Verb, now: int, draw: ids.Draw) -> Steps[int]:
    """Cancels or fails every queued and running job in one statement; how many."""
    rows = yield Statement(_ALL[verb], (now,))
    run = ids.run_id("queue", now, draw(2))
    for row in rows:
        yield from emit(_event(verb, now, run, row["id"]))
    return len(rows)


def disable(key: str, now: int, draw: ids.Draw) -> Steps[tuple[str, ...]]:
    """Disables an extension or a plugin and cancels its queued jobs; their ids. Running jobs go on."""
    yield Statement("INSERT INTO disabled_extensions (key) VALUES (?) ON CONFLICT DO NOTHING", (key,))
    rows = yield Statement(sql.DISABLE, (now, key, key))
    run = ids.run_id("queue", now, draw(2))
    for row in rows:
        yield from emit(events.cancelled(now, run, row["id"]))
    return tuple(row["id"] for row in rows)


def enable(key: str) -> Steps[bool]:
    """Takes the toggle of `key` back; whether it was set. Cancelled jobs stay cancelled."""
    rows = yield Statement("DELETE FROM disabled_extensions WHERE key = ? RETURNING key", (key,))
    return bool(rows)


def disabled_keys() -> Steps[tuple[str, ...]]:
    """The disabled extensions and plugins."""
    rows = yield Statement("SELECT key FROM disabled_extensions ORDER BY key")
    return tuple(row["key"] for row in rows)


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a prune did, or would do."""

    dry_run: bool
    deleted: Mapping[str, int]
    policy: Mapping[str, int | None]
    contents: int

    def shape(self) -> dict[str, Any]:
        """The JSON answer."""
        return {
            "dryRun": self.dry_run,
            "retention": {
                state: {"policySeconds": self.policy[state], "deleted": self.deleted[state]} for state in self.policy
            },
            "prunedContents": self.contents,
        }


def prune(now: int, policy: Mapping[str, int | None], *, dry_run: bool) -> Steps[Pruned]:
    """Deletes terminal jobs past their retention, strictly, then every content row without a job.

    The contents go whatever the policy says (spec 24, JB-2). A dry run counts jobs only and changes nothing.
    """
    deleted: dict[str, int] = {}
    for state, seconds in policy.items():
        deleted[state] = 0
        if seconds is None:
            continue
        bindings = (state, now - seconds * 1000)
        if dry_run:
            rows = yield Statement(
                "SELECT count(*) AS n FROM state_jobs WHERE status = ? AND finished_at < ?", bindings
            )
            deleted[state] = rows[0]["n"]
        else:
            rows = yield Statement(
                "DELETE FROM state_jobs WHERE status = ? AND finished_at < ? RETURNING id", bindings
            )
            deleted[state] = len(rows)
    contents = 0
    if not dry_run:
        rows = yield Statement(
            "DELETE FROM state_job_contents WHERE content_hash NOT IN (SELECT content_hash FROM state_jobs)"
            " RETURNING content_hash"
        )
        contents = len(rows)
    return Pruned(dry_run, deleted, dict(policy), contents)
