"""The event stream (spec job-lifecycle 19). An envelope has every field, always; the nonce is in none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Envelope = dict[str, Any]


def envelope(kind: str, now: int, run_id: str, job_id: str | None, data: Mapping[str, Any]) -> Envelope:
    """One event: `type`, `timestamp` in milliseconds, `runId`, `jobId` (None for run events) and `data`."""
    return {"type": kind, "timestamp": now, "runId": run_id, "jobId": job_id, "data": dict(data)}


def encode(event: Envelope) -> str:
    """The event as one line of JSON."""
    return json.dumps(event, ensure_ascii=False, separators=(",", ":"))


def submitted(now: int, run: str, job: Mapping[str, Any], superseded: list[str]) -> Envelope:
    """`job.submitted`. Superseded jobs get no event of their own."""
    data = {"nodePath": job["node_id"], "extensionId": job["extension_id"], "supersededIds": superseded}
    return envelope("job.submitted", now, run, job["id"], data)


def claimed(now: int, run: str, job: Mapping[str, Any]) -> Envelope:
    """`job.claimed`, live or replayed from the row by a record."""
    data = {
        "extensionId": job["extension_id"],
        "extensionVersion": job["extension_version"],
        "extensionKind": job["extension_kind"],
        "nodeId": job["node_id"],
        "ttlSeconds": job["ttl_seconds"],
        "priority": job["priority"],
    }
    return envelope("job.claimed", now, run, job["id"], data)


def callback(now: int, run: str, job_id: str, status: str, model: str | None, execution: str) -> Envelope:
    """`job.callback.received`."""
    data = {"status": status, "model": model, "executionId": execution}
    return envelope("job.callback.received", now, run, job_id, data)


def completed(
    now: int, run: str, job: Mapping[str, Any], metrics: Mapping[str, Any], execution: str, tags: list[str] | None
) -> Envelope:
    """`job.completed`; `tags` is the proposal of a tagger and rides along, an empty one included."""
    data: dict[str, Any] = {
        "extensionId": job["extension_id"],
        "extensionKind": job["extension_kind"],
        "nodeId": job["node_id"],
        **metrics,
        "executionId": execution,
    }
    if tags is not None:
        data["tagsProposed"] = tags
    return envelope("job.completed", now, run, job["id"], data)


def failed(now: int, run: str, job_id: str, reason: str, message: str | None, duration_ms: int | None) -> Envelope:
    """`job.failed` of a record or of a reap."""
    data = {"reason": reason, "message": message, "exitCode": None, "durationMs": duration_ms}
    return envelope("job.failed", now, run, job_id, data)


def operator_failed(now: int, run: str, job_id: str) -> Envelope:
    """`job.failed` of the operator's verb: the reason alone."""
    return envelope("job.failed", now, run, job_id, {"reason": "user-failed"})


def cancelled(now: int, run: str, job_id: str) -> Envelope:
    """`job.cancelled`, without data."""
    return envelope("job.cancelled", now, run, job_id, {})


def started(now: int, run: str) -> Envelope:
    """`run.started` of an agent-driven run."""
    return envelope("run.started", now, run, None, {"mode": "external"})


def summary(now: int, run: str, *, completed: int, failed: int, metrics: Mapping[str, Any]) -> Envelope:
    """`run.summary`; unknown metrics count as zero."""
    data = {
        "jobsAttempted": completed + failed,
        "jobsCompleted": completed,
        "jobsFailed": failed,
        "totalDurationMs": metrics.get("durationMs") or 0,
        "totalTokensIn": metrics.get("tokensIn") or 0,
        "totalTokensOut": metrics.get("tokensOut") or 0,
    }
    return envelope("run.summary", now, run, None, data)
