"""The ledger's index over HTTP: every route is driven and answers as the OpenAPI document says."""

import json
from typing import Any

import pytest

from moorage.protocols.ledger.bindings import completion_binding, shard_set_binding
from moorage.protocols.ledger.index import MAX_BODY_BYTES, VERBS
from moorage.protocols.ledger.segments import StoredShard, build_segment
from moorage.protocols.ledger.shards import ShardIdentity, build_shards, replay_digest
from moorage.worker.routes.ledger import REFUSALS

from ..protocols.ledger.support import an_event
from ..support.ledger_plane import LedgerPlane
from ..support.openapi import Contract
from ..support.plane import OPERATOR_SECRET, WEBHOOK_SECRET

HELD = {"holder": "a", "token": 1}
DIGEST = "0" * 64


class Driven:
    """Calls verbs with the secret each wants, and holds bodies and answers against the OpenAPI document."""

    def __init__(self, plane: LedgerPlane) -> None:
        self._plane = plane
        self._contract = Contract()
        self.answered: set[tuple[str, int]] = set()

    async def __call__(self, verb: str, body: Any, status: int = 200) -> Any:
        path = f"/internal/ledger/{verb}"
        if status != 400:
            self._contract.check_body(path, body)
        secret = OPERATOR_SECRET if VERBS[verb].who == "operator" else WEBHOOK_SECRET
        found, answer = await self._plane.verb(verb, body, secret=secret)
        assert found == status, (verb, answer)
        self._contract.check_answer(path, status, answer)
        self.answered.add((verb, status))
        return answer


def one_set(index: int = 1) -> tuple[Any, Any, Any]:
    """A set's claim, its shard and its completion binding."""
    event = an_event(index)
    identity = ShardIdentity.of_producer(event.producer, "2026-07-12")
    (shard,) = build_shards(identity, [event])
    reservation = shard_set_binding(identity, [shard])
    claim = {
        "path": reservation.path,
        "text": reservation.text,
        "events": [[event.event_id, event.record["semantic_sha256"], event.parent]],
    }
    return claim, shard, completion_binding(identity, reservation.text)


async def test_claims_beyond_what_a_batch_can_be_are_too_large() -> None:
    async with LedgerPlane() as plane:
        event = ["0" * 64, "1" * 64, "2" * 64]
        assert len(an_event(1).line) > len(json.dumps(event))
        claim = {"path": "p", "text": "t", "events": [event] * (MAX_BODY_BYTES // 205 + 1)}
        status, answer = await plane.verb("reserve", {**HELD, "sets": [claim]}, secret=WEBHOOK_SECRET)
        assert (status, answer["error"]) == (413, "request_body_too_large")


async def test_every_route_as_the_document_says() -> None:
    async with LedgerPlane() as plane:
        call = Driven(plane)
        claim, shard, marker = one_set()
        other, _, _ = one_set(2)
        digest = claim["path"].rpartition("/")[2].removesuffix(".json")
        for verb in ("lock-renew", "lock-release"):
            await call(verb, HELD, 409)
        assert (await call("lock-acquire", {"holder": "a"}))["token"] == 1
        assert (await call("lock-acquire", {"holder": "b"}, 423))["lock"]["holder"] == "a"
        await call("lock-renew", {**HELD, "ttl_seconds": 600})
        reserve = {**HELD, "sets": [claim]}
        assert await call("reserve", reserve) == {"sets": [{"digest": digest, "state": "reserved"}]}
        await call("reserve", {**reserve, "token": 2}, 409)
        await call("complete", {**HELD, "sets": [digest]}, 409)
        assert (await call("status", {}))["unfinished"] == [claim["path"]]
        for path, text in ((claim["path"], claim["text"]), (marker.path, marker.text), (shard.path, shard.text)):
            await plane.bucket.put(path, text)
        refused = await call("reserve", {**HELD, "sets": [other]}, 409)
        assert (refused["error"], refused["refusal"]) == ("ledger_reserved", "binding-conflict")
        await call("complete", {**HELD, "sets": [digest]})
        assert (await call("reserve", reserve))["sets"][0]["state"] == "complete"
        await call("lock-release", HELD)
        step = await call("rebuild", {})
        assert (step["generation"], step["read"]) == (2, 1)
        await call("rebuild", {"generation": 1, "cursor": step["cursor"]}, 409)
        while step["cursor"] is not None:
            step = await call("rebuild", {"generation": 2, "cursor": step["cursor"]})
        assert (await call("status", {}))["complete"] == 1
        assert (await call("status", {}))["events"] == 0
        segment, payload = build_segment([StoredShard(shard.path, shard.text, 1, replay_digest(shard.events), None)])
        await call("prune", {"manifest": segment.manifest_path}, 404)
        await plane.bucket.put(segment.manifest_path, segment.manifest_text)
        assert (await call("prune", {"manifest": segment.manifest_path}, 409))["refusal"] == "segment-damaged"
        await plane.bucket.put(segment.payload_path, payload)
        assert (await call("prune", {"manifest": segment.manifest_path}))["removed"] == [shard.path]
        for verb in VERBS:
            await call(verb, {"more": 1}, 400)
        await call("rebuild", {"generation": 2, "cursor": "elsewhere:"}, 400)
        await call("prune", {"manifest": "ledger/v1/events/x"}, 400)
        told = {(verb, kind.status) for verb, kinds in REFUSALS.items() for kind in kinds}
        assert call.answered == told | {(verb, status) for verb in VERBS for status in (200, 400)}


@pytest.mark.parametrize("verb", list(VERBS))
async def test_who_may_ask(verb: str) -> None:
    async with LedgerPlane() as plane:
        wrong = WEBHOOK_SECRET if VERBS[verb].who == "operator" else OPERATOR_SECRET
        assert (await plane.verb(verb, {}, secret=wrong))[0] == 401
        assert (await plane.signed("GET", f"/internal/ledger/{verb}")).status == 404


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"sets": []}, "length >= 1"),
        ({"token": "1"}, "token"),
        ({"holder": ""}, "holder"),
        ({"sets": [{"path": "x", "text": "{}", "events": []}]}, "sets[0].text"),
        ({"twice": True}, "this set is given twice"),
        ({"events": []}, "sets[0].events"),
        ({"events": [[DIGEST, DIGEST, None], [DIGEST, DIGEST, None]]}, "each given once"),
        ({"events": [[DIGEST, DIGEST, DIGEST]]}, "not its own parent"),
        ({"events": [["x", DIGEST, None]]}, "$.sets[0].events[0][0]"),
    ],
)
async def test_a_claim_that_is_refused_names_its_member(change: dict[str, Any], reason: str) -> None:
    async with LedgerPlane() as plane:
        await plane.verb("lock-acquire", {"holder": "a"})
        claim, _, _ = one_set()
        sets = [claim]
        if "events" in change:
            sets = [{**claim, "events": change["events"]}]
        elif "twice" in change:
            sets = [claim, {**claim, "events": [[DIGEST, DIGEST, None]]}]
        body = {**HELD, "sets": sets, **{key: change[key] for key in change if key not in ("events", "twice")}}
        status, answer = await plane.verb("reserve", body)
        assert (status, answer["error"]) == (400, "ledger_usage")
        assert reason in answer["reason"]
        assert (await plane.verb("status"))[1]["sets"] == 0


async def test_missing_bindings_and_a_broken_object() -> None:
    async with LedgerPlane() as plane:
        bucket = plane.env.STATE_SNAPSHOTS
        del plane.env.STATE_SNAPSHOTS
        assert (await plane.verb("rebuild", {}, secret=OPERATOR_SECRET))[1]["error"] == "ledger_index_not_configured"
        plane.env.STATE_SNAPSHOTS = bucket

        class Broken:
            def getByName(self, name: str) -> Any:
                raise RuntimeError("secret detail")

        plane.env.LEDGER_INDEX = Broken()
        assert await plane.verb("status") == (500, {"error": "ledger_index_unavailable"})
        del plane.env.LEDGER_INDEX
        status, answer = await plane.verb("status")
        assert (status, answer["error"]) == (503, "ledger_index_not_configured")
