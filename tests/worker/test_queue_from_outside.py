"""The review queue from outside: a webhook until the end of its review, and what else the routes say."""

import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from moorage.durable_objects.objects.codehost.local import RecordingCodeHost
from tests.objects.queue_harness import decision, plan
from tests.support.asgi import Response
from tests.support.github import GithubStandIn, Served
from tests.support.local_queue import queue_over
from tests.support.plane import OPERATOR_SECRET, WEBHOOK_SECRET, Plane, app_private_key

PATH = "/internal/exact-review"
BODY = "@clawsweeper re-review the tests"
REPOSITORY = {"full_name": "acme/widgets", "default_branch": "main"}
SETTINGS = {
    "EXACT_REVIEW_TARGET_REPOSITORIES": "acme/*",
    "EXACT_REVIEW_DISPATCH_DEBOUNCE_MS": "0",
    "EXACT_REVIEW_DISPATCH_DEBOUNCE_MAX_MS": "0",
}


async def webhook(plane: Plane, event: str, payload: Any, delivery: str = "d-1") -> Response:
    body = json.dumps(payload).encode()
    signature = "sha256=" + hmac.new(WEBHOOK_SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"x-github-event": event, "x-github-delivery": delivery, "x-hub-signature-256": signature}
    return await plane.request("POST", "/github/webhook", headers=headers, body=body)


async def post(plane: Plane, name: str, members: Any, **more: Any) -> Response:
    return await plane.signed("POST", f"{PATH}/{name}", json.dumps(members).encode(), **more)


async def unsigned(plane: Plane, name: str, members: Any) -> dict[str, Any]:
    answer = await plane.request("POST", f"{PATH}/{name}", body=json.dumps(members).encode())
    assert answer.status == 200, answer.body
    return answer.json()  # type: ignore[no-any-return]


def comment_event() -> dict[str, Any]:
    return {
        "action": "created",
        "repository": REPOSITORY,
        "installation": {"id": 77},
        "issue": {"number": 42},
        "comment": {
            "id": 9001,
            "body": BODY,
            "updated_at": "2026-11-30T14:00:00Z",
            "author_association": "MEMBER",
            "user": {"type": "User"},
        },
    }


def pull_event(head: str, updated: str) -> dict[str, Any]:
    return {
        "action": "synchronize",
        "repository": REPOSITORY,
        "installation": {"id": 77},
        "pull_request": {
            "number": 7,
            "state": "open",
            "draft": False,
            "title": "t",
            "body": "b",
            "head": {"sha": head},
            "base": {"sha": "c" * 40},
            "updated_at": updated,
        },
    }


@pytest.fixture
def host() -> RecordingCodeHost:
    return RecordingCodeHost()


@pytest.fixture
async def plane(host: RecordingCodeHost) -> AsyncIterator[Plane]:
    async with Plane(SETTINGS, queue_class=queue_over(host)) as plane:
        yield plane


async def claimed(plane: Plane, host: RecordingCodeHost, number: int) -> dict[str, Any]:
    """Enqueues, waits for the hand-out and claims it; the holder's tuple."""
    await post(plane, "enqueue", {"delivery_id": f"claimed-{number}", "decision": decision(number)})
    await plane.advance(10_000)
    payload = host.dispatches[-1]["client_payload"]
    held = {
        "lease_id": payload["queue_lease_id"],
        "item_key": payload["queue_claim"]["item_key"],
        "lease_revision": payload["queue_claim"]["lease_revision"],
        "run_id": "501",
        "run_attempt": 1,
    }
    return {**held, "claim_generation": (await unsigned(plane, "claim", held))["claim_generation"]}


async def test_a_signed_comment_until_its_review_is_published_and_completed() -> None:
    """Over a code host on loopback: outage, rate limit and restart on the way; one dispatch, one acknowledgement."""
    github = GithubStandIn()
    served = Served(github)
    github.update(
        {
            "GET /repos/acme/widgets/issues/comments/9001": {
                "json": {
                    "body": BODY,
                    "updated_at": "2026-11-30T14:00:00Z",
                    "issue_url": f"{served.url}/repos/acme/widgets/issues/42",
                }
            },
            "POST /repos/acme/widgets/issues/comments/9001/reactions": {"status": 502},
            "GET /repos/acme/widgets/issues/42/comments": {"json": []},
            "POST /repos/acme/widgets/issues/42/comments": {"status": 201, "json": {}},
            "POST /repos/openclaw/clawsweeper/dispatches": {
                "status": 403,
                "json": {"message": "secondary rate limit"},
                "headers": {"retry-after": "120"},
            },
        }
    )
    variables = {
        **SETTINGS,
        "GITHUB_API_URL": served.url,
        "CLAWSWEEPER_APP_ID": "1",
        "CLAWSWEEPER_APP_PRIVATE_KEY": app_private_key(),
    }
    try:
        async with Plane(variables, outside=lambda: len(github.calls)) as plane:
            admitted = await webhook(plane, "issue_comment", comment_event())
            assert (admitted.status, admitted.json()["accepted"]) == (202, True)
            await plane.restart()
            refused = await plane.until(github.next_dispatch, 60_000)
            assert refused is not None
            # nothing is handed out before the time that the code host named
            await plane.advance(100_000)
            assert github.next_dispatch() is None
            github.update({"POST /repos/openclaw/clawsweeper/dispatches": {"status": 204}})
            github.update(
                {
                    "POST /repos/acme/widgets/issues/comments/9001/reactions": {
                        "status": 201,
                        "json": {"content": "eyes"},
                    }
                }
            )
            await plane.restart()
            handed_out = await plane.until(github.next_dispatch, 600_000)
            assert handed_out is not None
            payload = handed_out["client_payload"]
            assert payload["review_options"]["additional_prompt"] == "the tests"
            await plane.advance(60_000)
            posted = [call for call in github.calls if call == "POST /repos/acme/widgets/issues/42/comments"]
            assert len(posted) == 1
            held = {
                "lease_id": payload["queue_lease_id"],
                "item_key": "acme/widgets#42",
                "lease_revision": 1,
                "run_id": "501",
                "run_attempt": 1,
            }
            held["claim_generation"] = (await unsigned(plane, "claim", held))["claim_generation"]
            receipt = await post(plane, "publication-results", plan(42, "acme/widgets#42", 1, 1))
            assert (receipt.status, receipt.json()["state_commit_sha"]) == (202, "do-revision:1")
            await plane.restart()
            ended = await unsigned(plane, "complete", {**held, "outcome": "success"})
            assert ended == {"ok": True, "requeued": False}
            record = await plane.signed("GET", "/internal/state/records/acme-widgets/items/42")
            assert record.json()["content"] == "# Report\n"
            again = await webhook(plane, "issue_comment", comment_event(), "d-2")
            assert again.json()["deduped"] is True
            await plane.advance(60 * 60_000)
            assert github.next_dispatch() is None
    finally:
        served.close()


async def test_pull_request_events_are_ordered_by_the_code_hosts_own_times(plane: Plane) -> None:
    first = await webhook(plane, "pull_request", pull_event("a" * 40, "2026-11-30T10:00:00Z"), "d-1")
    assert first.json()["queued"] is True
    again = await webhook(plane, "pull_request", pull_event("a" * 40, "2026-11-30T10:00:00Z"), "d-1")
    assert again.json()["deduped"] is True
    newer = await webhook(plane, "pull_request", pull_event("b" * 40, "2026-11-30T11:00:00Z"), "d-3")
    assert newer.json()["queued"] is True
    late = await webhook(plane, "pull_request", pull_event("a" * 40, "2026-11-30T10:30:00Z"), "d-2")
    assert late.json()["stale_source"] is True


async def test_a_webhook_without_a_delivery_id_is_refused_where_it_would_enqueue(plane: Plane) -> None:
    body = json.dumps({"action": "opened", "repository": REPOSITORY, "issue": {"number": 1}}).encode()
    signature = "sha256=" + hmac.new(WEBHOOK_SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"x-github-event": "issues", "x-hub-signature-256": signature}
    answer = await plane.request("POST", "/github/webhook", headers=headers, body=body)
    assert (answer.status, answer.json()) == (400, {"error": "missing_delivery_id"})


@pytest.mark.parametrize(
    "path",
    ["/records/ingest", "/internal/state/append", "/internal/state/drain", "/internal/state/ack"],
)
async def test_retired_routes_are_gone(plane: Plane, path: str) -> None:
    answer = await plane.signed("POST", path, b"{}")
    assert (answer.status, answer.json()) == (404, {"error": "not_found"})


async def test_statistics_heal_a_lost_alarm(plane: Plane) -> None:
    await post(plane, "enqueue", {"delivery_id": "d-1", "decision": decision(7)})
    await plane.advance(10)
    stats = (await plane.request("GET", "/api/exact-review-queue")).json()
    assert stats["lanes"]["review"]["dispatching"] == 1
    assert stats["handoff_health"]["status"] == "healthy"
    assert stats["next_wake_at"] is not None


async def test_the_lifecycle_inventory_is_the_operators(plane: Plane) -> None:
    answer = await post(plane, "lifecycle-audit/inventory", {"limit": 1}, secret=OPERATOR_SECRET)
    assert (answer.status, answer.json()) == (200, {"ok": True, "lifecycle": [], "next_cursor": None})
    refused = await post(plane, "lifecycle-audit/inventory", {"cursor": "a|b|x"}, secret=OPERATOR_SECRET)
    assert refused.json() == {"error": "invalid_cursor"}


def operation(section: str, content: bytes | None, extension: str = "md") -> dict[str, Any]:
    found: dict[str, Any] = {"path": f"records/acme-widgets/{section}/7.{extension}", "deleted": content is None}
    found |= {"mode": "100644", "bytes": len(content or b"")}
    if content is not None:
        found["contentBase64"] = base64.b64encode(content).decode()
    return found


def with_operations(*operations: dict[str, Any]) -> dict[str, Any]:
    wanted = plan(7, "acme/widgets#7", 1, 1)
    return {**wanted, "operations": list(operations), "totalBytes": sum(entry["bytes"] for entry in operations)}


PACKET = b'{"decision":"close"}'
REPORT = (
    f"---\ndecision_packet_sha256: {hashlib.sha256(PACKET).hexdigest()}\n"
    "decision_packet_path: records/acme-widgets/decision-packets/7.json\n---\n"
).encode()


async def test_closing_directly_tombstones_item_and_plan_and_keeps_the_named_packet(
    plane: Plane, host: RecordingCodeHost
) -> None:
    await claimed(plane, host, 7)
    wanted = with_operations(operation("closed", REPORT), operation("decision-packets", PACKET, "json"))
    assert (await post(plane, "publication-results", wanted)).json()["accepted"] is True
    found = {}
    for section in ("items", "closed", "plans", "decision-packets"):
        answer = await plane.signed("GET", f"/internal/state/records/acme-widgets/{section}/7")
        found[section] = (answer.status, answer.json().get("deleted"))
    assert found == {
        "items": (404, True),
        "closed": (200, None),
        "plans": (404, True),
        "decision-packets": (200, None),
    }


@pytest.mark.parametrize(
    "operations",
    [
        [operation("items", REPORT)],
        [operation("items", b"# none\n"), operation("decision-packets", PACKET, "json")],
        [operation("items", b"# a\n"), operation("closed", b"# b\n")],
        [operation("closed", b"# a\n"), operation("plans", b"# p\n")],
        [operation("items", None), operation("plans", b"# p\n")],
    ],
    ids=["packet missing", "packet not named", "both primaries", "plan of a closed item", "plan of a deleted item"],
)
async def test_plans_that_contradict_themselves_are_refused_whole(
    plane: Plane, host: RecordingCodeHost, operations: list[dict[str, Any]]
) -> None:
    await claimed(plane, host, 7)
    answer = await post(plane, "publication-results", with_operations(*operations))
    assert answer.json() == {"error": "invalid_direct_publication_plan", "fallback_required": True}
    listed = await plane.signed("POST", "/internal/state/records/slugs", b"{}")
    assert listed.json()["repositories"] == []
