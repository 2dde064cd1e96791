"""Every parser of the queue's subjects: what it takes is in form, and anything else is its own refusal, never
a crash."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols import artifact_receipts, dead_letters, etag_cache
from moorage.protocols.intake.versions import InvalidIntake, base36, parse_intake, version_id
from moorage.protocols.publication import batches, direct
from moorage.protocols.publication.direct import InvalidPlan
from moorage.protocols.queue.completions import parse_completion, parse_runs, parse_terminal_runs
from moorage.protocols.queue.decisions import Decision, InvalidDecision, parse_decision
from moorage.protocols.queue.leases import parse_claim, parse_heartbeat
from moorage.protocols.queue.settings import QueueSettings, read_settings
from moorage.protocols.queue.times import parse_time
from moorage.protocols.wire import WireError
from tests.objects.queue_harness import decision, plan, publication

VECTORS = Path(__file__).parent.parent.parent / "vectors" / "state-plane"
NOW = 1_800_000_000_000

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 2**54),
    st.floats(),
    st.sampled_from(["", " ", "1", "x", "acme/widgets", "a" * 40, "0" * 64, "2026-08-01T10:00:00Z", "success"]),
    st.text(max_size=8),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)

VALID: dict[str, dict[str, Any]] = {
    "decision": decision(7),
    "publication": publication(7, 900),
    "claim": {"lease_id": "l", "item_key": "a/b#1", "lease_revision": 1, "run_id": "5", "run_attempt": 1},
    "heartbeat": {"lease_id": "l", "item_key": "a/b#1", "lease_revision": 1, "run_id": "5", "phase": "review"},
    "completion": {
        "lease_id": "l",
        "item_key": "a/b#1",
        "lease_revision": 1,
        "claim_generation": 1,
        "run_id": "5",
        "outcome": "failure",
        "completion_kind": "permanent_failure",
        "reason_code": "invalid_artifact",
        "error_fingerprint": "fp",
        "requeue_latest": False,
        "retry_at": "2026-08-01T10:00:00Z",
    },
    "plan": plan(7, "acme/widgets#7", 1, 1),
    "batch claim": {"claim_id": "c", "lease_owner": "o", "max_items": 2, "dispatch_id": "d"},
    "batch completion": {
        "items": [{"item_key": "k", "revision": 1, "claim_generation": 1, "terminal_outcome": "published"}],
        "state_commit_sha": "a" * 40,
    },
    "receipt": {
        "producer_run_id": "1",
        "producer_run_attempt": 1,
        "artifact_name": "n",
        "canonical_item_key": "a/b#1",
        "lease_revision": 1,
        "protocol_version": 2,
    },
    "etag key": {"credential_pool": "target_app", "route": "/repos/a/b/issues/1/comments", "media_type": "x"},
    "guard": {
        "inventory_fingerprint": "1:00000000",
        "recovery_aliases": [{"id": "a", "aliases": ["a/b#1"]}],
        "recovery_targets": [{"id": "a", "target": "a/b#1"}],
    },
}
PARSERS: dict[str, tuple[Callable[[Any], Any], tuple[type[Exception], ...]]] = {
    "decision": (parse_decision, (InvalidDecision,)),
    "publication": (parse_decision, (InvalidDecision,)),
    "claim": (parse_claim, (WireError,)),
    "heartbeat": (parse_heartbeat, (WireError,)),
    "completion": (lambda value: parse_completion(value, NOW), (WireError,)),
    "plan": (direct.parse_plan, (InvalidPlan, WireError)),
    "batch claim": (batches.parse_claim, (WireError,)),
    "batch completion": (lambda members: batches.parse_completions(members, NOW), (WireError,)),
    "receipt": (artifact_receipts.parse_tuple, ()),
    "etag key": (etag_cache.parse_key, ()),
    "guard": (lambda value: dead_letters.parse_guard(value, ["a"]), (WireError,)),
}


def spoiled(data: st.DataObject, value: Any) -> Any:
    """`value` with one member, at some depth, replaced, removed or added."""
    if isinstance(value, dict) and value and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(value)))
        return {**value, key: spoiled(data, value[key])}
    if isinstance(value, dict) and value:
        key = data.draw(st.sampled_from(sorted(value)))
        if data.draw(st.booleans()):
            return {name: entry for name, entry in value.items() if name != key}
        return {**value, key: data.draw(values)}
    return data.draw(values)


@pytest.mark.parametrize("name", PARSERS)
@given(data=st.data())
def test_a_spoiled_request_is_taken_or_refused_by_name(name: str, data: st.DataObject) -> None:
    parse, refusals = PARSERS[name]
    value = spoiled(data, VALID[name])
    if not isinstance(value, dict):
        value = {"value": value}
    refusal = None
    try:
        parse(value)
    except refusals as refused:
        refusal = str(refused)
    assert refusal != ""


@pytest.mark.parametrize("name", PARSERS)
def test_what_is_right_is_taken(name: str) -> None:
    assert PARSERS[name][0](VALID[name]) is not None


@given(st.data())
def test_a_spoiled_intake_is_taken_or_refused(data: st.DataObject) -> None:
    area = json.loads((VECTORS / "command-intake.json").read_text())
    request = area["sequences"][0]["steps"][0]["request"]["body"]["json"]
    assert parse_intake(request).command_version_id == request["commandVersionId"]
    refusal = None
    try:
        parse_intake(spoiled(data, request))
    except InvalidIntake as refused:
        refusal = str(refused)
    assert refusal != ""


@given(values)
def test_lists_of_runs_are_taken_or_not(value: Any) -> None:
    for found in (parse_runs(value, 3), parse_terminal_runs(value, 3)):
        assert found is None or len(found) <= 3


def test_a_decision_survives_its_own_form() -> None:
    for value in (decision(7), publication(7, 900)):
        once = parse_decision(value)
        assert once.wire() == value
        assert parse_decision(once.wire()) == once


@given(st.dictionaries(st.sampled_from(["colour", "x", "leaseId"]), values))
def test_unknown_members_are_dropped(extra: dict[str, Any]) -> None:
    assert parse_decision({**decision(7), **extra}) == parse_decision(decision(7))


@given(st.integers(-(10**15), 10**15))
def test_base_36_is_read_back(number: int) -> None:
    assert int(base36(number), 36) == number


def test_the_version_id_of_the_specification() -> None:
    digest = "3bfc269594ef649228e9a74bab00f042efc91d5acc6fbee31a382e80d42388fe"
    at = parse_time("2026-08-01T10:00:00Z")
    assert at is not None
    assert version_id(9001, at, digest) == f"command-9001-msa79z40-{digest}"


@given(
    st.datetimes(datetime(1971, 1, 1), datetime(2200, 1, 1)),
    st.integers(-14 * 60, 14 * 60),
    st.integers(0, 999),
)
def test_times_with_offsets(moment: datetime, offset: int, millisecond: int) -> None:
    moment = moment.replace(microsecond=0)
    sign, minutes = "-" if offset < 0 else "+", abs(offset)
    text = f"{moment:%Y-%m-%dT%H:%M:%S}.{millisecond:03d}{sign}{minutes // 60:02d}:{minutes % 60:02d}"
    expected = moment.replace(tzinfo=UTC) - timedelta(minutes=offset)
    assert parse_time(text) == int(expected.timestamp()) * 1000 + millisecond


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "2026-01-01T25:00:00Z", "0000-01-01", 5, None, True])
def test_what_is_no_time(text: Any) -> None:
    assert parse_time(text) is None


def test_bad_settings_keep_their_defaults_and_say_what_would_be_right() -> None:
    given_values = {
        "EXACT_REVIEW_QUEUE_MAX_CONCURRENT": "0",
        "EXACT_REVIEW_TARGET_BURST": "many",
        "EXACT_REVIEW_PUBLICATION_BATCHING_ENABLED": "maybe",
        "EXACT_REVIEW_DISPATCH_DEBOUNCE_MS": "5",
        "CLAWSWEEPER_REPO": " acme/ops ",
    }
    settings, problems = read_settings(given_values.get)
    assert (settings.review_capacity, settings.scheduled_burst, settings.batching) == (8, 50, False)
    assert (settings.debounce_ms, settings.repository) == (5, "acme/ops")
    assert len(problems) == 3
    assert all("must be" in problem for problem in problems)
    assert read_settings(lambda name: None) == (QueueSettings(), [])


@pytest.mark.parametrize(
    ("route", "normal"),
    [
        ("/repos/a/b/issues/1", "/repos/a/b/issues/1"),
        ("repos/a/b/issues/1", "/repos/a/b/issues/1"),
        ("https://api.github.com/repos/a/b/issues/1", "/repos/a/b/issues/1"),
        ("HTTPS://API.GitHub.com:443/repos/a/b/issues/1", "/repos/a/b/issues/1"),
        ("/api/v3/repos/a/b/issues/1#x", "/repos/a/b/issues/1"),
        ("/repos/a/b/issues/1/comments", "/repos/a/b/issues/1/comments?page=1&per_page=30"),
        ("/repos/a/b/issues/1/comments?per_page=5&page=2", "/repos/a/b/issues/1/comments?page=2&per_page=5"),
        ("/repos/a/b/x/%2e%2E/issues/1", "/repos/a/b/issues/1"),
        ("https://api.github.com.evil.test/repos/a/b/issues/1", None),
        ("//evil.test/repos/a/b/issues/1", None),
        ("\\\\evil.test/repos/a/b/issues/1", None),
        ("/repos/a/b/issues/1/comments?page=0", None),
        ("/repos/a/b/issues/1?" + "q=" + "x" * 2100, None),
    ],
)
def test_routes_of_the_cache_in_normal_form(route: str, normal: str | None) -> None:
    found = etag_cache.normal_route(route, "apply")
    assert (found[0] if found else None) == normal


@given(st.text(max_size=60))
def test_a_normal_route_is_its_own_normal_form(text: str) -> None:
    found = etag_cache.normal_route("/repos/a/b/issues/1/comments?" + text, "apply")
    if found is not None:
        assert etag_cache.normal_route(found[0], "apply") == found


def test_a_decision_of_another_lane_has_another_key() -> None:
    assert parse_decision(publication(7, 900)).item_key == "acme/widgets#7@publish:900:1"
    assert Decision("a/b", "m", 1, "issue", "issues", "x", False).item_key == "a/b#1"
