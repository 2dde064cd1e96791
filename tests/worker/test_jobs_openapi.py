"""Every job route is driven, and what it answers is what the OpenAPI document says."""

import json
from typing import Any

from moorage.protocols.jobs.routes import VERB_AUTH

from ..support.jobs_plane import JobsPlane
from ..support.openapi import Contract
from ..support.plane import OPERATOR_SECRET, WEBHOOK_SECRET
from .test_jobs import CLEAN, fill, install_body, target

SECRETS = {"webhook": WEBHOOK_SECRET, "operator": OPERATOR_SECRET, "nobody": None}


class Driven:
    """Calls verbs and holds their answers against the document."""

    def __init__(self, plane: JobsPlane) -> None:
        self._plane = plane
        self._contract = Contract()
        self.answered: set[tuple[str, bool]] = set()

    async def __call__(self, verb: str, body: Any, *, refused: bool = False) -> Any:
        path = f"/internal/jobs/{{queue}}/{verb}"
        if not refused:
            self._contract.check_body(path, body)
        status, answer = await self._plane.verb(verb, body, secret=SECRETS[VERB_AUTH[verb]])
        assert (status == 200) != refused, (verb, status, answer)
        self._contract.check_answer(path, status, answer)
        self.answered.add((verb, refused))
        return answer


async def test_every_route() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        call = Driven(plane)
        await call("install", install_body(config={"jobs": {"ttlSeconds": 600}}))
        await call("targets", {"targets": [target("notes/a.md", "A"), target("notes/b.md", "B")], "replace": True})
        await call("agent", {})
        job = (await call("submit", {"extension": "fx/probe", "node": "notes/a.md"}))["job"]
        await call("submit", {"extension": "fx/probe", "node": "notes/a.md"}, refused=True)
        await plane.clock.advance(1)  # within a millisecond the order is that of the random ids
        await call("submit", {"extension": "fx/probe", "all": True})
        claimed = (await call("claim", {"filter": "probe", "waitSeconds": 0.5}))["job"]
        assert claimed["id"] == job["id"]
        finding = {"type": "vague", "severity": "warn", "message": "m"}
        report = json.dumps({**CLEAN, "findings": [finding, finding]})
        record = {"id": job["id"], "nonce": job["nonce"], "status": "completed", "report": report}
        await call("record", {**record, "nonce": "0" * 32}, refused=True)
        await call("record", record)
        for verb, body in (
            ("list", {}), ("show", {"id": job["id"]}), ("preview", {}), ("status", {}), ("status", {"id": job["id"]}),
            ("history", {}), ("extensions", {}), ("doctor", {}), ("events", {"after": 0}),
        ):  # fmt: skip
            await call(verb, body)
        for verb in ("list", "history"):
            await call(verb, {"status": 5, "limit": 0}, refused=True)
        first, second = (entry["id"] for entry in (await call("findings", {}))["findings"])
        await call("resolve", {"id": first})
        await call("dismiss", {"id": second})
        await call("reopen", {"id": first})
        await call("reopen", {"id": first}, refused=True)
        await call("findings-prune", {"dryRun": True})
        await call("findings-clear", {"all": True})
        await call("findings-clear", {}, refused=True)
        await call("disable", {"key": "fx/brief"})
        await call("enable", {"key": "fx/brief"})
        await call("submit", {"extension": "fx/brief", "node": "notes/a.md"})
        await call("fail", {"all": True})
        await call("cancel", {"id": job["id"]}, refused=True)
        other = (await call("submit", {"extension": "fx/brief", "node": "notes/b.md"}))["job"]
        await call("cancel", {"id": other["id"]})
        await call("prune", {})
        await call("claim", {})
        assert {verb for verb, refused in call.answered if not refused} == set(VERB_AUTH)


async def test_a_holder_that_slept_past_its_expiry_is_fenced_off() -> None:
    async with JobsPlane() as plane:
        await fill(plane)
        submit = {"extension": "fx/brief", "node": "notes/a.md", "ttl": 60}
        await plane.verb("submit", submit)
        sleeper = (await plane.verb("claim", {}))[1]["job"]
        await plane.clock.advance(60_001)  # the holder is stopped meanwhile
        assert (await plane.verb("claim", {}))[1]["job"] is None
        await plane.verb("submit", submit)
        second = (await plane.verb("claim", {}))[1]["job"]
        late = {"id": sleeper["id"], "nonce": sleeper["nonce"], "status": "completed", "report": json.dumps(CLEAN)}
        status, answer = await plane.verb("record", late, secret=None)
        assert (status, answer["error"]) == (409, "job_not_running")
        # its nonce opens no other job either
        assert (await plane.verb("record", {**late, "id": second["id"]}, secret=None))[0] == 403
        assert (await plane.verb("history", {}))[1]["executions"] == []
        record = {**late, "id": second["id"], "nonce": second["nonce"]}
        assert (await plane.verb("record", record, secret=None))[0] == 200
