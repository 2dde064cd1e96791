"""The queue's rules by table and property: authority, back-off, buckets, transitions, kinds."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols.dead_letters import inventory_fingerprint
from moorage.protocols.queue import backoff, dispatch, scheduled
from moorage.protocols.queue.admission import edit_fingerprint, merged, new_review, newer_revision
from moorage.protocols.queue.authority import is_stale
from moorage.protocols.queue.completions import KINDS, OUTCOMES
from moorage.protocols.queue.decisions import Decision
from moorage.protocols.queue.items import (
    HELD,
    TRANSITIONS,
    ImpossibleTransition,
    QueueItem,
    due_at,
    move,
    silence_deadline,
)
from moorage.protocols.queue.settings import QueueSettings

NOW = 1_800_000_000_000
SETTINGS = QueueSettings()


def pull(**more: Any) -> Decision:
    return Decision("a/b", "main", 7, "pull_request", "pull_request", "synchronize", True, **more)


A, B = "a" * 40, "b" * 40
VERIFIED_A = {"source_head_sha": A, "source_head_verified": True}
VERIFIED_B = {"source_head_sha": B, "source_head_verified": True}
EARLY, LATE = "2026-08-01T10:00:00Z", "2026-08-01T11:00:00Z"


@pytest.mark.parametrize(
    ("present", "incoming", "stale"),
    [
        # exact-review-enqueue/pull-request-heads
        ({"source_head_sha": A}, {"source_head_sha": B}, True),
        ({"source_head_sha": A}, {"source_head_sha": B, "source_head_verified": True}, False),
        ({"source_head_sha": B, "source_head_verified": True}, {"source_head_sha": B}, True),
        (
            {"source_head_sha": B, "source_head_verified": True},
            {"source_head_sha": B, "source_authority_seq": 1},
            False,
        ),
        (
            {"source_head_sha": B, "source_authority_seq": 1},
            {"source_head_sha": A, "source_head_verified": True},
            True,
        ),
        # exact-review-enqueue/pull-request-authority
        ({"source_authority_seq": 5}, {"source_authority_seq": 4}, True),
        ({"source_authority_seq": 5}, {"source_authority_seq": 5}, True),
        ({"source_authority_seq": 5}, {"source_authority_seq": 6}, False),
        # exact-review-enqueue/pull-request-times
        (
            {"source_updated_at": LATE, "source_authority_seq": 5},
            {"source_updated_at": EARLY, "source_authority_seq": 9},
            True,
        ),
        (
            {"source_updated_at": EARLY, "source_authority_seq": 5},
            {"source_updated_at": LATE, "source_authority_seq": 2},
            False,
        ),
        ({"source_updated_at": LATE, "source_authority_seq": 2}, {"source_authority_seq": 3}, False),
        # two bare events of one head count both
        ({"source_head_sha": A}, {"source_head_sha": A}, False),
        ({}, {}, False),
        # a command is nobody's news of the head
        ({"source_authority_seq": 5}, {"source_action": "re_review"}, False),
    ],
)
def test_source_authority(present: dict[str, Any], incoming: dict[str, Any], stale: bool) -> None:
    after = msgspec.structs.replace(pull(), **incoming)
    assert is_stale(pull(**present), after) is stale


def test_issues_have_no_authority() -> None:
    before = Decision("a/b", "main", 7, "issue", "issues", "opened", False, source_updated_at=LATE)
    assert not is_stale(before, msgspec.structs.replace(before, source_updated_at=EARLY))


def test_an_edit_is_compared_only_when_it_says_everything() -> None:
    whole = {
        "source_content_revision": "1" * 64,
        "source_base_sha": B,
        "source_head_sha": A,
        "source_is_draft": False,
    }
    edited = msgspec.structs.replace(pull(**whole), source_action="edited")
    base = edit_fingerprint(edited)
    assert base is not None
    assert edit_fingerprint(msgspec.structs.replace(edited, target_repo="A/B", source_authority_seq=9)) == base
    assert edit_fingerprint(msgspec.structs.replace(edited, codex_timeout_ms=5)) != base
    assert edit_fingerprint(msgspec.structs.replace(edited, source_is_draft=True)) != base
    for name in whole:
        assert edit_fingerprint(msgspec.structs.replace(edited, **{name: msgspec.UNSET})) is None
    assert edit_fingerprint(pull(**whole)) is None


def item(state: str, **more: Any) -> QueueItem:
    decision = Decision("a/b", "main", 7, "issue", "issues", "opened", False)
    return QueueItem("a/b#7", decision, state, 1, NOW, NOW, NOW, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", ["pending", "dispatching", "leased", "parked"])
@pytest.mark.parametrize("event", sorted({event for _, event in TRANSITIONS}))
def test_the_table_of_states_is_the_whole_truth(state: Any, event: Any) -> None:
    full = item(
        state,
        lease_id="l",
        lease_revision=1,
        lease_expires_at=NOW,
        claimed_run_id="5",
        parked_reason="x",
        parked_until=NOW,
        next_attempt_at=NOW,
        backoff_reason="y",
    )
    if (state, event) not in TRANSITIONS:
        with pytest.raises(ImpossibleTransition):
            move(full, event, NOW + 1)
        return
    after = move(full, event, NOW + 1)
    assert after.state == TRANSITIONS[state, event]
    assert (after.lease_id is None) == (after.state not in HELD)
    assert after.state == "parked" or (after.parked_reason, after.parked_until) == (None, None)
    assert after.state == "pending" or (after.next_attempt_at, after.backoff_reason) == (None, None)


def test_a_holder_that_began_heartbeats_dies_of_silence() -> None:
    held = item("leased", lease_expires_at=NOW + 100)
    assert silence_deadline(held, 10) == NOW + 100
    beating = msgspec.structs.replace(held, lease_heartbeat_at=NOW, lease_phase="review")
    assert silence_deadline(beating, 10) == NOW + 10
    assert silence_deadline(msgspec.structs.replace(beating, lease_phase="finalizing"), 10) == NOW + 100
    assert due_at(msgspec.structs.replace(beating, state="parked", parked_until=NOW + 5), 10) == NOW + 5


@given(st.integers(1, 40), st.floats(0, 1, exclude_max=True))
def test_back_off_grows_is_bounded_and_spread(attempt: int, unit: float) -> None:
    nominal = min(30_000 * 2 ** (attempt - 1), 300_000)
    assert 0.75 * nominal - 1 <= backoff.review_delay(attempt, unit) <= 1.5 * nominal
    for kind, reason, steps in (
        ("retryable_failure", "github_rate_limit", (60, 120, 240, 480, 960, 1920, 3600)),
        ("retryable_failure", "github_transient", (60, 120, 240, 300)),
        ("permanent_failure", "unknown_failure", (60, 120, 240, 300)),
        ("permanent_failure", "invalid_artifact", (60, 300)),
    ):
        fixed = backoff.publication_delay("a/b#7@publish:1:1", attempt, kind, reason)
        assert fixed == backoff.publication_delay("a/b#7@publish:1:1", attempt, kind, reason)
        least = steps[min(attempt, len(steps)) - 1] * 1000
        assert least <= fixed <= 1.2 * least


def test_the_fingerprints_of_the_recordings() -> None:
    detail = {"validation_fields": ["client_payload"], "validation_codes": ["invalid"]}
    assert dispatch.failure(422, "permanent_rejection", detail, NOW).fingerprint == "dispatch-6c44b7e4"
    assert dispatch.failure(500, "github_outage", None, NOW).fingerprint == "dispatch-27fbdf19"
    assert inventory_fingerprint([]) == f"0:{2166136261:08x}"
    two = f"2:{backoff.fnv1a('a' + chr(10) + 'b' + chr(10)):08x}"
    assert inventory_fingerprint(["b", "a"]) == inventory_fingerprint(["a", "b"]) == two


@pytest.mark.parametrize(
    ("status", "message", "after", "remaining", "kind"),
    [
        (None, "", None, None, "github_outage"),
        (502, "", None, None, "github_outage"),
        (200, "the answer is no JSON", None, None, "github_outage"),
        (307, "", None, None, "github_outage"),
        (429, "", None, None, "rate_limit"),
        (403, "You have exceeded a secondary rate limit", None, None, "rate_limit"),
        (403, "no", "30", None, "rate_limit"),
        (403, "no", None, "0", "rate_limit"),
        (403, "Resource not accessible", None, None, "authorization"),
        (401, "", None, None, "authorization"),
        (404, "", None, None, "authorization"),
        (422, "", None, None, "permanent_rejection"),
        (400, "", None, None, "permanent_rejection"),
    ],
)
def test_what_a_refused_dispatch_means(
    status: int | None, message: str, after: str | None, remaining: str | None, kind: str
) -> None:
    assert dispatch.classify(status, message, after, remaining) == kind


@given(st.integers(1, 500), st.integers(1, 60), st.lists(st.tuples(st.integers(0, 3), st.integers(0, 600_000))))
def test_buckets_never_give_more_than_rate_and_burst(rate: int, burst: int, asks: list[tuple[int, int]]) -> None:
    buckets: dict[str, scheduled.Bucket] = {}
    lanes = ("hot_intake", "normal_backfill", None, "hot_intake")
    now, given_out = NOW, dict.fromkeys(scheduled.LANES, 0)
    for lane_index, wait in asks:
        now += wait
        admitted, buckets = scheduled.take(buckets, lanes[lane_index], rate, burst, now)
        assert all(0 <= bucket.tokens <= burst for bucket in buckets.values())
        lane = lanes[lane_index]
        if lane is None:
            assert admitted
        elif admitted:
            given_out[lane] += 1
    for lane, (hourly, most) in scheduled.limits(rate, burst).items():
        if lane in given_out:
            assert given_out[lane] <= most + hourly * (now - NOW) / scheduled.HOUR_MS + 1


def test_the_split_of_the_recordings() -> None:
    assert scheduled.limits(200, 50) == {"hot_intake": (70, 17), "normal_backfill": (130, 33), "all": (200, 50)}
    assert scheduled.limits(200, 2) == {"hot_intake": (70, 1), "normal_backfill": (130, 1), "all": (200, 2)}


def test_completion_kinds_are_the_table_of_the_specification() -> None:
    assert {name: sorted(kind.outcomes) for name, kind in KINDS.items()} == {
        "published": ["publication_applied"],
        "superseded": ["live_terminal", "remote_closed", "remote_newer_tuple"],
        "refresh_required": ["artifact_expired", "artifact_unavailable", "close_coverage_retry"],
        "deferred": ["close_coverage_deferred"],
        "retryable_failure": [
            "artifact_unavailable",
            "github_rate_limit",
            "github_transient",
            "review_lease_active",
            "state_contention",
            "unknown_failure",
            "workflow_cancelled",
        ],
        "permanent_failure": [
            "invalid_artifact",
            "missing_record_tuple",
            "policy_invariant",
            "retry_exhausted",
            "tuple_protocol_invalid",
            "unknown_failure",
        ],
    }
    assert {outcome for kind in KINDS.values() for outcome in kind.outcomes.values()} <= OUTCOMES


@given(st.lists(st.integers(0, 200_000), max_size=12))
def test_the_debounce_never_exceeds_its_bound(waits: list[int]) -> None:
    decision = Decision("a/b", "main", 7, "issue", "issues", "opened", False)
    now = NOW
    waiting = new_review(decision, 1, now, SETTINGS)
    for revision, wait in enumerate(waits, 2):
        now += wait
        waiting = newer_revision(waiting, decision, revision, now, SETTINGS)
        assert waiting.next_attempt_at is not None
        assert now <= waiting.next_attempt_at <= max(now, NOW + SETTINGS.debounce_max_ms)
        assert waiting.revision == revision


def test_a_waiting_command_survives_plain_events_and_gives_way_to_the_next_command() -> None:
    marker = "<!-- clawsweeper-command-status:7:re_review:{} -->"
    plain = Decision("a/b", "main", 7, "issue", "issues", "edited", False)
    command = msgspec.structs.replace(
        plain,
        source_action="re_review",
        command_status_marker=marker.format("one"),
        status_comment_id=42,
        additional_prompt="look",
    )
    waiting = new_review(command, 1, NOW, SETTINGS)
    kept = merged(waiting, plain)
    assert (kept.command_status_marker, kept.status_comment_id) == (marker.format("one"), 42)
    assert kept.source_action == "edited"
    second = msgspec.structs.replace(plain, command_status_marker=marker.format("two"))
    replaced = merged(msgspec.structs.replace(waiting, decision=kept), second)
    assert (replaced.command_status_marker, replaced.status_comment_id) == (marker.format("two"), msgspec.UNSET)
    assert replaced.additional_prompt == "look"


def test_every_setting_is_in_the_documentation_and_in_the_bundle() -> None:
    root = Path(__file__).parent.parent.parent.parent
    chapter = (root / "docs" / "review-queue.md").read_text()
    bundle = (root / "worker" / "bundle" / "wrangler.toml").read_text()
    for setting in fields(QueueSettings):
        name = setting.metadata["variable"]
        assert f"`{name}`" in chapter, name
        assert f"{name} = " in bundle, name
