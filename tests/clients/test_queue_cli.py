"""`moorage queue`: dead letters, parked items and mutation receipts, against a state plane in this process."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moorage.clients.ledger.recorder import Recorder
from moorage.clients.ledger.taking import take
from moorage.clients.review_queue import Mutations
from moorage.durable_objects.objects.codehost.local import RecordingCodeHost
from moorage.protocols.ledger.refusals import LedgerRefusal
from tests.objects.queue_harness import decision, publication
from tests.support.command_line import OPERATOR, Served, served_plane
from tests.support.local_queue import queue_over
from tests.support.plane import Plane

DAY_MS = 24 * 60 * 60_000


@pytest.fixture
def host() -> RecordingCodeHost:
    return RecordingCodeHost()


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch, host: RecordingCodeHost) -> Iterator[Served]:
    variables = {
        "EXACT_REVIEW_DISPATCH_DEBOUNCE_MS": "0",
        "EXACT_REVIEW_DISPATCH_DEBOUNCE_MAX_MS": "0",
        "CLAWSWEEPER_REPO": "acme/ops",
    }
    with served_plane(monkeypatch, Plane(variables, queue_class=queue_over(host))) as served:
        yield served


def post(served: Served, name: str, members: Any) -> Any:
    answer = served.wait(served.plane.signed("POST", f"/internal/exact-review/{name}", json.dumps(members).encode()))
    assert answer.status < 300, answer.body
    return answer.json()


def ran(served: Served, *arguments: str) -> str:
    result = served.run("queue", *arguments, env=OPERATOR)
    assert result.exit_code == 0, result.output
    return result.output


def fail(served: Served, host: RecordingCodeHost, item: dict[str, Any], times: int, **more: Any) -> None:
    """Enqueues an item and lets it fail so many times."""
    post(served, "enqueue", {"delivery_id": f"d-{item['itemNumber']}", "decision": item})
    for _ in range(times):
        handed_out = len(host.dispatches)
        while len(host.dispatches) == handed_out:
            served.wait(served.plane.advance(10_000))
        payload = host.dispatches[-1]["client_payload"]
        held = {
            "lease_id": payload["queue_lease_id"],
            **{name: payload["queue_claim"][name] for name in ("item_key", "lease_revision")},
            "run_id": "501",
            "run_attempt": 1,
        }
        held["claim_generation"] = post(served, "claim", held)["claim_generation"]
        post(served, "complete", {**held, "outcome": "failure", **more})


def test_a_parked_item_is_released_by_the_operator(served: Served, host: RecordingCodeHost) -> None:
    fail(served, host, decision(7), 8)
    assert "acme/widgets#7  revision 1  review_retry_exhausted  by itself" in ran(served, "parked", "list")
    told = ran(served, "parked", "recover", "acme/widgets#7", "--key", "k-1")
    assert told == "1 recovered, 0 deduped, 0 skipped (key k-1)\n"
    again = json.loads(ran(served, "parked", "recover", "acme/widgets#7", "--key", "k-1", "--json"))
    assert again == {"recovered": 0, "deduped": 1, "skipped": 0, "idempotency_key": "k-1"}
    handed_out = len(host.dispatches)
    served.wait(served.plane.advance(10_000))
    assert len(host.dispatches) == handed_out + 1
    assert ran(served, "parked", "resolve", "acme/widgets#7", "--note", "n") == "0 resolved, 1 skipped\n"


def test_a_parked_item_is_resolved(served: Served, host: RecordingCodeHost) -> None:
    fail(served, host, decision(7), 8)
    row = json.loads(ran(served, "parked", "list", "--json"))
    assert ran(served, "parked", "resolve", row["item_key"], "--note", "by hand") == "1 resolved, 0 skipped\n"
    assert ran(served, "parked", "list") == ""


def test_dead_letters_are_listed_replayed_and_resolved(served: Served, host: RecordingCodeHost) -> None:
    failed = {
        "completion_kind": "permanent_failure",
        "reason_code": "invalid_artifact",
    }
    fail(served, host, publication(7, 501), 3, **failed)
    row = json.loads(ran(served, "dead-letters", "list", "--json"))
    letter = row["dead_letter_id"]
    assert row["reason_code"] in ran(served, "dead-letters", "list")
    assert ran(served, "dead-letters", "resolve", letter, "--note", "n") == "1 resolved, 0 skipped, 0 unparked\n"
    assert ran(served, "dead-letters", "list") == ""
    assert letter in ran(served, "dead-letters", "list", "--status", "resolved")
    assert ran(served, "dead-letters", "replay", letter, "--key", "k") == (
        "0 replayed, 0 deduped, 1 skipped (key k)\n"
    )
    assert "1 skipped" in ran(served, "dead-letters", "recover", letter)


def test_without_the_operators_secret_it_says_what_to_set(served: Served) -> None:
    result = served.run("queue", "parked", "list")
    assert result.exit_code == 1
    assert "EXACT_REVIEW_OPERATOR_SECRET" in result.output


def test_receipts_are_taken_over_a_day_at_a_time_and_become_shards(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(served, "enqueue", {"delivery_id": "d-7", "decision": decision(7)})
    served.wait(served.plane.advance(1_000))
    root = tmp_path / "spool"
    root.mkdir()
    assert json.loads(ran(served, "mutations", str(root), "--json")) == {"taken": 0}
    lines = ran(served, "mutations").splitlines()
    assert [json.loads(line)["attributes"]["completion_reason"] for line in lines] == [
        "dispatch_attempted",
        "dispatch_accepted",
    ]
    served.wait(served.plane.advance(DAY_MS))
    for _ in range(2):
        assert json.loads(ran(served, "mutations", str(root), "--json"))["taken"] >= 2
    stored = [path.read_text().strip() for path in root.rglob("*.json") if "acme" in str(path)]
    assert set(lines) <= set(stored)
    output = tmp_path / "tree"
    output.mkdir()
    environ = {
        "CLAWSWEEPER_ACTION_LEDGER_FORCE": "1",
        "GITHUB_REPOSITORY": "acme/ops",
    }
    made = served.run("ledger", "finalize", "--root", str(root), "--output", str(output), env=environ)
    assert made.exit_code == 0, made.output
    verified = served.run("ledger", "verify", str(output))
    assert verified.exit_code == 0, verified.output


def test_a_day_that_is_not_over_is_not_taken(served: Served, tmp_path: Path) -> None:
    result = served.run("queue", "mutations", str(tmp_path), "--before", "2099-01-01", env=OPERATOR)
    assert result.exit_code == 1
    assert "is not over" in result.output


class Answers:
    """A client that answers from a list."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)

    def json(self, method: str, path: str, value: Any = None) -> dict[str, Any]:
        return self.answers.pop(0)


@pytest.mark.parametrize(
    ("page", "code"),
    [
        ({"events": [], "open": 1, "next_cursor": None}, "day-open"),
        ({"events": [{"seq": 1, "partition_date": "2026-11-30"}], "open": 0}, "not-object"),
        ({"events": [{"seq": 1, "partition_date": "2026-11-30", "line": "{}"}], "open": 0}, "schema"),
    ],
)
def test_what_cannot_be_taken_is_refused(page: dict[str, Any], code: str, tmp_path: Path) -> None:
    mutations = Mutations(Answers({"today": "2026-12-01", "events": []}, page))  # type: ignore[arg-type]
    with pytest.raises(LedgerRefusal) as refused:
        list(take(mutations, Recorder(str(tmp_path))))
    assert refused.value.code == code
