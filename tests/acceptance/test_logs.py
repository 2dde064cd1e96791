"""What an operator sees of a served state plane: one JSON line a request, counters, and never a secret or a body."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from moorage.clients.blobs import Blobs
from moorage.clients.cursors import Cursors
from moorage.clients.errors import ClientError
from moorage.clients.http import Http
from tests.support.serving import ServedProcess, served

WEBHOOK = "hook-0123456789abcdef-secret"
OPERATOR = "operator-0123456789abcdef-secret"
PREVIOUS = "previous-0123456789abcdef-secret"
MARK = "THE-BODY-OF-A-REQUEST"
ENVIRON = {
    "CLAWSWEEPER_WEBHOOK_SECRET": WEBHOOK,
    "CLAWSWEEPER_WEBHOOK_SECRET_PREVIOUS": PREVIOUS,
    "EXACT_REVIEW_OPERATOR_SECRET": OPERATOR,
}


@pytest.fixture(scope="module", params=["serve", "dev"])
def used(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """The command, what its process wrote, and its counters, after requests of every kind."""
    command = request.param
    folder: Path = tmp_path_factory.mktemp("logs")
    with served(
        folder, "--log-level", "debug", "--admin-port", "0", "--access-log", command=command, environ=ENVIRON
    ) as process:
        _use(process)
        admin = re.search(r"metrics and readiness on (\S+)", process.output())
        assert admin is not None
        counters = httpx.get(f"{admin[1]}/metrics", timeout=10).text
        assert httpx.get(f"{admin[1]}/ready", timeout=10).text == "ready\n"
    return command, Path(process.log.name).read_text(encoding="utf-8"), counters


def _use(process: ServedProcess) -> None:
    for version in (1, 2):
        for secret in (WEBHOOK, PREVIOUS, "another-secret"):
            with Http(process.url, secret, signature_version=version) as http:
                for work in (
                    lambda http=http: Cursors(http).read("audit"),
                    lambda http=http: Cursors(http).write("audit", 7, expected_revision=99),
                    lambda http=http, v=version: Blobs(http).put(f"assets/{MARK}-{v}.txt", MARK.encode()),
                ):
                    error = _tried(work)
                    assert secret not in f"{error!r} {error}"
    with httpx.Client(base_url=process.url, timeout=10) as client:
        headers = {"x-clawsweeper-exact-review-signature": f"sha256={MARK}", "authorization": f"Bearer {MARK}"}
        client.put("/internal/state/cursors/audit", content=f'{{"next_cursor": "{MARK}"', headers=headers)
        client.post("/github/webhook", json={"text": MARK}, headers=headers)
        client.get(f"/nowhere?token={MARK}", headers=headers)
        client.get("/api/health")
        client.options("/internal/state/cursors/audit")


def _tried(work: Callable[[], Any]) -> ClientError | None:
    try:
        work()
    except ClientError as error:
        return error
    return None


def test_no_secret_and_no_body_is_logged(used: tuple[str, str, str]) -> None:
    _, said, counters = used
    for text in (said, counters):
        for secret in (WEBHOOK, PREVIOUS, OPERATOR, "another-secret", MARK, "sha256="):
            assert secret not in text
        assert "Traceback" not in text


def test_every_request_has_its_line(used: tuple[str, str, str]) -> None:
    command, said, _ = used
    if command == "dev":
        assert re.search(r"\d\d:\d\d:\d\d PUT /internal/state/cursors/\{mode\} 409", said)
        return
    lines: list[dict[str, Any]] = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    requests = [line for line in lines if line["logger"] == "moorage.worker.access"]
    assert all({"method", "route", "status", "duration_ms", "key_id"} <= line.keys() for line in requests)
    seen = {(line["route"], line["status"], line["key_id"], line["signature_version"]) for line in requests}
    for version in (1, 2):
        assert ("/internal/state/cursors/{mode}", 200, "webhook", version) in seen
        assert ("/internal/state/cursors/{mode}", 409, "webhook", version) in seen
    assert ("/internal/state/cursors/{mode}", 401, None, None) in seen
    assert any(route == "(none)" and status == 404 for route, status, _, _ in seen)
    assert ("/api/health", 200, None, None) in seen


def test_counters_follow(used: tuple[str, str, str]) -> None:
    command, _, counters = used
    assert re.search(r'moorage_requests_total\{status="401"\} [1-9]', counters)
    found = re.search(
        r'state_plane_requests_total\{method="PUT",route="/internal/state/cursors/\{mode\}",status="409"\} (\S+)',
        counters,
    )
    assert found is not None
    # `dev` takes required secrets alone from the process's environment: there the previous secret is not known
    assert float(found[1]) == (4 if command == "serve" else 2)
    assert re.search(r'moorage_objects_live\{namespace="state-plane-ExactReviewQueue"\} 1', counters)


def test_the_start_says_what_an_operator_should_know(used: tuple[str, str, str]) -> None:
    _, said, _ = used
    before = said.index("is served on")
    assert "signature version 1 is accepted" in said[:before]
    assert "SQLite" in said
    assert "bucket STATE_SNAPSHOTS (clawsweeper-state-snapshots): local" in said
