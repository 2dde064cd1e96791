"""Corners of the verbs: what is refused, and with which words."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from moorage.clients.jobs.validation import validate
from moorage.durable_objects.objects.jobs_reports import validate as validate_shared
from moorage.protocols.jobs import findings, manifests, rendering, schemas, shared, wire
from moorage.protocols.jobs.errors import Refused

from ..support.jobs_memory import MemoryQueue, extension

CLEAN = {"confidence": 0.5, "safety": {"injectionDetected": False, "contentQuality": "clean"}}
GOOD: dict[str, Any] = {"id": "p/x", "kind": "action", "version": "1.0.0", "probExpectedDurationSeconds": 1}


@pytest.fixture
def queue() -> Iterator[MemoryQueue]:
    queue = MemoryQueue()
    yield queue
    queue.close()


def refused(queue: MemoryQueue, verb: str, body: dict[str, Any], surface: Any = "operator") -> Refused:
    with pytest.raises(Refused) as caught:
        queue.call(verb, body, surface)
    return caught.value


def claim(queue: MemoryQueue, **submit: Any) -> dict[str, Any]:
    queue.call("submit", {"extension": "fx/brief", "node": "a.md", **submit})
    job: dict[str, Any] = queue.call("claim", {})["job"]
    return {"id": job["id"], "nonce": job["nonce"]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": ""}, "version"),
        ({"mode": "sometimes"}, "mode"),
        ({"probExpectedDurationSeconds": True}, "probExpectedDurationSeconds"),
        ({"probNodeless": 1}, "probNodeless"),
        ({"kind": "analyzer", "probNodeless": True}, "actions"),
        ({"defaultPriority": "high"}, "defaultPriority"),
        ({"precondition": []}, "precondition"),
        ({"precondition": {"kind": "x"}}, "list of texts"),
        ({"colour": 1}, "colour"),
        ({"kind": "analyzer"}, "findings schema"),
    ],
)
def test_manifests_that_are_refused(change: dict[str, Any], words: str) -> None:
    problem = manifests.parse_manifest({**GOOD, **change}, "p", "{}").problem
    assert problem is not None
    assert words in problem


@pytest.mark.parametrize("text", ["[]", "{", "7"])
def test_a_schema_that_is_no_object(text: str) -> None:
    assert "report.schema.json" in str(manifests.parse_manifest(GOOD, "p", text).problem)


@pytest.mark.parametrize(("change", "words"), [({"id": "x"}, "id"), ({"id": 5}, "id"), ({"kind": "robot"}, "kind")])
def test_a_manifest_without_an_identity(change: dict[str, Any], words: str) -> None:
    with pytest.raises(manifests.ManifestError, match=words):
        manifests.parse_manifest({**GOOD, **change}, "p", "{}")


def test_a_good_manifest() -> None:
    found = manifests.parse_manifest(
        {**GOOD, "precondition": {"analyzerIds": ["p/y"]}, "defaultPriority": 7}, "p", "{}"
    )
    assert (found.problem, found.default_priority, found.precondition.analyzer_ids) == (None, 7, ("p/y",))


@pytest.mark.parametrize("check", [validate, validate_shared])
def test_schemas_that_cannot_judge(check: Any) -> None:
    with pytest.raises(Refused, match="not valid"):
        check({"type": 5}, {})
    with pytest.raises(Refused, match=r"example\.invalid"):
        check({"$ref": "https://example.invalid/x.json"}, {})
    assert check({"type": "object", "required": ["a"]}, {}).startswith("$: ")
    assert check({"allOf": [{"$ref": schemas.SKILL}]}, {**CLEAN, "summary": "x"}) is None


def test_a_report_that_cannot_be_judged_leaves_the_job_running(queue: MemoryQueue) -> None:
    held = claim(queue)
    body = {**held, "status": "completed", "report": json.dumps(CLEAN)}
    kept = list(queue.extensions)
    for broken in (None, "{", '{"$ref": "https://example.invalid/x.json"}'):
        queue.extensions[0] = replace(kept[0], report_schema_text=broken)
        assert refused(queue, "record", body).code == "extension-invalid"
    queue.extensions = kept[1:]
    assert refused(queue, "record", body).code == "extension-invalid"
    assert queue.call("status", {"id": held["id"]})["status"] == "running"
    # a failed record needs no schema
    assert queue.call("record", {**held, "status": "failed"})["executionId"]


def test_a_report_that_could_not_be_read(queue: MemoryQueue) -> None:
    held = claim(queue)
    unreadable = {"status": "completed", "reportUnreadable": "no such file"}
    assert refused(queue, "record", {**held, "nonce": "0" * 32, **unreadable}).code == "nonce-mismatch"
    assert refused(queue, "record", {**held, **unreadable}).message == "no such file"
    assert refused(queue, "record", {**held, "status": "completed"}).code == "usage"
    assert queue.call("status", {"id": held["id"]})["status"] == "running"


@pytest.mark.parametrize(
    ("verb", "body"),
    [("submit", {"extension": "e", "ttl": "\ud800"}), ("history", {"limit": "\udc00"}), ("show", {"id": "\ud800"})],
)
def test_half_a_character_is_misuse_wherever_it_stands(queue: MemoryQueue, verb: str, body: dict[str, Any]) -> None:
    assert "surrogate" in refused(queue, verb, body).message


def test_a_close_that_comes_second_rolls_back(queue: MemoryQueue) -> None:
    held = claim(queue)
    row = queue.rows("state_jobs")[0]
    from moorage.protocols.jobs.record import RecordRequest, close_record

    request = RecordRequest(id=held["id"], nonce=held["nonce"], completed=False)
    queue.call("cancel", {"id": held["id"]})
    with pytest.raises(Refused, match="closed meanwhile"):
        queue.transact(
            close_record(row, request, None, None, None, enabled=True, now=1, draw=lambda count: "0" * 2 * count)
        )
    assert queue.rows("state_executions") == []
    assert held["nonce"] not in repr(request)


def test_executions_draw_again_on_a_clash(queue: MemoryQueue) -> None:
    first = claim(queue)
    queue.call("record", {**first, "status": "failed"})
    taken = queue.rows("state_executions")[0]["id"]
    second = claim(queue)
    drawn = iter([taken[-4:], "beef"])
    queue.engine = replace(queue.engine, draw=lambda count: next(drawn, "00" * count))
    assert queue.call("record", {**second, "status": "failed"})["executionId"].endswith("beef")


def test_filters_of_history_and_list(queue: MemoryQueue) -> None:
    queue.call("record", {**claim(queue), "status": "failed", "error": "why"})
    queue.call("record", {**claim(queue, extension="fx/digest", node="b.md"), "status": "failed"})
    assert [e["nodeIds"] for e in queue.call("history", {"extension": "digest"})["executions"]] == [["b.md"]]
    assert [e["extensionId"] for e in queue.call("history", {"node": "a.md"})["executions"]] == ["fx/brief"]
    assert len(queue.call("history", {"limit": 1})["executions"]) == 1
    assert queue.call("history", {"node": "a.md", "report": True})["executions"][0]["report"] == "why"


def test_a_template_is_checked_when_it_is_rendered(queue: MemoryQueue) -> None:
    queue.extensions[0] = replace(queue.extensions[0], prompt="no place for the content")
    assert refused(queue, "submit", {"extension": "fx/brief", "node": "a.md"}).code == "template-invalid"
    assert refused(queue, "submit", {"extension": "fx/brief", "all": True}).code == "template-invalid"
    assert queue.rows("state_job_contents") == []
    with pytest.raises(Refused, match="must contain"):
        rendering.check_template("")


def test_prompts_that_cannot_be_read(queue: MemoryQueue) -> None:
    for change in ({"prompt": None}, {"report_schema_text": None}, {"report_schema_text": "["}):
        queue.extensions = [replace(extension("fx/brief"), **change)]
        assert refused(queue, "submit", {"extension": "fx/brief", "node": "a.md"}).code == "extension-invalid"


def test_the_gate_by_surface(queue: MemoryQueue) -> None:
    queue.presence = "absent"
    assert refused(queue, "submit", {"extension": "fx/ping"}).code == "no-agent"
    assert queue.call("submit", {"extension": "fx/ping"}, "http")["job"]["nodeId"] == "sm://fx/ping"
    assert refused(queue, "submit", {"extension": "fx/brief", "node": "a.md"}, "http").code == "no-agent"


def test_skills_are_for_http(queue: MemoryQueue) -> None:
    queue.skills["tidy"] = "Tidy up."
    assert refused(queue, "submit", {"extension": "skill:tidy", "node": "a.md"}).code == "not-found"
    assert refused(queue, "submit", {"extension": "skill:other", "node": "a.md"}, "http").code == "not-found"
    assert queue.call("submit", {"extension": "skill:tidy", "node": "a.md"}, "http")["job"]


def test_a_chain_that_is_refused_is_silent_and_logged(queue: MemoryQueue) -> None:
    queue.call("submit", {"extension": "fx/probe", "node": "a.md", "autoFix": True})
    job = queue.call("claim", {})["job"]
    queue.bodies["a.md"] = "drifted"
    report = json.dumps({**CLEAN, "findings": [{"type": "v", "severity": "warn", "message": "m"}]})
    queue.call("record", {"id": job["id"], "nonce": job["nonce"], "status": "completed", "report": report})
    assert [(op, detail["refused"]) for op, detail in queue.log] == [("jobs.chain", "drift")]
    assert len(queue.rows("state_jobs")) == 1


def test_old_events_go(queue: MemoryQueue) -> None:
    from moorage.protocols.jobs.submit import EVENTS_KEPT

    queue.connection.execute("INSERT INTO state_events (seq, envelope_json) VALUES (5, '{}'), (19999, '{}')")
    for _ in range(512 - 19999 % 256):
        claim(queue)
        queue.call("cancel", {"all": True})
    numbers = [row["seq"] for row in queue.rows("state_events")]
    assert 5 not in numbers
    assert numbers[-1] - numbers[0] <= EVENTS_KEPT + 256


def test_bodies_of_a_shared_queue() -> None:
    twice = {"manifest": GOOD, "prompt": "p", "reportSchema": "{}"}
    body: shared.InstallBody = wire.parse({"extensions": [twice, twice]}, shared.InstallBody)
    with pytest.raises(Refused, match="twice"):
        body.check()
    nameless: shared.InstallBody = wire.parse({"extensions": [{"manifest": {}}]}, shared.InstallBody)
    with pytest.raises(Refused, match=r"extensions\[0\]"):
        nameless.check()
    bare: shared.GivenTarget = wire.parse({"path": "p", "kind": "k", "provider": "q"}, shared.GivenTarget)
    with pytest.raises(Refused, match="virtual"):
        bare.row()
    with pytest.raises(Refused, match="skills"):
        wire.parse({"extensions": [], "skills": {"../x": {"body": ""}}}, shared.InstallBody)


def test_odd_suppressions_and_entries() -> None:
    assert not findings.suppressed("fx/probe", "x", [5, {"extension": 5}, {}])
    assert (
        findings.resolved_entries([5, {"id": True, "state": "fixed", "by": "human"}, {"id": 2.0, "state": "x"}]) == []
    )
    assert [e.id for e in findings.resolved_entries([{"id": 2.0, "state": "human-decision"}])] == [2]


def test_a_missing_id_is_named(queue: MemoryQueue) -> None:
    assert refused(queue, "show", {}).message == "id is missing"
    assert refused(queue, "cancel", {"id": "x", "all": True}).code == "usage"
    assert refused(queue, "findings-clear", {"node": "a", "all": True}).code == "usage"
