"""Plays the recorded tables of the job rules: every table is a function of `inputs` alone."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from moorage.clients.jobs.validation import validate
from moorage.protocols.jobs import catalogue, findings, hashes, ids, rendering, reports, schemas, settings, states
from moorage.protocols.jobs.errors import Refused

Inputs = dict[str, Any]
Case = dict[str, Any]

FREE_WORDING = "<implementation wording>"


def content_hash(inputs: Inputs, _: Case) -> Any:
    names = ("extensionId", "extensionVersion", "nodePath", "bodyHash", "frontmatterHash", "promptTemplateHash")
    return {"contentHash": hashes.content_hash(*(inputs[name] for name in names))}


def prompt_template_hash(inputs: Inputs, _: Case) -> Any:
    digest = hashes.prompt_template_hash(
        inputs["preamble"],
        inputs["template"],
        report_contract=inputs.get("reportContract") or "",
        skill_section=inputs.get("skillSection") or "",
        findings_section=inputs.get("findingsSection") or "",
        current_tags_section=inputs.get("currentTagsSection") or "",
    )
    return {"promptTemplateHash": digest}


def ttl(inputs: Inputs, _: Case) -> Any:
    return {"ttlSeconds": settings.resolve_ttl(inputs["extension"], inputs["config"], inputs["flag"])}


def priority(inputs: Inputs, _: Case) -> Any:
    value = settings.resolve_priority(
        inputs["extension"], inputs["config"], inputs["flag"], inputs["manifestDefaultPriority"]
    )
    return {"priority": value}


def submit_target(inputs: Inputs, _: Case) -> Any:
    extensions = []
    for kind in catalogue.KINDS:
        for entry in inputs["catalog"][f"{kind}s"]:
            name, _, mode = entry.rpartition(":")
            extensions.append(catalogue.Extension(id=name, version="1.0.0", kind=kind, mode=mode))
    try:
        found = catalogue.resolve_extension(inputs["target"], extensions)
    except Refused as error:
        return {"outcome": error.code, "exit": int(error.exit), **error.detail}
    return {"outcome": found.kind, "exit": 0, "extensionId": found.id, "extensionKind": found.kind}


def precondition(inputs: Inputs, _: Case) -> Any:
    wanted = inputs["precondition"] or {}
    rule = catalogue.Precondition(
        provider=tuple(wanted.get("provider", ())),
        kind=tuple(wanted.get("kind", ())),
        frontmatter_missing=tuple(wanted.get("frontmatterMissing", ())),
        analyzer_ids=tuple(wanted.get("analyzerIds", ())),
    )
    node = inputs["node"]
    target = catalogue.Target("n", node["kind"], node["provider"], "", "", node["frontmatter"])
    return {"applies": catalogue.precondition_applies(rule, target)}


def disable_match(inputs: Inputs, _: Case) -> Any:
    return {"cancelled": catalogue.disable_matches(inputs["disabledKeys"], inputs["extensionId"])}


def delimiter(inputs: Inputs, _: Case) -> Any:
    return {"block": rendering.content_block(inputs["nodePath"], inputs["body"])}


def render(inputs: Inputs, _: Case) -> Any:
    content = rendering.render(
        inputs["preamble"],
        inputs["promptTemplate"],
        inputs["node"]["path"],
        inputs["nodeBody"],
        skill_section=inputs.get("skillSection") or "",
        findings_section=inputs.get("findingsSection") or "",
        current_tags_section=inputs.get("currentTagsSection") or "",
        report_contract=inputs.get("reportContract") or "",
    )
    return {"content": content}


def current_tags(inputs: Inputs, _: Case) -> Any:
    tags = rendering.select_tags(inputs["annotationsTags"])
    section = rendering.current_tags_section(inputs["annotationsTags"])
    return {"tags": tags, "sectionPresent": section.startswith("## Current tags")}


def fixer_selection(inputs: Inputs, case: Case) -> Any:
    # the inputs leave out what the rule does not look at; the expected entries lend it, so that the keys' order shows
    lent = {entry["id"]: entry for entry in case["expect"].get("injectedArray", ())}
    rows = [{**lent.get(row["id"], {}), **row} for row in inputs["findings"]]
    selected = findings.select_for_fixer(rows, inputs["analyzerIds"], inputs["findingIds"])
    answer: dict[str, Any] = {"selectedIds": [row["id"] for row in selected]}
    if not selected:
        answer |= {"refusal": "no-findings", "exit": int(Refused("no-findings", "").exit)}
    if lent:
        answer["injectedArray"] = rendering.injected_findings(selected)
        for ours, theirs in zip(answer["injectedArray"], case["expect"]["injectedArray"], strict=True):
            assert list(ours) == list(theirs), "keys of an injected entry are in another order"
    return answer


ROLE_SCHEMAS = {
    "base": schemas.REPORT_BASE,
    "finder": schemas.FINDINGS,
    "summarizer": schemas.SUMMARY,
    "tagger": schemas.TAGS,
    "skill": schemas.SKILL,
}


def report_validation(inputs: Inputs, _: Case) -> Any:
    return {"valid": validate({"allOf": [{"$ref": ROLE_SCHEMAS[inputs["role"]]}]}, inputs["report"]) is None}


def schema_role(inputs: Inputs, _: Case) -> Any:
    roles = schemas.roles(inputs["schema"])
    return {"summarizer": roles.summarizer, "tagger": roles.tagger, "finderEnvelope": roles.finder}


def report_rows(inputs: Inputs, _: Case) -> Any:
    rows = findings.report_rows(inputs["extensionKind"], inputs["report"])
    names = ("origin", "type", "severity", "message", "detail", "confidence")
    return {"rows": [{name: getattr(row, name) for name in names} for row in rows]}


def resolved_entries(inputs: Inputs, _: Case) -> Any:
    entries = findings.resolved_entries(inputs["resolved"])
    return {"entries": [{"id": e.id, "state": e.state, "by": e.by, "note": e.note} for e in entries]}


def reserved(inputs: Inputs, _: Case) -> Any:
    found = findings.reserved_types(inputs["findingTypes"])
    answer: dict[str, Any] = {"invalid": bool(found)}
    if found:
        answer |= {"reserved": found, "failureReason": states.FailureReason.REPORT_INVALID.value}
        report = {"findings": [{"type": name} for name in inputs["findingTypes"]]}
        assert not reports.read_report(json.dumps(report), "analyzer", {}, lambda *_: None).valid
    return answer


def suppression(inputs: Inputs, _: Case) -> Any:
    return {"hidden": findings.suppressed(inputs["extensionId"], inputs["type"], inputs["suppressions"])}


def chain(inputs: Inputs, _: Case) -> Any:
    actions = [
        catalogue.Extension(
            id=action["id"],
            version="1.0.0",
            kind="action",
            precondition=catalogue.Precondition(analyzer_ids=tuple(action["analyzerIds"])),
        )
        for action in inputs["actions"]
    ]
    return {"fixers": [extension.id for extension in catalogue.chained_fixers(inputs["finder"], actions)]}


def auto_fix_flag(inputs: Inputs, _: Case) -> Any:
    return {"autoFix": catalogue.auto_fix_flag(inputs["extensionKind"], inputs["requested"])}


def identifiers(inputs: Inputs, case: Case) -> Any:
    if "bytes" in inputs:
        nonce = ids.new_nonce(lambda count: bytes(range(count)).hex())
        return {
            "pattern": "^[0-9a-f]{32}$",
            "matches": len(nonce) == 2 * inputs["bytes"] and bool(ids.NONCE.match(nonce)),
        }
    now = int(datetime.fromisoformat(inputs["utc"]).timestamp() * 1000)
    if "mode" in inputs:
        return {"id": ids.run_id(inputs["mode"], now, inputs["suffix"])}
    make = ids.execution_id if "execution" in case["title"] else ids.job_id
    return {"id": make(now, inputs["suffix"])}


def transitions(inputs: Inputs, _: Case) -> Any:
    status, trigger = states.Status(inputs["from"]), inputs["trigger"]
    if trigger == "claim" or trigger == "claim-content-missing":
        decision = states.decide_claim(status, content_present=trigger == "claim")
    elif trigger.startswith("reap-"):
        expiry = {"reap-armed-expired": 99, "reap-armed-not-expired": 100, "reap-no-ttl": None}[trigger]
        decision = states.decide_reap(status, expiry, 100)
    else:
        decision = states.decide(status, states.Trigger(trigger), nonce_matches=inputs["nonce"] != "wrong")
    answer: dict[str, Any] = {"allowed": decision.allowed}
    if decision.exit is not None:
        answer["exit"] = int(decision.exit)
    if not decision.allowed:
        return {**answer, "changes": "none"}
    return {
        **answer,
        "to": decision.to,
        "failureReason": decision.failure_reason,
        "finishedAtSet": decision.finished,
    }


def supersede(inputs: Inputs, _: Case) -> Any:
    sibling = inputs["sibling"]
    ours = findings.Sibling(
        "d-1", states.Status(sibling["status"]), _tuple(sibling["findingIds"]), inputs["sameContentHash"]
    )
    decision = findings.decide_supersede([ours], inputs["new"]["findingIds"])
    if decision.outcome != "created":
        return {"outcome": decision.outcome, "exit": int(Refused(decision.outcome, "").exit)}
    return {"outcome": "created", "superseded": decision.superseded == ("d-1",)}


def _tuple(value: list[int] | None) -> tuple[int, ...] | None:
    return None if value is None else tuple(value)


TABLES: dict[str, Callable[[Inputs, Case], Any]] = {
    function.__name__: function
    for function in (
        content_hash, prompt_template_hash, ttl, priority, submit_target, precondition, disable_match, delimiter,
        render, current_tags, fixer_selection, report_validation, schema_role, report_rows, resolved_entries,
        reserved, suppression, chain, auto_fix_flag, transitions, supersede,
    )
} | {"ids": identifiers}  # fmt: skip


def play(table: str, case: Case) -> None:
    """Runs one case. Raises AssertionError with both values when the answer is another one."""
    try:
        answer = TABLES[table](case["inputs"], case)
    except Refused as error:
        answer = {"error": error.code, "exit": int(error.exit)}
    expected = {key: value for key, value in case["expect"].items() if key != "note"}
    for row in answer.get("rows", ()):
        row["message"] = FREE_WORDING if row["origin"] == "kernel" and row["message"] else row["message"]
    assert answer == expected, f"expected {expected}, got {answer}"
