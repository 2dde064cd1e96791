"""The description of the job routes for the OpenAPI document: bodies from their types, answers by hand."""

from typing import Any

import msgspec

from moorage.protocols.jobs import shared, sql, wire
from moorage.protocols.jobs.errors import REFUSALS
from moorage.protocols.jobs.routes import EVENTS_PATH, PREFIX, QUEUE_GRAMMAR, VERB_AUTH, WAIT_LIMIT_SECONDS
from moorage.protocols.jobs.shapes import camel
from moorage.protocols.jobs.states import FailureReason, Status

TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer"}
TRUE: dict[str, Any] = {"const": True}
NULLABLE_TEXT: dict[str, Any] = {"type": ["string", "null"]}
NULLABLE_NUMBER: dict[str, Any] = {"type": ["integer", "null"]}

_SUMMARIES = {
    "submit": "Queue a job, or one for every target",
    "claim": f"Take the next job; `waitSeconds` (at most {WAIT_LIMIT_SECONDS}) holds the request until there is one",
    "record": "Close a claimed job; its id and nonce are the credential",
    "list": "Jobs, newest first",
    "show": "One job",
    "preview": "The content of a job, of the newest one without an id",
    "status": "Counts by state, or the state of one job",
    "history": "Executions, newest first",
    "findings": "Judgments about targets",
    "extensions": "What is installed",
    "doctor": "Checks of the queue",
    "events": "Events past a number",
    "agent": "An agent says that it processes the queue; version 0 that none does",
    "cancel": "Cancel one job, or every queued and running one",
    "fail": "Fail one job, or every queued and running one",
    "prune": "Delete finished jobs past their retention, and contents without a job",
    "disable": "Turn an extension or a plugin off; its queued jobs are cancelled",
    "enable": "Turn it on again",
    "resolve": "Mark a finding as fixed by hand",
    "dismiss": "Dismiss one finding",
    "reopen": "Open a finding again",
    "findings-prune": "Delete stale findings",
    "findings-clear": "Delete the findings of a target, or all",
    "install": "Replace extensions, skills and settings",
    "targets": "Add, replace or forget targets",
}

_BODIES: dict[str, type[Any]] = {
    **{verb: kind for verb, (kind, _) in wire.VERBS.items()},
    "claim": shared.HeldClaimBody,
    "agent": shared.AgentBody,
    "install": shared.InstallBody,
    "targets": shared.TargetsBody,
}


def _object(**members: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(members), "properties": members}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _many(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema}


def _job(*, nonce: bool) -> dict[str, Any]:
    numbers = {"priority", "createdAt"}
    nullable = {"ttlSeconds", "claimedAt", "finishedAt", "expiresAt"}
    members: dict[str, Any] = {}
    for column in sql.JOB_COLUMNS:
        name = {"auto_fix": "autoFix", "finding_ids_json": "findingIds"}.get(column, camel(column))
        if name in numbers:
            members[name] = NUMBER
        elif name in nullable:
            members[name] = NULLABLE_NUMBER
        else:
            members[name] = NULLABLE_TEXT if name in ("runner", "submittedBy") else TEXT
    members["autoFix"] = {"type": "boolean"}
    members["findingIds"] = {"type": ["array", "null"], "items": NUMBER}
    members["status"] = {"enum": [status.value for status in Status]}
    members["failureReason"] = {"enum": [None, *(reason.value for reason in FailureReason)]}
    if not nonce:
        del members["nonce"]
    return {**_object(**members), "additionalProperties": False}


def _rows(columns: tuple[str, ...], skip: set[str], **more: Any) -> dict[str, Any]:
    return _object(**{camel(column): {} for column in columns if column not in skip}, **more)


SCHEMAS: dict[str, Any] = {
    "Job": _job(nonce=False),
    "CredentialedJob": _job(nonce=True),
    "Handover": _object(id=TEXT, nonce=TEXT, content=TEXT),
    "Event": {
        **_object(type=TEXT, timestamp=NUMBER, runId=TEXT, jobId=NULLABLE_TEXT, data={"type": "object"}),
        "additionalProperties": False,
    },
    "Execution": _rows(sql.EXECUTION_COLUMNS, {"node_ids_json", "report_json"}, nodeIds=_many(TEXT)),
    "Finding": _rows(sql.FINDING_COLUMNS, set(), stale={"type": "boolean"}),
    "Deleted": _object(deleted=NUMBER, wouldDelete=NUMBER),
    "JobRefusal": {
        "type": "object",
        "required": ["error", "message"],
        "properties": {
            "error": {"enum": [f"job_{code.replace('-', '_')}" for code in REFUSALS]},
            "message": TEXT,
            "existingId": {**TEXT, "description": "of a duplicate: the job that is there"},
        },
    },
}

_ADVISORIES = {"advisories": _many(TEXT)}
_FAN_OUT = {
    "submitted": _many(_object(id=TEXT, nodeId=TEXT)),
    "refused": _many(_object(nodeId=TEXT, reason={"enum": ["duplicate", "drift", "unreadable", "no-findings"]})),
    "counts": _object(submitted=NUMBER, refused=NUMBER, total=NUMBER),
}
_COUNTS = _object(**{status.value: NUMBER for status in Status})
_PRUNED = _object(
    dryRun={"type": "boolean"},
    retention=_object(
        **{s: _object(policySeconds=NULLABLE_NUMBER, deleted=NUMBER) for s in ("completed", "failed", "cancelled")}
    ),
    prunedContents=NUMBER,
)

ANSWERS: dict[str, dict[str, Any]] = {
    "submit": {
        "oneOf": [
            _object(job=_ref("CredentialedJob"), supersededIds=_many(TEXT), **_ADVISORIES),
            _object(**_FAN_OUT, **_ADVISORIES),
        ]
    },
    "claim": _object(job={"oneOf": [_ref("Handover"), {"type": "null"}]}),
    "record": _object(id=TEXT, executionId=TEXT, events=_many(_ref("Event"))),
    "list": _object(jobs=_many(_ref("Job"))),
    "show": _ref("Job"),
    "preview": _object(content=TEXT),
    "status": {"oneOf": [_COUNTS, _object(id=TEXT, status=TEXT, failureReason=NULLABLE_TEXT)]},
    "history": _object(executions=_many(_ref("Execution"))),
    "findings": _object(
        ok=TRUE,
        kind={"const": "findings"},
        findings=_many(_ref("Finding")),
        total=NUMBER,
        dismissedExcluded=NUMBER,
        fixedExcluded=NUMBER,
    ),
    "extensions": _object(extensions=_many(_object(id=TEXT, kind=TEXT, version=TEXT, mode=TEXT))),
    "doctor": _object(kind={"const": "doctor"}, jobChecks=_many(_object(id=TEXT, status=TEXT)), exit=NUMBER),
    "events": _object(events=_many(_object(seq=NUMBER, event=_ref("Event")))),
    "agent": _object(state={"enum": ["absent", "stale", "present"]}),
    "cancel": {"oneOf": [_object(id=TEXT, cancelled=TRUE), _object(cancelled=NUMBER)]},
    "fail": {"oneOf": [_object(id=TEXT, failed=TRUE), _object(failed=NUMBER)]},
    "prune": _PRUNED,
    "disable": _object(key=TEXT, disabled=TRUE, cancelledIds=_many(TEXT)),
    "enable": _object(key=TEXT, disabled={"const": False}, changed={"type": "boolean"}),
    "resolve": _ref("Finding"),
    "dismiss": _ref("Finding"),
    "reopen": _ref("Finding"),
    "findings-prune": _ref("Deleted"),
    "findings-clear": _ref("Deleted"),
    "install": _object(extensions=NUMBER, problems=_many(TEXT)),
    "targets": _object(targets=NUMBER),
}

_QUEUE = {
    "name": "queue",
    "in": "path",
    "required": True,
    "description": "name of the queue; one of another form is 404",
    "schema": {**TEXT, "pattern": f"^{QUEUE_GRAMMAR}$"},
}


def _json(schema: Any) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _operation(verb: str, body: Any) -> dict[str, Any]:
    who = VERB_AUTH[verb]
    statuses = sorted({status for _, status in REFUSALS.values()})
    return {
        "summary": _SUMMARIES[verb],
        "operationId": f"jobs-{verb}",
        "tags": ["jobs"],
        "parameters": [_QUEUE],
        "security": [] if who == "nobody" else [{who: []}],
        "requestBody": {"required": False, **_json(body)},
        "responses": {
            "200": {"description": "done", **_json(ANSWERS[verb])},
            **{str(status): {"description": "refused", **_json(_ref("JobRefusal"))} for status in statuses},
        },
    }


def _stream() -> dict[str, Any]:
    return {
        "summary": "Events as server-sent events, from after `Last-Event-ID`, or with `from=now` from now on",
        "operationId": "jobs-stream",
        "tags": ["jobs"],
        "parameters": [
            _QUEUE,
            {"name": "last-event-id", "in": "header", "schema": NUMBER},
            {"name": "from", "in": "query", "schema": {"enum": ["now"]}},
        ],
        "security": [{"webhook": []}],
        "responses": {
            "200": {"description": "each `data` is an Event", "content": {"text/event-stream": {"schema": TEXT}}},
            "404": {"description": "there is no such queue", **_json(_ref("JobRefusal"))},
        },
    }


def paths_and_schemas() -> tuple[dict[str, Any], dict[str, Any]]:
    """The path items of the job routes, and the component schemas that they refer to."""
    verbs = list(VERB_AUTH)
    bodies, components = msgspec.json.schema_components(
        [_BODIES[verb] for verb in verbs], ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, Any] = {}
    for verb, body in zip(verbs, bodies, strict=True):
        paths[f"{PREFIX}{{queue}}/{verb}"] = {"post": _operation(verb, body)}
    paths[EVENTS_PATH] = {"get": _stream()}
    return paths, {**components, **SCHEMAS}
