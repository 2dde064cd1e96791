"""Record, and what a completed one writes through (spec job-lifecycle 16, 17)."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from . import events, ids, sql
from .catalogue import Extension, Target, matches_id
from .errors import Refused
from .findings import FindingRow, finder_rows, resolved_entries, safety_rows
from .reports import ReportVerdict, proposed_tags
from .schemas import parse_schema, roles
from .states import TRANSITIONS, Status, Trigger, decide
from .steps import Row, Statement, Steps
from .submit import emit


@dataclass(frozen=True, slots=True)
class RecordRequest:
    """A callback after its flags were checked. `nonce` never reaches `repr`."""

    id: str
    nonce: str = field(repr=False)
    completed: bool
    tokens_in: int | None = None
    tokens_out: int | None = None
    duration_ms: int | None = None
    model: str | None = None
    error: str | None = None

    @property
    def metrics(self) -> dict[str, Any]:
        """What the agent said about itself, as the events carry it. Nothing is computed in its place."""
        return {
            "durationMs": self.duration_ms,
            "tokensIn": self.tokens_in,
            "tokensOut": self.tokens_out,
            "model": self.model,
        }


@dataclass(frozen=True, slots=True)
class Recorded:
    """A closed job. `envelopes` is the run that `record --json` prints; `problem` says why a report was refused."""

    job: Row
    execution_id: str
    trigger: Trigger
    envelopes: tuple[events.Envelope, ...]
    problem: str | None = None

    @property
    def completed(self) -> bool:
        """Whether the job is completed now."""
        return self.trigger is Trigger.RECORD_COMPLETED


def open_record(request: RecordRequest) -> Steps[Row]:
    """The job that a callback may close (steps 2 to 4): it exists, the nonce is its own, and it runs.

    Raises `Refused` with `not-found`, `nonce-mismatch` or `not-running`, in this order.
    """
    rows = yield Statement(sql.JOB, (request.id,))
    if not rows:
        raise Refused("not-found", f"no job {request.id}")
    job = rows[0]
    same = hmac.compare_digest(request.nonce.encode(), job["nonce"].encode())
    decision = decide(Status(job["status"]), Trigger.RECORD_FAILED, nonce_matches=same)
    if not same:
        raise Refused("nonce-mismatch", f"the nonce is not that of {request.id}")
    if not decision.allowed:
        raise Refused("not-running", f"job not in running state: {request.id} is {job['status']}")
    return job


def insert_execution(
    job: Mapping[str, Any],
    trigger: Trigger,
    report: str | None,
    metrics: Mapping[str, Any],
    model: str | None,
    now: int,
    draw: ids.Draw,
) -> Steps[str]:
    """Appends the history row of a close; its id. `report` is the text of the slot. Draws again on a clash of ids."""
    rule = TRANSITIONS[trigger]
    attempt = 0
    while True:
        identifier = ids.execution_id(now + 1000 * (attempt // ids.REDRAWS), draw(2))
        rows = yield Statement(
            sql.INSERT_EXECUTION,
            (
                identifier, "action", job["extension_id"], job["extension_version"], json.dumps([job["node_id"]]),
                job["content_hash"], rule.to.value, None if rule.reason is None else rule.reason.value, None,
                job["runner"], job["claimed_at"], now, metrics.get("durationMs"), metrics.get("tokensIn"),
                metrics.get("tokensOut"), model, report, job["id"],
            ),
        )  # fmt: skip
        if rows:
            return identifier
        attempt += 1


def close_record(
    job: Row,
    request: RecordRequest,
    verdict: ReportVerdict | None,
    extension: Extension | None,
    target: Target | None,
    *,
    enabled: bool,
    now: int,
    draw: ids.Draw,
) -> Steps[Recorded]:
    """Steps 5 to 8 in one transaction. `verdict` is None for a failed record.

    Raises `Refused("not-running")`, which rolls everything back, when somebody closed the job meanwhile. While its
    extension is disabled (`enabled` False) a job leaves the history alone (spec 24, JB-4).
    """
    trigger = Trigger.RECORD_FAILED
    if verdict is not None:
        trigger = Trigger.RECORD_COMPLETED if verdict.valid else Trigger.RECORD_INVALID
    moved = yield Statement(sql.RECORD[trigger], (now, job["id"]))
    if not moved:
        raise Refused("not-running", f"job not in running state: {job['id']} was closed meanwhile")
    slot = request.error if verdict is None else None
    if verdict is not None and verdict.valid:
        slot = json.dumps(verdict.report, ensure_ascii=False)
    execution = yield from insert_execution(job, trigger, slot, request.metrics, request.model, now, draw)
    tags: list[str] | None = None
    if verdict is not None and verdict.valid and extension is not None:
        schema = parse_schema(extension.report_schema_text or "{}")
        tags = proposed_tags(verdict.report, schema, job["extension_kind"])
        if target is not None and enabled:
            yield from _write_through(job, request, verdict.report, extension, schema, target, now)
    run = ids.run_id("ext", now, draw(2))
    status = "completed" if request.completed else "failed"
    reason = TRANSITIONS[trigger].reason
    close = (
        events.completed(now, run, job, request.metrics, execution, tags)
        if reason is None
        else events.failed(
            now, run, job["id"], reason.value, verdict.problem if verdict else request.error, request.duration_ms
        )
    )
    live = [events.callback(now, run, job["id"], status, request.model, execution), close]
    for event in live:
        yield from emit(event)
    done = int(reason is None)
    envelopes = (
        events.started(now, run),
        events.claimed(now, run, job),
        *live,
        events.summary(now, run, completed=done, failed=1 - done, metrics=request.metrics),
    )
    return Recorded(job, execution, trigger, envelopes, verdict.problem if verdict else None)


def _write_through(
    job: Row,
    request: RecordRequest,
    report: Mapping[str, Any],
    extension: Extension,
    schema: Mapping[str, Any],
    target: Target,
    now: int,
) -> Steps[None]:
    node, ours = target.path, job["extension_id"]
    kind, version = job["extension_kind"], job["extension_version"]
    if kind == "action" and roles(schema).summarizer:
        text = json.dumps(report, ensure_ascii=False)
        yield Statement(
            sql.UPSERT_SUMMARY, (node, target.kind, ours, version, target.body_hash, now, request.model, text)
        )
    if kind == "analyzer":
        yield Statement(
            "DELETE FROM state_findings WHERE node_id = ? AND extension_id = ? AND origin = 'extension'", (node, ours)
        )
        yield from _insert_findings(finder_rows(report), job, request, target, now)
    yield Statement("DELETE FROM state_findings WHERE node_id = ? AND origin = 'kernel'", (node,))
    yield from _insert_findings(safety_rows(report), job, request, target, now)
    if kind == "action" and extension.precondition.analyzer_ids:
        yield from _stamp(report.get("resolved"), ours, extension.precondition.analyzer_ids, node, now)


def _insert_findings(
    rows: list[FindingRow], job: Row, request: RecordRequest, target: Target, now: int
) -> Steps[None]:
    for row in rows:
        yield Statement(
            sql.INSERT_FINDING,
            (
                target.path, job["extension_id"], job["extension_version"], row.origin, row.type, row.severity,
                row.message, row.detail, row.confidence, request.model, None, None, None, None, None,
                target.body_hash, now, job["id"],
            ),
        )  # fmt: skip


def _stamp(resolved: object, fixer: str, analyzer_ids: tuple[str, ...], node: str, now: int) -> Steps[None]:
    rows = yield Statement(sql.FINDINGS_OF_NODE, (node,))
    ours = {
        row["id"]
        for row in rows
        if row["origin"] == "extension" and any(matches_id(name, row["extension_id"]) for name in analyzer_ids)
    }
    for entry in resolved_entries(resolved):
        if entry.id in ours:
            yield Statement(
                "UPDATE state_findings SET resolution = ?, resolution_actor = ?, resolution_note = ?,"
                " resolution_by = ?, resolution_at = ? WHERE id = ?",
                (entry.state, entry.by, entry.note, fixer, now, entry.id),
            )
