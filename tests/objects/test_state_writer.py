"""The state-writer coordinator: never two holders, fencing numbers grow, tickets never live twice."""

import itertools
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moorage.durable_objects.objects.state_writer import StateWriter, terms_of
from moorage.durable_objects.runtime import SqlError
from moorage.durable_objects.runtime.testing import memory_runtime
from moorage.protocols import state_writer as rules
from moorage.protocols.wire import WireError
from moorage.protocols.wire.state_writer import (
    StateWriterTicketExpired,
    StateWriterTicketIdentity,
    StateWriterTicketNotActive,
)
from tests.objects.sqlite_storage import Storage


def identity(number: int, writer_class: rules.WriterClass = rules.WriterClass.ORDINARY) -> rules.Identity:
    return rules.Identity(f"t-{number}", f"o-{number}", "state", "acme/state", "w", "j", "1", 1, writer_class)


class Coordinator:
    """A coordinator with a clock of its own; tokens are numbered."""

    def __init__(self, storage: Any) -> None:
        self.time = 0
        tokens = itertools.count(1)
        self.writer = StateWriter(storage, lambda: self.time, token=lambda: f"token-{next(tokens)}")

    def acquire(self, number: int, writer_class: rules.WriterClass = rules.WriterClass.ORDINARY) -> rules.Ticket:
        self.writer.expire()
        return self.writer.acquire(identity(number, writer_class))[0]


@pytest.fixture
def coordinator() -> Any:
    storage = Storage()
    yield Coordinator(storage)
    storage.close()


def claim(ticket: rules.Ticket) -> rules.Claim:
    assert ticket.lease_token is not None
    return rules.Claim(ticket.identity.ticket_id, ticket.identity.owner, ticket.lease_token)


def test_the_table_itself_refuses_a_second_holder(coordinator: Coordinator) -> None:
    coordinator.acquire(1)
    coordinator.acquire(2)

    with pytest.raises(Exception, match="UNIQUE"):
        coordinator.writer._sql.exec("UPDATE state_writer_tickets SET state = 'leased'")


async def test_the_runtime_refuses_a_second_holder_too() -> None:
    from moorage.durable_objects.runtime import DurableObject

    class Object(DurableObject):
        def try_it(self) -> str:
            coordinator = Coordinator(self.ctx.storage)
            coordinator.acquire(1)
            coordinator.acquire(2)
            try:
                self.ctx.storage.sql.exec("UPDATE state_writer_tickets SET state = 'leased'")
            except SqlError as error:
                return str(error)
            return "accepted"

    runtime = memory_runtime()
    namespace = runtime.namespace("w-Object", Object, None)
    await runtime.start()
    assert "SQLITE_CONSTRAINT" in await namespace.getByName("x").try_it()
    await runtime.close()


def test_a_holder_that_is_silent_loses_the_lease_to_the_next_that_asks(coordinator: Coordinator) -> None:
    first = coordinator.acquire(1)
    coordinator.time = 119_999
    assert coordinator.acquire(2).state is rules.State.QUEUED
    coordinator.time = 120_000

    second = coordinator.acquire(2)

    assert second.state is rules.State.LEASED
    with pytest.raises(StateWriterTicketNotActive):
        coordinator.writer.heartbeat(claim(first))
    with pytest.raises(StateWriterTicketExpired):
        coordinator.acquire(1)


def test_an_id_with_other_members_changes_nothing(coordinator: Coordinator) -> None:
    ticket = coordinator.acquire(1)

    with pytest.raises(StateWriterTicketIdentity):
        coordinator.acquire(1, rules.WriterClass.INTAKE)
    assert coordinator.writer.heartbeat(claim(ticket)).lease_token == ticket.lease_token


def test_what_time_has_ended_stays_ended_when_the_call_is_refused(coordinator: Coordinator) -> None:
    ticket = coordinator.acquire(1)
    coordinator.time = 130_000
    coordinator.writer.expire()

    with pytest.raises(StateWriterTicketNotActive):
        coordinator.writer.heartbeat(claim(ticket))
    assert coordinator.writer.stats()["expired"] == 1


def test_tickets_that_ended_go_after_seven_days(coordinator: Coordinator) -> None:
    coordinator.writer.release(claim(coordinator.acquire(1)))
    coordinator.time = rules.RETENTION_MS - 1
    with pytest.raises(WireError):
        coordinator.acquire(1)
    coordinator.time = rules.RETENTION_MS

    assert coordinator.acquire(1).state is rules.State.LEASED


def test_statistics_never_show_the_token(coordinator: Coordinator) -> None:
    holder = coordinator.acquire(2)
    coordinator.time = 1000
    coordinator.acquire(1)
    coordinator.writer.release(claim(holder))
    coordinator.time = 4000
    ticket = coordinator.acquire(1)

    stats = coordinator.writer.stats()

    assert stats["active"] == {
        "ticket_id": "t-1",
        "owner": "o-1",
        "branch": "state",
        "repository": "acme/state",
        "workflow": "w",
        "job": "j",
        "run_id": "1",
        "run_attempt": 1,
        "writer_class": "ordinary",
        "enqueued_at": "1970-01-01T00:00:01.000Z",
        "leased_at": "1970-01-01T00:00:04.000Z",
        "wait_ms": 3000,
        "lease_expires_at": "1970-01-01T00:02:04.000Z",
        "lease_deadline_at": "1970-01-01T00:30:04.000Z",
    }
    assert str(ticket.lease_token) not in str(stats)


def test_a_turn_of_another_kind_ends_the_row_while_nobody_ordinary_waits(coordinator: Coordinator) -> None:
    kinds = [rules.WriterClass.BATCH, rules.WriterClass.BATCH, rules.WriterClass.INTAKE, rules.WriterClass.BATCH]
    seen = []
    for number, kind in enumerate(kinds, 1):
        coordinator.writer.release(claim(coordinator.acquire(number, kind)))
        stats = coordinator.writer.stats()
        seen.append((stats["consecutive_batch_turns"], stats["consecutive_intake_turns"]))
    assert seen == [(1, 0), (2, 0), (0, 1), (1, 0)]

    holder = coordinator.acquire(5)
    waiting = dict(enumerate((rules.WriterClass.ORDINARY, *kinds), 6))
    for number, kind in waiting.items():
        coordinator.acquire(number, kind)
    coordinator.writer.release(claim(holder))
    # an ordinary writer waits: an intake and a batch count together, then it is his turn
    order = []
    while waiting:
        polled = {number: coordinator.acquire(number, kind) for number, kind in waiting.items()}
        (leased,) = (number for number, ticket in polled.items() if ticket.state is rules.State.LEASED)
        order.append(leased)
        coordinator.writer.release(claim(polled[leased]))
        del waiting[leased]
    assert order == [9, 7, 6, 8, 10]


def test_a_ticket_table_from_before_the_classes_is_rebuilt() -> None:
    storage = Storage()
    storage.sql.exec(
        "CREATE TABLE state_writer_tickets (seq INTEGER PRIMARY KEY AUTOINCREMENT, ticket_id TEXT NOT NULL UNIQUE,"
        " owner TEXT NOT NULL, branch TEXT NOT NULL, repository TEXT NOT NULL, workflow TEXT NOT NULL,"
        " job TEXT NOT NULL, run_id TEXT NOT NULL, run_attempt INTEGER NOT NULL, state TEXT NOT NULL,"
        " enqueued_at INTEGER NOT NULL, last_seen_at INTEGER NOT NULL)"
    )
    storage.sql.exec("CREATE INDEX state_writer_tickets_by_state ON state_writer_tickets (state)")
    values = "(7, 't-1', 'o-1', 'state', 'acme/state', 'w', 'j', '1', 1, 'queued', 0, 0)"
    storage.sql.exec(f"INSERT INTO state_writer_tickets VALUES {values}")

    for _ in range(2):
        coordinator = Coordinator(storage)

    ticket = coordinator.acquire(1)
    assert (ticket.seq, ticket.state) == (7, rules.State.LEASED)
    coordinator.acquire(2, rules.WriterClass.INTAKE)
    storage.close()


def test_a_lease_from_before_the_deadline_existed_ends_when_it_runs_out() -> None:
    storage = Storage()
    storage.sql.exec(
        "CREATE TABLE state_writer_tickets (seq INTEGER PRIMARY KEY AUTOINCREMENT, ticket_id TEXT NOT NULL UNIQUE,"
        " owner TEXT NOT NULL, branch TEXT NOT NULL, repository TEXT NOT NULL, workflow TEXT NOT NULL,"
        " job TEXT NOT NULL, run_id TEXT NOT NULL, run_attempt INTEGER NOT NULL, state TEXT NOT NULL,"
        " enqueued_at INTEGER NOT NULL, last_seen_at INTEGER NOT NULL, lease_token TEXT, lease_expires_at INTEGER)"
    )
    values = "(1, 't-1', 'o-1', 'state', 'acme/state', 'w', 'j', '1', 1, 'leased', 0, 0, 'token', 5000)"
    storage.sql.exec(f"INSERT INTO state_writer_tickets VALUES {values}")

    coordinator = Coordinator(storage)

    assert coordinator.acquire(2).state is rules.State.QUEUED
    assert coordinator.acquire(1).lease_deadline_at == 5000
    coordinator.time = 5000
    assert coordinator.acquire(2).state is rules.State.LEASED
    storage.close()


def test_settings_come_from_the_environment() -> None:
    class Env:
        STATE_WRITER_COORDINATOR_LEASE_MS = "45000"
        STATE_WRITER_COORDINATOR_MAX_LEASE_AGE_MS = "1"

    assert terms_of(Env()) == rules.Terms(lease=45_000, deadline=300_000)


class CoordinatorMachine(RuleBasedStateMachine):
    """Any interleaving of acquires, heartbeats, releases and silence."""

    @initialize()
    def open(self) -> None:
        self.storage = Storage()
        self.coordinator = Coordinator(self.storage)
        self.leases: list[rules.Ticket] = []
        self.ended: set[str] = set()
        self.admitted = 0

    def teardown(self) -> None:
        if hasattr(self, "storage"):
            self.storage.close()

    @rule(number=st.integers(1, 6), writer_class=st.sampled_from(rules.WriterClass))
    def acquire(self, number: int, writer_class: rules.WriterClass) -> None:
        try:
            ticket = self.coordinator.acquire(number, writer_class)
        except StateWriterTicketIdentity:
            return
        except WireError:
            self.ended.add(f"t-{number}")
            return
        assert ticket.identity.ticket_id not in self.ended
        known = {lease.lease_token for lease in self.leases}
        if ticket.state is rules.State.LEASED and ticket.lease_token not in known:
            assert ticket.identity.ticket_id not in {lease.identity.ticket_id for lease in self.leases}
            self.leases.append(ticket)
            # the number of grants is the fencing number: it has grown by exactly one
            admitted = self.coordinator.writer.stats()["admitted"]
            assert admitted == self.admitted + 1 == len(self.leases)
            self.admitted = admitted

    @precondition(lambda self: bool(getattr(self, "leases", None)))
    @rule(data=st.data(), release=st.booleans())
    def use(self, data: st.DataObject, release: bool) -> None:
        lease = data.draw(st.sampled_from(self.leases))
        newest = lease is self.leases[-1]
        self.coordinator.writer.expire()
        try:
            if release:
                self.coordinator.writer.release(claim(lease))
                self.ended.add(lease.identity.ticket_id)
            else:
                beaten = self.coordinator.writer.heartbeat(claim(lease))
                assert beaten.lease_generation >= lease.lease_generation
                assert newest, "only the newest lease beats"
        except StateWriterTicketNotActive:
            pass

    @rule(milliseconds=st.sampled_from([1, 30_000, 90_000, 121_000]))
    def wait(self, milliseconds: int) -> None:
        self.coordinator.time += milliseconds

    @invariant()
    def never_two_holders(self) -> None:
        if hasattr(self, "storage"):
            rows = self.storage.sql.exec("SELECT count(*) AS n FROM state_writer_tickets WHERE state = 'leased'")
            assert rows.one()["n"] <= 1

    @invariant()
    def the_holder_is_the_newest_lease(self) -> None:
        if hasattr(self, "storage"):
            rows = self.storage.sql.exec(
                "SELECT lease_token FROM state_writer_tickets WHERE state = 'leased'"
            ).toArray()
            assert not rows or rows[0]["lease_token"] == self.leases[-1].lease_token


TestCoordinator = CoordinatorMachine.TestCase
TestCoordinator.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
