"""The state-writer client: waiting, heartbeats on a clock set by hand, losing the lease."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from moorage.clients.errors import TransportError
from moorage.clients.http import AsyncHttp
from moorage.clients.state_writer import AsyncStateWriter, LeaseLost, LeaseTimeout, StateWriter, Writer
from tests.support.command_line import served_plane
from tests.support.http import PlaneTransport
from tests.support.plane import WEBHOOK_SECRET, Plane


def writer() -> Writer:
    return Writer("acme/state", "state", "publish", "job", "1")


class World:
    """Sleeping is moving the plane's clock on."""

    def __init__(self, plane: Plane) -> None:
        self.plane = plane
        self.down = False
        self.http = AsyncHttp(
            "http://127.0.0.1:8787", WEBHOOK_SECRET, transport=PlaneTransport(plane, self._before),
            now=self.now, sleep=self.sleep, chance=lambda: 0.0,
        )  # fmt: skip
        self.writer = AsyncStateWriter(self.http, sleep=self.plane.clock.sleep, now=self.now)

    def now(self) -> float:
        return self.plane.clock.now() / 1000

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)

    async def _before(self, request: httpx.Request) -> httpx.Response | None:
        if self.down:
            raise httpx.ConnectError("refused")
        return None


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with Plane() as plane:
        made = World(plane)
        yield made
        await made.http.close()


async def test_a_lease_is_kept_alive_and_given_back(world: World) -> None:
    async with world.writer.lease(writer()) as lease:
        first = lease.ticket.lease_expires_at
        for _ in range(8):
            await world.plane.advance(30_000)
        lease.check()
        assert first is not None
        assert lease.ticket.lease_expires_at is not None
        assert lease.ticket.lease_expires_at > first + 100_000

    async with world.writer.lease(writer()) as other:
        assert other.ticket.seq == 2


async def test_the_second_waits_for_the_first(world: World) -> None:
    first = await world.writer.acquire(writer())
    waiting = asyncio.create_task(world.writer.wait(writer()))
    for _ in range(3):
        await world.plane.advance(5_000)
    assert not waiting.done()

    await world.writer.release(first)
    await world.plane.advance(5_000)

    assert (await waiting).leased


async def test_waiting_ends_when_the_caller_says(world: World) -> None:
    await world.writer.acquire(writer())
    waiting = asyncio.create_task(world.writer.wait(writer(), timeout=12))
    for _ in range(4):
        await world.plane.advance(5_000)

    with pytest.raises(LeaseTimeout, match="place 1") as refused:
        await waiting
    assert refused.value.position == 1


async def test_a_lease_that_no_heartbeat_kept_is_lost(world: World) -> None:
    async def work() -> None:
        async with world.writer.lease(writer()) as lease:
            world.down = True
            for _ in range(12):
                await world.plane.advance(30_000)
            assert lease.lost
            with pytest.raises(LeaseLost):
                lease.check()

    with pytest.raises(LeaseLost):
        await work()


@pytest.mark.parametrize("skew", [-290, 0, 290])
async def test_a_clock_that_is_wrong_does_not_lose_the_lease(world: World, skew: float) -> None:
    client = AsyncStateWriter(world.http, sleep=world.plane.clock.sleep, now=lambda: world.now() + skew)
    async with client.lease(writer()) as lease:
        for _ in range(60):
            await world.plane.advance(5_000)
        lease.check()
        await client.heartbeat(lease.ticket)


async def test_what_ended_the_block_is_told_though_the_lease_cannot_be_given_back(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(error: Exception | None) -> None:
        async with world.writer.lease(writer()):
            world.down = True
            if error is not None:
                raise error

    with pytest.raises(KeyError, match="mine"):
        await work(KeyError("mine"))
    assert "could not be given back" in caplog.text
    world.down = False
    await world.plane.advance(600_000)
    with pytest.raises(TransportError):
        await work(None)


async def test_a_ticket_that_ended_does_not_live_again(world: World) -> None:
    identity = writer()
    ticket = await world.writer.acquire(identity)
    await world.writer.release(ticket)
    await world.writer.release(ticket)

    with pytest.raises(LeaseLost, match="completed"):
        await world.writer.acquire(identity)
    with pytest.raises(LeaseLost):
        await world.writer.heartbeat(ticket)


async def test_a_token_does_not_show(world: World) -> None:
    ticket = await world.writer.acquire(writer())

    assert ticket.lease_token is not None
    assert ticket.lease_token not in repr(ticket)


def test_the_synchronous_face_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with served_plane(monkeypatch) as served, served.client() as http:
        client = StateWriter(http)
        ticket = client.acquire(writer())
        assert client.heartbeat(ticket).leased
        client.release(ticket)
        with client.lease(writer()) as lease:
            lease.check()
        with pytest.raises(RuntimeError, match="mine"), client.lease(writer()):
            raise RuntimeError("mine")
        assert client.acquire(writer()).leased
