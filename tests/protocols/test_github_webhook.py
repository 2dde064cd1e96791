"""What a webhook delivery asks for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.github_webhook import (
    Command,
    Ignored,
    Review,
    WebhookPolicy,
    command_of,
    interpret,
    read_policy,
)
from moorage.protocols.intake.versions import parse_intake
from moorage.protocols.queue.admission import parse_ingress
from moorage.protocols.queue.decisions import parse_decision

POLICY = read_policy({"EXACT_REVIEW_TARGET_REPOSITORIES": "Acme/Widgets, other/*"}.get)
REPOSITORY = {"full_name": "acme/widgets", "default_branch": "main"}


def pull(action: str = "synchronize", **more: Any) -> dict[str, Any]:
    subject = {
        "number": 7,
        "state": "open",
        "draft": False,
        "title": "t",
        "body": None,
        "head": {"sha": "a" * 40},
        "base": {"sha": "b" * 40},
        "updated_at": "2026-08-12T16:25:26Z",
    }
    return {
        "action": action,
        "repository": REPOSITORY,
        "installation": {"id": 77},
        "pull_request": {**subject, **more},
    }


def comment(body: str = "@clawsweeper re-review", **more: Any) -> dict[str, Any]:
    said = {
        "id": 9001,
        "body": body,
        "updated_at": "2026-08-12T16:25:26Z",
        "author_association": "MEMBER",
        "user": {"type": "User"},
    }
    return {
        "action": "created",
        "repository": REPOSITORY,
        "installation": {"id": 77},
        "issue": {"number": 42},
        "comment": {**said, **more},
    }


def test_no_repository_takes_part_by_default() -> None:
    assert interpret("pull_request", pull(), read_policy(lambda name: None)) == Ignored("repository not eligible")


@pytest.mark.parametrize(
    ("name", "part"), [("acme/widgets", True), ("ACME/Widgets", True), ("other/x", True), ("acme/x", False)]
)
def test_who_takes_part(name: str, part: bool) -> None:
    assert POLICY.takes_part(name) is part


def test_a_pull_request_event_is_a_verified_review_of_its_head() -> None:
    asked = interpret("pull_request", pull(), POLICY)
    assert isinstance(asked, Review)
    decision = parse_decision(asked.decision)
    assert (decision.source_head_sha, decision.source_head_verified) == ("a" * 40, True)
    assert (decision.supersedes_in_progress, asked.installation_id) == (True, 77)
    assert parse_ingress(asked.ingress, decision) is not None
    other = interpret("pull_request", pull(head={"sha": "c" * 40}), POLICY)
    assert isinstance(other, Review)
    assert other.ingress != asked.ingress


@pytest.mark.parametrize(
    ("event", "payload", "reason"),
    [
        ("star", {"repository": REPOSITORY}, "event not supported"),
        ("pull_request", pull("labeled"), "action not supported"),
        ("pull_request", pull(state="closed"), "item not open"),
        ("issues", {**pull("opened"), "issue": {"number": 1, "pull_request": {}}}, "event not supported"),
        ("issue_comment", {**comment(), "action": "deleted"}, "action not supported"),
        ("issue_comment", comment("thanks!"), "no command"),
        ("issue_comment", comment("> @clawsweeper re-review"), "no command"),
        ("issue_comment", comment("```\n@clawsweeper re-review\n```"), "no command"),
        ("issue_comment", comment(author_association="NONE"), "author may not command"),
        ("issue_comment", comment(user={"type": "Bot"}), "author may not command"),
        ("issue_comment", {**comment(), "installation": None}, "comment not identified"),
    ],
)
def test_everything_else_is_acknowledged_and_ignored(event: str, payload: dict[str, Any], reason: str) -> None:
    assert interpret(event, payload, POLICY) == Ignored(reason)


def test_a_command_comment_is_an_intake_that_the_queue_takes() -> None:
    asked = interpret("issue_comment", comment("Hello\n@ClawSweeper  re-review the tests\nand the docs"), POLICY)
    assert isinstance(asked, Command)
    intake = parse_intake(asked.intake)
    assert intake.decision.additional_prompt == "the tests\nand the docs"
    assert intake.command_origin == "hosted_webhook"
    pulls = comment()
    pulls["issue"]["pull_request"] = {}
    asked = interpret("issue_comment", pulls, POLICY)
    assert isinstance(asked, Command)
    assert parse_intake(asked.intake).decision.item_kind == "pull_request"


def test_a_long_command_is_cut_to_what_the_intake_takes() -> None:
    asked = interpret("issue_comment", comment("@clawsweeper re-review " + "\U0001f980" * 6000), POLICY)
    assert isinstance(asked, Command)
    assert parse_intake(asked.intake)


def test_the_grammar_is_a_setting() -> None:
    policy = WebhookPolicy(frozenset({"acme/widgets"}), "/review again", frozenset({"OWNER"}))
    assert command_of("/review again now", policy.command) == "now"
    assert command_of("/reviewagain", policy.command) is None
    assert interpret("issue_comment", comment("/review again"), policy) == Ignored("author may not command")


@pytest.mark.parametrize("blank", [None, "", "  ", "\t\n"])
def test_a_blank_command_makes_none_of_every_comment(blank: str | None) -> None:
    policy = read_policy({"EXACT_REVIEW_TARGET_REPOSITORIES": "acme/widgets", "EXACT_REVIEW_COMMAND": blank}.get)
    assert policy.command == "@clawsweeper re-review"
    assert interpret("issue_comment", comment("thanks"), policy) == Ignored("no command")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2),
)


@given(st.sampled_from(["pull_request", "issues", "issue_comment", "x"]), st.data())
def test_no_payload_breaks_it(event: str, data: st.DataObject) -> None:
    payload = comment() if event == "issue_comment" else pull("opened")
    key = data.draw(st.sampled_from(sorted(payload)))
    inner = payload[key]
    if isinstance(inner, dict) and data.draw(st.booleans()):
        payload[key] = {**inner, data.draw(st.sampled_from(sorted(inner))): data.draw(values)}
    else:
        payload[key] = data.draw(values)
    assert isinstance(interpret(event, payload, POLICY), Ignored | Review | Command)
