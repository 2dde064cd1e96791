"""The GitHub adapter against a stand-in that checks the App's token and answers as GitHub does when it is unwell."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from moorage.durable_objects.objects.codehost.contract import CodeHostError
from moorage.durable_objects.objects.codehost.github import GitHubCodeHost
from moorage.durable_objects.objects.codehost.local import CommandCodeHost, WebhookCodeHost
from moorage.protocols.intake.versions import parse_intake
from moorage.protocols.queue.decisions import parse_decision
from moorage.protocols.queue.dispatch import classify
from tests.objects.queue_harness import decision
from tests.objects.test_command_stages import DIGEST, intake
from tests.support.plane import app_private_key

NOW = 1_796_048_000_000
Answer = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


def public_key() -> Any:
    return serialization.load_pem_private_key(app_private_key().encode(), None).public_key()


class StandIn:
    """Routes by method and path; tokens are checked before anything else."""

    def __init__(self, **routes: Answer) -> None:
        self.routes: dict[str, Answer] = {}
        self.calls: list[httpx.Request] = []
        self.now = NOW
        self.tokens = 0

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.calls.append(request)
        path = request.url.path
        bearer = request.headers["authorization"].removeprefix("Bearer ")
        if path.endswith("/installation") or path.startswith("/app/"):
            claims = jwt.decode(
                bearer, public_key(), algorithms=["RS256"], options={"verify_exp": False, "verify_iat": False}
            )
            seconds = self.now // 1000
            assert claims["iss"] == "123"
            assert claims["iat"] < seconds < claims["exp"] <= seconds + 600
            if path.endswith("/installation"):
                return httpx.Response(200, json={"id": 77})
            self.tokens += 1
            return httpx.Response(201, json={"token": f"t-{self.tokens}", "expires_at": "2026-11-30T15:13:20Z"})
        assert bearer in {f"t-{number + 1}" for number in range(self.tokens)}
        found = self.routes.get(f"{request.method} {path}", httpx.Response(404, json={"message": "Not Found"}))
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, httpx.Response) else found(request)

    def host(self) -> GitHubCodeHost:
        return GitHubCodeHost(
            "123",
            app_private_key().replace("\n", "\\n"),
            "acme/ops",
            lambda: self.now,
            "https://github.test/api/v3/".replace("/api/v3", ""),
            httpx.MockTransport(self.answer),
        )


ISSUE = parse_decision(decision(7))


async def test_the_key_is_read_from_its_text_once(monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm, read = jwt.get_algorithm_by_name("RS256"), []
    prepare = type(algorithm).prepare_key

    def counted(self: Any, key: Any) -> Any:
        read.append(isinstance(key, str))
        return prepare(self, key)

    monkeypatch.setattr(type(algorithm), "prepare_key", counted)
    github = StandIn()
    host = github.host()
    for _ in range(3):
        await host.target(ISSUE)
        github.now += 3_600_000 * 2
    assert github.tokens == 3
    assert sum(read) == 1


async def test_a_token_that_does_not_come_has_written_nothing() -> None:
    github = StandIn()

    def silent(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("silence")

    github.answer = silent  # type: ignore[method-assign]
    with pytest.raises(CodeHostError) as refused:
        await github.host().dispatch("clawsweeper_item", {})
    assert refused.value.perhaps_done is False


@pytest.mark.parametrize("key", ["no key", "", "-----BEGIN PUBLIC KEY-----"])
async def test_a_key_that_is_none_is_named(key: str) -> None:
    host = GitHubCodeHost("123", key, "acme/ops", lambda: NOW, transport=httpx.MockTransport(StandIn().answer))
    with pytest.raises(CodeHostError, match="CLAWSWEEPER_APP_PRIVATE_KEY") as refused:
        await host.dispatch("clawsweeper_item", {})
    assert refused.value.status == 401


async def test_one_token_serves_until_a_minute_before_its_end() -> None:
    github = StandIn()
    github.routes["GET /repos/acme/widgets/issues/7"] = lambda request: httpx.Response(200, json={"state": "open"})
    host = github.host()
    for _ in range(3):
        assert (await host.target(ISSUE)).state == "open"
    assert github.tokens == 1
    github.now = 1_796_051_600_000 - 30_000
    await host.target(ISSUE)
    assert github.tokens == 2


async def test_a_revoked_token_is_asked_for_anew() -> None:
    github = StandIn()
    github.routes["GET /repos/acme/widgets/issues/7"] = httpx.Response(401, json={"message": "Bad credentials"})
    host = github.host()
    with pytest.raises(CodeHostError) as refused:
        await host.target(ISSUE)
    assert refused.value.status == 401
    github.routes["GET /repos/acme/widgets/issues/7"] = httpx.Response(200, json={"state": "open"})
    assert (await host.target(ISSUE)).state == "open"
    assert github.tokens == 2


@pytest.mark.parametrize("answer", [{}, {"id": "77"}, {"id": None}, [], "77", {"id": 77, "token": 5}])
async def test_an_answer_without_a_token_is_an_outage(answer: Any) -> None:
    github = StandIn()
    github.answer = lambda request: httpx.Response(200, json=answer)  # type: ignore[method-assign]
    with pytest.raises(CodeHostError) as refused:
        await github.host().dispatch("clawsweeper_item", {})
    assert refused.value.perhaps_done is False
    assert classify(refused.value.status, str(refused.value), None, None) == "github_outage"


@pytest.mark.parametrize("answer", [{}, "page", None, 5])
async def test_comments_that_are_no_list_are_refused(answer: Any) -> None:
    github = StandIn()
    github.routes["GET /repos/acme/widgets/issues/42/comments"] = httpx.Response(200, json=answer)
    with pytest.raises(CodeHostError):
        await github.host().is_acknowledged(parse_intake(intake()), "status_comment")


@pytest.mark.parametrize("after", ["\u00b2", "9" * 400, "-1", "1.5", "soon"])
async def test_a_retry_time_that_is_none_is_left_out(after: str) -> None:
    github = StandIn()
    headers = [(b"retry-after", after.encode("latin-1"))]
    github.routes["GET /repos/acme/widgets/issues/7"] = httpx.Response(503, headers=headers)
    with pytest.raises(CodeHostError) as refused:
        await github.host().target(ISSUE)
    assert refused.value.retry_at is None


async def test_reads_are_conditional() -> None:
    github = StandIn()

    def issue(request: httpx.Request) -> httpx.Response:
        if request.headers.get("if-none-match") == '"v1"':
            return httpx.Response(304)
        return httpx.Response(200, json={"state": "closed"}, headers={"etag": '"v1"'})

    github.routes["GET /repos/acme/widgets/issues/7"] = issue
    host = github.host()
    assert [(await host.target(ISSUE)).state for _ in range(2)] == ["closed", "closed"]
    reads = [call for call in github.calls if call.url.path.endswith("/issues/7")]
    assert [call.headers.get("if-none-match") for call in reads] == [None, '"v1"']


@pytest.mark.parametrize("status", [404, 410])
async def test_a_target_that_is_gone_is_missing(status: int) -> None:
    github = StandIn()
    github.routes["GET /repos/acme/widgets/issues/7"] = httpx.Response(status, json={})
    assert (await github.host().target(ISSUE)).state == "missing"


@pytest.mark.parametrize(
    ("answer", "status", "retry_at", "perhaps_done"),
    [
        (httpx.Response(403, json={"message": "slow down"}, headers={"retry-after": "30"}), 403, NOW + 30_000, False),
        (
            httpx.Response(403, json={}, headers={"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1796048060"}),
            403,
            1_796_048_060_000,
            False,
        ),
        (httpx.Response(502, text="<html>"), 502, None, False),
        (httpx.ConnectError("refused"), None, None, False),
        (httpx.ReadTimeout("silence"), None, None, True),
        (httpx.RemoteProtocolError("hung up"), None, None, True),
    ],
)
async def test_refusals_keep_what_a_retry_needs(
    answer: Answer, status: int | None, retry_at: int | None, perhaps_done: bool
) -> None:
    github = StandIn()
    github.routes["POST /repos/acme/ops/dispatches"] = answer
    with pytest.raises(CodeHostError) as refused:
        await github.host().dispatch("clawsweeper_item", {})
    error = refused.value
    assert (error.status, error.retry_at, error.perhaps_done) == (status, retry_at, perhaps_done)
    assert "t-1" not in str(error)


async def test_an_acknowledgement_is_made_once() -> None:
    github = StandIn()
    comments: list[str] = []
    version = parse_intake(intake())

    def post(request: httpx.Request) -> httpx.Response:
        comments.append(json.loads(request.content)["body"])
        return httpx.Response(201, json={})

    path = "/repos/acme/widgets/issues/42/comments"
    github.routes[f"GET {path}"] = lambda request: httpx.Response(200, json=[{"body": text} for text in comments])
    github.routes[f"POST {path}"] = post
    github.routes["POST /repos/acme/widgets/issues/comments/9001/reactions"] = httpx.Response(201, json={})
    host = github.host()
    for _ in range(2):
        for part in host.acknowledgements:
            if not await host.is_acknowledged(version, part):
                await host.acknowledge(version, part)
    assert len(comments) == 1
    assert str(version.decision.command_status_marker) in comments[0]


async def test_comment_run_workflow_and_visibility() -> None:
    github = StandIn()
    body = "@clawsweeper re-review"
    assert hashlib.sha256(body.encode()).hexdigest() == DIGEST
    github.routes |= {
        "GET /repos/acme/widgets/issues/comments/9001": httpx.Response(
            200,
            json={
                "body": body,
                "updated_at": "2026-08-12T16:25:26Z",
                "issue_url": "https://github.test/repos/acme/widgets/issues/42",
            },
        ),
        "GET /repos/acme/ops/actions/runs/5/attempts/2": httpx.Response(
            200, json={"run_attempt": 2, "status": "completed", "conclusion": "failure"}
        ),
        "GET /repos/acme/ops/actions/workflows/sweep.yml": httpx.Response(200, json={"state": "disabled_manually"}),
        "GET /repos/acme/widgets": httpx.Response(200, json={"private": False, "visibility": "public"}),
        "GET /repos/acme/secret": httpx.Response(200, json={"private": True}),
    }
    host = github.host()
    version = parse_intake(intake())
    comment = await host.comment(version)
    assert comment is not None
    assert (comment.item_number, comment.body_digest, comment.updated_at) == (42, DIGEST, version.updated_at)
    run = await host.run("5", 2)
    assert run is not None
    assert (run.attempt, run.completed, run.conclusion) == (2, True, "failure")
    assert await host.run("6", None) is None
    assert await host.workflow_state("sweep.yml") == "disabled_manually"
    assert [await host.visibility(f"acme/{name}") for name in ("widgets", "secret", "gone")] == [
        "public",
        "private",
        "private",
    ]


async def test_a_key_that_is_none_is_said_so_without_showing_it() -> None:
    host = GitHubCodeHost("123", "-----BEGIN NONSENSE-----", "acme/ops", lambda: NOW)
    with pytest.raises(CodeHostError, match="CLAWSWEEPER_APP_PRIVATE_KEY") as refused:
        await host.workflow_state("x")
    assert "NONSENSE" not in str(refused.value) + repr(host)


async def test_a_webhook_dispatch_is_signed() -> None:
    seen: list[httpx.Request] = []

    def take(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(202 if len(seen) == 1 else 503)

    host = WebhookCodeHost("https://worker.test/hook", "secret", httpx.MockTransport(take))
    await host.dispatch("clawsweeper_item", {"a": 1})
    import hmac

    expected = "sha256=" + hmac.new(b"secret", seen[0].content, hashlib.sha256).hexdigest()
    assert seen[0].headers["x-hub-signature-256"] == expected
    with pytest.raises(CodeHostError) as refused:
        await host.dispatch("clawsweeper_item", {})
    assert refused.value.status == 503


async def test_a_command_gets_the_work_on_its_standard_input(tmp_path: Any) -> None:
    target = tmp_path / "got.json"
    host = CommandCodeHost(f"tee {target}")
    await host.dispatch("clawsweeper_item", {"a": 1})
    assert json.loads(target.read_text()) == {"event_type": "clawsweeper_item", "client_payload": {"a": 1}}
    with pytest.raises(CodeHostError, match="exit status 1"):
        await CommandCodeHost("false").dispatch("x", {})
    with pytest.raises(CodeHostError, match="dispatch command"):
        await CommandCodeHost(str(tmp_path / "missing")).dispatch("x", {})
    with pytest.raises(ValueError, match="must name a program"):
        CommandCodeHost(" ")


async def test_half_a_character_in_a_comment_is_digested_as_the_webhook_does() -> None:
    github = StandIn()
    text = b'{"body": "@x re-review \\ud800", "updated_at": "2026-08-12T16:25:26Z", "issue_url": "/issues/42"}'
    github.routes["GET /repos/acme/widgets/issues/comments/9001"] = httpx.Response(200, content=text)
    found = await github.host().comment(parse_intake(intake()))
    assert found is not None
    assert found.body_digest == hashlib.sha256("@x re-review \ufffd".encode()).hexdigest()
