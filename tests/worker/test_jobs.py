"""The shared job queue over HTTP: verbs, who may ask, waiting that is woken, hanging up, the event stream."""

import asyncio
import base64
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moorage.durable_objects.objects.jobs import NEXT_EXPIRY, JobQueue, Waiters
from moorage.durable_objects.runtime.testing import settle
from moorage.protocols.jobs.errors import REFUSALS
from moorage.protocols.jobs.routes import VERB_AUTH
from moorage.protocols.jobs.steps import Statement, Steps
from moorage.protocols.wire import catalogue
from moorage.protocols.wire.jobs import JobRefusal

from ..objects.sqlite_storage import Storage
from ..support.jobs_plane import JobsPlane, finish
from ..support.plane import OPERATOR_SECRET, WEBHOOK_SECRET

FIXTURE = json.loads((Path(__file__).parents[1] / "vectors" / "jobs" / "fixture.json").read_text())
CLEAN = {"confidence": 0.8, "safety": {"injectionDetected": False, "contentQuality": "clean"}}
NAMES = {"estimateSeconds": "probExpectedDurationSeconds", "nodeless": "probNodeless"}


def install_body(**more: Any) -> dict[str, Any]:
    extensions = []
    for given in FIXTURE["extensions"]:
        manifest = {NAMES.get(k, k): v for k, v in given.items() if k not in ("prompt", "reportSchema")}
        schema = json.dumps(given["reportSchema"]) if "reportSchema" in given else None
        extensions.append({"manifest": manifest, "prompt": given.get("prompt"), "reportSchema": schema})
    return {"extensions": extensions, **more}


def target(path: str, body: str, **more: Any) -> dict[str, Any]:
    return {"path": path, "kind": "markdown", "provider": "markdown", "body": body, **more}


async def fill(plane: JobsPlane, **more: Any) -> None:
    status, answer = await plane.operate("install", install_body(**more))
    assert (status, answer) == (200, {"extensions": len(FIXTURE["extensions"]), "problems": []})
    targets = [target("notes/a.md", "Body of a.\n"), target("notes/b.md", "Body of b.\n")]
    assert await plane.operate("targets", {"targets": targets, "replace": True}) == (200, {"targets": 2})
    assert await plane.verb("agent", {"version": 1, "agentEndpoint": "http://elsewhere"}) == (
        200,
        {"state": "present"},
    )


async def test_a_job_from_submit_to_history() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        status, answer = await plane.verb("submit", {"extension": "fx/brief", "node": "notes/a.md", "ttl": 60})
        assert status == 200
        job = answer["job"]
        assert len(job["nonce"]) == 32
        status, claimed = await plane.verb("claim", {"filter": "brief"})
        assert claimed["job"]["id"] == job["id"]
        assert claimed["job"]["nonce"] == job["nonce"]
        assert '<user-content id="notes/a.md">\nBody of a.\n\n</user-content>' in claimed["job"]["content"]
        status, shown = await plane.verb("show", {"id": job["id"]})
        assert "nonce" not in shown
        assert shown["expiresAt"] == shown["claimedAt"] + 60_000
        record = {"id": job["id"], "nonce": job["nonce"], "status": "completed", "report": json.dumps(CLEAN)}
        # the nonce is the credential: no signature
        status, recorded = await plane.verb("record", record, secret=None)
        assert status == 200
        assert [event["type"] for event in recorded["events"]] == [
            "run.started", "job.claimed", "job.callback.received", "job.completed", "run.summary",
        ]  # fmt: skip
        status, history = await plane.verb("history", {"report": True})
        assert history["executions"][0]["report"] == CLEAN
        assert (await plane.verb("status", {}))[1]["completed"] == 1
        assert await plane.verb("record", record, secret=None) == (
            409,
            {"error": "job_not_running", "message": f"job not in running state: {job['id']} is completed"},
        )


async def test_refusals_are_answers() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        submit = {"extension": "fx/brief", "node": "notes/a.md"}
        job = (await plane.verb("submit", submit))[1]["job"]
        status, answer = await plane.verb("submit", submit)
        assert (status, answer["error"], answer["existingId"]) == (409, "job_duplicate", job["id"])
        wrong = {"id": job["id"], "nonce": "0" * 32, "status": "failed"}
        assert (await plane.verb("record", wrong, secret=None))[0] == 403
        for body, status, code in (
            ({"extension": "fx/none", "node": "notes/a.md"}, 404, "job_not_found"),
            ({"extension": "fx/judge", "node": "notes/a.md"}, 400, "job_ambiguous"),
            ({"extension": "fx/brief"}, 400, "job_usage"),
            ({"extension": 5}, 400, "job_usage"),
            ({"extension": "fx/brief", "node": "notes/a.md", "ttl": -1}, 400, "job_invalid_ttl"),
            ({"extension": "core/node-set-tags", "node": "notes/a.md"}, 400, "job_deterministic"),
            ({"extension": "fx/mend", "node": "notes/a.md"}, 409, "job_no_findings"),
        ):
            found, answer = await plane.verb("submit", body)
            assert (found, answer["error"]) == (status, code), body
            assert answer["message"]
        # an unknown status matches nothing on the command line, and is refused here
        assert (await plane.verb("list", {"status": "bogus"}))[0] == 400
        assert (await plane.verb("list", []))[1]["error"] == "job_usage"


async def test_who_may_ask() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        for verb, who in VERB_AUTH.items():
            for secret, key in ((None, "nobody"), (WEBHOOK_SECRET, "webhook"), (OPERATOR_SECRET, "operator")):
                status, answer = await plane.verb(verb, {}, secret=secret)
                refused = status == 401
                assert refused == (who not in ("nobody", key)), (verb, key, status, answer)
        status, answer = await plane.verb("status", {}, queue="no%20queue")
        assert status == 404
        del plane.env.JOB_QUEUE
        plane.app.settings(object())
        status, answer = await plane.verb("status", {})
        assert (status, answer["error"]) == (503, "job_queue_not_configured")


def test_every_refusal_has_its_wire_error() -> None:
    ours = {kind.refusal: kind.status for kind in catalogue() if issubclass(kind, JobRefusal) and kind.refusal}
    assert ours == {code: status for code, (_, status) in REFUSALS.items()}


async def test_an_unsigned_record_makes_no_queue() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        record = {"id": "d-20260101-000000-0000", "nonce": "0" * 32, "status": "failed"}
        status, answer = await plane.verb("record", record, queue="made-up", secret=None)
        assert (status, answer["message"]) == (404, "no queue made-up")
        opened = {instance.id.name for instance in plane.runtime._open}
        assert "default" in opened
        assert "made-up" not in opened
        assert (await plane.verb("record", record, secret=None))[1]["message"] == f"no job {record['id']}"


async def test_queues_are_apart() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        await plane.verb("submit", {"extension": "fx/ping"})
        assert (await plane.verb("status", {}))[1]["queued"] == 1
        assert (await plane.verb("status", {}, queue="other"))[1]["error"] == "job_no_database"
        await plane.operate("install", install_body(), queue="other")
        assert (await plane.verb("status", {}, queue="other"))[1]["queued"] == 0


async def test_the_gate_and_nodeless_jobs() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        assert (await plane.verb("agent", {"version": 0}))[1] == {"state": "absent"}
        status, answer = await plane.verb("submit", {"extension": "fx/brief", "node": "notes/a.md"})
        assert (status, answer["error"]) == (409, "job_no_agent")
        # a probe is for finding out whether an agent is there
        assert (await plane.verb("submit", {"extension": "fx/ping"}))[0] == 200


async def test_a_held_claim_wakes_on_submit() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        held = [plane.start("claim", {"waitSeconds": 30}) for _ in range(3)]
        await settle()
        assert not any(exchange.task.done() for exchange in held)
        job = (await plane.verb("submit", {"extension": "fx/brief", "node": "notes/a.md"}))[1]["job"]
        await settle()
        done = [exchange for exchange in held if exchange.task.done()]
        assert len(done) == 1  # the others sleep on
        assert (await finish(done[0]))[1]["job"]["id"] == job["id"]
        await plane.clock.advance(30_000)
        rest = [exchange for exchange in held if exchange not in done]
        assert [(await finish(exchange)) for exchange in rest] == [(200, {"job": None})] * 2


async def test_a_held_claim_looks_at_its_filter_and_reaps() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        armed = (await plane.verb("submit", {"extension": "fx/brief", "node": "notes/a.md", "ttl": 5}))[1]["job"]
        await plane.verb("claim", {})
        held = plane.start("claim", {"waitSeconds": 40, "filter": "digest"})
        await settle()
        await plane.verb("submit", {"extension": "fx/brief", "node": "notes/b.md"})
        await plane.clock.advance(5_000)
        assert (await plane.verb("status", {"id": armed["id"]}))[1]["status"] == "running"
        await plane.clock.advance(2)
        assert (await plane.verb("status", {"id": armed["id"]}))[1]["failureReason"] == "abandoned"
        assert not held.task.done()
        await plane.clock.advance(40_000)
        assert await finish(held) == (200, {"job": None})


async def test_who_hangs_up_gets_no_job() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        held = plane.start("claim", {"waitSeconds": 30})
        await settle()
        await held.hang_up()
        job = (await plane.verb("submit", {"extension": "fx/brief", "node": "notes/a.md"}))[1]["job"]
        await settle()
        assert (await plane.verb("status", {"id": job["id"]}))[1]["status"] == "queued"


async def test_who_hangs_up_between_the_wake_and_its_hearing_gets_no_job() -> None:
    waiters = Waiters()
    held = asyncio.ensure_future(waiters.sleep(SimpleNamespace(), "t", 60_000))
    await asyncio.sleep(0)
    waiters.wake()
    waiters.abandon("t")
    assert await held is False
    # the token is free again, and an abandoned name that waits for nothing leaves nothing behind
    waiters.abandon("t")
    again = asyncio.ensure_future(waiters.sleep(SimpleNamespace(), "t", 60_000))
    await asyncio.sleep(0)
    waiters.wake()
    assert await again is True


async def test_readers_of_events_learn_of_a_reap_that_a_held_claim_made() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        await plane.verb("submit", {"extension": "fx/brief", "node": "notes/a.md", "ttl": 5})
        await plane.verb("claim", {})
        held = plane.start("claim", {"waitSeconds": 40})
        stream = plane.stream(query="?from=now")
        await settle()
        await stream.chunk()
        await plane.clock.advance(5_001)
        text = b""
        while b"abandoned" not in text:
            text += await stream.chunk()
        assert not held.task.done()
        assert b"still here" not in text
        await stream.hang_up()
        await held.hang_up()


async def test_a_held_claim_does_not_wait_for_the_end_of_a_fan_out() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        targets = [target(f"many/{number:04}.md", f"Body {number}.") for number in range(200)]
        await plane.operate("targets", {"targets": targets, "replace": True})
        held = plane.start("claim", {"waitSeconds": 30})
        await settle()
        fan_out = plane.start("submit", {"extension": "fx/brief", "all": True})
        await finish(held)
        assert not fan_out.task.done()
        await finish(fan_out)


async def test_events_are_streamed_and_resumed() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        stream = plane.stream()
        await settle()
        job = (await plane.verb("submit", {"extension": "fx/brief", "node": "notes/a.md"}))[1]["job"]
        await plane.verb("claim", {})
        await plane.operate("cancel", {"id": job["id"]})
        await settle()
        text = b""
        while text.count(b"data: ") < 3:
            text += await stream.chunk()
        assert job["nonce"].encode() not in text
        events = [json.loads(line[6:]) for line in text.decode().splitlines() if line.startswith("data: ")]
        assert [event["type"] for event in events] == ["job.submitted", "job.claimed", "job.cancelled"]
        numbers = [int(line[4:]) for line in text.decode().splitlines() if line.startswith("id: ")]
        await stream.hang_up()

        resumed = plane.stream(numbers[-2])
        await settle()
        again = b""
        while b"data: " not in again:
            again += await resumed.chunk()
        assert b"job.cancelled" in again
        assert b"job.claimed" not in again
        await resumed.hang_up()

        live = plane.stream(query="?from=now")
        await settle()
        mark = await live.chunk()
        assert f"id: {numbers[-1]}\n".encode() in mark
        await plane.clock.advance(16_000)
        assert await live.chunk() == b": still here\n\n"
        await live.hang_up()


async def test_fixers_findings_and_the_chain() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        await plane.verb("submit", {"extension": "fx/probe", "node": "notes/a.md", "autoFix": True})
        job = (await plane.verb("claim", {}))[1]["job"]
        report = {**CLEAN, "findings": [{"type": "vague", "severity": "warn", "message": "m"}]}
        record = {"id": job["id"], "nonce": job["nonce"], "status": "completed", "report": json.dumps(report)}
        assert (await plane.verb("record", record, secret=None))[0] == 200
        jobs = (await plane.verb("list", {"status": "queued"}))[1]["jobs"]
        assert sorted(job["extensionId"] for job in jobs) == ["fx/mend", "fx/mend-two"]
        finding = (await plane.verb("findings", {}))[1]["findings"][0]
        assert finding["message"] == "m"
        resolved = (await plane.operate("resolve", {"id": finding["id"], "note": "by hand"}))[1]
        assert (resolved["resolution"], resolved["resolutionActor"]) == ("fixed", "human")
        assert (await plane.operate("disable", {"key": "fx/mend"}))[1]["cancelledIds"]
        # a changed body makes the judgment stale
        await plane.operate("targets", {"targets": [target("notes/a.md", "Other.\n")]})
        assert (await plane.verb("findings", {"bucket": "fixed"}))[1]["findings"][0]["stale"] is True
        assert (await plane.operate("findings-prune", {}))[1] == {"deleted": 1, "wouldDelete": 0}


async def test_a_suppressed_finder_is_lifted_with_consent_only() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        held = {"annotations": {"suppressions": [{"extension": "fx/probe", "type": "vague"}], "tags": ["t"]}}
        await plane.operate("targets", {"targets": [target("notes/a.md", "Body of a.\n", **held)]})
        answer = (await plane.verb("submit", {"extension": "fx/probe", "node": "notes/a.md"}))[1]
        assert "recorded hidden" in answer["advisories"][0]
        await plane.operate("cancel", {"all": True})
        await plane.operate("install", install_body(config={"jobs": {"allowSidecarEdits": True}}))
        answer = (await plane.verb("submit", {"extension": "fx/probe", "node": "notes/a.md"}))[1]
        assert "no longer dismissed" in answer["advisories"][0]
        again = {"extension": "fx/probe", "node": "notes/a.md", "force": True}
        assert (await plane.verb("submit", again))[0] == 409


async def test_skills_over_http() -> None:
    async with JobsPlane() as plane:
        await fill(plane, skills={"proofread": {"version": "2.0.0", "body": "Look for typos."}})
        submit = {"extension": "skill:proofread", "node": "notes/a.md"}
        job = (await plane.verb("submit", submit))[1]["job"]
        assert (job["extensionId"], job["extensionVersion"], job["extensionKind"]) == (
            "skill:proofread", "2.0.0", "action",
        )  # fmt: skip
        claimed = (await plane.verb("claim", {}))[1]["job"]
        content = claimed["content"]
        assert (
            content.index("Look for typos.") < content.index("## Report contract") < content.index("<user-content id")
        )
        await plane.operate(
            "install", install_body()
        )  # uninstalled while it runs: the prefix alone chooses its schema
        record = {"id": job["id"], "nonce": job["nonce"], "status": "completed", "report": json.dumps(CLEAN)}
        assert (await plane.verb("record", record, secret=None))[0] == 422
        assert (await plane.verb("submit", submit))[0] == 404


async def test_a_canonical_record_is_a_target() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        stub = plane.env.EXACT_REVIEW_QUEUE.getByName("global")
        node = "record:example-widgets/items/7"
        assert (await plane.verb("submit", {"extension": "fx/brief", "node": node}))[0] == 404
        await put_record(stub, b"# Item 7\n")
        job = (await plane.verb("submit", {"extension": "fx/brief", "node": node}))[1]["job"]
        claimed = (await plane.verb("claim", {}))[1]["job"]
        assert f'<user-content id="{node}">\n# Item 7\n\n</user-content>' in claimed["content"]
        flagged = {**CLEAN, "safety": {"injectionDetected": True, "contentQuality": "clean"}}
        record = {"id": job["id"], "nonce": job["nonce"], "status": "completed", "report": json.dumps(flagged)}
        assert (await plane.verb("record", record, secret=None))[0] == 200
        finding = (await plane.verb("findings", {}))[1]["findings"][0]
        assert (finding["nodeId"], finding["stale"]) == (node, False)
        queue = plane.env.JOB_QUEUE.getByName("default")
        assert (await plane.operate("resolve", {"id": finding["id"]}))[1]["stale"] is False
        assert (await plane.operate("findings-prune", {}))[1]["deleted"] == 0
        assert (await plane.verb("findings", {"node": node, "bucket": "fixed"}))[1]["findings"][0]["stale"] is False
        assert (await queue.call("reopen", {"id": 2**70}))["status"] == 400


@pytest.mark.parametrize(
    ("verb", "body", "asked"),
    [
        ("findings", {}, {7, 8}),
        ("findings", {"node": "record:example-widgets/items/7"}, {7}),
        ("findings", {"node": "notes/a.md"}, set()),
        ("findings", {"node": 5}, {7, 8}),
        ("resolve", {"id": 1}, {7}),
        ("dismiss", {"id": 2}, {8}),
        ("reopen", {"id": "1"}, set()),
        ("reopen", {"id": 2**70}, set()),
        ("findings-prune", {}, {7, 8}),
        ("submit", {"node": "record:example-widgets/items/9"}, {9}),
        ("record", {"id": "none"}, set()),
    ],
)
def test_only_the_records_that_a_verb_is_about_are_read(verb: str, body: dict[str, Any], asked: set[int]) -> None:
    storage = Storage()
    context = SimpleNamespace(storage=storage, id=SimpleNamespace(name="q"), clock=SimpleNamespace(now=lambda: 0))
    queue = JobQueue(context, SimpleNamespace())
    queue._storage.store(no_steps())
    for number in (7, 8):
        storage.sql.exec(
            "INSERT INTO state_findings (node_id, extension_id, extension_version, origin, type, severity, message,"
            " confidence, body_hash_at_generation, generated_at)"
            " VALUES (?, 'e', '1', 'extension', 't', 'info', 'm', 1, 'h', 0)",
            f"record:example-widgets/items/{number}",
        )
    assert {name.number for name in queue._record_paths(verb, body).values()} == asked
    plan = storage.sql.connection.execute(f"EXPLAIN QUERY PLAN {NEXT_EXPIRY}").fetchall()
    assert ["ix_state_jobs_expiry" in row[3] for row in plan] == [True]
    storage.close()


def no_steps() -> Steps[None]:
    yield Statement("SELECT 1")


async def put_record(stub: Any, content: bytes) -> None:
    path = "records/example-widgets/{}/7.{}"
    operations: list[dict[str, Any]] = [
        {"path": path.format(section, suffix), "expectedDigest": None}
        for section, suffix in (("items", "md"), ("closed", "md"), ("plans", "md"), ("decision-packets", "json"))
    ]
    operations[0]["contentBase64"] = base64.b64encode(content).decode()
    body = {"deliveryId": "d", "key": "example-widgets/7", "operations": operations}
    answer = await stub.write_record_tuple(json.dumps(body).encode())
    assert answer["status"] == 202, answer


async def test_others_are_served_during_a_fan_out() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        targets = [target(f"many/{number:04}.md", f"Body {number}.") for number in range(200)]
        await plane.operate("targets", {"targets": targets, "replace": True})
        fan_out = plane.start("submit", {"extension": "fx/brief", "all": True})
        seen = []
        while not fan_out.task.done():
            seen.append((await plane.verb("status", {}))[1]["queued"])
        status, answer = await finish(fan_out)
        assert (status, answer["counts"]["submitted"]) == (200, 200)
        assert any(0 < count < 200 for count in seen)
        jobs = (await plane.verb("list", {}))[1]["jobs"]
        assert len({job["id"] for job in jobs}) == 200
        # claimed in the order of the targets, though all were made in one millisecond
        assert (await plane.verb("claim", {}))[1]["job"]["id"] == answer["submitted"][0]["id"]
        both = {"extension": "fx/brief", "all": True, "node": "notes/a.md"}
        assert (await plane.verb("submit", both))[1]["error"] == "job_usage"
