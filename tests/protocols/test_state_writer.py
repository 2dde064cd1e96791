"""The state-writer rules: transitions, terms, tickets, turns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.protocols import state_writer as rules
from moorage.protocols.state_writer import Event, State, Turns, WriterClass
from moorage.protocols.wire.state_writer import InvalidStateWriterHeartbeat, InvalidStateWriterTicket

CLASSES = st.sampled_from(WriterClass)
GOOD = {
    "ticket_id": "t-1",
    "owner": "o-1",
    "branch": "state",
    "repository": "acme/state",
    "workflow": "Publish",
    "job": "publish",
    "run_id": 1001,
    "run_attempt": "1",
}
JSON = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.lists(st.integers(), max_size=2)
)


def ticket(state: State = State.QUEUED) -> rules.Ticket:
    queued = rules.Ticket(1, rules.parse_identity(GOOD), State.QUEUED, 0, 0)
    leased = rules.grant(queued, 10, "token", rules.Terms())
    return {
        State.QUEUED: queued,
        State.LEASED: leased,
        State.COMPLETED: rules.end(leased, Event.RELEASE, 20),
        State.EXPIRED: rules.end(leased, Event.RUN_OUT, 20),
    }[state]


def test_the_ends_are_ends() -> None:
    for state in (State.COMPLETED, State.EXPIRED):
        targets = {target for (source, _), target in rules.TRANSITIONS.items() if source is state}
        assert targets <= {state}


@given(st.sampled_from(State), st.sampled_from(Event))
def test_a_move_is_in_the_table_or_refused(state: State, event: Event) -> None:
    if (state, event) in rules.TRANSITIONS:
        assert ticket(state).moved(event) is rules.TRANSITIONS[state, event]
    else:
        with pytest.raises(ValueError, match="cannot"):
            ticket(state).moved(event)


def test_impossible_tickets_cannot_be_built() -> None:
    identity = rules.parse_identity(GOOD)
    with pytest.raises(ValueError, match="lease end exactly"):
        rules.Ticket(1, identity, State.LEASED, 0, 0, lease_token="t")
    with pytest.raises(ValueError, match="token and a deadline"):
        rules.Ticket(1, identity, State.LEASED, 0, 0, lease_expires_at=1)
    with pytest.raises(ValueError, match="only a leased"):
        rules.beat(ticket(), 1, rules.Terms())


@given(st.integers(0, 10**7), st.integers(30_000, 600_000), st.integers(300_000, 3_600_000))
def test_a_heartbeat_never_reaches_past_the_deadline(later: int, lease: int, deadline: int) -> None:
    terms = rules.Terms(lease=lease, deadline=deadline)
    granted = rules.grant(ticket(), 0, "token", terms)
    beaten = rules.beat(granted, later, terms)

    assert beaten.lease_expires_at is not None
    assert beaten.lease_expires_at <= deadline == beaten.lease_deadline_at
    assert rules.is_run_out(beaten, deadline)


@pytest.mark.parametrize(
    ("value", "lease"),
    [("1000", 30_000), ("45000", 45_000), ("soon", 120_000), (None, 120_000), ("", 120_000), ("1e9", 600_000)],
)
def test_settings_are_clamped_or_ignored(value: object, lease: int) -> None:
    assert rules.Terms.of(lease=value).lease == lease


@given(st.dictionaries(st.sampled_from([*GOOD, "writer_class"]), JSON))
def test_any_members_are_a_ticket_or_refused(change: dict[str, object]) -> None:
    try:
        identity = rules.parse_identity({**GOOD, **change})
    except InvalidStateWriterTicket:
        return
    assert 1 <= len(identity.ticket_id) <= 200
    assert identity.run_attempt >= 1


@given(st.dictionaries(st.sampled_from(["ticket_id", "owner", "lease_token"]), JSON))
def test_any_members_are_a_claim_or_refused(members: dict[str, object]) -> None:
    try:
        claim = rules.parse_claim(members, InvalidStateWriterHeartbeat)
    except InvalidStateWriterHeartbeat:
        return
    assert claim.ticket_id
    assert claim.owner
    assert claim.lease_token


LETTERS = {"O": WriterClass.ORDINARY, "B": WriterClass.BATCH, "I": WriterClass.INTAKE}
QUEUES = st.lists(CLASSES, max_size=12).map(lambda classes: list(enumerate(classes, 1)))
TURNS = st.builds(Turns, st.integers(0, 5), st.integers(0, 2))


@given(QUEUES, TURNS)
def test_everybody_who_waits_has_one_place(queue: list[tuple[int, WriterClass]], turns: Turns) -> None:
    order = rules.line_up(queue, turns)

    assert sorted(order) == [seq for seq, _ in queue]
    for writer_class in WriterClass:
        own = [seq for seq in order if dict(queue)[seq] is writer_class]
        assert own == sorted(own)


@given(QUEUES, TURNS)
def test_an_ordinary_writer_waits_for_two_priority_turns_at_most(
    queue: list[tuple[int, WriterClass]], turns: Turns
) -> None:
    classes = dict(queue)
    line = [classes[seq] for seq in rules.line_up(queue, turns)]
    ordinary = line.count(WriterClass.ORDINARY)
    run = 0
    for writer_class in line:
        if writer_class is WriterClass.ORDINARY:
            ordinary -= 1
            run = 0
            continue
        run += 1
        assert run <= rules.MAX_PRIORITY_TURNS or ordinary == 0


@given(QUEUES)
def test_two_intakes_in_a_row_only_when_nobody_else_waits(queue: list[tuple[int, WriterClass]]) -> None:
    classes = dict(queue)
    line = [classes[seq] for seq in rules.line_up(queue, Turns())]
    for index in range(1, len(line)):
        if line[index - 1] is line[index] is WriterClass.INTAKE:
            assert set(line[index:]) == {WriterClass.INTAKE}


@pytest.mark.parametrize(
    ("granted", "ordinary_waits", "counters"),
    [
        ("B", False, (1, 0)),
        ("BB", False, (2, 0)),
        ("BBBBB", False, (5, 0)),
        ("I", False, (0, 1)),
        ("III", False, (0, 3)),
        # while nobody ordinary waits, a turn of one kind ends the other's row
        ("BI", False, (0, 1)),
        ("IB", False, (1, 0)),
        ("BBI", False, (0, 1)),
        ("IIB", False, (1, 0)),
        # while somebody does, both count until his turn
        ("BI", True, (1, 1)),
        ("IB", True, (1, 1)),
        ("IBO", True, (0, 0)),
        ("BBO", False, (0, 0)),
    ],
)
def test_turns_are_counted_by_kind(granted: str, ordinary_waits: bool, counters: tuple[int, int]) -> None:
    turns = Turns()
    for letter in granted:
        turns = turns.after(LETTERS[letter], ordinary_waits=ordinary_waits)

    assert (turns.batch, turns.intake) == counters


@pytest.mark.parametrize(
    ("turns", "queue", "line"),
    [
        (Turns(), "OBI", "IBO"),
        (Turns(), "OOBBBII", "IBOIBOB"),
        (Turns(), "OOBBII", "IBOIBO"),
        (Turns(), "OOOBBB", "BBOBOO"),
        (Turns(), "OOII", "IOIO"),
        # without ordinary writers intakes and batches take turns
        (Turns(), "BBBIII", "IBIBIB"),
        (Turns(0, 1), "BBI", "BIB"),
        # many priority turns before he came: the ordinary writer is next
        (Turns(5, 0), "BIO", "OIB"),
        (Turns(0, 3), "BIO", "OIB"),
        # one intake turn before he came: one more priority turn, which is a batch's
        (Turns(0, 1), "BIO", "BOI"),
        (Turns(1, 0), "BIO", "IOB"),
        (Turns(1, 0), "BBO", "BOB"),
        (Turns(0, 1), "IIO", "OII"),
    ],
)
def test_the_line_of_the_classes(turns: Turns, queue: str, line: str) -> None:
    waiting = [(seq, LETTERS[letter]) for seq, letter in enumerate(queue, 1)]
    classes = dict(waiting)

    order = [classes[seq] for seq in rules.line_up(waiting, turns)]

    assert order == [LETTERS[letter] for letter in line]


def test_only_owner_and_token_hold_a_lease() -> None:
    leased = ticket(State.LEASED)
    assert leased.holds("o-1", "token")
    assert not leased.holds("o-2", "token")
    assert not leased.holds("o-1", "other")
    assert not ticket().holds("o-1", "token")


def test_nobody_waits() -> None:
    assert rules.next_class(Turns(), []) is None
    assert rules.line_up([], Turns()) == []


def test_a_queued_ticket_goes_stale_and_a_lease_runs_out() -> None:
    queued, leased = ticket(), ticket(State.LEASED)
    assert not rules.is_stale(queued, 119_999, rules.Terms())
    assert rules.is_stale(queued, 120_000, rules.Terms())
    assert not rules.is_stale(leased, 10**9, rules.Terms())
    assert rules.is_run_out(leased, 120_010)
    assert not rules.is_run_out(queued, 10**9)


def test_the_wire_never_shows_a_token_of_a_queued_ticket() -> None:
    shown = rules.wire_ticket(ticket(), 3)

    assert (shown["leaseToken"], shown["leaseGeneration"], shown["position"]) == (None, 0, 3)
