"""What is only read: list, show, preview, status, history, events, doctor (spec job-lifecycle 6, 22)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from . import sql
from .errors import Refused
from .states import Exit, Status
from .steps import Row, SqlValue, Statement, Steps


def jobs(status: str | None = None, extension: str | None = None, node: str | None = None) -> Steps[list[Row]]:
    """Rows of jobs, newest first. An unknown status matches nothing."""
    conditions: list[str] = []
    bindings: list[SqlValue] = []
    if status is not None:
        conditions.append("status = ?")
        bindings.append(status)
    if extension is not None:
        conditions.append(sql.MATCHES_FILTER)
        bindings += [extension, extension]
    if node is not None:
        conditions.append("node_id = ?")
        bindings.append(node)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return (yield Statement(sql.LIST_JOBS + where + sql.NEWEST_FIRST, tuple(bindings)))


def job(identifier: str) -> Steps[Row]:
    """One job. Raises `Refused("not-found")`."""
    rows = yield Statement(sql.JOB, (identifier,))
    if not rows:
        raise Refused("not-found", f"no job {identifier}")
    return rows[0]


def content(identifier: str | None) -> Steps[str]:
    """The content of a job, or of the newest one for None. Raises `Refused("not-found")`, also for a missing row."""
    rows = yield Statement(
        sql.LIST_JOBS + (" WHERE id = ?" if identifier else "") + sql.NEWEST_FIRST + " LIMIT 1",
        (identifier,) if identifier else (),
    )
    if not rows:
        raise Refused("not-found", f"no job {identifier}" if identifier else "there is no job to preview")
    found = yield Statement(sql.CONTENT, (rows[0]["content_hash"],))
    if not found:
        raise Refused("not-found", f"the content of {rows[0]['id']} is missing; run doctor")
    text: str = found[0]["content"]
    return text


def counts() -> Steps[dict[str, int]]:
    """How many jobs are in each state; every state is there."""
    rows = yield Statement("SELECT status, count(*) AS n FROM state_jobs GROUP BY status")
    found = {row["status"]: row["n"] for row in rows}
    return {status.value: found.get(status.value, 0) for status in Status}


def executions(node: str | None = None, extension: str | None = None, limit: int | None = None) -> Steps[list[Row]]:
    """The history, newest first."""
    conditions: list[str] = []
    bindings: list[SqlValue] = []
    if extension is not None:
        conditions.append(sql.MATCHES_FILTER)
        bindings += [extension, extension]
    if node is not None:
        conditions.append("node_ids_json = ?")
        bindings.append(json.dumps([node]))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    bindings.append(-1 if limit is None else limit)
    return (
        yield Statement(
            f"SELECT {', '.join(sql.EXECUTION_COLUMNS)} FROM state_executions{where}"
            " ORDER BY finished_at DESC, started_at DESC, id DESC LIMIT ?",
            tuple(bindings),
        )
    )


def summaries(node: str) -> Steps[list[Row]]:
    """The summaries of a target."""
    return (yield Statement("SELECT * FROM state_summaries WHERE node_id = ? ORDER BY summarizer_action_id", (node,)))


def events_after(seq: int, limit: int = 500) -> Steps[list[tuple[int, dict[str, Any]]]]:
    """Stored events past `seq`, with their numbers, oldest first. Those dropped meanwhile are simply not there."""
    rows = yield Statement(
        "SELECT seq, envelope_json FROM state_events WHERE seq > ? ORDER BY seq LIMIT ?", (seq, limit)
    )
    return [(row["seq"], json.loads(row["envelope_json"])) for row in rows]


def last_event() -> Steps[int]:
    """The number of the newest event, 0 when there is none."""
    rows = yield Statement("SELECT coalesce(max(seq), 0) AS seq FROM state_events")
    return int(rows[0]["seq"])


CheckStatus = Literal["ok", "warn", "error"]


@dataclass(frozen=True, slots=True)
class Check:
    """One check of the doctor. `message` names what to do; it is empty when all is well."""

    id: str
    status: CheckStatus
    message: str = ""


def doctor(now: int, estimates: Mapping[tuple[str, str], int]) -> Steps[list[Check]]:
    """The job checks (spec 22). `estimates`: seconds by kind and qualified id; unknown extensions are skipped."""
    missing = yield Statement(
        "SELECT id FROM state_jobs WHERE content_hash NOT IN (SELECT content_hash FROM state_job_contents)"
        " ORDER BY id"
    )
    orphans = yield Statement(
        "SELECT count(*) AS n FROM state_job_contents WHERE content_hash NOT IN (SELECT content_hash FROM state_jobs)"
    )
    running = yield Statement(
        "SELECT id, extension_id, extension_kind, claimed_at FROM state_jobs WHERE status = 'running' ORDER BY id"
    )
    overdue = [
        row["id"]
        for row in running
        if (seconds := estimates.get((row["extension_kind"], row["extension_id"]))) is not None
        and now - row["claimed_at"] > seconds * 1000
    ]
    checks = [Check("job-contents", "ok"), Check("job-gc", "ok"), Check("jobs-overdue", "ok")]
    if missing:
        names = ", ".join(row["id"] for row in missing[:5])
        checks[0] = Check("job-contents", "error", f"{len(missing)} jobs lack their content: {names}")
    if orphans[0]["n"]:
        checks[1] = Check("job-gc", "warn", f"{orphans[0]['n']} contents have no job; `jobs prune` collects them")
    if overdue:
        words = f"past their estimate: {', '.join(overdue)}; `jobs fail ID` or `jobs cancel ID` frees them"
        checks[2] = Check("jobs-overdue", "warn", words)
    return checks


def doctor_exit(checks: list[Check]) -> Exit:
    """2 on any error, else 1 on any warning, else 0."""
    found = {check.status for check in checks}
    return Exit.REFUSED if "error" in found else Exit.NOTHING if "warn" in found else Exit.DONE
