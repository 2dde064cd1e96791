"""A command from its comment to its completed review, with the server killed at every arrow.

Over a code host on loopback that kills the server in the middle of a call. Each time one dispatch and one
acknowledgement are counted, and the record is there once.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from moorage.protocols.ledger.validate import parse_event_line
from tests.objects.queue_harness import plan
from tests.support.github import Answered, Served, StrictGithub
from tests.support.plane import SIGNATURE, app_private_key, sign
from tests.support.serving import ServedProcess

SECRET = "kill-test-secret"
BODY = "@clawsweeper re-review"
UPDATED = "2026-11-30T14:00:00Z"
KEY = "acme/widgets#42"
DEADLINE_SECONDS = 40.0

IN_CALLS = {
    "token": r"POST /app/installations/\d+/access_tokens",
    "visibility": r"GET /repos/acme/widgets",
    "comment": r"GET /repos/acme/widgets/issues/comments/9001",
    "target": r"GET /repos/acme/widgets/issues/42",
    "workflow": r"GET /repos/openclaw/clawsweeper/actions/workflows/sweep.yml",
    "dispatch": r"POST /repos/openclaw/clawsweeper/dispatches",
    "reaction": r"POST /repos/acme/widgets/issues/comments/9001/reactions",
    "acknowledgement": r"POST /repos/acme/widgets/issues/42/comments",
}
AFTER_ANSWERS = ("intake", "claim", "publication", "completion")


class KillingGithub(StrictGithub):
    """Keeps what was written; the first call that matches `at` has its effect and kills whoever made it."""

    def __init__(self, at: str | None) -> None:
        super().__init__(app_private_key())
        self.at = at
        self.kill: Callable[[], None] = lambda: None
        self.comments: list[str] = []

    def answer(self, method: str, target: str, body: bytes) -> Answered:
        path = target.partition("?")[0]
        answered = self._written(method, path, body) or super().answer(method, target, body)
        if self.at is not None and re.fullmatch(self.at, f"{method} {path}"):
            self.at = None
            self.kill()
        return answered

    def _written(self, method: str, path: str, body: bytes) -> Answered | None:
        if path == "/repos/acme/widgets/issues/comments/9001":
            issue = "http://code.host/repos/acme/widgets/issues/42"
            return 200, {"body": BODY, "updated_at": UPDATED, "issue_url": issue}, {}
        if path.endswith("/reactions"):
            return 201, {}, {}
        if path == "/repos/acme/widgets/issues/42/comments":
            if method == "POST":
                self.comments.append(json.loads(body)["body"])
                return 201, {}, {}
            return 200, [{"body": text} for text in self.comments], {}
        return None


class Story:
    """The server, restarted whenever it has been killed, and the code host."""

    def __init__(self, folder: Path, at: str) -> None:
        self.folder = folder
        self.at = at
        self.github = KillingGithub(IN_CALLS.get(at))
        self.served = Served(self.github)
        self.kills = 0
        self.environ = {
            "CLAWSWEEPER_WEBHOOK_SECRET": SECRET,
            "EXACT_REVIEW_OPERATOR_SECRET": "operator",
            "GITHUB_API_URL": self.served.url,
            "CLAWSWEEPER_APP_ID": "1",
            "CLAWSWEEPER_APP_PRIVATE_KEY": app_private_key(),
            "EXACT_REVIEW_TARGET_REPOSITORIES": "acme/widgets",
            "EXACT_REVIEW_DISPATCH_DEBOUNCE_MS": "0",
            "EXACT_REVIEW_DISPATCH_DEBOUNCE_MAX_MS": "0",
        }
        self.server = self._start()
        self.github.kill = self._kill

    def _start(self) -> ServedProcess:
        return ServedProcess(self.folder, ["--admin-port", "-1"], environ=self.environ).wait()

    def _kill(self) -> None:
        self.kills += 1
        self.server.process.kill()

    def alive(self) -> str:
        """The address of a running server."""
        if self.server.process.poll() is not None:
            self.server.kill()
            self.server = self._start()
        return self.server.url

    def ask(self, method: str, path: str, value: Any = None, signature: str | None = None) -> httpx.Response:
        """One request, repeated over kills; the server is killed after the answer where the story says so."""
        body = b"" if value is None else json.dumps(value).encode()
        headers = {signature or SIGNATURE: sign(SECRET, body)}
        if signature is not None:
            headers |= {"x-github-event": "issue_comment", "x-github-delivery": "d-1"}
        end = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                return httpx.request(method, self.alive() + path, content=body, headers=headers, timeout=10)
            except httpx.TransportError:
                # killed in the middle of it: whoever sends has to send again
                self.server.process.wait(10)
                assert time.monotonic() < end, self.server.output()

    def after(self, answer: str) -> None:
        """Kills the server when this is the answer that the story is about."""
        if self.at == answer:
            self._kill()
            self.server.process.wait(10)

    def until(self, look: Callable[[], Any]) -> Any:
        """What `look` finds, with the server restarted whenever it was killed."""
        end = time.monotonic() + DEADLINE_SECONDS
        while time.monotonic() < end:
            self.alive()
            found = look()
            if found:
                return found
            time.sleep(0.05)
        raise AssertionError(self.server.output())

    def close(self) -> None:
        if self.server.process.poll() is None:
            self.server.stop()
        else:
            self.server.kill()
        self.served.close()


# one arrow in every run of the tests, the others with `--acceptance`
ARROWS = [
    arrow if arrow == "dispatch" else pytest.param(arrow, marks=pytest.mark.acceptance)
    for arrow in (*IN_CALLS, *AFTER_ANSWERS)
]


@pytest.fixture(params=ARROWS)
def story(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Story]:
    story = Story(tmp_path, request.param)
    yield story
    story.close()


def comment_event() -> dict[str, Any]:
    return {
        "action": "created",
        "repository": {"full_name": "acme/widgets", "default_branch": "main"},
        "installation": {"id": 77},
        "issue": {"number": 42},
        "comment": {
            "id": 9001,
            "body": BODY,
            "updated_at": UPDATED,
            "author_association": "OWNER",
            "user": {"type": "User"},
        },
    }


def check_receipts(story: Story) -> None:
    """Every write stands between an attempt and one outcome, whatever was killed; what was cut off is unknown."""
    value = story.ask("POST", "/internal/exact-review/mutation-events/list", {}).json()
    assert value["open"] == 0
    events = [parse_event_line(row["line"]) for row in value["events"]]
    attempts = [event for event in events if event.parent is None]
    parents = [event.parent for event in events if event.parent is not None]
    assert sorted(parents) == sorted(attempt.event_id for attempt in attempts)
    effects: dict[str, list[str]] = {}
    for event in events:
        if event.parent is not None:
            key = event.record["attributes"].get("status_kind") or event.record["attributes"]["dispatch_kind"]
            effects.setdefault(key, []).append(event.record["attributes"]["completion_reason"].split("_", 1)[1])
    cut = {"dispatch": "clawsweeper_item", "acknowledgement": "status_comment", "reaction": "reaction"}.get(story.at)
    assert set(effects) == {"clawsweeper_item", "reaction", "status_comment"}
    for effect, outcomes in effects.items():
        if effect != cut:
            assert outcomes == ["accepted"], effect
        else:
            assert outcomes == ["outcome_unknown", *(["accepted"] if effect == "reaction" else [])]


def test_one_dispatch_and_one_acknowledgement_whenever_it_is_killed(story: Story) -> None:
    admitted = story.ask("POST", "/github/webhook", comment_event(), "x-hub-signature-256")
    assert (admitted.status_code, admitted.json()["accepted"]) == (202, True)
    story.after("intake")
    story.until(lambda: story.github.dispatches and story.github.comments)
    payload = story.github.dispatches[0]["client_payload"]
    held = {
        "lease_id": payload["queue_lease_id"],
        "item_key": KEY,
        "lease_revision": 1,
        "run_id": "501",
        "run_attempt": 1,
    }
    claimed = story.ask("POST", "/internal/exact-review/claim", held)
    assert claimed.status_code == 200, claimed.text
    story.after("claim")
    again = story.ask("POST", "/internal/exact-review/claim", held).json()
    assert again["claim_generation"] == claimed.json()["claim_generation"] == 1
    wanted = plan(42, KEY, 1, 1)
    published = story.ask("POST", "/internal/exact-review/publication-results", wanted).json()
    assert published["state_commit_sha"] == "do-revision:1"
    story.after("publication")
    repeated = story.ask("POST", "/internal/exact-review/publication-results", wanted).json()
    assert (repeated["deduped"], repeated["state_commit_sha"]) == (True, "do-revision:1")
    ending = {**held, "claim_generation": 1, "outcome": "success"}
    assert story.ask("POST", "/internal/exact-review/complete", ending).json() == {"ok": True, "requeued": False}
    story.after("completion")
    assert story.ask("POST", "/internal/exact-review/complete", ending).json() == {"error": "lease_not_claimed"}
    record = story.ask("GET", "/internal/state/records/acme-widgets/items/42").json()
    assert (record["content"], record["revision"]) == ("# Report\n", 1)
    assert story.kills == 1
    assert story.github.refused == []
    check_receipts(story)
    assert (len(story.github.dispatches), len(story.github.comments)) == (1, 1)
