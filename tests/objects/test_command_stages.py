"""A command on its way: nothing precedes its durable intake, and a crash anywhere costs no second effect."""

import hashlib
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from moorage.durable_objects.objects.codehost.contract import CodeHostError, Comment, Target
from moorage.protocols.intake.versions import status_marker, version_id
from moorage.protocols.queue.times import parse_time
from tests.objects.queue_harness import QueueHarness

UPDATED = "2026-08-12T16:25:26Z"
DIGEST = hashlib.sha256(b"@clawsweeper re-review").hexdigest()


def intake(comment: int = 9001, updated: str = UPDATED, digest: str = DIGEST, **decision: Any) -> dict[str, Any]:
    identity = version_id(comment, parse_time(updated) or 0, digest)
    source = {
        "sourceCommentId": comment,
        "sourceCommentUpdatedAt": updated,
        "commandBodyDigest": digest,
        "commandOrigin": "hosted_webhook",
    }
    return {
        "protocolVersion": 1,
        "commandVersionId": identity,
        "installationId": 77,
        **source,
        "decision": {
            "targetRepo": "acme/widgets",
            "targetBranch": "main",
            "itemNumber": 42,
            "itemKind": "issue",
            "sourceEvent": "issues",
            "sourceAction": "re_review",
            "supersedesInProgress": False,
            "sourceDeliveryId": identity,
            **source,
            "commandStatusMarker": status_marker(42, identity),
            "additionalPrompt": "please",
            **decision,
        },
    }


class Crash(BaseException):
    """The process dies."""


class Arrows:
    """Dies once at the given call, before it or after it had its effect."""

    def __init__(self, at: str) -> None:
        self.at = at
        self.armed = True
        self.before: Callable[[], None] = lambda: None

    def __call__(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name == self.at and self.armed:
            self.armed = False
            raise Crash


@pytest.mark.parametrize("at", ["comment", "target", "workflow_state", "dispatch", "acknowledge"])
def test_killed_at_every_arrow_one_dispatch_and_one_acknowledgement_are_counted(at: str) -> None:
    harness = QueueHarness(Arrows(at))
    harness.ok("admit_command", intake())
    # durable before anything has happened
    assert (harness.host.dispatches, harness.host.acknowledged) == ([], [])
    with pytest.raises(Crash):
        harness.advance(60_000)
    harness.crash()
    harness.storage.alarm = harness.clock_ms
    harness.advance(10 * 60_000)
    identity = intake()["commandVersionId"]
    assert harness.host.acknowledged == [identity]
    leases = [dispatch["client_payload"]["queue_claim"] for dispatch in harness.host.dispatches]
    assert [claim["lease_revision"] for claim in leases][:1] == [1]
    item = harness.queue.items.get("acme/widgets#42")
    assert item is not None
    assert item.revision == 1
    assert harness.queue.command_intakes.receipt(identity).outcome == "completed"  # type: ignore[union-attr]
    assert harness.ok("admit_command", intake())["deduped"] is True
    harness.close()


@pytest.mark.parametrize("step", ["mark_verified", "advance", "finish"])
def test_killed_between_the_stages(step: str) -> None:
    harness = QueueHarness()
    harness.ok("admit_command", intake())
    store = harness.queue.command_intakes

    def die(*arguments: Any) -> None:
        raise Crash

    setattr(store, step, die)
    with pytest.raises(Crash):
        harness.advance(1)
    harness.crash()
    harness.storage.alarm = harness.clock_ms
    harness.advance(60_000)
    assert len(harness.host.dispatches) == 1
    assert harness.host.acknowledged == [intake()["commandVersionId"]]
    harness.close()


def answering(**answers: Any) -> Callable[[str, tuple[Any, ...]], Any]:
    return lambda name, arguments: answers.get(name)


@pytest.mark.parametrize(
    ("answers", "detail"),
    [
        ({"comment": Comment(43, DIGEST, parse_time(UPDATED))}, "source_comment_item_mismatch"),
        ({"comment": Comment(42, "0" * 64, parse_time(UPDATED))}, "source_comment_changed"),
        ({"comment": Comment(42, DIGEST, 1)}, "source_comment_changed"),
        ({"target": Target("closed")}, "target_not_open"),
        ({"target": Target("missing")}, "target_not_open"),
    ],
)
def test_what_the_code_host_does_not_confirm_is_rejected(answers: dict[str, Any], detail: str) -> None:
    harness = QueueHarness(answering(**answers))
    harness.ok("admit_command", intake())
    harness.advance(60_000)
    assert harness.host.dispatches == []
    assert harness.ok("admit_command", intake())["reason"] == detail
    harness.close()


def test_a_requested_head_must_be_the_present_one() -> None:
    wanted: dict[str, Any] = {"itemKind": "pull_request", "sourceEvent": "pull_request", "sourceHeadSha": "a" * 40}
    harness = QueueHarness(answering(target=Target("open", "b" * 40)))
    harness.ok("admit_command", intake(**wanted))
    harness.advance(60_000)
    assert harness.ok("admit_command", intake(**wanted))["reason"] == "requested_head_changed"
    harness.close()


def test_an_outage_defers_with_growing_waits_and_loses_nothing() -> None:
    calls: list[int] = []

    def outage(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "comment":
            calls.append(harness.clock_ms)
            if len(calls) <= 3:
                raise CodeHostError("502", 502)

    harness = QueueHarness(outage)
    harness.ok("admit_command", intake())
    for _ in range(200):
        harness.advance(1_000)
    waits = [round((after - before) / 1000) for before, after in pairwise(calls)]
    assert waits == [15, 30, 60]
    assert len(harness.host.dispatches) == 1
    harness.close()


def test_a_newer_edit_supersedes_a_pending_version() -> None:
    harness = QueueHarness(lambda name, arguments: None)
    harness.ok("admit_command", intake())
    later = "2026-08-12T17:00:00Z"
    harness.ok("admit_command", intake(updated=later))
    harness.advance(60_000)
    assert harness.host.acknowledged == [intake(updated=later)["commandVersionId"]]
    assert harness.ok("admit_command", intake())["reason"] == "newer_comment_version"
    harness.close()


def test_an_acknowledgement_that_never_succeeds_does_not_hold_the_review_back() -> None:
    def refuse(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "acknowledge":
            raise CodeHostError("403", 403)

    harness = QueueHarness(refuse)
    harness.ok("admit_command", intake())
    for _ in range(40):
        harness.advance(16 * 60_000)
    receipt = harness.queue.command_intakes.receipt(intake()["commandVersionId"])
    assert receipt is not None
    assert (receipt.outcome, (receipt.detail or "")[:15]) == ("completed", "acknowledgement")
    assert harness.host.dispatches
    harness.close()


def test_a_defect_under_one_command_holds_no_other_back() -> None:
    def broken(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "comment" and arguments[0].source_comment_id == 9001:
            raise RuntimeError("a defect")

    harness = QueueHarness(broken)
    harness.ok("admit_command", intake())
    harness.ok("admit_command", intake(comment=9002))
    harness.advance(60_000)
    assert harness.host.acknowledged == [intake(comment=9002)["commandVersionId"]]
    record = harness.queue.command_intakes.get(intake()["commandVersionId"])
    assert record is not None
    assert (record.stage, record.attempts > 0) == ("verify_pending", True)
    harness.close()
