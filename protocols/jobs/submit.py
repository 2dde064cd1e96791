"""Submit, step by step (spec job-lifecycle 7, 11, 12). The order of the refusals is part of the contract."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from . import events, ids, rendering, sql
from .catalogue import (
    SKILL_PREFIX,
    Body,
    Extension,
    Target,
    auto_fix_flag,
    disable_matches,
    matches_id,
    nodeless_path,
    resolve_extension,
)
from .errors import Refused
from .findings import Sibling, decide_supersede, select_for_fixer
from .hashes import NODELESS_HASH, content_hash, prompt_template_hash
from .schemas import parse_schema, report_contract, roles
from .settings import resolve_priority, resolve_ttl
from .shapes import finding_shape
from .states import Status
from .steps import Row, Statement, Steps

EVENTS_KEPT = 10_000
"""How many events stay for those who resume; older ones are dropped, which costs staleness only (spec 19)."""


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """The flags of a submit. `finding_ids` None means the whole target; `ttl` 0 disarms."""

    force: bool = False
    ttl: int | None = None
    priority: int | None = None
    auto_fix: bool = False
    finding_ids: tuple[int, ...] | None = None
    submitted_by: str | None = None


@dataclass(frozen=True, slots=True)
class SubmitPlan:
    """A submit after the checks that need no target."""

    extension: Extension
    options: SubmitOptions
    ttl: int | None
    priority: int
    fixes: Literal["findings", "issues"] | None
    tagger: bool


@dataclass(frozen=True, slots=True)
class Submitted:
    """A queued job: its row, nonce included, and the queued fixers that it replaced."""

    job: Row
    superseded: tuple[str, ...]


def fixer_branch(extension: Extension, extensions: Sequence[Extension]) -> Literal["findings", "issues"] | None:
    """What a fixer resolves: findings, or the issues of analyzers that are all deterministic; None for no fixer."""
    names = extension.precondition.analyzer_ids
    if extension.kind != "action" or not names:
        return None
    modes = {
        other.mode
        for other in extensions
        if other.kind == "analyzer" and any(matches_id(name, other.id) for name in names)
    }
    return "issues" if modes == {"deterministic"} else "findings"


def plan_submit(
    name: str,
    extensions: Sequence[Extension],
    skill: Extension | None,
    disabled: Sequence[str],
    config: Mapping[str, Any],
    options: SubmitOptions,
    *,
    node: str | None,
    every: bool,
) -> SubmitPlan:
    """The checks before the agent gate, in their order (spec 7, steps 2 and 3). `skill` is what `skill:<name>` means.

    Raises `Refused`.
    """
    if name.startswith(SKILL_PREFIX):
        if skill is None:
            raise Refused("not-found", f"no skill {name.removeprefix(SKILL_PREFIX)!r} can be submitted here")
        extension = skill
    else:
        enabled = [e for e in extensions if e.enabled and not disable_matches(disabled, e.id)]
        extension = resolve_extension(name, enabled)
    if extension.problem is not None:
        raise Refused("extension-invalid", f"{extension.id}: {extension.problem}")
    if extension.prompt is None or extension.report_schema_text is None:
        raise Refused("extension-invalid", f"{extension.id}: its prompt or its report schema cannot be read")
    try:
        schema = parse_schema(extension.report_schema_text)
    except ValueError as error:
        raise Refused("extension-invalid", f"{extension.id}: its report schema is not usable: {error}") from error
    ttl = resolve_ttl(extension.id, config, options.ttl)
    priority = resolve_priority(extension.id, config, options.priority, extension.default_priority)
    fixes = fixer_branch(extension, extensions)
    if options.finding_ids is not None and fixes != "findings":
        raise Refused("usage", f"--finding is for fixers of findings; {extension.id} is none")
    if extension.nodeless and (node is not None or every):
        raise Refused("usage", f"{extension.id} takes no target")
    if not extension.nodeless and node is None and not every:
        raise Refused("usage", f"{extension.id} needs a target: -n PATH, or --all")
    tagger = extension.kind == "action" and roles(schema).tagger
    return SubmitPlan(extension, options, ttl, priority, fixes, tagger)


def check_target(target: Target | None, path: str) -> Target:
    """The target that a submit may be about (step 5). Raises `Refused` with `not-found` or `virtual-target`."""
    if target is None:
        raise Refused("not-found", f"no target {path!r}; it may be newer than the last scan")
    if target.virtual:
        raise Refused("virtual-target", f"{path} is virtual: it has no content to work on")
    return target


def emit(event: events.Envelope) -> Steps[None]:
    """Stores an event in the transaction of its cause, and now and then drops those beyond `EVENTS_KEPT`."""
    rows = yield Statement(sql.INSERT_EVENT + " RETURNING seq", (events.encode(event),))
    seq = rows[0]["seq"] if rows else 0
    if seq % 256 == 0:
        yield Statement("DELETE FROM state_events WHERE seq <= ?", (seq - EVENTS_KEPT,))


def submit_one(
    plan: SubmitPlan,
    target: Target | None,
    body: Body,
    body_hash_now: str | None,
    issues: Sequence[Mapping[str, Any]],
    now: int,
    draw: ids.Draw,
    suffix: str | None = None,
) -> Steps[Submitted]:
    """Steps 6 to 11 for one target, or for none (nodeless). One transaction; raises `Refused` and leaves nothing.

    `body_hash_now` is the hash of `body.text`; `suffix` the first id suffix to try, so that a fan-out can keep its
    order among jobs of one millisecond.
    """
    extension = plan.extension
    path = target.path if target is not None else nodeless_path(extension.id)
    section = ""
    if target is not None and plan.fixes is not None:
        section = yield from _fixer_section(plan, target, issues)
    tags = rendering.current_tags_section(target.tags) if target is not None and plan.tagger else ""
    prompt, schema_text = extension.prompt or "", extension.report_schema_text or ""
    skill = ""
    if extension.skill_body is not None:
        skill = rendering.skill_section(extension.id.removeprefix(SKILL_PREFIX), extension.skill_body)
    contract = report_contract(schema_text)
    template = prompt_template_hash(
        rendering.PREAMBLE,
        prompt,
        report_contract=contract,
        skill_section=skill,
        findings_section=section,
        current_tags_section=tags,
    )
    key = content_hash(
        extension.id,
        extension.version,
        path,
        NODELESS_HASH if target is None else target.body_hash,
        NODELESS_HASH if target is None else target.frontmatter_hash,
        template,
    )
    superseded: tuple[str, ...] = ()
    if plan.fixes == "findings" or plan.fixes == "issues":
        superseded = yield from _supersedable(plan, path, key)
    elif not plan.options.force:
        yield from _refuse_twin(extension.id, path, key)
    if target is not None:
        _check_drift(target, body, body_hash_now)
    content = rendering.render(
        rendering.PREAMBLE,
        prompt,
        path,
        None if target is None else body.text,
        skill_section=skill,
        findings_section=section,
        current_tags_section=tags,
        report_contract=contract,
    )
    for sibling in superseded:
        yield Statement(sql.SUPERSEDE, (now, sibling))
    yield Statement(sql.INSERT_CONTENT, (key, content, now))
    job = yield from _insert_job(plan, path, key, now, draw, suffix)
    run = ids.run_id("queue", now, draw(2))
    yield from emit(events.submitted(now, run, job, list(superseded)))
    return Submitted(job, superseded)


def _fixer_section(plan: SubmitPlan, target: Target, issues: Sequence[Mapping[str, Any]]) -> Steps[str]:
    names = plan.extension.precondition.analyzer_ids
    section = rendering.issues_section([dict(issue) for issue in issues])
    if plan.fixes == "findings":
        rows = yield Statement(sql.FINDINGS_OF_NODE, (target.path,))
        shaped = [finding_shape(row, target.body_hash) for row in rows]
        section = rendering.findings_section(select_for_fixer(shaped, names, plan.options.finding_ids))
    if not section:
        raise Refused(
            "no-findings", f"no findings to resolve for {', '.join(names)} on {target.path}; run the finder first"
        )
    return section


def _duplicate(code: str, path: str, existing: str) -> Refused:
    words = "an identical job is queued or running" if code == "duplicate" else "a running fixer holds this target"
    return Refused(code, f"{words}: {existing}", {"nodeId": path, "duplicate": True, "existingId": existing})


def _refuse_twin(extension_id: str, path: str, key: str) -> Steps[None]:
    rows = yield Statement(sql.ACTIVE_TWIN, (extension_id, path, key))
    if rows:
        raise _duplicate("duplicate", path, rows[0]["id"])


def _supersedable(plan: SubmitPlan, path: str, key: str) -> Steps[tuple[str, ...]]:
    rows = yield Statement(sql.SIBLINGS, (plan.extension.id, path))
    siblings = [
        Sibling(
            row["id"],
            Status(row["status"]),
            None if row["finding_ids_json"] is None else tuple(json.loads(row["finding_ids_json"])),
            row["content_hash"] == key,
        )
        for row in rows
    ]
    decision = decide_supersede(siblings, plan.options.finding_ids)
    if decision.outcome != "created":
        raise _duplicate(decision.outcome, path, decision.conflict or "")
    return decision.superseded


def _check_drift(target: Target, body: Body, body_hash_now: str | None) -> None:
    if body.text is None:
        raise Refused(
            "unreadable",
            f"{target.path} cannot be read: {body.cause or 'unknown cause'}",
            {"cause": body.cause} if body.cause else {},
        )
    if body_hash_now != target.body_hash:
        raise Refused("drift", f"{target.path} changed since the last scan; scan again")


def _insert_job(plan: SubmitPlan, path: str, key: str, now: int, draw: ids.Draw, suffix: str | None) -> Steps[Row]:
    extension, options = plan.extension, plan.options
    subset = None if options.finding_ids is None else json.dumps(sorted(set(options.finding_ids)))
    nonce = ids.new_nonce(draw)
    attempt = 0
    while True:
        # an id has the second of its making; when that second is full it borrows the next one
        identifier = ids.job_id(now + 1000 * (attempt // ids.REDRAWS), suffix or draw(2))
        rows = yield Statement(
            sql.INSERT_JOB,
            (
                identifier, extension.id, extension.version, extension.kind,
                int(auto_fix_flag(extension.kind, options.auto_fix)), subset, path, key, nonce, plan.priority,
                Status.QUEUED.value, None, None, plan.ttl, now, None, None, None, options.submitted_by,
            ),
        )  # fmt: skip
        if rows:
            return rows[0]
        # nothing inserted: the unique index on live jobs (the duplicate answer again), or a clash of ids
        yield from _refuse_twin(extension.id, path, key)
        suffix, attempt = None, attempt + 1
