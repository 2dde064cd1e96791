"""Every write to the code host stands between its receipts, whenever the process dies."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.durable_objects.objects.codehost.contract import CodeHostError
from moorage.durable_objects.objects.queue.mutation_rows import RETENTION_MS, MutationEvents
from moorage.protocols.ledger.events import Event
from moorage.protocols.ledger.receipts import Outcome
from moorage.protocols.ledger.validate import parse_event_line
from moorage.protocols.ledger.vocabulary import Phase
from moorage.protocols.queue.receipts import Write, producer
from tests.objects.queue_harness import START, QueueHarness, decision
from tests.objects.sqlite_storage import Storage
from tests.objects.test_command_stages import Arrows, Crash, intake

LEASE_MS = 6 * 60_000


def events(harness: QueueHarness) -> list[Event]:
    """Every receipt as an importer reads it, in order."""
    value = harness.ok("list_mutation_events", {})
    return [parse_event_line(row["line"]) for row in value["events"]]


def stages(harness: QueueHarness) -> list[tuple[str, str, bool]]:
    """Type, completion reason and mutation of every receipt."""
    return [
        (
            str(event.record["event_type"]),
            str(event.record["attributes"]["completion_reason"]),
            bool(event.record["action"]["mutation"]),
        )
        for event in events(harness)
    ]


def restart(harness: QueueHarness) -> None:
    harness.crash()
    harness.storage.alarm = harness.clock_ms


def enqueue(harness: QueueHarness) -> None:
    harness.ok("enqueue", {"delivery_id": "d-1", "decision": decision(7)}, "0" * 64)


def test_an_accepted_dispatch_is_an_attempt_and_its_child() -> None:
    harness = QueueHarness(CLAWSWEEPER_DEPLOY_SHA="c" * 40)
    enqueue(harness)
    harness.advance(1_000)
    attempt, outcome = events(harness)
    assert stages(harness) == [
        ("dispatch.lifecycle", "dispatch_attempted", True),
        ("dispatch.lifecycle", "dispatch_accepted", True),
    ]
    assert outcome.parent == attempt.event_id
    for name in ("operation_id", "attempt_id", "idempotency_key_sha256", "producer", "subject"):
        assert outcome.record[name] == attempt.record[name], name
    assert attempt.record["subject"] == {"repository": "acme/widgets", "kind": "issue", "number": 7}
    assert attempt.producer["sha"] == "c" * 40
    harness.close()


def test_the_attempt_is_there_while_the_call_is_under_way() -> None:
    seen: list[list[tuple[str, str, bool]]] = []

    def look(name: str, arguments: tuple[Any, ...]) -> None:
        if name in {"dispatch", "acknowledge"}:
            seen.append(stages(harness)[-1:])

    harness = QueueHarness(look)
    harness.ok("admit_command", intake())
    harness.advance(60_000)
    assert sorted(last[0][1] for last in seen) == ["dispatch_attempted", "mutation_attempted"]
    harness.close()


@pytest.mark.parametrize(
    ("step", "sent", "left"),
    [
        # before the attempt: nothing has left, nothing is said
        ("begin", 0, []),
        # the call was made and may have had its effect
        ("call", 0, ["dispatch_attempted", "dispatch_outcome_unknown"]),
        # it had its effect, its outcome was not written
        ("end", 1, ["dispatch_attempted", "dispatch_outcome_unknown"]),
    ],
)
def test_a_dispatch_killed_at_each_step(step: str, sent: int, left: list[str]) -> None:
    harness = QueueHarness(Arrows("dispatch" if step == "call" else "nothing"))
    enqueue(harness)

    def die(*arguments: Any, **more: Any) -> None:
        raise Crash

    if step != "call":
        setattr(harness.queue.mutation_events, step, die)
    with pytest.raises(Crash):
        harness.advance(1_000)
    assert len(harness.host.dispatches) == sent
    restart(harness)
    assert [reason for _, reason, _ in stages(harness)] == left
    assert all(mutation for _, _, mutation in stages(harness))
    # what may have been handed out keeps its lease: not again before that has lapsed
    harness.advance(LEASE_MS - 2_000)
    assert len(harness.host.dispatches) == sent
    harness.advance(10_000)
    assert len(harness.host.dispatches) == sent + 1
    # another lease is another effect
    keys = {event.record["idempotency_key_sha256"] for event in events(harness)}
    assert len(keys) == (2 if left else 1)
    harness.close()


@pytest.mark.parametrize("step", ["begin", "call", "end"])
def test_an_acknowledgement_killed_at_each_step_is_made_once(step: str) -> None:
    harness = QueueHarness(Arrows("acknowledge" if step == "call" else "nothing"))
    harness.ok("admit_command", intake())
    rows = harness.queue.mutation_events
    kept = getattr(rows, step, None)

    def die(*arguments: Any, **more: Any) -> Any:
        of_command = (
            arguments[0].record["event_type"] == Phase.command_mutation
            if step == "end"
            else not harness.host.acknowledged
        )
        if of_command:
            raise Crash
        return kept(*arguments, **more)  # type: ignore[misc]

    if step != "call":
        setattr(rows, step, die)
    with pytest.raises(Crash):
        harness.advance(1_000)
    restart(harness)
    harness.advance(10 * 60_000)
    assert harness.host.acknowledged == [intake()["commandVersionId"]]
    commands = [(reason, mutation) for phase, reason, mutation in stages(harness) if phase == "command.mutation"]
    unknown = [("mutation_attempted", True), ("mutation_outcome_unknown", True)]
    accepted = [("mutation_attempted", True), ("mutation_accepted", True)]
    assert commands == {"begin": accepted, "call": unknown + accepted, "end": unknown}[step]
    assert harness.queue.mutation_events.open_count(None) == 0
    harness.close()


@pytest.mark.parametrize(
    ("error", "reason", "mutation"),
    [
        (CodeHostError("401", 401), "rejected", False),
        (CodeHostError("403", 403, retry_after="60"), "rejected", False),
        (CodeHostError("no connection"), "rejected", False),
        (CodeHostError("502", 502), "outcome_unknown", True),
        (CodeHostError("silence", perhaps_done=True), "outcome_unknown", True),
        (RuntimeError("a defect"), "outcome_unknown", True),
    ],
)
def test_only_what_certainly_was_not_written_is_no_mutation(error: Exception, reason: str, mutation: bool) -> None:
    refusals = [error]

    def refuse(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "dispatch" and refusals:
            raise refusals.pop()

    harness = QueueHarness(refuse)
    enqueue(harness)
    harness.advance(1_000)
    assert stages(harness)[1] == ("dispatch.lifecycle", f"dispatch_{reason}", mutation)
    assert events(harness)[1].record["action"]["retryable"] is not mutation
    for _ in range(30):
        harness.advance(10 * 60_000)
    assert stages(harness)[3][1] == "dispatch_accepted"
    harness.close()


def test_a_refused_acknowledgement_is_tried_again_as_the_same_effect() -> None:
    refusals = [CodeHostError("403", 403)]

    def refuse(name: str, arguments: tuple[Any, ...]) -> None:
        if name == "acknowledge" and refusals:
            raise refusals.pop()

    harness = QueueHarness(refuse)
    harness.ok("admit_command", intake())
    for _ in range(10):
        harness.advance(60_000)
    found = [event.record for event in events(harness) if event.record["event_type"] == "command.mutation"]
    assert [record["attributes"]["attempt"] for record in found] == [1, 1, 2, 2]
    assert len({record["idempotency_key_sha256"] for record in found}) == 1
    assert len({record["attempt_id"] for record in found}) == 2
    harness.close()


def test_a_run_of_a_batch_has_receipts_too() -> None:
    from tests.objects.queue_harness import publication

    harness = QueueHarness(EXACT_REVIEW_PUBLICATION_BATCHING_ENABLED="1")
    harness.ok("enqueue", {"delivery_id": "p-1", "decision": publication(7, 501)}, "0" * 64)
    for _ in range(5):
        harness.advance(60_000)
    assert harness.host.dispatches[0]["event_type"] == "clawsweeper_publication_batch"
    assert [reason for _, reason, _ in stages(harness)][:2] == ["dispatch_attempted", "dispatch_accepted"]
    assert events(harness)[0].record["subject"]["kind"] == "workflow"
    harness.close()


def test_a_name_that_no_event_may_hold_holds_no_write_back() -> None:
    harness = QueueHarness(CLAWSWEEPER_REPO="not a repository")
    harness.ok("enqueue", {"delivery_id": "d-1", "decision": decision(7, targetRepo=".acme/-w")}, "0" * 64)
    harness.advance(1_000)
    assert len(harness.host.dispatches) == 1
    attempt, _ = events(harness)
    assert attempt.producer["repository"] == attempt.record["subject"]["repository"] == "openclaw/clawsweeper"
    assert attempt.record["subject"]["subject_id"] == attempt.record["idempotency_key_sha256"]
    harness.close()


def test_pages_days_and_what_is_refused() -> None:
    harness = QueueHarness()
    enqueue(harness)
    harness.advance(1_000)
    first = harness.ok("list_mutation_events", {"limit": 1})
    assert (len(first["events"]), first["next_cursor"], first["open"]) == (1, 1, 0)
    second = harness.ok("list_mutation_events", {"limit": 1, "cursor": first["next_cursor"]})
    assert (second["events"][0]["seq"], second["next_cursor"]) == (2, None)
    day = second["events"][0]["partition_date"]
    assert day == second["today"]
    assert harness.ok("list_mutation_events", {"before": day})["events"] == []
    assert len(harness.ok("list_mutation_events", {"before": "9000-01-01"})["events"]) == 2
    for members, code in (
        ({"cursor": "x"}, "invalid_cursor"),
        ({"limit": 0}, "invalid_limit"),
        ({"limit": 501}, "invalid_limit"),
        ({"before": "2026-02-30"}, "invalid_partition_date"),
        ({"before": 7}, "invalid_partition_date"),
    ):
        answer = harness.call("list_mutation_events", members)
        assert (answer["status"], answer["value"]) == (400, {"error": code})
    harness.close()


WRITE = Write(Phase.command_mutation, "mutation", {"effect": "x"}, {"repository": "a/b", "kind": "command"})


@given(
    st.lists(st.sampled_from(["begin", "accepted", "rejected", "outcome_unknown", "restart", "prune"]), max_size=30)
)
def test_each_attempt_has_one_outcome_at_most_and_the_last_start_leaves_none_open(steps: list[str]) -> None:
    storage = Storage()
    rows, now, open_ones = MutationEvents(storage), START, list[Event]()
    made = producer("a/b", "", "2026-11-30")
    for step in steps:
        now += 1
        if step == "begin":
            open_ones.append(rows.begin(lambda n: WRITE.tried(made, n), WRITE.digest, "2026-11-30", now))
        elif step == "restart":
            rows = MutationEvents(storage)
            assert rows.close_open(now) == len(open_ones)
            open_ones.clear()
        elif step == "prune":
            rows.prune(now)
        elif open_ones:
            attempt = open_ones.pop()
            assert rows.end(attempt, Outcome(step), now)
            assert not rows.end(attempt, Outcome.accepted, now)
    found = [parse_event_line(row["line"]) for row in rows.page(0, None, 500)]
    parents = [event.parent for event in found if event.parent is not None]
    assert len(parents) == len(set(parents)) == steps.count("begin") - len(open_ones)
    assert rows.open_count(None) == len(open_ones)
    assert rows.was_accepted(WRITE.digest) == any(
        event.record["attributes"]["completion_reason"] == "mutation_accepted" for event in found
    )
    # an open attempt outlives every horizon
    rows.prune(now + RETENTION_MS)
    assert len(rows.page(0, None, 500)) == len(open_ones)
    storage.close()


def test_no_statement_scans_the_receipts() -> None:
    storage = Storage()
    rows = MutationEvents(storage)
    statements: list[str] = []
    storage.sql.connection.set_trace_callback(statements.append)
    event = rows.begin(lambda n: WRITE.tried(producer("a/b", "", "2026-11-30"), n), WRITE.digest, "2026-11-30", START)
    rows.end(event, Outcome.accepted, START)
    rows.close_open(START)
    rows.was_accepted(WRITE.digest)
    rows.page(0, "2026-12-01", 10)
    rows.open_count(None)
    rows.prune(START)
    storage.sql.connection.set_trace_callback(None)
    looked = [text for text in statements if text.startswith(("SELECT", "UPDATE", "DELETE"))]
    assert len(looked) >= 7
    for text in looked:
        plan = [row[3] for row in storage.sql.connection.execute(f"EXPLAIN QUERY PLAN {text}")]
        found = [line for line in plan if "code_host_mutation_events" in line]
        assert found, text
        assert all(line.startswith("SEARCH") or "_open" in line for line in found), (text, plan)
    storage.close()
