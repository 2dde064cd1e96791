"""From a signed comment to a completed review over a code host that is unwell once, at every call it may be."""

from collections.abc import Iterator
from typing import Any

import pytest

from moorage.durable_objects.objects.codehost import github as adapter
from moorage.protocols.ledger.validate import parse_event_line
from tests.objects.queue_harness import plan
from tests.support.github import Answered, Fault, Served, StrictGithub
from tests.support.plane import START_MS, Plane, app_private_key
from tests.worker.test_queue_from_outside import BODY, SETTINGS, comment_event, post, unsigned, webhook

CALLS = {
    "installation": r"GET /repos/acme/widgets/installation",
    "token": r"POST /app/installations/\d+/access_tokens",
    "visibility": r"GET /repos/acme/widgets",
    "comment": r"GET /repos/acme/widgets/issues/comments/9001",
    "target": r"GET /repos/acme/widgets/issues/42",
    "workflow": r"GET /repos/openclaw/clawsweeper/actions/workflows/sweep.yml",
    "dispatch": r"POST /repos/openclaw/clawsweeper/dispatches",
    "reaction": r"POST /repos/acme/widgets/issues/comments/9001/reactions",
    "marker": r"GET /repos/acme/widgets/issues/42/comments",
    "acknowledgement": r"POST /repos/acme/widgets/issues/42/comments",
}
KINDS = ("rate limit", "bad gateway", "hang before", "hang after")
# the writes in every run of the tests, what is only read with `--acceptance`
FAULTS = [
    pytest.param(call, kind, marks=() if call in {"dispatch", "acknowledgement"} else pytest.mark.acceptance)
    for call in CALLS
    for kind in KINDS
]


class Commented(StrictGithub):
    """Keeps the comments that are written."""

    def __init__(self, now: Any) -> None:
        super().__init__(app_private_key(), now=now)
        self.comments: list[Any] = []
        issue = "https://code.host/repos/acme/widgets/issues/42"
        self.update(
            {
                "GET /repos/acme/widgets/issues/comments/9001": {
                    "json": {"body": BODY, "updated_at": "2026-11-30T14:00:00Z", "issue_url": issue}
                },
                "POST /repos/acme/widgets/issues/comments/9001/reactions": {"status": 201, "json": {}},
            }
        )

    def answer(self, method: str, target: str, body: bytes) -> Answered:
        if target.partition("?")[0] == "/repos/acme/widgets/issues/42/comments":
            self.calls.append(f"{method} {target}")
            if method == "POST":
                self.comments.append(body.decode())
                return 201, {}, {}
            return 200, [{"body": text} for text in self.comments], {}
        return super().answer(method, target, body)


@pytest.fixture
def clock() -> dict[str, Any]:
    return {"now": lambda: START_MS / 1000}


@pytest.fixture
def github(clock: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Commented]:
    github = Commented(lambda: clock["now"]())
    monkeypatch.setattr(adapter, "TIMEOUT_SECONDS", 0.25)
    yield github
    github.released.set()


async def story(github: Commented, clock: dict[str, Any]) -> list[dict[str, Any]]:
    """The whole way; the receipts' records at its end."""
    served = Served(github)
    variables = {
        **SETTINGS,
        "GITHUB_API_URL": served.url,
        "CLAWSWEEPER_APP_ID": "1",
        "CLAWSWEEPER_APP_PRIVATE_KEY": app_private_key(),
    }
    try:
        async with Plane(variables, outside=lambda: len(github.calls) + len(github.refused)) as plane:
            clock["now"] = lambda: plane.clock.now() / 1000
            admitted = await webhook(plane, "issue_comment", comment_event())
            if admitted.status == 503:
                # whether the target is public could not be learned: the code host delivers again
                assert admitted.json() == {"error": "target_visibility_unverified", "retryable": True}
                await plane.advance(60_000)
                admitted = await webhook(plane, "issue_comment", comment_event())
            assert admitted.json().get("accepted") is True, admitted.body
            payload = None
            for _ in range(60):
                await plane.advance(30_000)
                if github.dispatches and github.comments:
                    payload = github.dispatches[-1]["client_payload"]
                    break
            assert payload is not None, github.calls
            held = {
                "lease_id": payload["queue_lease_id"],
                "item_key": "acme/widgets#42",
                "lease_revision": 1,
                "run_id": "501",
                "run_attempt": 1,
            }
            held["claim_generation"] = (await unsigned(plane, "claim", held))["claim_generation"]
            receipt = await post(plane, "publication-results", plan(42, "acme/widgets#42", 1, 1))
            assert receipt.json()["state_commit_sha"] == "do-revision:1"
            assert await unsigned(plane, "complete", {**held, "outcome": "success"}) == {
                "ok": True,
                "requeued": False,
            }
            # in steps that no token outlives: requests are under way while the clock moves
            for _ in range(60):
                await plane.advance(60_000)
            listed = (await post(plane, "mutation-events/list", {})).json()
            assert listed["open"] == 0
            return [parse_event_line(row["line"]).record for row in listed["events"]]
    finally:
        github.released.set()
        served.close()


@pytest.mark.parametrize(("call", "kind"), FAULTS)
async def test_one_dispatch_and_one_acknowledgement_over_a_code_host_that_is_unwell(
    call: str, kind: Any, github: Commented, clock: dict[str, Any]
) -> None:
    github.faults.append(Fault(CALLS[call], kind))
    records = await story(github, clock)
    assert github.faults == []
    assert (len(github.dispatches), len(github.comments)) == (1, 1)
    assert github.refused == []
    outcomes = [record["attributes"]["completion_reason"] for record in records if record["parent_event_id"]]
    accepted = [reason for reason in outcomes if reason.endswith("_accepted")]
    unknown = [reason for reason in outcomes if reason.endswith("_unknown")]
    done_unseen = kind == "hang after" and call in {"dispatch", "acknowledgement"}
    assert len(accepted) == (2 if done_unseen else 3)
    if call in {"dispatch", "reaction", "acknowledgement"}:
        assert len(unknown) == (kind != "rate limit")
        assert len(outcomes) == len(accepted) + 1


async def test_what_is_known_is_read_again_for_nothing(github: Commented, clock: dict[str, Any]) -> None:
    await story(github, clock)
    assert github.not_modified > 0


async def test_a_wrong_key_reaches_nothing(github: Commented, clock: dict[str, Any]) -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa

    github._public_key = rsa.generate_private_key(public_exponent=65537, key_size=2048).public_key()
    with pytest.raises(AssertionError):
        await story(github, clock)
    assert github.calls == []
    assert github.refused
