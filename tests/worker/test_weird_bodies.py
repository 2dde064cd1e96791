"""No body makes a 5xx, or an answer that breaks off: bodies of every verb with values that nobody expects."""

import copy
import json
import random
from typing import Any

import pytest

from moorage.durable_objects.objects.jobs import JobQueue
from moorage.durable_objects.objects.sessions import SessionCommits
from moorage.durable_objects.objects.sweep_state import SweepState

from ..objects.queue_harness import decision, plan, publication
from ..objects.test_command_stages import intake
from ..support.plane import OPERATOR_SECRET, WEBHOOK_SECRET, Plane

SECRETS = (WEBHOOK_SECRET, OPERATOR_SECRET)
WEIRD: list[Any] = [
    None, True, False, 0, -1, 1, 2**53, 2**63, 2**70, -(2**70), 1.5, 1e308, "", " ", "x", "\0", "\ud800",
    "\U0001f600" * 200, "é" * 600, "9" * 400, [], {}, [[]], [None], {"a": None}, ["x"] * 300, "²", "١", "1e5", "0x10",
    "../..", "a/b#1", "%", "--",
]  # fmt: skip
LEASE = {
    "lease_id": "L", "item_key": "acme/widgets#7", "lease_revision": 1, "run_id": "501", "run_attempt": 1,
    "claim_generation": 1,
}  # fmt: skip
PULL = {
    **decision(7), "itemKind": "pull_request", "sourceEvent": "pull_request", "sourceHeadSha": "a" * 40,
    "sourceUpdatedAt": "2026-08-01T10:00:00Z",
}  # fmt: skip
INGRESS = {"route": "direct_webhook", "fingerprint": "0" * 64}
BATCH = {"batch_id": "b", "lease_owner": "o"}
HELD = {"item_key": "acme/widgets#7@publish:900:1", "revision": 1, "claim_generation": 1}
RECEIPT = {
    "producer_run_id": "5", "producer_run_attempt": 1, "artifact_name": "a", "canonical_item_key": "a/b#1",
    "lease_revision": 1, "protocol_version": 1,
}  # fmt: skip
CACHE = {"version": 1, "credential_pool": "target_app", "route": "/repos/a/b/issues/1", "page": 1}
OBJECT = {"run_id": "r", "path": "artifacts/a", "sha256": "a" * 64}
QUEUE: dict[str, Any] = {
    "enqueue": {"delivery_id": "d", "decision": PULL, "ingress": INGRESS},
    "claim": LEASE,
    "heartbeat": {**LEASE, "phase": "review", "source_head_sha": "a" * 40},
    "complete": {
        **LEASE, "outcome": "failure", "retry_at": "2026-11-30T14:00:00Z", "completion_kind": "published",
        "reason_code": "publication_applied", "error_fingerprint": "f", "requeue_latest": False,
    },
    "claimed-runs": {"runs": [{"run_id": "1", "run_attempt": 1}, "2", 3], "include_all_claimed": True},
    "reconcile": {
        "terminal_runs": [
            {"run_id": "5", "run_attempt": 1, "claimed_run_attempt": 1, "claim_generation": 1, "outcome": "success"}
        ]
    },
    "source-authority": {"delivery_id": "d", "decision": PULL, "installation_id": 5, "ingress": INGRESS},
    "publication-results": plan(7, "acme/widgets#7", 1, 1),
    "publications/list": {"limit": 1, "cursor": "x"},
    "publications/supersede": {"items": [{"item_key": "k", "revision": 1}]},
    "publications/reconcile": {"apply": True, "max_items": 5, "cursor": "x"},
    "publication-batches/claim": {"claim_id": "b", "lease_owner": "o", "max_items": 2, "dispatch_id": "x"},
    "publication-batches/fetch": BATCH,
    "publication-batches/heartbeat": {**BATCH, "items": [HELD]},
    "publication-batches/complete": {**BATCH, "items": [{**HELD, "terminal_outcome": "published"}]},
    "dead-letters/list": {"status": "open", "limit": 1, "cursor": "x"},
    "dead-letters/replay": {"ids": ["x"], "idempotency_key": "k"},
    "dead-letters/recover-fresh": {
        "ids": ["x"], "idempotency_key": "k", "inventory_fingerprint": "0:811c9dc5",
        "recovery_aliases": [{"id": "x", "aliases": ["a"]}], "recovery_targets": [{"id": "x", "target": "t"}],
    },
    "dead-letters/resolve": {"ids": ["x"], "note": "n"},
    "parked-reviews/list": {"lane": "review", "limit": 2, "cursor": "1|x"},
    "parked-reviews/recover-fresh": {"ids": ["x"], "idempotency_key": "k"},
    "parked-reviews/resolve": {"ids": ["x"], "note": "n"},
    "mutation-events/list": {"cursor": 0, "limit": 5, "before": "2026-11-01"},
    "lifecycle-audit/inventory": {"limit": 1, "cursor": "a|b|1"},
    "command-intake": intake(),
    "artifact-cache/receipt/lookup": RECEIPT,
    "artifact-cache/receipt/store": {**RECEIPT, "digest": "a" * 64, "bytes": 3},
    "github-etag-cache/store": {**CACHE, "etag": "x", "body": "[]"},
    "github-etag-cache/lookup": CACHE,
    "github-etag-cache/confirm": {**CACHE, "etag": "x", "body_digest": "a" * 64},
}  # fmt: skip
SWEEP: dict[str, Any] = {
    "lease-acquire": {"writer": "w", "ttl_minutes": 5, "fenced": False},
    "lease-release": {"writer": "w", "token": 1},
    "upsert-item": {"writer": "w", "source": "s", "id": "1", "item": {"a": 1}, "token": None},
    "upsert-items": {"writer": "w", "items": [{"source": "s", "id": "1", "item": {"b": [1]}}]},
    "cursor-advance": {"writer": "w", "source": "s", "to": "5", "past_item": "1"},
    "cursor-get": {"source": "s"},
    "run-record": {"writer": "w", "outcome": "failed", "counts": {}, "timestamp": "t"},
    "import-legacy": {"text": "{}", "source_map": {"a": "b"}},
    "import": {"document": "schema_version: 1\n", "replace": True},
    "read": {},
    "validate": {},
    "export": {},
}
SESSION: dict[str, Any] = {
    "lease-acquire": {"holder": "h", "ttl_seconds": 5},
    "lease-renew": {"holder": "h", "token": 1},
    "lease-release": {"holder": "h", "token": 1},
    "object-create": {**OBJECT, "contentBase64": "eA=="},
    "object-stat": {"key": "runs/r/commit.json"},
    "object-read": {"key": "runs/r/artifacts/a", "offset": 0, "length": 5},
    "upload-start": {**OBJECT, "size": 5},
    "upload-part": {
        "run_id": "r",
        "path": "artifacts/b",
        "upload_id": "0" * 32 + ".x",
        "number": 1,
        "contentBase64": "",
    },
    "upload-complete": {**OBJECT, "upload_id": "0" * 32 + ".x", "size": 1, "parts": [{"number": 1, "etag": "e"}]},
    "pointer-move": {"holder": "h", "token": 1, "document": "{}", "expect": None},
}
JOBS: dict[str, Any] = {
    "submit": {"extension": "a/b", "node": "n", "ttl": 1, "priority": 1, "findingIds": [1]},
    "claim": {"filter": "x"},
    "record": {"id": "d", "nonce": "n", "status": "completed", "report": "{}"},
    "list": {"status": "queued"},
    "show": {"id": "x"},
    "preview": {"id": "x"},
    "status": {"id": "x"},
    "history": {"limit": 1},
    "findings": {"since": 1, "threshold": 0.5, "bucket": "stale"},
    "events": {"after": 0, "limit": 1},
    "agent": {"version": 1},
    "cancel": {"id": "x"},
    "fail": {"all": True},
    "prune": {"dryRun": True},
    "disable": {"key": "a"},
    "resolve": {"id": 1, "note": "n"},
    "reopen": {"id": 1},
    "findings-clear": {"all": True},
    "install": {
        "extensions": [
            {
                "manifest": {"id": "a/b", "kind": "action", "version": "1.0.0", "probExpectedDurationSeconds": 1},
                "prompt": "x {{userContent}}",
                "reportSchema": "{}",
            }
        ],
        "skills": {"s": {"body": "b"}},
        "config": {"jobs": {"ttlSeconds": 5}},
    },
    "targets": {"targets": [{"path": "p", "kind": "k", "provider": "v", "body": "b"}], "remove": ["z"]},
}
VALID = {
    **{f"/internal/exact-review/{name}": body for name, body in QUEUE.items()},
    **{f"/internal/sweeps/s/{name}": body for name, body in SWEEP.items()},
    **{f"/internal/sessions/c/s/{name}": body for name, body in SESSION.items()},
    **{f"/internal/jobs/q/{name}": body for name, body in JOBS.items()},
}


class WholePlane(Plane):
    """A state plane with every object that takes bodies of this kind."""

    async def __aenter__(self) -> "WholePlane":
        self.env.JOB_QUEUE = self.runtime.namespace("w-JobQueue", JobQueue, self.env)
        self.env.SWEEP_STATE = self.runtime.namespace("w-SweepState", SweepState, self.env)
        self.env.SESSION_COMMITS = self.runtime.namespace("w-SessionCommits", SessionCommits, self.env)
        await super().__aenter__()
        return self


def spoiled(value: Any, chance: random.Random) -> Any:
    """`value` with one to three of its members, at any depth, replaced."""
    whole = copy.deepcopy(value)
    places: list[tuple[Any, Any]] = []

    def walk(inner: Any) -> None:
        for key in list(inner) if isinstance(inner, dict) else range(len(inner)) if isinstance(inner, list) else ():
            places.append((inner, key))
            walk(inner[key])

    walk(whole)
    if not places:
        return chance.choice(WEIRD)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        holder, key = chance.choice(places)
        holder[key] = chance.choice(WEIRD)
    return whole


@pytest.mark.parametrize("seed", range(3))
async def test_no_body_makes_a_server_error(seed: int) -> None:
    chance = random.Random(seed)
    async with WholePlane(
        {"EXACT_REVIEW_DISPATCH_DEBOUNCE_MS": "0", "EXACT_REVIEW_PUBLICATION_BATCHING_ENABLED": "1"}
    ) as plane:
        await plane.signed("POST", "/internal/exact-review/enqueue", enqueued("p", publication(7, 900)))
        await plane.signed("POST", "/internal/exact-review/enqueue", enqueued("r", decision(7)))
        for path, body in VALID.items():
            for secret in SECRETS:
                answer = await plane.signed("POST", path, json.dumps(body).encode(), secret=secret)
                assert answer.status < 500, (path, answer.body)
        for _ in range(1200):
            path = chance.choice(list(VALID))
            sent = json.dumps(spoiled(VALID[path], chance)).encode()
            for secret in SECRETS:
                answer = await plane.signed("POST", path, sent, secret=secret)
                assert answer.status < 500, (path, sent[:500], answer.body)
                if answer.status >= 400:
                    assert isinstance(json.loads(answer.body)["error"], str)


def enqueued(delivery: str, value: dict[str, Any]) -> bytes:
    return json.dumps({"delivery_id": delivery, "decision": value}).encode()
