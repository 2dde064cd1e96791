"""The lease: its table is whole, and no sequence of operations leads outside of it."""

import datetime
import itertools
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from moorage.protocols.sweep import Outcome, Standing, State, Word, emit, load, operations
from moorage.protocols.sweep.lease import (
    VERDICTS,
    Effect,
    Holding,
    Move,
    holding,
    instant,
    is_stale,
    judge,
    taken,
    ttl_minutes,
)

NOON = "2026-07-02T12:00:00+00:00"


def test_every_move_has_a_verdict_in_every_holding() -> None:
    assert set(VERDICTS) == set(itertools.product(Holding, Move))


def test_only_an_acquisition_takes_and_only_the_holder_restamps_or_removes() -> None:
    effects = {key: verdict.effect for key, verdict in VERDICTS.items()}
    assert {key for key, effect in effects.items() if effect is Effect.TAKE} == {
        (standing, Move.ACQUIRE) for standing in Holding if standing is not Holding.LIVE
    }
    assert [key for key, effect in effects.items() if effect is Effect.RESTAMP] == [(Holding.OWN, Move.WRITE)]
    assert [key for key, effect in effects.items() if effect is Effect.REMOVE] == [(Holding.OWN, Move.RELEASE)]


def test_a_word_that_is_no_success_changes_nothing_and_says_why() -> None:
    for verdict in VERDICTS.values():
        if verdict.word in (Word.LOCKED, Word.LEASE_LOST):
            assert verdict.effect is Effect.KEEP
            assert verdict.reason


@pytest.mark.parametrize(
    ("value", "minutes"),
    [
        (5, 5),
        ("5", 5),
        (" 5 ", 5),
        (1.9, 1),
        (-1.9, -1),
        (0, 0),
        (None, 60),
        ("soon", 60),
        ("1.5", 60),
        ([], 60),
        ({}, 60),
    ],
)
def test_time_to_live(value: Any, minutes: int) -> None:
    assert ttl_minutes(value) == minutes


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "9" * 5000])
def test_time_to_live_beyond_numbers(value: Any) -> None:
    assert ttl_minutes(value) == 60


def test_instants() -> None:
    assert instant("2026-07-02T12:00:00Z") == instant(NOON) == instant("2026-07-02T14:00:00+02:00")
    assert instant("2026-07-02T12:00:00") == instant(NOON)
    for text in ("", "tomorrow", 1700000000, None, True, ["2026-07-02"]):
        assert instant(text) is None


@pytest.mark.parametrize(
    ("stamp", "ttl", "now", "stale"),
    [
        (NOON, 60, "2026-07-02T13:00:00+00:00", False),
        (NOON, 60, "2026-07-02T13:00:00.000001+00:00", True),
        (NOON, 0, NOON, False),
        (NOON, -1, NOON, True),
        ("2027-01-01T00:00:00Z", 60, NOON, False),
        ("not-a-time", 0, "2030-01-01T00:00:00Z", False),
        (NOON, 0, "not-a-time", False),
        (NOON, 10**30, "9999-12-31T23:59:59Z", False),
        ("0001-01-01T00:00:00+14:00", 1, "9999-12-31T23:59:59-12:00", True),
    ],
)
def test_staleness_is_proven_or_not(stamp: str, ttl: int, now: str, stale: bool) -> None:
    assert is_stale({"writer": "w", "timestamp": stamp, "ttl_minutes": ttl}, now) is stale


@pytest.mark.parametrize("value", [None, "w1", 1, [], {}, {"writer": ""}, {"writer": None}, {"writer": 0}])
def test_what_is_no_lease(value: Any) -> None:
    assert holding(value, "w1", NOON) is Holding.FREE


def test_a_writer_that_is_no_text_is_nobody_else() -> None:
    assert judge({"writer": 1, "timestamp": NOON}, Move.WRITE, "1").word is Word.LEASE_LOST
    assert judge({"writer": True, "timestamp": NOON}, Move.ACQUIRE, "x", NOON).word is Word.LOCKED


WRITERS = st.sampled_from(["w1", "w2", "w3"])
STATUSES = st.sampled_from(["ingested", "acknowledged", "closed"])


def minute(number: int) -> str:
    """An instant so many minutes after a fixed one."""
    return (datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(minutes=number)).isoformat()


class LeaseMachine(RuleBasedStateMachine):
    """Writers that acquire, write, release and record while time passes, against a model of three variables."""

    def __init__(self) -> None:
        super().__init__()
        self.text: str | None = None
        self.minute = 0
        self.holder: str | None = None
        self.stamped = 0
        self.ttl = 60
        self.items: dict[str, str] = {}
        self.cursor = 0

    def now(self) -> str:
        return (
            datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(minutes=self.minute)
        ).isoformat()

    def state(self) -> State:
        return load(None if self.text is None else self.text.encode())

    def apply(self, outcome: Outcome) -> Word:
        if outcome.document is not None:
            assert outcome.word in (Word.OK, Word.STALE_RECLAIMED)
            self.text = emit(outcome.document)
        return outcome.word

    @rule(minutes=st.integers(0, 90))
    def time_passes(self, minutes: int) -> None:
        self.minute += minutes

    @rule(writer=WRITERS, ttl=st.one_of(st.none(), st.integers(-1, 120)))
    def acquire(self, writer: str, ttl: int | None) -> None:
        stale = self.holder not in (None, writer) and self.minute - self.stamped > self.ttl
        live = self.holder not in (None, writer) and not stale
        word = self.apply(operations.lease_acquire(self.state(), writer=writer, now=self.now(), ttl_minutes=ttl))
        assert word is (Word.LOCKED if live else Word.STALE_RECLAIMED if stale else Word.OK)
        if not live:
            self.holder, self.stamped, self.ttl = writer, self.minute, 60 if ttl is None else ttl

    @rule(writer=WRITERS)
    def release(self, writer: str) -> None:
        word = self.apply(operations.lease_release(self.state(), writer=writer))
        assert word is (Word.OK if self.holder in (None, writer) else Word.LEASE_LOST)
        if self.holder == writer:
            self.holder = None

    @rule(writer=WRITERS, item=st.sampled_from("abc"), status=STATUSES)
    def upsert(self, writer: str, item: str, status: str) -> None:
        text = f'{{"status": "{status}"}}'
        word = self.apply(
            operations.upsert_item(self.state(), source="s", item=item, text=text, writer=writer, now=self.now())
        )
        assert word is (Word.OK if self.holder == writer else Word.LEASE_LOST)
        if self.holder == writer:
            self.items[f"s:{item}"] = status
            self.stamped = self.minute

    @rule(writer=WRITERS, item=st.sampled_from("abc"), to=st.integers(0, 20))
    def advance(self, writer: str, item: str, to: int) -> None:
        word = self.apply(
            operations.cursor_advance(
                self.state(), source="s", to=str(to), past_item=item, writer=writer, now=self.now()
            )
        )
        if self.holder != writer:
            assert word is Word.LEASE_LOST
        elif f"s:{item}" not in self.items or to < self.cursor:
            assert word is Word.REFUSED
        else:
            assert word is Word.OK
            self.cursor, self.stamped = to, self.minute

    @rule(writer=WRITERS)
    def record(self, writer: str) -> None:
        outcome = operations.run_record(
            self.state(), writer=writer, outcome="partial", counts="{}", timestamp=self.now()
        )
        assert self.apply(outcome) is Word.OK

    @rule()
    def heal(self) -> None:
        outcome = operations.validate(self.state())
        assert self.apply(outcome) is Word.OK
        self.items = {key: "fix_pending" if status == "closed" else status for key, status in self.items.items()}

    @invariant()
    def the_file_says_what_the_model_says(self) -> None:
        state = self.state()
        if self.text is None:
            assert state.standing is Standing.ABSENT
            assert self.holder is None
            return
        document = state.document
        assert {key: record["status"] for key, record in document["items"].items()} == self.items
        lease = document.get("lease")
        if self.holder is None:
            assert lease is None
        else:
            stamp = (
                datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(minutes=self.stamped)
            ).isoformat()
            assert lease == taken(self.holder, stamp, self.ttl)


TestLeaseMachine = LeaseMachine.TestCase
TestLeaseMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
