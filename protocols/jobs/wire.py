"""The verbs as JSON in, JSON out: the bodies of the HTTP surface, which the command line uses as well.

`call` is the one mapping from a verb's name and body to the engine. Unknown members of a body are ignored, so that an
older server understands a newer client, and an `agentEndpoint` of an agent that still sends one does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Annotated, Any, Literal

import msgspec

from . import judgments, read, shapes
from .claim import ContentMissing
from .engine import FanOut, JobEngine, Surface, public_catalogue
from .errors import Refused
from .findings import Bucket
from .record import RecordRequest
from .settings import LIMIT
from .states import Status
from .submit import SubmitOptions

Count = Annotated[int, msgspec.Meta(ge=0, le=LIMIT)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=LIMIT)]
Integer = Annotated[int, msgspec.Meta(ge=-LIMIT, le=LIMIT)]


class Body(msgspec.Struct, rename="camel", frozen=True):
    """A body. Members are camelCase."""


class SubmitBody(Body, frozen=True):
    """`submit`: one target with `node`, every target with `all`, none for a nodeless action."""

    extension: str
    node: str | None = None
    all: bool = False
    force: bool = False
    ttl: Integer | None = None
    priority: Integer | None = None
    auto_fix: bool = False
    finding_ids: list[Positive] | None = None
    submitted_by: str | None = None


class ClaimBody(Body, frozen=True):
    """`claim`. Waiting is the transport's business: `waitSeconds` over HTTP, `--wait` on the command line."""

    filter: str | None = None


class RecordBody(Body, frozen=True):
    """`record`. The report travels as text, so that a report that is no JSON is judged like any other.

    A client that could not read its report says why in `reportUnreadable`: the nonce is compared first (JB-1).
    """

    id: str
    nonce: str
    status: Literal["completed", "failed"]
    report: str | None = None
    report_unreadable: str | None = None
    tokens_in: Count | None = None
    tokens_out: Count | None = None
    duration_ms: Count | None = None
    model: str | None = None
    error: str | None = None


class JobFilter(Body, frozen=True):
    """`list`."""

    status: str | None = None
    extension: str | None = None
    node: str | None = None


class HistoryFilter(Body, frozen=True):
    """`history`."""

    node: str | None = None
    extension: str | None = None
    limit: Positive | None = None
    report: bool = False


class JobId(Body, frozen=True):
    """`show`, and `status` and `preview` where the id may be missing."""

    id: str | None = None


class OneOrAll(Body, frozen=True):
    """`cancel` and `fail`."""

    id: str | None = None
    all: bool = False


class DryRun(Body, frozen=True):
    """`prune` and `findings-prune`."""

    dry_run: bool = False


class Key(Body, frozen=True):
    """`disable` and `enable`: a qualified extension or a plugin."""

    key: str


class FindingsBody(Body, frozen=True):
    """`findings`. `since` in milliseconds, `threshold` a confidence."""

    node: str | None = None
    extension: str | None = None
    type: str | None = None
    severity: str | None = None
    since: Integer | None = None
    threshold: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    bucket: Bucket = "default"


class FindingBody(Body, frozen=True):
    """`resolve`, `dismiss`, `reopen`."""

    id: Integer
    note: str | None = None


class ClearBody(Body, frozen=True):
    """`findings-clear`: one target, or all."""

    node: str | None = None
    all: bool = False
    dry_run: bool = False


class EventsBody(Body, frozen=True):
    """`events` past a number."""

    after: Count = 0
    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 500


class Nothing(Body, frozen=True):
    """A verb without arguments."""


def parse(body: object, kind: type[Any]) -> Any:
    """The body as its type. Raises `Refused("usage")` naming the member that is wrong."""
    _check_text(body)
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise Refused("usage", str(error)) from error


def _check_text(value: object) -> None:
    """Refuses half surrogate pairs, which no database stores."""
    texts = value.values() if isinstance(value, Mapping) else (value,)
    for text in texts:
        if isinstance(text, str):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise Refused("usage", "a text holds half of a surrogate pair, or bytes that are not UTF-8") from None


def _options(body: SubmitBody) -> SubmitOptions:
    return SubmitOptions(
        force=body.force,
        ttl=body.ttl,
        priority=body.priority,
        auto_fix=body.auto_fix,
        finding_ids=None if body.finding_ids is None else tuple(sorted(set(body.finding_ids))),
        submitted_by=body.submitted_by,
    )


def submit_all(engine: JobEngine, body: Mapping[str, Any], surface: Surface) -> Generator[None, None, dict[str, Any]]:
    """`submit` with `all`, one target at a time (see `JobEngine.submit_all`)."""
    parsed: SubmitBody = parse(body, SubmitBody)
    if parsed.node is not None:
        raise Refused("usage", "give node or all, not both")
    done = yield from engine.submit_all(parsed.extension, _options(parsed), surface=surface)
    return {**done.shape(), "advisories": list(done.advisories)}


def _submit(engine: JobEngine, body: SubmitBody, surface: Surface) -> dict[str, Any]:
    done = engine.submit(body.extension, _options(body), node=body.node, every=body.all, surface=surface)
    answer: dict[str, Any] = {"advisories": list(done.advisories)}
    if isinstance(done, FanOut):
        return {**done.shape(), **answer}
    return {"job": done.shape(), "supersededIds": list(done.submitted.superseded), **answer}


def _claim(engine: JobEngine, body: ClaimBody, surface: Surface) -> dict[str, Any]:
    handover = engine.claim(body.filter).handover
    if isinstance(handover, ContentMissing):
        raise handover.refusal()
    if handover is None:
        return {"job": None}
    return {"job": {"id": handover.id, "nonce": handover.nonce, "content": handover.content}}


def _record(engine: JobEngine, body: RecordBody, surface: Surface) -> dict[str, Any]:
    return record(engine, body, lambda: _report_text(body))


def _report_text(body: RecordBody) -> str:
    if body.report is None:
        raise Refused("report-unreadable", body.report_unreadable or "the report is missing")
    return body.report


def record(engine: JobEngine, body: RecordBody, read_text: Callable[[], str]) -> dict[str, Any]:
    """`record` with the report read only when its turn comes. Raises `Refused`, `report-invalid` among others."""
    completed = body.status == "completed"
    if completed and body.report is None and body.report_unreadable is None:
        raise Refused("usage", "a completed record needs a report")
    request = RecordRequest(
        id=body.id,
        nonce=body.nonce,
        completed=completed,
        tokens_in=body.tokens_in,
        tokens_out=body.tokens_out,
        duration_ms=body.duration_ms,
        model=body.model,
        error=body.error,
    )
    recorded = engine.record(request, read_text)
    if recorded.problem is not None:
        detail = {"id": body.id, "executionId": recorded.execution_id}
        raise Refused("report-invalid", f"{body.id} is failed as report-invalid: {recorded.problem}", detail)
    return {"id": body.id, "executionId": recorded.execution_id, "events": list(recorded.envelopes)}


def _list(engine: JobEngine, body: JobFilter, surface: Surface) -> dict[str, Any]:
    if surface == "http" and body.status is not None and body.status not in set(Status):
        raise Refused("usage", f"status must be one of {', '.join(Status)}, not {body.status!r}")
    rows = engine.read(read.jobs(body.status, body.extension, body.node))
    return {"jobs": [shapes.public_job(row) for row in rows]}


def _show(engine: JobEngine, body: JobId, surface: Surface) -> dict[str, Any]:
    return shapes.public_job(engine.read(read.job(_required(body.id))))


def _required(identifier: str | None) -> str:
    if identifier is None:
        raise Refused("usage", "id is missing")
    return identifier


def _preview(engine: JobEngine, body: JobId, surface: Surface) -> dict[str, Any]:
    return {"content": engine.read(read.content(body.id))}


def _status(engine: JobEngine, body: JobId, surface: Surface) -> dict[str, Any]:
    if body.id is None:
        return dict(engine.read(read.counts()))
    row = engine.read(read.job(body.id))
    return {"id": row["id"], "status": row["status"], "failureReason": row["failure_reason"]}


def _close(verb: Literal["cancel", "fail"], word: str) -> Callable[[JobEngine, OneOrAll, Surface], dict[str, Any]]:
    def close(engine: JobEngine, body: OneOrAll, surface: Surface) -> dict[str, Any]:
        if (body.id is None) != body.all:
            raise Refused("usage", f"{verb} takes a job id or all, one of them")
        if body.id is None:
            return {word: engine.close_all(verb)}
        engine.close(verb, body.id)
        return {"id": body.id, word: True}

    return close


def _prune(engine: JobEngine, body: DryRun, surface: Surface) -> dict[str, Any]:
    return engine.prune(dry_run=body.dry_run).shape()


def _history(engine: JobEngine, body: HistoryFilter, surface: Surface) -> dict[str, Any]:
    rows = engine.read(read.executions(body.node, body.extension, body.limit))
    return {"executions": [shapes.public_execution(row, report=body.report) for row in rows]}


def _disable(engine: JobEngine, body: Key, surface: Surface) -> dict[str, Any]:
    return {"key": body.key, "disabled": True, "cancelledIds": list(engine.disable(body.key))}


def _enable(engine: JobEngine, body: Key, surface: Surface) -> dict[str, Any]:
    return {"key": body.key, "disabled": False, "changed": engine.enable(body.key)}


def _extensions(engine: JobEngine, body: Nothing, surface: Surface) -> dict[str, Any]:
    installed = engine.catalogue.all()
    shown = public_catalogue(installed)
    for entry, extension in zip(shown, installed, strict=True):
        entry["enabled"] = engine.enabled(extension)
    return {"extensions": shown}


def _doctor(engine: JobEngine, body: Nothing, surface: Surface) -> dict[str, Any]:
    checks = engine.doctor()
    shown = [{"id": c.id, "status": c.status} | ({"message": c.message} if c.message else {}) for c in checks]
    return {"kind": "doctor", "jobChecks": shown, "exit": int(read.doctor_exit(checks))}


def _findings(engine: JobEngine, body: FindingsBody, surface: Surface) -> dict[str, Any]:
    wanted = judgments.FindingFilter(body.node, body.extension, body.type, body.severity, body.since, body.threshold)
    return engine.findings(wanted, body.bucket)


def _resolution(state: str | None) -> Callable[[JobEngine, FindingBody, Surface], dict[str, Any]]:
    def change(engine: JobEngine, body: FindingBody, surface: Surface) -> dict[str, Any]:
        return engine.set_resolution(body.id, state, body.note)

    return change


def _findings_prune(engine: JobEngine, body: DryRun, surface: Surface) -> dict[str, Any]:
    return dict(engine.prune_findings(dry_run=body.dry_run))


def _findings_clear(engine: JobEngine, body: ClearBody, surface: Surface) -> dict[str, Any]:
    if (body.node is None) != body.all:
        raise Refused("usage", "findings clear takes -n PATH or --all, one of them")
    return dict(engine.clear_findings(body.node, dry_run=body.dry_run))


def _events(engine: JobEngine, body: EventsBody, surface: Surface) -> dict[str, Any]:
    found = engine.read(read.events_after(body.after, body.limit))
    return {"events": [{"seq": seq, "event": event} for seq, event in found]}


Verb = Callable[[JobEngine, Any, Surface], dict[str, Any]]

VERBS: dict[str, tuple[type[Body], Verb]] = {
    "submit": (SubmitBody, _submit),
    "claim": (ClaimBody, _claim),
    "record": (RecordBody, _record),
    "list": (JobFilter, _list),
    "show": (JobId, _show),
    "preview": (JobId, _preview),
    "status": (JobId, _status),
    "cancel": (OneOrAll, _close("cancel", "cancelled")),
    "fail": (OneOrAll, _close("fail", "failed")),
    "prune": (DryRun, _prune),
    "history": (HistoryFilter, _history),
    "disable": (Key, _disable),
    "enable": (Key, _enable),
    "extensions": (Nothing, _extensions),
    "doctor": (Nothing, _doctor),
    "findings": (FindingsBody, _findings),
    "resolve": (FindingBody, _resolution("fixed")),
    "dismiss": (FindingBody, _resolution("dismissed")),
    "reopen": (FindingBody, _resolution(None)),
    "findings-prune": (DryRun, _findings_prune),
    "findings-clear": (ClearBody, _findings_clear),
    "events": (EventsBody, _events),
}


def call(engine: JobEngine, verb: str, body: Mapping[str, Any], surface: Surface) -> dict[str, Any]:
    """Runs a verb. Raises `Refused`; KeyError for a name that is no verb."""
    kind, function = VERBS[verb]
    return function(engine, parse(body, kind), surface)
